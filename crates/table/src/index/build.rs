//! Builds indexes online, step by step, while writes continue.
//!
//! Writes maintain an index from the moment it is declared; the builder adds the entries of earlier
//! entities. A step reads some entities and adds their entries in one commit, on the condition that
//! these entities have not changed since, so that an entry never outlives the value it is for.
//! Progress is part of the same commit.

use super::fill::{Build, Filled, Gathered, Target};
use crate::error::TableError;
use crate::index::IndexConflict;
use crate::scan::Timer;
use crate::service::{TableService, opened};
use crate::settings::drop_index;
use bytes::Bytes;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Found, GUARD_AGE_MS_MAX, Key, KeyRange, Reclaimed,
    Revision, ScanEnd, View, Visit, Write, Writers,
};
use lazuli_layout::key::index::{builds, decode_build};
use lazuli_layout::settings::{BuildRecord, IndexState, TableIndex};
use lazuli_layout::{IndexId, key};
use lazuli_meter::Counter;
use lazuli_service::{Rows, key_range, step};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entities counted per step.
const STEP_COUNTED_MAX: u64 = 64 * 1024;
/// On a store with other writers, a write guarded by the earlier settings may finish this long after
/// the index was declared, without knowing of it. The rest is a margin for the store's clock.
pub(crate) const SETTLES_MS: u64 = 2 * GUARD_AGE_MS_MAX + 10_000;
/// Builds examined in one step.
const BUILDS_PER_STEP: usize = 16;

/// The position in the round over all builds.
#[derive(Default)]
pub(crate) struct Round(Mutex<RoundState>);

#[derive(Default)]
struct RoundState {
    /// The first build of the next step; `None` means the first of all.
    next: Option<Vec<u8>>,
    builds: usize,
    did_work: bool,
}

impl Round {
    /// No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, RoundState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableService {
    /// Builds until so many milliseconds are over, unless the store has other writers: there, those that
    /// do not yet know of an index are waited for first.
    pub async fn build_for(&self, ms_max: u64) {
        if ms_max == 0 || self.store.nature().writers == Writers::Many {
            return;
        }
        let mut timer = Timer::of_ms(&*self.store.clock, ms_max);
        // An error of the store is shown with the index, which is tried again later.
        while !timer.is_over() && matches!(self.build_some().await, Ok(Reclaimed::Partly)) {
            timer.look();
        }
    }

    /// Takes one step of building a few of the indexes being built; the next call goes on with the
    /// next ones. Returns [`Reclaimed::Fully`] after a round over all of them that found nothing to
    /// do now. An index whose step fails waits for a while, and the others go on.
    pub async fn build_some(&self) -> Result<Reclaimed, TableError> {
        let mut view = self.store.engine.view().await?;
        let from = self.build_round.state().next.take();
        let all = builds();
        let range = from.unwrap_or(all.start)..all.end;
        let mut listed = Vec::new();
        let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
            listed.push((
                decode_build(key)?,
                Found { value: Bytes::copy_from_slice(value), revision },
            ));
            Ok(Visit::Continue)
        };
        let rows = Rows::at_most(BUILDS_PER_STEP);
        let end = step(&*view, key_range(range), rows, &mut visit).await?;
        let found = listed.len();
        let mut did_work = false;
        for (place, (id, found)) in listed.into_iter().enumerate() {
            if !self.build_troubles.is_due(id, self.store.clock.now()) {
                continue;
            }
            if place > 0 {
                // The last step took a while, and a view does not last.
                view = self.store.engine.view().await?;
            }
            did_work |= self.build_one(&*view, id, found).await == Reclaimed::Partly;
        }
        let mut round = self.build_round.state();
        round.builds += found;
        round.did_work |= did_work;
        if let ScanEnd::More(rest) = end {
            round.next = Some(rest.start);
            return Ok(Reclaimed::Partly);
        }
        let RoundState { builds, did_work, .. } = std::mem::take(&mut *round);
        self.builds.building.set(i64::try_from(builds).unwrap_or(i64::MAX));
        Ok(if did_work { Reclaimed::Partly } else { Reclaimed::Fully })
    }

    /// Takes one step of a build. A build whose step fails waits.
    async fn build_one(&self, view: &dyn View, id: IndexId, found: Found) -> Reclaimed {
        let mut build = match self.open_build(view, id, found).await {
            Ok(Some(build)) => build,
            Ok(None) => return Reclaimed::Partly,
            Err(error) => {
                self.note_trouble(id, None, &error).await;
                return Reclaimed::Fully;
            }
        };
        match self.advance(view, &mut build).await {
            Ok(reclaimed) => {
                self.build_troubles.forget(id);
                reclaimed
            }
            Err(error) => {
                self.note_trouble(id, Some(&build), &error).await;
                Reclaimed::Fully
            }
        }
    }

    /// Reads the state of a build; `None` if it was no longer wanted, and its record has been removed.
    async fn open_build(
        &self,
        view: &dyn View,
        id: IndexId,
        found: Found,
    ) -> Result<Option<Build>, TableError> {
        let record = BuildRecord::decode(&found.value)?;
        let revision = found.revision;
        let catalog = Key::from(key::catalog(&record.account, record.table.lower()));
        let Some(listed) = view.get(catalog.as_slice()).await? else {
            self.abandon(id, revision).await?;
            return Ok(None);
        };
        let declared = listed.revision;
        let table = opened(catalog, Some(listed))?;
        let settings = table.settings.as_deref().filter(|_| table.id == id.table);
        let Some(target) = settings.and_then(|settings| Target::of(settings, id.number)) else {
            self.abandon(id, revision).await?;
            return Ok(None);
        };
        Ok(Some(Build { id, record, revision, table, declared, target }))
    }

    /// Takes one step.
    async fn advance(&self, view: &dyn View, build: &mut Build) -> Result<Reclaimed, TableError> {
        if !self.has_settled(build).await? {
            return Ok(Reclaimed::Fully);
        }
        match &build.record.count_from {
            Some(from) => self.count(view, build, from.clone()).await,
            None => match self.fill(view, build).await? {
                Filled::Partly => Ok(Reclaimed::Partly),
                Filled::Whole { examined } => self.finish(build, examined).await,
                Filled::Duplicate(duplicate) => self.met_duplicate(build, duplicate).await,
            },
        }
    }

    /// Whether every write that did not know of the index has finished. Either the store's clock
    /// decides: the record is rewritten until its revision is late enough. Or enough time passes on
    /// our own clock.
    async fn has_settled(&self, build: &Build) -> Result<bool, TableError> {
        if self.nature().writers == Writers::Sole {
            return Ok(true);
        }
        const TICKS_PER_MS: u64 = 10_000;
        let settles_ms = self.index_settles_ms.unwrap_or(SETTLES_MS);
        let waited = build.revision.0.saturating_sub(build.declared.0);
        if waited >= settles_ms * TICKS_PER_MS
            || self.build_waits.look(build.id, self.store.clock.now()) >= settles_ms
        {
            return Ok(true);
        }
        self.commit_step(build, build.record.clone(), Gathered::default()).await?;
        Ok(false)
    }

    /// Counts some entities, for the estimate of the work.
    async fn count(
        &self,
        view: &dyn View,
        build: &Build,
        from: Vec<u8>,
    ) -> Result<Reclaimed, TableError> {
        let all = key::table_range(build.id.table);
        let mut next = Some(KeyRange::new(from.max(all.start), all.end));
        let mut counted = 0;
        while let Some(range) = next.take_if(|_| counted < STEP_COUNTED_MAX) {
            let mut visit = |_: &[u8], _: &[u8], _: Revision| {
                counted += 1;
                Ok(Visit::Continue)
            };
            let end = step(view, range, Rows::expecting(usize::MAX), &mut visit).await?;
            if let ScanEnd::More(rest) = end {
                next = Some(rest);
            }
        }
        let record = BuildRecord {
            total: build.record.total + counted,
            count_from: next.map(|rest| rest.start),
            trouble: None,
            ..build.record.clone()
        };
        self.commit_step(build, record, Gathered::default()).await?;
        Ok(Reclaimed::Partly)
    }

    async fn finish(&self, build: &Build, examined: u64) -> Result<Reclaimed, TableError> {
        if let Target::Moments(_) = build.target {
            return self.abandon(build.id, build.revision).await;
        }
        let since = self.store.clock.now();
        self.end(build, &self.builds.ready, |index| {
            *index = TableIndex { state: IndexState::Ready, since, examined, ..index.clone() };
            vec![Write::Delete(build.id.build().into())]
        })
        .await
    }

    /// Ends the building of an index that cannot be built.
    pub(super) async fn fail(
        &self,
        build: &Build,
        reason: String,
    ) -> Result<Reclaimed, TableError> {
        let since = self.store.clock.now();
        self.end(build, &self.builds.failed, |index| {
            *index = TableIndex {
                state: IndexState::Failed(reason.clone()),
                since,
                examined: build.record.done,
                ..index.clone()
            };
            // Its entries are useless: a later attempt gets its own number.
            drop_index(build.id, since).into()
        })
        .await
    }

    /// Ends the building of an index that is still being built, and counts it under `ended`.
    async fn end(
        &self,
        build: &Build,
        ended: &Counter,
        change: impl Fn(&mut TableIndex) -> Vec<Write>,
    ) -> Result<Reclaimed, TableError> {
        self.build_waits.forget(build.id);
        let is_ours = AtomicBool::new(false);
        let changed = self.change_catalog(&build.record.account, &build.record.table, |catalog| {
            let is_same_table = catalog.id == build.id.table;
            let mut indexes = catalog.settings.indexes.iter_mut();
            match indexes.find(|index| index.number == build.id.number) {
                Some(index) if is_same_table && index.state == IndexState::Building => {
                    is_ours.store(true, Ordering::Relaxed);
                    change(index)
                }
                _ => {
                    is_ours.store(false, Ordering::Relaxed);
                    Vec::new()
                }
            }
        });
        match changed.await {
            Ok(()) => {
                if is_ours.load(Ordering::Relaxed) {
                    ended.increment();
                }
                Ok(Reclaimed::Partly)
            }
            Err(TableError::TableNotFound | TableError::Undetermined) => Ok(Reclaimed::Partly),
            Err(error) => Err(error),
        }
    }

    /// Removes the record of an index that is no longer being built.
    async fn abandon(&self, id: IndexId, revision: Revision) -> Result<Reclaimed, TableError> {
        self.build_waits.forget(id);
        let key = Key::from(id.build());
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::At(revision) }],
            ..Commit::new(self.store.now(), vec![Write::Delete(key)])
        };
        match self.store.engine.commit(commit).await {
            Ok(_)
            | Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(Reclaimed::Partly),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<IndexConflict> for TableError {
    fn from(conflict: IndexConflict) -> Self {
        Self::IndexConflict(conflict)
    }
}
