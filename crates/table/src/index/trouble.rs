//! Builds whose last step failed: which error, and when they are tried again.
//!
//! Store errors are temporary: the build waits, longer after each failure, and says why it waits. A
//! lasting error, such as a corrupt entity, ends the build. Other builds continue either way.

use super::fill::{Build, Target};
use crate::error::TableError;
use crate::service::TableService;
use lazuli_engine::{Check, Commit, Expect, Key, Write};
use lazuli_layout::IndexId;
use lazuli_layout::settings::BuildRecord;
use lazuli_model::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Minimum and maximum time that a build waits after a failure.
const WAIT_SECONDS_MIN: u64 = 1;
const WAIT_SECONDS_MAX: u64 = 60;
/// Builds whose failures are remembered; one more, and all are forgotten and tried at once.
const TROUBLES_MAX: usize = 1024;
/// Maximum characters of an error that a build keeps.
const TEXT_CHARS_MAX: usize = 500;

/// A build that failed for the first time, or for a different reason than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildTrouble {
    /// The account and the table; empty if the record of the build cannot be read.
    pub account: String,
    pub table: String,
    pub error: String,
}

/// The failures of builds that continue.
#[derive(Default)]
pub(crate) struct BuildTroubles(Mutex<State>);

#[derive(Default)]
struct State {
    known: BTreeMap<IndexId, Trouble>,
    /// Those not yet reported.
    untold: Vec<BuildTrouble>,
}

struct Trouble {
    failures: u32,
    error: String,
    again: Timestamp,
}

impl BuildTroubles {
    /// Also true if its time is further away than any wait: then the clock was set back since.
    pub(super) fn is_due(&self, id: IndexId, now: Timestamp) -> bool {
        let soon = now..=now.plus_seconds(WAIT_SECONDS_MAX);
        self.state()
            .known
            .get(&id)
            .is_none_or(|trouble| trouble.again == now || !soon.contains(&trouble.again))
    }

    pub(super) fn forget(&self, id: IndexId) {
        self.state().known.remove(&id);
    }

    /// Returns whether this failure is new.
    fn note(&self, id: IndexId, now: Timestamp, trouble: &BuildTrouble) -> bool {
        let mut state = self.state();
        if state.known.len() >= TROUBLES_MAX && !state.known.contains_key(&id) {
            state.known.clear();
        }
        let new = || Trouble { failures: 0, error: String::new(), again: now };
        let known = state.known.entry(id).or_insert_with(new);
        let seconds = WAIT_SECONDS_MIN << known.failures.min(16);
        known.failures = known.failures.saturating_add(1);
        known.again = now.plus_seconds(seconds.min(WAIT_SECONDS_MAX));
        let is_news = known.error != trouble.error;
        if is_news {
            known.error.clone_from(&trouble.error);
            if state.untold.len() < TROUBLES_MAX {
                state.untold.push(trouble.clone());
            }
        }
        is_news
    }

    /// No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableService {
    /// The builds that have failed since the last call, for the log.
    pub fn new_build_troubles(&self) -> Vec<BuildTrouble> {
        std::mem::take(&mut self.build_troubles.state().untold)
    }

    /// Ends a build that cannot continue, or makes it wait.
    pub(super) async fn note_trouble(
        &self,
        id: IndexId,
        build: Option<&Build>,
        error: &TableError,
    ) {
        let text: String = error.to_string().chars().take(TEXT_CHARS_MAX).collect();
        // The store is not at fault: the same step would always fail again.
        let is_final = matches!(error, TableError::Corrupt(_) | TableError::TooLarge { .. });
        if let Some(build) =
            build.filter(|build| is_final && matches!(build.target, Target::Index(_)))
            && self.fail(build, text.clone()).await.is_ok()
        {
            return self.build_troubles.forget(id);
        }
        let record = build.map(|build| &build.record);
        let trouble = BuildTrouble {
            account: record.map(|record| record.account.to_string()).unwrap_or_default(),
            table: record.map(|record| record.table.to_string()).unwrap_or_default(),
            error: text,
        };
        let is_news = self.build_troubles.note(id, self.store.clock.now(), &trouble);
        if let Some(build) = build.filter(|_| is_news) {
            self.keep_trouble(build, trouble.error).await;
        }
    }

    /// Makes the record of a build say why it waits, if the store takes it; the next successful step
    /// removes the reason.
    async fn keep_trouble(&self, build: &Build, error: String) {
        let key = Key::from(build.id.build());
        let record = BuildRecord { trouble: Some(error), ..build.record.clone() };
        let commit = Commit {
            guards: vec![build.table.lives.clone()],
            checks: vec![Check { key: key.clone(), expect: Expect::At(build.revision) }],
            ..Commit::new(self.store.now(), vec![Write::Put(key, record.encode().into())])
        };
        // It only reports the error, and changes nothing.
        let _ = self.store.engine.commit(commit).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_layout::TableId;

    #[test]
    fn a_failed_build_waits_unless_the_clock_was_set_back() {
        let at = |seconds: u64| Timestamp::from_unix_seconds(1_000_000 + seconds);
        let (account, table) = ("acct".to_owned(), "Orders".to_owned());
        let trouble = BuildTrouble { account, table, error: "busy".to_owned() };
        let id = IndexId { table: TableId(1), number: 1 };
        let troubles = BuildTroubles::default();
        assert!(troubles.is_due(id, at(0)));
        troubles.note(id, at(0), &trouble);
        assert_eq!([0, 1, 2].map(|seconds| troubles.is_due(id, at(seconds))), [false, true, true]);
        assert!(troubles.is_due(IndexId { number: 2, ..id }, at(0)));
        assert!(troubles.is_due(id, Timestamp::from_unix_seconds(1)));
    }
}
