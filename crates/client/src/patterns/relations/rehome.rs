//! An entity goes to another partition with the copies of its indexes (P-3.7, P-12.6).

#[cfg(test)]
mod model;
mod protocol;
mod service;

use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::key::Key;
use crate::patterns::jobs::{JobError, MoveOutcome};
use crate::table::Table;
use crate::write_ids::{WRITE_IDS, WriteIds};
use protocol::{Found, Moved, Row};
use service::{ServiceStore, entity_of, value_of};

/// A step of a job: gives the entity at `from` the key `to`, by `change`, and moves the copies of its indexes
/// (P-1) with it.
///
/// Readers and writers of the table find the entity at one key or the other, never at both; a change or a deletion
/// at either key is not lost. Between two requests of a move it is at neither for those who just read the keys:
/// [`find_rehomed`] finds it then too. If a run dies there, it stays so until the step runs again.
///
/// The step may run any number of times, at one time too. `change` must give the same for the same entity, and the
/// key `to`. If another entity is at `to`, the error is [`JobError::Never`] and nothing has changed.
pub async fn rehome<T: TableEntity>(
    table: &Table<T>,
    from: Key<T>,
    to: Key<T>,
    change: impl Fn(&mut T),
) -> Result<MoveOutcome, JobError> {
    let (from, to) = (from.as_entity_key(), to.as_entity_key());
    if from == to {
        return Err(JobError::never("the entity keeps its key"));
    }
    let change = |entity: &Entity| -> Result<Entity, JobError> {
        let mut value = value_of::<T>(entity)?;
        change(&mut value);
        if value.key().map_err(Error::from)? != *to {
            return Err(JobError::never("the change gives another key than the one to move to"));
        }
        Ok(entity_of(&value)?)
    };
    let store = ServiceStore { table: table.clone() };
    match protocol::run(&store, from, to, change).await? {
        Moved::Done => Ok(MoveOutcome::Done),
        Moved::WasDone => Ok(MoveOutcome::WasDone),
        Moved::Absent => Ok(MoveOutcome::Absent),
        Moved::Taken => {
            let (partition, row) = (&to.partition, &to.row);
            Err(JobError::never(format!("({partition}, {row}) is another entity")))
        }
    }
}

/// Reads an entity that [`rehome`] may be moving from one key to the other: two point reads, one if it has not
/// moved. A move that was committed and not finished is finished first.
pub async fn find_rehomed<T: TableEntity>(
    table: &Table<T>,
    from: Key<T>,
    to: Key<T>,
) -> Result<Option<Loaded<T>>, Error> {
    let store = ServiceStore { table: table.clone() };
    match protocol::find(&store, from.as_entity_key(), to.as_entity_key()).await? {
        Some(found) => loaded(found),
        None => Ok(None),
    }
}

/// An entity that was read, as its type.
fn loaded<T: TableEntity>(found: Found<Entity>) -> Result<Option<Loaded<T>>, Error> {
    let Found { key, etag, row: Row::Entity(entity) } = found else { return Ok(None) };
    let timestamp = entity.timestamp();
    let timestamp = timestamp.ok_or_else(|| Error::protocol("an entity without a Timestamp"))?;
    let ids = entity.value(WRITE_IDS).map(WriteIds::from_value).unwrap_or_default();
    Loaded::unwritten(entity, key, etag, timestamp, ids).decode()
}
