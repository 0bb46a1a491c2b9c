//! One turn of building: adds entries for some entities that are older than the index.
//!
//! While a step is committed, the entities of the next one are read from the same snapshot: if they have
//! changed since, that step's own conditions fail.

use super::IndexConflict;
use super::derive::{Indexed, Ownership, entry_of};
use crate::error::TableError;
use crate::expiry::moment;
use crate::service::{OpenTable, TableService};
use bytes::Bytes;
use futures_util::future::join;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Key, KeyRange, Revision, ScanEnd, View, Visit, Write,
};
use lazuli_layout::key::index::{owner, split_entity};
use lazuli_layout::settings::{BuildRecord, ENTRY, IndexState, TableIndex, TableSettings};
use lazuli_layout::{CorruptRecord, EntityRecord, IndexId, key};
use lazuli_model::Expiry;
use lazuli_service::{Rows, step};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum entities per step. With the owner of unique values, each needs two writes and a check.
const STEP_ENTITIES_MAX: usize = 2048;
/// Minimum entities per step, however many change while they are read.
const STEP_ENTITIES_MIN: usize = 16;
/// Maximum steps per turn. Other indexes must get their turn, and snapshots must be renewed.
const STEPS_PER_TURN: usize = 16;

/// Pairs of entities with the same unique values that a step remembers: more than an error names, because some
/// may be over when they are looked at.
const DUPLICATES_MAX: usize = 16;

/// How many entities the next step reads: fewer after a step that met a change.
pub(crate) struct Pace(AtomicUsize);

impl Default for Pace {
    fn default() -> Self {
        Self(AtomicUsize::new(STEP_ENTITIES_MAX))
    }
}

impl Pace {
    fn entities(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn went_well(&self) {
        self.0.store((self.entities() * 2).min(STEP_ENTITIES_MAX), Ordering::Relaxed);
    }

    fn met_a_change(&self) {
        self.0.store((self.entities() / 4).max(STEP_ENTITIES_MIN), Ordering::Relaxed);
    }
}

/// An index being built, as found in one snapshot.
pub(super) struct Build {
    pub(super) id: IndexId,
    pub(super) record: BuildRecord,
    /// The revision of the record.
    pub(super) revision: Revision,
    pub(super) table: OpenTable,
    /// The revision of the catalog record.
    pub(super) declared: Revision,
    pub(super) target: Target,
}

/// What is being built.
pub(super) enum Target {
    Index(TableIndex),
    /// The moments at which entities expire.
    Moments(Expiry),
}

impl Target {
    /// What `settings` says is being built under `number`.
    pub(super) fn of(settings: &TableSettings, number: u32) -> Option<Self> {
        if let Some(expiry) = settings.expiry.as_ref().filter(|expiry| expiry.number == number) {
            return Some(Self::Moments(expiry.expiry.clone()));
        }
        let is_built =
            |index: &&TableIndex| index.number == number && index.state == IndexState::Building;
        settings.indexes.iter().find(is_built).cloned().map(Self::Index)
    }
}

/// Two entities with the same unique values, by their keys without the table.
pub(super) type Duplicate = (Box<[u8]>, Box<[u8]>);

/// What a step found.
#[derive(Default)]
pub(super) struct Gathered {
    entities: Vec<Check>,
    entries: Vec<Write>,
    /// The entities that own unique values, by the owner's key.
    pub(super) owners: BTreeMap<Key, (Box<[u8]>, Write)>,
    /// Where the entities of the next step begin.
    next: Option<Vec<u8>>,
    /// Entities of this step with the same unique values, two by two: the first few.
    pub(super) duplicates: Vec<Duplicate>,
}

/// How a turn of building ended.
pub(super) enum Filled {
    /// There may be more to do.
    Partly,
    /// The index now has the entries of all entities; `examined` is their number.
    Whole { examined: u64 },
    /// Two entities had the same unique values when they were read: both in this step, or one in an
    /// earlier step or written since.
    Duplicate(Duplicate),
}

/// How a step ended.
pub(super) enum StepEnd {
    /// The record of the build has this revision now.
    Committed(Revision),
    /// The table or an entity changed, or another process builds too: what was read is outdated.
    MetChange,
    /// Another entity owns the unique values of an entity of the step.
    Duplicate(Duplicate),
}

impl TableService {
    /// Adds the entries of some entities.
    pub(super) async fn fill(
        &self,
        view: &dyn View,
        build: &mut Build,
    ) -> Result<Filled, TableError> {
        let mut gathered = self.gather(view, build, build.record.from.clone()).await?;
        for steps_left in (0..STEPS_PER_TURN).rev() {
            if let Some(duplicate) = gathered.duplicates.first().cloned() {
                return Ok(Filled::Duplicate(duplicate));
            }
            let found = gathered.entities.len();
            let examined = build.record.done + found as u64;
            if found == 0 && gathered.next.is_none() {
                return Ok(Filled::Whole { examined });
            }
            // The end of the range is reached when the last step finds nothing.
            let next = gathered.next.take();
            let end = key::table_range(build.id.table).end;
            let record = BuildRecord {
                done: examined,
                from: next.clone().unwrap_or(end),
                trouble: None,
                ..build.record.clone()
            };
            let committed = self.commit_step(build, record.clone(), gathered);
            // After a step that met a change, the next one is small, and reads a newer snapshot.
            let goes_on = steps_left > 0 && found >= STEP_ENTITIES_MAX;
            let (committed, ahead) = match next.filter(|_| goes_on) {
                Some(next) => {
                    let (committed, ahead) = join(committed, self.gather(view, build, next)).await;
                    (committed, Some(ahead))
                }
                None => (committed.await, None),
            };
            let revision = match committed? {
                StepEnd::Committed(revision) => revision,
                StepEnd::MetChange => break,
                StepEnd::Duplicate(duplicate) => return Ok(Filled::Duplicate(duplicate)),
            };
            let Some(ahead) = ahead else { break };
            gathered = ahead?;
            (build.record, build.revision) = (record, revision);
        }
        Ok(Filled::Partly)
    }

    /// Reads the entities of a step.
    pub(super) async fn gather(
        &self,
        view: &dyn View,
        build: &Build,
        from: Vec<u8>,
    ) -> Result<Gathered, TableError> {
        let all = key::table_range(build.id.table);
        let mut next = Some(KeyRange::new(from.max(all.start), all.end));
        let mut gathered = Gathered::default();
        let entities = self.build_pace.entities();
        while let Some(range) = next.take_if(|_| gathered.entities.len() < entities) {
            let rows = Rows::at_most(entities - gathered.entities.len());
            let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
                gathered.add(build, key, value, revision)?;
                Ok(Visit::Continue)
            };
            if let ScanEnd::More(rest) = step(view, range, rows, &mut visit).await? {
                next = Some(rest);
            }
        }
        gathered.next = next.map(|rest| rest.start);
        Ok(gathered)
    }

    /// Commits a step, and records the progress.
    pub(super) async fn commit_step(
        &self,
        build: &Build,
        record: BuildRecord,
        gathered: Gathered,
    ) -> Result<StepEnd, TableError> {
        let key = Key::from(build.id.build());
        let own = Check { key: key.clone(), expect: Expect::At(build.revision) };
        let added = gathered.entries.len();
        // By the positions of their writes, which follow the entries.
        let (owning, owners): (Vec<_>, Vec<_>) = gathered.owners.into_values().unzip();
        let writes = gathered.entries.into_iter().chain(owners);
        let commit = Commit {
            guards: vec![build.table.lives.clone()],
            checks: [own].into_iter().chain(gathered.entities).collect(),
            ..Commit::new(
                self.store.now(),
                writes.chain([Write::Put(key, record.encode().into())]).collect(),
            )
        };
        match self.store.engine.commit(commit).await {
            Ok(revision) => {
                self.build_pace.went_well();
                self.builds.entries.add(added as u64);
                Ok(StepEnd::Committed(revision))
            }
            Err(CommitError::Refused { index, reason }) => {
                let owning = index.checked_sub(added).and_then(|place| owning.get(place));
                match (TableError::from(CommitError::Refused { index, reason }), owning) {
                    (
                        TableError::IndexConflict(IndexConflict { owner: Some(owner), .. }),
                        Some(entity),
                    ) => {
                        let owner = split_entity(&owner)?.1.into();
                        Ok(StepEnd::Duplicate((owner, entity.clone())))
                    }
                    (error, _) => Err(error),
                }
            }
            Err(
                CommitError::GuardFailed { .. }
                | CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => {
                self.build_pace.met_a_change();
                Ok(StepEnd::MetChange)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Gathered {
    fn add(
        &mut self,
        build: &Build,
        key: &[u8],
        value: &[u8],
        revision: Revision,
    ) -> Result<(), CorruptRecord> {
        let (_, entity) = split_entity(key)?;
        self.entities.push(Check { key: key.to_vec().into(), expect: Expect::At(revision) });
        let index = match &build.target {
            Target::Index(index) => index,
            Target::Moments(expiry) => {
                if let Some(moment) = moment(expiry, &EntityRecord::parse(value)?, revision) {
                    let entry = key::expiry::moment(build.id, moment.bucket(), entity);
                    self.entries.push(Write::Put(entry.into(), Bytes::from_static(ENTRY)));
                }
                return Ok(());
            }
        };
        let Some(indexed) = Indexed::parse(key, Some(value))? else { return Ok(()) };
        let definition = &index.definition;
        let Some(values) = indexed.values(definition) else { return Ok(()) };
        let entry = entry_of(build.id.table, index, &values, entity);
        self.entries.push(Write::Put(entry, Bytes::from_static(ENTRY)));
        if !definition.is_unique() {
            return Ok(());
        }
        let Some(owner) = owner(build.id, values) else { return Ok(()) };
        let ownership = Ownership {
            table: build.id.table,
            index: definition.name().clone(),
            taken_by: Some(entity.into()),
            given_up_by: Vec::new(),
        };
        let owner = Key::from(owner);
        let write = Write::Modify(owner.clone(), Arc::new(ownership));
        if let Some((earlier, _)) = self.owners.insert(owner, (entity.into(), write))
            && self.duplicates.len() < DUPLICATES_MAX
        {
            self.duplicates.push((earlier, entity.into()));
        }
        Ok(())
    }
}
