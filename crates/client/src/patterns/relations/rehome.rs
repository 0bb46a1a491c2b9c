//! Moves an entity to another partition with its index copies (P-3.7, P-12.6).

#[cfg(test)]
mod model;
mod protocol;
mod service;

use crate::BoxFuture;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::key::Key;
use crate::patterns::jobs::{JobError, MoveOutcome};
use crate::table::Table;
use crate::write_ids::{WRITE_IDS, WriteIds};
use protocol::{Found, Moved, Row};
use service::{ServiceStore, entity_of, value_of};

/// What keeps something of an entity that moves, in the transactions that move it (P-12.6d).
pub(in crate::patterns) trait Summaries<T>: Sync {
    /// Deletes the original and leaves a note; other errors than conflicts of these two rows are errors.
    fn leave<'a>(
        &'a self,
        original: &'a Loaded<T>,
        note: &'a Entity,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Makes a staged row, which has the version of `staged`, the entity.
    fn join<'a>(&'a self, staged: &'a Loaded<T>) -> BoxFuture<'a, Result<(), Error>>;
}

/// A step of a job: gives the entity at `from` the key `to`, by `change`, and moves the copies of its indexes
/// (P-1) with it.
///
/// Readers and writers of the table find the entity at one key or the other, never at both; a change or a deletion at
/// either key is not lost. Between two requests of a move, plain reads find it at neither key; [`find_rehomed`] finds
/// it even then. If a run crashes there, it stays so until the step runs again.
///
/// Counts of summaries (P-5) are kept by [`ModelTable::rehome`](crate::patterns::summary::ModelTable::rehome), and not here.
///
/// The step may run any number of times, at one time too. `change` must give the same for the same entity, and the
/// key `to`. If another entity is at `to`, the error is [`JobError::Never`] and nothing has changed.
pub async fn rehome<T: TableEntity>(
    table: &Table<T>,
    from: Key<T>,
    to: Key<T>,
    change: impl Fn(&mut T),
) -> Result<MoveOutcome, JobError> {
    run(table, None, from, to, change).await
}

/// The same with what follows from the entity, in the same transactions (P-12.6d).
pub(in crate::patterns) async fn run<T: TableEntity>(
    table: &Table<T>,
    summaries: Option<&dyn Summaries<T>>,
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
    let store = ServiceStore { table: table.clone(), summaries };
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

/// Reads an entity that [`rehome`] may be moving from one key to the other: two point reads, or one if it has not
/// moved. Finishes a move that was committed but not finished.
pub async fn find_rehomed<T: TableEntity>(
    table: &Table<T>,
    from: Key<T>,
    to: Key<T>,
) -> Result<Option<Loaded<T>>, Error> {
    find(table, None, from, to).await
}

/// The same with what follows from the entity.
pub(in crate::patterns) async fn find<T: TableEntity>(
    table: &Table<T>,
    summaries: Option<&dyn Summaries<T>>,
    from: Key<T>,
    to: Key<T>,
) -> Result<Option<Loaded<T>>, Error> {
    let store = ServiceStore { table: table.clone(), summaries };
    match protocol::find(&store, from.as_entity_key(), to.as_entity_key()).await? {
        Some(found) => loaded(found),
        None => Ok(None),
    }
}

/// Decodes an entity that was read.
fn loaded<T: TableEntity>(found: Found<Entity>) -> Result<Option<Loaded<T>>, Error> {
    let Found { key, etag, row: Row::Entity(entity) } = found else { return Ok(None) };
    let timestamp = entity.timestamp();
    let timestamp = timestamp.ok_or_else(|| Error::protocol("an entity without a Timestamp"))?;
    let ids = entity.value(WRITE_IDS).map(WriteIds::from_value).unwrap_or_default();
    Loaded::unwritten(entity, key, etag, timestamp, ids).decode()
}
