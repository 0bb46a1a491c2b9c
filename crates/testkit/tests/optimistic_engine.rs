//! The whole contract on a store that runs no functions, has other writers, and conflicts on demand:
//! the basis of engines on shared stores.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_engine::optimistic::{self, PlainStore};
use lazuli_engine::queue::KeyQueue;
use lazuli_engine::retry::GiveWay;
use lazuli_engine::{
    BoxFuture, Check, Commit, CommitError, Current, Engine, EngineError, Expect, Found, Key,
    KeyRange, Limits, MemoryEngine, MemoryOptions, Modify, Nature, Reclaimed, Revision, View,
    Write, Writers,
};
use lazuli_testkit::engine_suite::{Fixture, run};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const LIMITS: Limits = Limits::DEFAULT;

/// An engine over a store with other writers.
struct Shared {
    store: Store,
    queue: KeyQueue,
}

/// Accepts only plain commits, and refuses every n-th as a conflict.
struct Store {
    memory: MemoryEngine,
    conflict_every: usize,
    commits: AtomicUsize,
    /// What another writer does just before the next commits.
    others: Mutex<VecDeque<Commit>>,
}

impl Shared {
    fn new(conflict_every: usize) -> Self {
        // The store has room for the conditions that replace functions.
        let limits = Limits { commit_writes_max: 2 * LIMITS.commit_writes_max, ..LIMITS };
        let options = MemoryOptions { limits, writers: Writers::Many, ..MemoryOptions::default() };
        let store = Store {
            memory: MemoryEngine::new(options),
            conflict_every,
            commits: AtomicUsize::new(0),
            others: Mutex::default(),
        };
        Self { store, queue: KeyQueue::new(10_000) }
    }

    fn before_next_commit(&self, other: Commit) {
        self.store.others.lock().unwrap().push_back(other);
    }
}

impl PlainStore for Store {
    fn limits(&self) -> &Limits {
        &LIMITS
    }

    fn read_together<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.memory.read(keys)
    }

    fn commit_plain(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let has_function = commit.writes.iter().any(|write| matches!(write, Write::Modify(..)));
        assert!(commit.derive.is_none() && !has_function, "a function reached the store");
        Box::pin(async move {
            let other = self.others.lock().unwrap().pop_front();
            if let Some(other) = other {
                self.memory.commit(other).await.unwrap();
            }
            let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
            if number.is_multiple_of(self.conflict_every) {
                return Err(CommitError::Conflict);
            }
            self.memory.commit(commit).await
        })
    }
}

impl Engine for Shared {
    fn limits(&self) -> &Limits {
        &LIMITS
    }

    fn nature(&self) -> Nature {
        self.store.memory.nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.store.memory.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.store.memory.view()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            let _turn = self.queue.enter(&commit).await?;
            optimistic::commit(&self.store, &GiveWay, &commit).await
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.store.memory.reclaim(range)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.store.memory.health()
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.store.memory.tend()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.store.memory.close()
    }
}

mod without_conflicts {
    use super::{Fixture, Shared};
    lazuli_testkit::engine_suite!(|| Fixture::new(Shared::new(usize::MAX), ()));
}

mod with_conflicts {
    use super::{Fixture, Shared};
    lazuli_testkit::engine_suite!(|| Fixture::new(Shared::new(3), ()));
}

#[derive(Debug)]
struct Increment;

impl Modify for Increment {
    fn modify(
        &self,
        current: Option<Current<'_>>,
    ) -> Result<Option<Vec<u8>>, lazuli_engine::BoxError> {
        let count = current.and_then(|current| current.value.first().copied()).unwrap_or(0);
        Ok(Some(vec![count + 1]))
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn key(text: &str) -> Key {
    Key::from(text.as_bytes().to_vec())
}

fn increment() -> Commit {
    Commit::new(Revision(0), vec![Write::Modify(key("Lk"), Arc::new(Increment))])
}

fn put(text: &str, value: u8) -> Commit {
    Commit::new(Revision(0), vec![Write::Put(key(text), vec![value].into())])
}

/// K-3.7.
#[test]
fn function_runs_again_on_what_another_process_wrote_meanwhile() {
    run(async {
        let engine = Shared::new(usize::MAX);
        engine.commit(increment()).await.unwrap();
        engine.before_next_commit(put("Lk", 40));
        engine.commit(increment()).await.unwrap();
        let found = engine.read(&[key("Lk")]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().value.as_ref(), [41]);
    });
}

#[test]
fn check_that_fails_meanwhile_is_named_and_not_tried_again() {
    run(async {
        let engine = Shared::new(usize::MAX);
        engine.before_next_commit(put("Lother", 1));
        let absent = Check { key: key("Lother"), expect: Expect::Absent };
        let commit = Commit { checks: vec![absent], ..increment() };
        let result = engine.commit(commit).await;
        assert!(matches!(result, Err(CommitError::CheckFailed { index: 0, found: Some(_) })));
        assert_eq!(engine.read(&[key("Lk")]).await.unwrap(), [None]);
    });
}

/// K-3.7.
#[test]
fn store_that_always_conflicts_ends_in_a_conflict_after_64_attempts() {
    run(async {
        let engine = Shared::new(1);
        assert!(matches!(engine.commit(increment()).await, Err(CommitError::Conflict)));
        assert_eq!(engine.store.commits.load(Ordering::SeqCst), 64);
    });
}

#[test]
fn commit_without_functions_is_one_call_of_the_store() {
    run(async {
        let engine = Shared::new(usize::MAX);
        engine.commit(put("Lk", 1)).await.unwrap();
        assert_eq!(engine.store.commits.load(Ordering::SeqCst), 1);
    });
}
