//! Copies between engines: whole, resumed at any place, compared.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, Key, Limits, MemoryEngine, MemoryOptions, Revision,
    ViewClock, Write,
};
use lazuli_layout::key;
use lazuli_model::{Clock, SystemClock};
use lazuli_service::transfer::{
    Comparison, Progress, Step, Transfer, TransferError, compare, is_empty,
};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ENTRIES: u64 = 500;

fn hash(key: &[u8], value: &[u8]) -> u128 {
    key.iter().chain(value).fold(1, |sum, byte| sum * 31 % (1 << 100) + u128::from(*byte))
}

/// Accepts few entries at a time, so that a copy has many steps.
fn target() -> Arc<MemoryEngine> {
    let limits = Limits { commit_writes_max: 14, ..Limits::DEFAULT };
    Arc::new(MemoryEngine::new(MemoryOptions { limits, ..MemoryOptions::default() }))
}

async fn put(engine: &dyn Engine, key: Vec<u8>, value: &str) {
    let write = Write::Put(key.into(), value.to_owned().into());
    engine.commit(Commit::new(Revision(0), vec![write])).await.unwrap();
}

async fn source() -> Arc<MemoryEngine> {
    let engine = Arc::new(MemoryEngine::default());
    for number in 0..ENTRIES {
        put(&*engine, key_of(number), &format!("value {number}")).await;
    }
    // What gateways leave for each other is not copied.
    put(&*engine, key::chore_lease(), "lease").await;
    put(&*engine, key::gateway("gw-1"), "gateway").await;
    put(&*engine, b"L\0format".to_vec(), "what an engine keeps of itself").await;
    engine
}

fn key_of(number: u64) -> Vec<u8> {
    [b"Le", &number.to_be_bytes()[..]].concat()
}

async fn compared(from: &dyn Engine, to: &dyn Engine) -> Comparison {
    compare(from, to, hash, |_| ()).await.unwrap()
}

#[tokio::test]
async fn a_copy_is_the_same_and_says_how_much_it_was() {
    let (from, to) = (source().await, target());
    assert!(is_empty(&*to).await.unwrap() && !is_empty(&*from).await.unwrap());
    let mut transfer =
        Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), Progress::default());
    let mut steps = 0;
    while transfer.step().await.unwrap() == Step::More {
        steps += 1;
    }
    assert!(steps > 50, "{steps}");
    assert_eq!((transfer.progress.entries, transfer.progress.views), (ENTRIES, 1));
    let same = compared(&*from, &*to).await;
    assert_eq!((same.same, same.differences()), (ENTRIES, 0));
    assert_eq!(same.sums.0, same.sums.1);
    for left in [key::chore_lease(), key::gateway("gw-1")] {
        assert_eq!(to.read(&[Key::from(left)]).await.unwrap(), [None]);
    }
}

/// O-12.6: interrupted at any step and resumed from the state noted at any earlier one, the copy is the same.
#[tokio::test]
async fn a_copy_that_ended_anywhere_goes_on() {
    let from = source().await;
    for killed_after in 0..50 {
        let to = target();
        let (mut noted, mut first) = (
            Progress::default(),
            Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), Progress::default()),
        );
        for step in 0..killed_after {
            first.step().await.unwrap();
            // The state file is some steps old when the process dies.
            if step % 4 == 0 {
                noted = first.progress.clone();
            }
        }
        drop(first);
        let mut second = Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), noted);
        while second.step().await.unwrap() == Step::More {}
        assert_eq!(second.progress.entries, ENTRIES);
        assert_eq!(compared(&*from, &*to).await.differences(), 0, "{killed_after}");
    }
}

/// O-12.5: the target stamps what it stores by the clock, not by the beginning of time.
#[tokio::test]
async fn what_is_copied_is_as_young_as_the_copy() {
    let (from, to) = (source().await, target());
    let before = SystemClock.now().ticks();
    let mut transfer =
        Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), Progress::default());
    while transfer.step().await.unwrap() == Step::More {}
    let found = to.view().await.unwrap().get(&key_of(3)).await.unwrap().unwrap();
    assert!(found.revision.0 >= before, "{} {before}", found.revision.0);
}

#[tokio::test]
async fn differences_are_found_and_named() {
    let (from, to) = (source().await, target());
    let mut transfer =
        Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), Progress::default());
    while transfer.step().await.unwrap() == Step::More {}
    put(&*to, key_of(3), "changed").await;
    put(&*to, key_of(ENTRIES + 1), "extra").await;
    put(&*from, key_of(ENTRIES + 2), "missing").await;
    let found = compared(&*from, &*to).await;
    assert_eq!((found.changed, found.extra, found.missing), (1, 1, 1));
    assert_ne!(found.sums.0, found.sums.1);
    assert_eq!(found.first, [key_of(3), key_of(ENTRIES + 1), key_of(ENTRIES + 2)]);
}

/// A source with other writers keeps a snapshot only for a while: the copy continues in the next one.
#[tokio::test]
async fn a_copy_outlives_the_snapshots_of_its_source() {
    let ms = Arc::new(AtomicU64::new(0));
    let looks = ms.clone();
    let clock: ViewClock = Arc::new(move || looks.fetch_add(2_000, Ordering::SeqCst));
    let options = MemoryOptions { view_clock: Some(clock), ..MemoryOptions::default() };
    let (from, to) = (Arc::new(MemoryEngine::new(options)), target());
    for number in 0..ENTRIES {
        put(&*from, key_of(number), "x").await;
    }
    let mut transfer =
        Transfer::new(from.clone(), to.clone(), Arc::new(SystemClock), Progress::default());
    while transfer.step().await.unwrap() == Step::More {}
    assert!(transfer.progress.views > 1, "{}", transfer.progress.views);
    assert_eq!(compared(&*from, &*to).await.differences(), 0);
}

/// Every third commit fails with an error unrelated to the data.
struct Shaky {
    inner: Arc<MemoryEngine>,
    commits: AtomicU64,
}

impl Layer for Shaky {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            match self.commits.fetch_add(1, Ordering::SeqCst) % 6 {
                1 => Err(CommitError::Conflict),
                3 => Err(CommitError::Busy),
                5 => {
                    self.inner.commit(commit).await?;
                    Err(CommitError::Undetermined("the line is dead".into()))
                }
                _ => self.inner.commit(commit).await,
            }
        })
    }
}

#[tokio::test]
async fn a_target_that_stumbles_gets_everything_once() {
    let (from, to) = (source().await, target());
    let shaky = Layered::new(Shaky { inner: to.clone(), commits: AtomicU64::new(0) });
    let mut transfer =
        Transfer::new(from.clone(), Arc::new(shaky), Arc::new(SystemClock), Progress::default());
    while transfer.step().await.unwrap() == Step::More {}
    assert_eq!(compared(&*from, &*to).await.differences(), 0);
}

/// Refuses the first commits.
struct Busy {
    inner: Arc<MemoryEngine>,
    refusals: AtomicU64,
}

impl Layer for Busy {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let is_refused = |left: u64| left.checked_sub(1);
        match self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_refused) {
            Ok(_) => Box::pin(std::future::ready(Err(CommitError::Busy))),
            Err(_) => self.inner.commit(commit),
        }
    }
}

/// It gave up after eight attempts, all made at once.
#[tokio::test]
async fn a_target_that_is_busy_is_waited_for_and_not_for_ever() {
    let (from, to) = (source().await, target());
    let copy = async |refusals| {
        let busy = Busy { inner: to.clone(), refusals: AtomicU64::new(refusals) };
        let to = Arc::new(Layered::new(busy));
        let clock = Arc::new(SystemClock);
        let mut transfer = Transfer::new(from.clone(), to, clock, Progress::default());
        while transfer.step().await? == Step::More {}
        Ok::<_, TransferError>(())
    };
    assert!(matches!(copy(u64::MAX).await, Err(TransferError::Write(CommitError::Busy))));
    copy(20).await.unwrap();
    assert_eq!(compared(&*from, &*to).await.differences(), 0);
}
