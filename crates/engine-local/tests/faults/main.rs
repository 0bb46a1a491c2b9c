//! What an engine does when its disk fails, or is slow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod queue;

use lazuli_engine::{
    Check, Commit, CommitError, Engine, EngineError, Expect, Key, Revision, Write,
};
use lazuli_engine_local::{Durability, Faults, LocalEngine, LocalOptions, ReopeningEngine};
use lazuli_testkit::engine_suite;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

fn insert(key: &str) -> Commit {
    let key = Key::from(format!("L{key}").into_bytes());
    Commit {
        checks: vec![Check { key: key.clone(), expect: Expect::Absent }],
        ..Commit::new(Revision(0), vec![Write::Put(key, "value".into())])
    }
}

fn open(dir: &Path, faults: &Arc<impl Faults + 'static>) -> LocalEngine {
    open_with(dir, faults, LocalOptions::default())
}

fn open_with(
    dir: &Path,
    faults: &Arc<impl Faults + 'static>,
    options: LocalOptions,
) -> LocalEngine {
    LocalEngine::open(dir, LocalOptions { faults: Some(faults.clone()), ..options }).unwrap()
}

async fn is_there(engine: &impl Engine, key: &str) -> bool {
    let view = engine.view().await.unwrap();
    view.get(format!("L{key}").as_bytes()).await.unwrap().is_some()
}

/// Fails the steps that are enabled.
#[derive(Debug, Default)]
struct Broken {
    before_write: AtomicBool,
    after_write: AtomicBool,
    before_sync: AtomicBool,
}

fn fail_if(broken: &AtomicBool) -> io::Result<()> {
    if broken.load(Ordering::SeqCst) { Err(io::Error::other("broken")) } else { Ok(()) }
}

impl Faults for Broken {
    fn before_write(&self) -> io::Result<()> {
        fail_if(&self.before_write)
    }

    fn after_write(&self) -> io::Result<()> {
        fail_if(&self.after_write)
    }

    fn before_sync(&self) -> io::Result<()> {
        fail_if(&self.before_sync)
    }
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, CommitError>) {
    let unavailable = matches!(result, Err(CommitError::Engine(EngineError::Unavailable(_))));
    assert!(unavailable, "{result:?}");
}

/// Breaks the disk with `break_it`, and checks whether the failed commit is `there` after all.
async fn check_failed_write(break_it: fn(&Broken) -> &AtomicBool, there: bool) {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let engine = open(dir.path(), &faults);
    let before = engine.commit(insert("before")).await.unwrap();
    break_it(&faults).store(true, Ordering::SeqCst);
    let failed = engine.commit(insert("failed")).await;
    assert!(matches!(failed, Err(CommitError::Undetermined(_))), "{failed:?}");

    break_it(&faults).store(false, Ordering::SeqCst);
    assert_unavailable(engine.commit(insert("refused")).await);
    assert!(is_there(&engine, "before").await, "reads go on");
    assert!(!is_there(&engine, "failed").await, "what is not known to be durable is not shown");
    assert!(engine.close().await.is_err());
    drop(engine);

    let engine = open(dir.path(), &faults);
    assert!(is_there(&engine, "before").await);
    assert_eq!(is_there(&engine, "failed").await, there);
    assert!(!is_there(&engine, "refused").await);
    assert!(engine.commit(insert("after")).await.unwrap() > before);
}

#[tokio::test]
async fn failed_write_refuses_writes_until_reopened() {
    check_failed_write(|faults| &faults.before_write, false).await;
}

#[tokio::test]
async fn failed_sync_may_have_happened_all_the_same() {
    check_failed_write(|faults| &faults.after_write, true).await;
}

/// Retries a commit until the engine takes writes.
async fn insert_at_last(engine: &ReopeningEngine, key: &str) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while let Err(error) = engine.commit(insert(key)).await {
        let refused = matches!(error, CommitError::Engine(EngineError::Unavailable(_)));
        assert!(refused && Instant::now() < give_up, "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn store_is_reopened_when_the_disk_takes_writes_again() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    engine.commit(insert("before")).await.unwrap();
    for (index, broken) in [&faults.before_write, &faults.after_write].into_iter().enumerate() {
        broken.store(true, Ordering::SeqCst);
        let failed = engine.commit(insert(&format!("failed {index}"))).await;
        assert!(matches!(failed, Err(CommitError::Undetermined(_))), "{failed:?}");
        broken.store(false, Ordering::SeqCst);
        insert_at_last(&engine, &format!("after {index}")).await;
    }
    assert!(is_there(&engine, "before").await);
    assert!(!is_there(&engine, "failed 0").await);
    assert!(is_there(&engine, "failed 1").await, "it failed after it was written");
    engine.close().await.unwrap();
}

/// Callers that cache what they wrote learn that it may be gone; synced writes stay.
#[tokio::test]
async fn reopening_is_a_loss_unless_commits_are_synced() {
    for (durability, losses) in [(Durability::Memory, 1), (Durability::Sync, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Broken::default());
        let faulty = Some(faults.clone() as Arc<dyn Faults>);
        let options = LocalOptions { faults: faulty, durability, ..LocalOptions::default() };
        let engine = ReopeningEngine::open(dir.path(), options).unwrap();
        engine.commit(insert("before")).await.unwrap();
        faults.before_write.store(true, Ordering::SeqCst);
        engine.commit(insert("failed")).await.unwrap_err();
        assert_eq!(engine.losses(), 0, "the store can still be read");
        faults.before_write.store(false, Ordering::SeqCst);
        insert_at_last(&engine, "after").await;
        assert_eq!(engine.losses(), losses);
    }
}

/// Whether a write fails before or after it reaches the disk, alone or in a group.
#[test]
fn undetermined_commit_is_whole_or_nothing() {
    let steps: [fn(&Broken) -> &AtomicBool; 2] =
        [|faults| &faults.before_write, |faults| &faults.after_write];
    for broken in steps {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Broken::default());
        let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
        let engine: Arc<dyn Engine> = Arc::new(ReopeningEngine::open(dir.path(), options).unwrap());
        engine_suite::undetermined_commit_is_whole_or_nothing(&engine, |is_broken| {
            broken(&faults).store(is_broken, Ordering::SeqCst);
        });
    }
}

/// Waits until `happened`.
async fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < give_up, "{what} does not happen");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn store_is_reopened_once_though_many_writes_were_refused() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    for round in 1..=2 {
        faults.before_write.store(true, Ordering::SeqCst);
        engine.commit(insert(&format!("failed {round}"))).await.unwrap_err();
        faults.before_write.store(false, Ordering::SeqCst);
        assert!(engine.refuses_writes());
        assert_unavailable(engine.commit(insert("refused")).await);
        insert_at_last(&engine, &format!("after {round}")).await;
        assert_eq!((engine.reopens(), engine.refuses_writes()), (round, false));
    }
}

/// Panics at one write.
#[derive(Debug, Default)]
struct Panics(AtomicBool);

impl Faults for Panics {
    fn before_write(&self) -> io::Result<()> {
        assert!(!self.0.swap(false, Ordering::SeqCst), "a planned panic");
        Ok(())
    }
}

/// A panic ended the committer's thread silently: later writes were refused as if the engine were
/// closed, and the store stayed that way.
#[tokio::test]
async fn store_is_reopened_after_a_panic_of_the_committer() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Panics::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    engine.commit(insert("before")).await.unwrap();
    faults.0.store(true, Ordering::SeqCst);
    let failed = engine.commit(insert("failed")).await;
    assert!(matches!(failed, Err(CommitError::Undetermined(_))), "{failed:?}");
    insert_at_last(&engine, "after").await;
    assert!(is_there(&engine, "before").await);
    assert!(!is_there(&engine, "failed").await);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn panic_of_the_committer_refuses_writes_and_reads_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Panics::default());
    let engine = open(dir.path(), &faults);
    engine.commit(insert("before")).await.unwrap();
    faults.0.store(true, Ordering::SeqCst);
    engine.commit(insert("failed")).await.unwrap_err();
    assert_unavailable(engine.commit(insert("refused")).await);
    assert!(engine.failure().unwrap().ends_with("the committer panicked: a planned panic"));
    assert!(is_there(&engine, "before").await);
    assert!(engine.close().await.is_err());
}

/// Later writes would notice it, but none may come for hours.
#[tokio::test]
async fn store_is_reopened_after_a_failed_sync_though_no_write_comes() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions {
        durability: Durability::Interval(Duration::ZERO),
        faults: Some(faults.clone()),
        ..LocalOptions::default()
    };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    faults.before_sync.store(true, Ordering::SeqCst);
    engine.commit(insert("acknowledged")).await.unwrap();
    wait_until("the failure", || engine.refuses_writes()).await;
    faults.before_sync.store(false, Ordering::SeqCst);
    wait_until("the reopening", || engine.reopens() == 1).await;
    assert!(is_there(&engine, "acknowledged").await);
}

#[tokio::test]
async fn open_view_keeps_its_state_while_the_store_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    engine.commit(insert("before")).await.unwrap();
    let view = engine.view().await.unwrap();
    faults.before_write.store(true, Ordering::SeqCst);
    engine.commit(insert("failed")).await.unwrap_err();
    faults.before_write.store(false, Ordering::SeqCst);
    assert!(view.get(b"Lbefore").await.unwrap().is_some());
    drop(view);
    insert_at_last(&engine, "after").await;
}

/// the client may never ask for it again.
#[tokio::test]
async fn kept_view_gives_way_when_the_store_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
    let engine = ReopeningEngine::open(dir.path(), options).unwrap();
    engine.commit(insert("before")).await.unwrap();
    let kept = engine.kept_view().await.unwrap();
    faults.before_write.store(true, Ordering::SeqCst);
    engine.commit(insert("failed")).await.unwrap_err();
    assert!(kept.get(b"Lbefore").await.unwrap().is_some());
    faults.before_write.store(false, Ordering::SeqCst);
    insert_at_last(&engine, "after").await;
    let late = kept.get(b"Lbefore").await;
    assert!(matches!(late, Err(EngineError::Expired)), "{late:?}");
    assert!(engine.kept_view().await.unwrap().get(b"Lafter").await.unwrap().is_some());
}

#[tokio::test]
async fn failed_background_sync_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let durability = Durability::Interval(Duration::ZERO);
    let engine = open_with(dir.path(), &faults, LocalOptions { durability, ..Default::default() });
    // Opening syncs, and must succeed.
    faults.before_sync.store(true, Ordering::SeqCst);
    engine.commit(insert("acknowledged")).await.unwrap();
    assert_unavailable(engine.commit(insert("refused")).await);
    assert!(is_there(&engine, "acknowledged").await);
}

#[tokio::test]
async fn close_says_when_its_sync_fails() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Broken::default());
    let options = LocalOptions { durability: Durability::Memory, ..Default::default() };
    let engine = open_with(dir.path(), &faults, options);
    engine.commit(insert("k")).await.unwrap();
    faults.before_sync.store(true, Ordering::SeqCst);
    assert!(matches!(engine.close().await, Err(EngineError::Unavailable(_))));
}

#[tokio::test]
async fn closed_engine_refuses_commits_and_goes_on_reading() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    engine.commit(insert("k")).await.unwrap();
    engine.close().await.unwrap();
    engine.close().await.unwrap();
    assert_unavailable(engine.commit(insert("late")).await);
    assert!(is_there(&engine, "k").await);
}

/// Reports each sync that no commit waits for.
#[derive(Debug)]
struct Syncs(SyncSender<()>);

impl Faults for Syncs {
    fn before_sync(&self) -> io::Result<()> {
        self.0.send(()).map_err(io::Error::other)
    }
}

#[tokio::test]
async fn interval_syncs_though_no_further_commit_comes() {
    let dir = tempfile::tempdir().unwrap();
    drop(LocalEngine::open(dir.path(), LocalOptions::default()).unwrap());
    let (sender, syncs) = sync_channel(100);
    let options = LocalOptions {
        durability: Durability::Interval(Duration::from_millis(1)),
        ..Default::default()
    };
    let engine = open_with(dir.path(), &Arc::new(Syncs(sender)), options);
    engine.commit(insert("k")).await.unwrap();
    syncs.recv_timeout(Duration::from_secs(60)).unwrap();
}
