//! Commits that wait while the disk is slow: how they are grouped, and how many may wait.

use crate::{assert_unavailable, insert, is_there, open, open_with};
use lazuli_engine::{
    BoxError, BoxFuture, Change, Commit, CommitError, Current, Derive, Derived, Engine, Key,
    Modify, Refusal, Revision, Write,
};
use lazuli_engine_local::{Faults, LocalEngine, LocalOptions};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Holds each write until the test releases it, with or without an error.
#[derive(Debug)]
struct Gate {
    arrived: SyncSender<()>,
    verdict: Mutex<Receiver<io::Result<()>>>,
    writes: AtomicUsize,
}

impl Gate {
    fn new() -> (Arc<Self>, Receiver<()>, SyncSender<io::Result<()>>) {
        let (arrived, arrivals) = sync_channel(100);
        let (verdicts, verdict) = sync_channel(100);
        let gate = Self { arrived, verdict: Mutex::new(verdict), writes: AtomicUsize::new(0) };
        (Arc::new(gate), arrivals, verdicts)
    }
}

impl Faults for Gate {
    fn before_write(&self) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.arrived.send(()).unwrap();
        self.verdict.lock().unwrap().recv().unwrap()
    }
}

type Answer<'e> = BoxFuture<'e, Result<Revision, CommitError>>;

/// Puts a commit into the queue without waiting for its answer.
fn submit(engine: &LocalEngine, commit: Commit) -> Answer<'_> {
    let mut answer = engine.commit(commit);
    assert!(poll(&mut answer).is_pending());
    answer
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn commits_that_wait_share_one_write() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, arrivals, verdicts) = Gate::new();
    let engine = open(dir.path(), &gate);
    let first = submit(&engine, insert("first"));
    arrivals.recv().unwrap();
    let waiting: Vec<_> = (0..50).map(|n| submit(&engine, insert(&n.to_string()))).collect();
    verdicts.send(Ok(())).unwrap();
    verdicts.send(Ok(())).unwrap();
    first.await.unwrap();
    for answer in waiting {
        answer.await.unwrap();
    }
    assert_eq!(gate.writes.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn failed_check_is_not_answered_before_what_failed_it_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, arrivals, verdicts) = Gate::new();
    let engine = open(dir.path(), &gate);
    let first = submit(&engine, insert("first"));
    arrivals.recv().unwrap();
    let mut winner = submit(&engine, insert("contended"));
    let mut loser = submit(&engine, insert("contended"));
    verdicts.send(Ok(())).unwrap();
    first.await.unwrap();
    arrivals.recv().unwrap();
    // Both have been evaluated by now, and wait for the write.
    assert!(poll(&mut winner).is_pending());
    assert!(poll(&mut loser).is_pending());
    verdicts.send(Err(io::Error::other("broken"))).unwrap();
    assert!(matches!(winner.await, Err(CommitError::Undetermined(_))));
    assert_unavailable(loser.await);
}

#[tokio::test]
async fn failing_commit_of_a_group_leaves_the_others_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, arrivals, verdicts) = Gate::new();
    let engine = open(dir.path(), &gate);
    let first = submit(&engine, insert("first"));
    arrivals.recv().unwrap();
    let group = ["a", "first", "b", "a", "c"].map(|key| submit(&engine, insert(key)));
    verdicts.send(Ok(())).unwrap();
    verdicts.send(Ok(())).unwrap();
    let first = first.await.unwrap();
    let [a, taken, b, a_again, c] = group;
    let a = a.await.unwrap();
    assert!(
        matches!(taken.await, Err(CommitError::CheckFailed { index: 0, found }) if found == Some(first))
    );
    assert!(
        matches!(a_again.await, Err(CommitError::CheckFailed { index: 0, found }) if found == Some(a))
    );
    let (b, c) = (b.await.unwrap(), c.await.unwrap());
    assert!(first < a && a < b && b < c);
}

/// A commit's result while the gate is shut: `None` if it waits in the queue. The tests that use
/// this run on a paused clock, so that neither the hour nor the wait for a place takes real time.
async fn answer_at_a_shut_gate(
    engine: &LocalEngine,
    commit: Commit,
) -> Option<Result<Revision, CommitError>> {
    tokio::time::timeout(Duration::from_secs(3600), engine.commit(commit)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn commit_that_finds_no_place_is_answered_busy() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, arrivals, verdicts) = Gate::new();
    let options = LocalOptions {
        queue_bytes_max: 2048,
        queue_wait_max: Duration::from_millis(1),
        ..Default::default()
    };
    let engine = open_with(dir.path(), &gate, options);
    let first = submit(&engine, insert("first"));
    arrivals.recv().unwrap();
    let waiting = ["a", "b"].map(|key| submit(&engine, insert(key)));
    let third = answer_at_a_shut_gate(&engine, insert("c")).await;
    verdicts.send(Ok(())).unwrap();
    verdicts.send(Ok(())).unwrap();
    verdicts.send(Ok(())).unwrap();
    first.await.unwrap();
    for answer in waiting {
        answer.await.unwrap();
    }
    assert!(matches!(third, Some(Err(CommitError::Busy))), "{third:?}");
    engine.commit(insert("d")).await.unwrap();
    assert!(!is_there(&engine, "c").await);
}

/// Merges with large patches counted in the queue as no more than their keys: any number of them
/// waited for the committer, whatever `queue_bytes_max` said.
#[tokio::test(start_paused = true)]
async fn functions_of_a_commit_take_the_room_that_they_hold() {
    #[derive(Debug)]
    struct Large;
    impl Modify for Large {
        fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
            Ok(Some(vec![1]))
        }
        fn held_bytes(&self) -> usize {
            1024
        }
    }
    impl Derive for Large {
        fn derive(&self, _: &[Change<'_>], _: &mut Derived) -> Result<(), Refusal> {
            Ok(())
        }
        fn held_bytes(&self) -> usize {
            1024
        }
    }
    let merge = |key: &str| {
        let key = Key::from(format!("L{key}").into_bytes());
        Commit::new(Revision(0), vec![Write::Modify(key, Arc::new(Large))])
    };
    let derive = |key: &str| Commit { derive: Some(Arc::new(Large)), ..insert(key) };
    for [one, two, three] in [["a", "b", "c"].map(merge), ["a", "b", "c"].map(derive)] {
        let dir = tempfile::tempdir().unwrap();
        let (gate, arrivals, verdicts) = Gate::new();
        let options = LocalOptions {
            queue_bytes_max: 4096,
            queue_wait_max: Duration::from_millis(1),
            ..Default::default()
        };
        let engine = open_with(dir.path(), &gate, options);
        let first = submit(&engine, insert("first"));
        arrivals.recv().unwrap();
        let waiting = [one, two].map(|commit| submit(&engine, commit));
        let third = answer_at_a_shut_gate(&engine, three).await;
        verdicts.send(Ok(())).unwrap();
        verdicts.send(Ok(())).unwrap();
        first.await.unwrap();
        for answer in waiting {
            answer.await.unwrap();
        }
        assert!(matches!(third, Some(Err(CommitError::Busy))), "{third:?}");
    }
}

/// A group of small merges into large values was bounded by the size of the merges.
#[tokio::test]
async fn group_is_bounded_by_what_it_will_write() {
    #[derive(Debug)]
    struct Grow;
    impl Modify for Grow {
        fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
            Ok(Some(vec![1; 1024 * 1024]))
        }
        fn held_bytes(&self) -> usize {
            0
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (gate, arrivals, verdicts) = Gate::new();
    let options = LocalOptions { group_bytes_max: 2 * 1024 * 1024, ..Default::default() };
    let engine = open_with(dir.path(), &gate, options);
    let first = submit(&engine, insert("first"));
    arrivals.recv().unwrap();
    let grow = |n: usize| Write::Modify(Key::from(format!("L{n}").into_bytes()), Arc::new(Grow));
    let waiting = [0, 1, 2, 3].map(|n| submit(&engine, Commit::new(Revision(0), vec![grow(n)])));
    for _ in 0..3 {
        verdicts.send(Ok(())).unwrap();
    }
    first.await.unwrap();
    for answer in waiting {
        answer.await.unwrap();
    }
    assert_eq!(gate.writes.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn commit_larger_than_the_queue_is_taken_alone() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { queue_bytes_max: 2048, ..Default::default() };
    let engine = LocalEngine::open(dir.path(), options).unwrap();
    let large = Write::Put(Key::from(b"Llarge".to_vec()), vec![1; 100_000].into());
    engine.commit(Commit { writes: vec![large], ..insert("k") }).await.unwrap();
    assert!(is_there(&engine, "large").await);
}
