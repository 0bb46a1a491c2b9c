//! Writes to tables whose entities expire: a function judges the conditions in the commit, for
//! which an expired entity does not exist. Also derives expiry moments from changes.

use super::{Judge, moment};
use crate::error::TableError;
use lazuli_engine::{BoxError, Change, Current, Derived, Expect, Key, Modify, Revision, Write};
use lazuli_layout::key::expiry;
use lazuli_layout::settings::{ENTRY, TableExpiry, TableSettings};
use lazuli_layout::{EntityRecord, TableId};
use lazuli_model::Timestamp;
use std::sync::Arc;

/// How far the clock of a gateway may differ from the revision of its commit for the old entry of
/// an entity to be removed at once. Beyond it the sweeper removes the entry: two seconds.
pub(crate) const SLACK_TICKS: u64 = 2 * 10_000_000;

/// A condition that did not hold.
#[derive(Debug, thiserror::Error)]
#[error("the entity is not as expected")]
pub(crate) struct Unmet {
    expect: Expect,
    is_there: bool,
}

impl Unmet {
    pub(crate) fn into_error(self) -> TableError {
        match (self.expect, self.is_there) {
            (Expect::Absent, _) => TableError::EntityAlreadyExists,
            (_, false) => TableError::EntityNotFound,
            (_, true) => TableError::ConditionNotMet,
        }
    }
}

/// A conditional write of an entity, for which an expired entity does not exist.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) expect: Option<Expect>,
    /// The next value, whatever is stored; `None` deletes.
    pub(crate) effect: JudgedEffect,
    pub(crate) settings: Arc<TableSettings>,
    pub(crate) now: Timestamp,
}

#[derive(Debug)]
pub(crate) enum JudgedEffect {
    Put(bytes::Bytes),
    Modify(Arc<dyn Modify>),
    Delete,
}

impl Modify for Judged {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let judge = Judge::of(Some(&self.settings), || self.now);
        let alive = match (current, judge) {
            (Some(current), Some(judge)) => {
                let is_expired = judge.is_expired(current.value, current.revision)?;
                (!is_expired).then_some(current)
            }
            (current, _) => current,
        };
        if let Some(expect) = self.expect
            && !expect.holds(alive.map(|alive| alive.revision))
        {
            return Err(Unmet { expect, is_there: alive.is_some() }.into());
        }
        match &self.effect {
            JudgedEffect::Put(value) => Ok(Some(value.to_vec())),
            JudgedEffect::Modify(function) => function.modify(alive),
            JudgedEffect::Delete => Ok(None),
        }
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.effect {
                JudgedEffect::Put(value) => value.len(),
                JudgedEffect::Modify(function) => function.held_bytes(),
                JudgedEffect::Delete => 0,
            }
    }
}

/// Derives the entry of the moment at which a changed entity expires.
pub(crate) fn derive_moment(
    table: TableId,
    setting: &TableExpiry,
    entity: &[u8],
    change: &Change<'_>,
    now: Timestamp,
    derived: &mut Derived,
) -> Result<(), BoxError> {
    let id = setting.id(table);
    let entry = |bucket| Key::from(expiry::moment(id, bucket, entity));
    let moment_of = |value: &[u8], written| {
        Ok::<_, BoxError>(moment(&setting.expiry, &EntityRecord::parse(value)?, written))
    };
    let new = match change.after {
        Some(value) => moment_of(value, Revision(now.ticks()))?.map(|moment| moment.bucket()),
        None => None,
    };
    if let Some(before) = change.before
        && let Some(old) = moment_of(before.value, before.revision)?
    {
        for bucket in old.buckets(SLACK_TICKS).filter(|bucket| Some(*bucket) != new) {
            derived.write(change.index, Write::Delete(entry(bucket)));
        }
    }
    if let Some(new) = new {
        derived.write(change.index, Write::Put(entry(new), bytes::Bytes::from_static(ENTRY)));
    }
    Ok(())
}
