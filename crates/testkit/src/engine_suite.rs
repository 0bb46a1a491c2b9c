//! The suite that every engine passes: one function per promise of the contract.
//!
//! [`engine_suite!`](crate::engine_suite!) creates one test per promise, so that a failure names
//! the broken promise. Engines with a directory also pass those of [`reopen`].

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod appended;
mod concurrency;
mod contract;
mod derivations;
mod derived;
mod history;
pub mod reopen;
mod sequential;
mod spread;
mod undetermined;

pub use appended::*;
pub use concurrency::*;
pub use contract::*;
pub use derived::*;
pub use history::random_histories_match_the_model;
pub use sequential::*;
pub use spread::Spread;
pub use undetermined::undetermined_commit_is_whole_or_nothing;

use bytes::Bytes;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Direction, Engine, EngineError, Expect, Found,
    Key, KeyRange, Modify, Revision, Scan, ScanEnd, View, Visit, Write,
};
use std::any::Any;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Creates one test per promise: `engine_suite!(|| Fixture::new(engine, directory))`. With
/// `engine_suite!(if is_there(), make)` each is skipped if the engine's store is not available.
/// `engine_suite!(if is_there(), make)` each is skipped where the store of the engine is not there.
#[macro_export]
macro_rules! engine_suite {
    (if $there:expr, $make:expr) => {
        $crate::engine_suite! { @test $there, $make =>
            random_histories_match_the_model
            view_sees_every_acknowledged_commit
            kept_view_does_not_change
            failed_check_names_its_index_and_what_was_found
            failed_check_writes_nothing
            multi_get_answers_in_order
            empty_range_is_done_at_once
            scan_resumes_exactly_within_rows
            scan_resumes_exactly_within_bytes
            scan_that_shows_all_is_done
            stopped_scan_shows_nothing_more
            revisions_increase_when_the_clock_steps_back
            revisions_increase_across_deletion
            revisions_increase_for_callers_with_different_clocks
            revision_does_not_lie_before_the_clock
            refused_modify_leaves_nothing
            modify_sees_value_before_the_commit
            too_large_is_refused
            reclaim_empties_the_range_and_nothing_else
            reclaim_of_nothing_is_full
            lazy_view_sees_what_was_acknowledged_before_it
            wide_scan_stays_within_its_bytes
            keys_that_begin_alike_for_long_are_in_order
            concurrent_inserts_of_one_key_have_one_winner
            concurrent_modifies_lose_nothing
            concurrent_modifies_have_revisions_of_their_own
            concurrent_compare_and_swap_loses_nothing
            write_skew_is_refused
            no_insert_slips_past_the_deletion_of_its_guard
            scan_sees_one_snapshot_while_commits_go_on
            acknowledged_commit_is_seen_by_all
            guard_that_fails_writes_nothing
            guard_is_not_a_lock
            guard_that_is_gone_stops_what_begins_later
            read_answers_in_order
            read_sees_every_acknowledged_commit
            rows_expected_changes_no_answer
            modify_sees_the_revision_and_may_delete
            tending_comes_to_an_end
            closed_engine_takes_no_commits_and_is_not_healthy
            close_finishes_what_was_taken
            appended_key_is_prefix_revision_and_position
            append_of_a_failed_commit_leaves_nothing
            appended_keys_are_in_commit_order_under_races
            derivation_is_shown_what_the_commit_changes
            derived_writes_carry_the_revision_of_their_commit
            index_follows_every_kind_of_write
            nothing_is_derived_from_derived_writes
            refused_derivation_leaves_nothing
            refused_function_of_a_derived_write_is_blamed_on_its_cause
            checks_of_the_commit_are_judged_before_what_is_derived
            rows_of_one_commit_may_swap_unique_values
            derived_writes_count_against_the_limits
            unique_value_has_one_row_under_races
            index_never_differs_from_rows_under_races
            feed_replays_to_the_rows_under_races
        }
    };
    (@test $there:expr, $make:expr => $($promise:ident)+) => {
        $(
            #[test]
            fn $promise() {
                if !$there {
                    return;
                }
                $crate::engine_suite::$promise(&$make);
            }
        )+
    };
    ($make:expr) => {
        $crate::engine_suite!(if true, $make);
    };
}

/// A fresh engine, and whatever must live as long as it does.
pub struct Fixture {
    pub engine: Arc<dyn Engine>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    pub fn new(engine: impl Engine, keep: impl Any + Send + Sync) -> Self {
        Self { engine: Arc::new(engine), _keep: Box::new(keep) }
    }
}

/// Creates a fresh, empty engine.
pub type Make<'m> = &'m dyn Fn() -> Fixture;

/// A fresh engine, and the runtime of one thread in which it lives.
pub fn on_one_thread(make: Make<'_>) -> (Runtime, Fixture) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = {
        let _entered = runtime.enter();
        make()
    };
    (runtime, store)
}

/// Runs a test on several threads, so that races can occur.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}

pub(crate) fn key(text: impl AsRef<[u8]>) -> Key {
    Key::from([b"L", text.as_ref()].concat())
}

pub(crate) fn put(text: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Write {
    Write::Put(key(text), Bytes::from(value.into()))
}

pub(crate) fn delete(text: impl AsRef<[u8]>) -> Write {
    Write::Delete(key(text))
}

pub(crate) fn modify(text: impl AsRef<[u8]>, function: impl Modify + 'static) -> Write {
    Write::Modify(key(text), Arc::new(function))
}

pub(crate) fn check(text: impl AsRef<[u8]>, expect: Expect) -> Check {
    Check { key: key(text), expect }
}

pub(crate) fn commit(
    checks: impl IntoIterator<Item = Check>,
    writes: impl IntoIterator<Item = Write>,
) -> Commit {
    Commit {
        checks: checks.into_iter().collect(),
        ..Commit::new(Revision(0), writes.into_iter().collect())
    }
}

/// A commit without checks that must succeed.
pub(crate) async fn write(
    engine: &dyn Engine,
    writes: impl IntoIterator<Item = Write>,
) -> Revision {
    settle(engine, commit([], writes)).await.expect("an unconditional commit")
}

/// Commits as callers do. Writers in two processes may conflict until an engine gives up; then
/// nothing was written, and the commit is repeated.
pub(crate) async fn settle(engine: &dyn Engine, commit: Commit) -> Result<Revision, CommitError> {
    const CONFLICTS_MAX: usize = 16;
    for _ in 0..CONFLICTS_MAX {
        match engine.commit(commit.clone()).await {
            Err(CommitError::Conflict) => tokio::task::yield_now().await,
            settled => return settled,
        }
    }
    Err(CommitError::Conflict)
}

/// What a fresh view finds.
pub(crate) async fn find(engine: &dyn Engine, text: impl AsRef<[u8]>) -> Option<Found> {
    let view = engine.view().await.expect("a view");
    view.get(key(text).as_slice()).await.expect("a read")
}

pub(crate) async fn value(engine: &dyn Engine, text: impl AsRef<[u8]>) -> Option<Bytes> {
    find(engine, text).await.map(|found| found.value)
}

/// An entry as a scan shows it.
pub(crate) type Entry = (Vec<u8>, Vec<u8>, Revision);

/// The whole range, forward, in one scan.
pub(crate) async fn entries(view: &dyn View, range: KeyRange) -> Vec<Entry> {
    let bounds = (usize::MAX, usize::MAX);
    let (entries, end) = page(view, range, Direction::Forward, bounds).await;
    assert_eq!(end, ScanEnd::Done);
    entries
}

/// One bounded scan.
pub(crate) async fn page(
    view: &dyn View,
    range: KeyRange,
    direction: Direction,
    (rows_max, bytes_max): (usize, usize),
) -> (Vec<Entry>, ScanEnd) {
    let mut entries = Vec::new();
    let scan = Scan { range, direction, rows_max, bytes_max, rows_expected: rows_max };
    let end = view
        .scan(scan, &mut |key, value, revision| {
            entries.push((key.to_vec(), value.to_vec(), revision));
            Visit::Continue
        })
        .await
        .expect("a scan");
    (entries, end)
}

/// Every key the suite writes.
pub(crate) fn everything() -> KeyRange {
    KeyRange::prefix(b"L")
}

pub(crate) fn is_check_failed(result: &Result<Revision, CommitError>) -> bool {
    matches!(result, Err(CommitError::CheckFailed { .. }))
}

/// Appends to the current value.
#[derive(Debug)]
pub(crate) struct Append(pub(crate) Vec<u8>);

impl Modify for Append {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let current = current.map(|current| current.value).unwrap_or_default();
        Ok(Some([current, &self.0].concat()))
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Increments a big-endian number that starts at zero.
#[derive(Debug)]
pub(crate) struct Increment;

impl Modify for Increment {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let count = current.map_or(0, |current| number(current.value));
        Ok(Some((count + 1).to_be_bytes().to_vec()))
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// The number that [`Increment`] stores.
pub(crate) fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// Deletes whatever it finds.
#[derive(Debug)]
pub(crate) struct Remove;

impl Modify for Remove {
    fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        Ok(None)
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Refuses whatever it finds.
#[derive(Debug)]
pub(crate) struct Refuse;

impl Modify for Refuse {
    fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        Err("refused".into())
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
