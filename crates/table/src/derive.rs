//! What follows from the changes of a commit, by the settings of their table: index entries, expiry moments,
//! and entries of the change feed. The engine runs it when it orders the commit.

use crate::expiry::Judge;
use crate::expiry::write::derive_moment;
use crate::index::derive::derive_entries;
use bytes::Bytes;
use lazuli_engine::{
    BoxError, Change, Derive, Derived, DerivedWrite, Key, Refusal, Write, Writers,
};
use lazuli_layout::feed::{ChangeRecord, HEAD};
use lazuli_layout::key::index::split_entity;
use lazuli_layout::settings::{TableIndex, TableSettings};
use lazuli_layout::{FeedId, TableId};
use lazuli_model::{ChangeOperation, Feed, Images, Timestamp};
use std::sync::Arc;

/// What a write is meant to do; the values before and after do not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Put,
    Merge,
    Delete,
    /// A deletion because the entity has expired.
    Expire,
}

/// What follows from changes of the entities of a table.
#[derive(Debug)]
pub(crate) struct Derivation {
    table: TableId,
    settings: Arc<TableSettings>,
}

impl Derivation {
    /// `None` if nothing follows from any change.
    pub(crate) fn of(table: TableId, settings: &Arc<TableSettings>) -> Option<Arc<Self>> {
        let derives =
            needs_kinds(settings) || settings.indexes.iter().any(TableIndex::is_maintained);
        derives.then(|| Arc::new(Self { table, settings: settings.clone() }))
    }

    /// Whether it depends on what the writes of a commit are meant to do.
    pub(crate) fn needs_kinds(&self) -> bool {
        needs_kinds(&self.settings)
    }

    /// What follows from a commit at `now` whose writes are of these kinds, by their index. Later writes do
    /// not concern entities.
    pub(crate) fn of_commit(
        self: Arc<Self>,
        kinds: &Arc<[WriteKind]>,
        now: Timestamp,
        writers: Writers,
    ) -> Arc<dyn Derive> {
        match self.needs_kinds() {
            true => Arc::new(OfCommit { derivation: self, kinds: kinds.clone(), now, writers }),
            false => self,
        }
    }

    /// What follows from one change, apart from index entries.
    fn derive_one(
        &self,
        change: &Change<'_>,
        kind: WriteKind,
        now: Timestamp,
        derived: &mut Derived,
    ) -> Result<(), BoxError> {
        let Some(entity) = entity_of(self.table, change.key) else { return Ok(()) };
        if let Some(setting) = &self.settings.expiry {
            derive_moment(self.table, setting, entity, change, now, derived)?;
        }
        let Some(feed) = self.settings.feed else { return Ok(()) };
        let judge = Judge::of(Some(&self.settings), || now);
        let is_expired = match (change.before, judge) {
            (Some(before), Some(judge)) => judge.is_expired(before.value, before.revision)?,
            _ => false,
        };
        if is_expired && change.after.is_some() {
            // The earlier life ends first, in the same commit.
            self.record(
                feed,
                entity,
                &Change { after: None, ..*change },
                WriteKind::Expire,
                derived,
            );
            self.record(feed, entity, &Change { before: None, ..*change }, kind, derived);
        } else {
            self.record(feed, entity, change, kind, derived);
        }
        Ok(())
    }

    /// Records a change in the feed.
    fn record(
        &self,
        feed: Feed,
        entity: &[u8],
        change: &Change<'_>,
        kind: WriteKind,
        derived: &mut Derived,
    ) {
        let operation = match (change.before, change.after) {
            (None, None) => return,
            (None, Some(_)) => ChangeOperation::Insert,
            (Some(_), None) if kind == WriteKind::Expire => ChangeOperation::Expire,
            (Some(_), None) => ChangeOperation::Delete,
            (Some(_), Some(_)) if kind == WriteKind::Merge => ChangeOperation::Merge,
            (Some(_), Some(_)) => ChangeOperation::Replace,
        };
        let (has_new, has_old) = match feed.images {
            Images::Keys => (false, false),
            Images::New => (true, false),
            Images::Both => (true, true),
        };
        let before = change.before.map(|before| (before.revision.0, before.value));
        let record = ChangeRecord {
            operation,
            entity,
            new: change.after.filter(|_| has_new),
            old: before.filter(|_| has_old),
        };
        let feed = FeedId { table: self.table, number: self.settings.feeds };
        let prefix = Key::from(feed.entries_prefix());
        derived.write(change.index, Write::Append(prefix, record.encode().into()));
    }
}

impl Derive for Derivation {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        derive_entries(self.table, &self.settings, changes, derived)
    }

    fn held_bytes(&self) -> usize {
        // The settings belong to the cached table.
        size_of::<Self>()
    }
}

/// What follows from one commit.
#[derive(Debug)]
struct OfCommit {
    derivation: Arc<Derivation>,
    kinds: Arc<[WriteKind]>,
    now: Timestamp,
    writers: Writers,
}

impl OfCommit {
    /// Orders the commits that append to the feed, on a store with many writers: they all write one key, its
    /// head. The head's old value does not matter, so no commit depends on the previous one.
    fn order(&self, cause: usize, derived: &mut Derived) {
        let Derivation { table, settings } = &*self.derivation;
        if self.writers == Writers::Many {
            let feed = FeedId { table: *table, number: settings.feeds };
            derived.write(cause, Write::Put(feed.head().into(), Bytes::from_static(HEAD)));
        }
    }
}

impl Derive for OfCommit {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        let Self { derivation, kinds, now, .. } = self;
        let earlier = derived.writes.len();
        for change in changes {
            let Some(kind) = kinds.get(change.index) else { continue };
            derivation
                .derive_one(change, *kind, *now, derived)
                .map_err(|reason| Refusal { index: change.index, reason })?;
        }
        let is_append = |derived: &DerivedWrite| matches!(derived.write, Write::Append(..));
        let appended = derived.writes.iter().skip(earlier).find(|derived| is_append(derived));
        if let Some(cause) = appended.map(|derived| derived.cause) {
            self.order(cause, derived);
        }
        derivation.derive(changes, derived)
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.kinds)
    }
}

fn needs_kinds(settings: &TableSettings) -> bool {
    settings.feed.is_some() || settings.expiry.is_some()
}

/// The entity of `table` that is stored under `key`: the key without its table.
pub(crate) fn entity_of(table: TableId, key: &[u8]) -> Option<&[u8]> {
    split_entity(key).ok().filter(|(of, _)| *of == table).map(|(_, entity)| entity)
}
