//! Gateways of one store: the lease of the chores, the two passes of a reclaim, the list of gateways.
//!
//! Time is an argument everywhere. The engine stamps revisions by the clock that a commit names, so
//! `at` below is the store's clock; the clocks of the gateways stand still at zero.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, Key, MemoryEngine, MemoryOptions, Reclaimed, Revision,
    Write, Writers,
};
use lazuli_layout::cluster::GatewayRecord;
use lazuli_layout::table::encode_reclaim;
use lazuli_layout::{TableId, key};
use lazuli_model::{Clock, EntityKey, Timestamp};
use lazuli_service::{ChoreLease, Store, Turn};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TABLE: TableId = TableId(7);

/// A clock in seconds that tests advance.
#[derive(Default)]
struct Seconds(AtomicU64);

impl Clock for Seconds {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(Ordering::SeqCst))
    }
}

fn shared() -> Arc<MemoryEngine> {
    let options = MemoryOptions { writers: Writers::Many, ..MemoryOptions::default() };
    Arc::new(MemoryEngine::new(options))
}

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::new(engine.clone(), Arc::new(Seconds::default()))
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

fn is_ours(turn: Turn) -> bool {
    matches!(turn, Turn::Ours(_))
}

/// K-4.7: a gateway that finds no lease takes it, and keeps it as long as it beats.
#[tokio::test]
async fn one_gateway_at_a_time_runs_the_chores() {
    let engine = shared();
    let mut one = ChoreLease::new(store(&engine), "one".into());
    let mut other = ChoreLease::new(store(&engine), "other".into());
    for beat in 0..20 {
        let now_ms = beat * ChoreLease::BEAT_MS;
        assert!(is_ours(one.beat(now_ms).await.unwrap()));
        // Their clocks began at different moments, which must not matter.
        assert_eq!(other.beat(now_ms + 1_000_000_000).await.unwrap(), Turn::Others);
    }
    let (record, _) = ChoreLease::holder(&store(&engine)).await.unwrap().unwrap();
    assert_eq!((record.holder.as_str(), record.beat), ("one", 19));
}

/// K-4.7: a record that has stayed the same for 15 s of the observer's own clock is abandoned.
#[tokio::test]
async fn the_lease_of_a_gateway_that_died_is_taken_after_its_time() {
    let engine = shared();
    let mut dead = ChoreLease::new(store(&engine), "dead".into());
    let mut heir = ChoreLease::new(store(&engine), "heir".into());
    assert!(is_ours(dead.beat(0).await.unwrap()));
    let seen = 500;
    assert_eq!(heir.beat(seen).await.unwrap(), Turn::Others);
    let early = seen + ChoreLease::PATIENCE_MS - 1;
    assert_eq!(heir.beat(early).await.unwrap(), Turn::Others);
    assert!(is_ours(heir.beat(early + 1).await.unwrap()));
    // The first was only suspended: it resumes, sees another name, and stays passive.
    assert_eq!(dead.beat(early + 2).await.unwrap(), Turn::Others);
    assert!(is_ours(heir.beat(early + 3).await.unwrap()));
}

/// Each beat restarts the wait: a slow holder does not lose the lease.
#[tokio::test]
async fn a_beat_that_is_seen_begins_the_wait_again() {
    let engine = shared();
    let mut slow = ChoreLease::new(store(&engine), "slow".into());
    let mut other = ChoreLease::new(store(&engine), "other".into());
    for round in 0..10 {
        let now_ms = round * (ChoreLease::PATIENCE_MS - 1);
        assert!(is_ours(slow.beat(now_ms).await.unwrap()));
        assert_eq!(other.beat(now_ms).await.unwrap(), Turn::Others);
    }
}

#[tokio::test]
async fn of_two_that_find_the_lease_abandoned_one_takes_it() {
    let engine = shared();
    assert!(is_ours(ChoreLease::new(store(&engine), "dead".into()).beat(0).await.unwrap()));
    let mut heirs: Vec<_> =
        (0..8).map(|n| ChoreLease::new(store(&engine), format!("heir {n}"))).collect();
    for heir in &mut heirs {
        assert_eq!(heir.beat(0).await.unwrap(), Turn::Others);
    }
    let mut takers = 0;
    for heir in &mut heirs {
        takers += usize::from(is_ours(heir.beat(ChoreLease::PATIENCE_MS).await.unwrap()));
    }
    assert_eq!(takers, 1);
}

#[tokio::test]
async fn a_lease_that_is_given_back_is_free_at_once_and_only_by_its_holder() {
    let engine = shared();
    let mut one = ChoreLease::new(store(&engine), "one".into());
    let mut other = ChoreLease::new(store(&engine), "other".into());
    assert!(is_ours(one.beat(0).await.unwrap()));
    assert_eq!(other.beat(0).await.unwrap(), Turn::Others);
    other.release().await;
    assert_eq!(other.beat(1).await.unwrap(), Turn::Others);
    one.release().await;
    assert!(is_ours(other.beat(2).await.unwrap()));
}

/// An engine that loses the answer to the next commit, which happens.
struct LosesAnswer {
    inner: Arc<MemoryEngine>,
    next: AtomicBool,
}

impl Layer for LosesAnswer {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            let revision = self.inner.commit(commit).await?;
            match self.next.swap(false, Ordering::SeqCst) {
                true => Err(CommitError::Undetermined("the line is dead".into())),
                false => Ok(revision),
            }
        })
    }
}

#[tokio::test]
async fn a_beat_whose_answer_is_lost_is_found_by_the_next_one() {
    let engine = shared();
    let faulty = LosesAnswer { inner: engine.clone(), next: AtomicBool::new(true) };
    let faulty = Store::new(Arc::new(Layered::new(faulty)), Arc::new(Seconds::default()));
    let mut one = ChoreLease::new(faulty, "one".into());
    assert_eq!(one.beat(0).await.unwrap(), Turn::Others);
    assert!(is_ours(one.beat(1).await.unwrap()));
}

/// Marks the table as dropped when the store's clock shows `seconds`.
async fn drop_table(store: &Store, seconds: u64) {
    // The gateway's own clock is a day ahead: only the store's clock counts.
    let mark = encode_reclaim(at(seconds + 86_400));
    let write = Write::Put(key::reclaim(TABLE).into(), mark.into());
    store.engine.commit(Commit::new(Revision(at(seconds).ticks()), vec![write])).await.unwrap();
}

fn entity() -> Key {
    key::entity(TABLE, &EntityKey::parse("p", "r").unwrap()).into()
}

/// A slow commit's write, after its table was dropped.
async fn write_late(store: &Store) {
    let write = Write::Put(entity(), vec![1, 0, 0, 0].into());
    store.engine.commit(Commit::new(Revision(0), vec![write])).await.unwrap();
}

/// Everything that can be reclaimed when the store's clock shows `seconds`.
async fn reclaim(store: &Store, seconds: u64) {
    while let Some(mark) = store.settled_mark(key::reclaim_range(), at(seconds)).await.unwrap() {
        store.reclaim_marked(mark, [key::table_range(TABLE)]).await.unwrap();
    }
}

async fn exists(store: &Store, key: Key) -> bool {
    store.read_one(&key).await.unwrap().is_some()
}

/// K-4.6: a commit that saw the table alive may end long after the first pass; the second finds what
/// it wrote, and only then is the tombstone deleted. Time is the store's.
#[tokio::test]
async fn what_a_slow_commit_writes_after_the_first_pass_is_found_by_the_second() {
    let clock = Arc::new(Seconds::default());
    let store = Store::new(shared(), clock.clone());
    let mark = || Key::from(key::reclaim(TABLE));
    write_late(&store).await;
    drop_table(&store, 1_000).await;

    reclaim(&store, 1_089).await;
    assert!(exists(&store, entity()).await, "90 s have not passed");
    clock.0.store(1_090, Ordering::SeqCst);
    reclaim(&store, 1_090).await;
    assert!(!exists(&store, entity()).await);
    assert!(exists(&store, mark()).await, "the tombstone waits for the second pass");
    assert_eq!(store.drops_waiting(), 0, "its space has come back");

    write_late(&store).await;
    reclaim(&store, 1_090 + 3_599).await;
    assert!(exists(&store, entity()).await, "an hour has not passed");
    reclaim(&store, 1_090 + 3_600).await;
    assert!(!exists(&store, entity()).await);
    assert!(!exists(&store, mark()).await);
}

/// Where this process is the only writer, no commit comes late: one pass, by its own clock.
#[tokio::test]
async fn a_sole_writer_needs_one_pass() {
    let engine = Arc::new(MemoryEngine::default());
    let store = store(&engine);
    write_late(&store).await;
    let mark = Write::Put(key::reclaim(TABLE).into(), encode_reclaim(at(1_000)).into());
    store.engine.commit(Commit::new(Revision(0), vec![mark])).await.unwrap();
    reclaim(&store, 1_059).await;
    assert!(exists(&store, entity()).await);
    reclaim(&store, 1_060).await;
    assert!(!exists(&store, entity()).await);
    assert!(!exists(&store, key::reclaim(TABLE).into()).await);
}

/// Two gateways that both believe they hold the lease do each pass twice, which does no harm.
#[tokio::test]
async fn two_that_reclaim_at_once_do_not_skip_the_wait_for_the_second_pass() {
    let engine = shared();
    let (one, other) = (store(&engine), store(&engine));
    drop_table(&one, 1_000).await;
    let settled = |store: Store| async move {
        store.settled_mark(key::reclaim_range(), at(2_000)).await.unwrap().unwrap()
    };
    let (first, second) = (settled(one.clone()).await, settled(other.clone()).await);
    one.reclaim_marked(first, [key::table_range(TABLE)]).await.unwrap();
    other.reclaim_marked(second, [key::table_range(TABLE)]).await.unwrap();
    assert!(exists(&one, key::reclaim(TABLE).into()).await);
    assert_eq!(one.engine.tend().await.unwrap(), Reclaimed::Fully);
}

#[tokio::test]
async fn gateways_are_listed_until_they_leave_or_are_silent_for_an_hour() {
    let engine = shared();
    let (clock, ids) = (Arc::new(Seconds::default()), ["a", "b", "c"]);
    let store = Store::new(engine, clock.clone());
    let listed = || async {
        let gateways = store.gateways().await.unwrap();
        gateways.into_iter().map(|gateway| gateway.id).collect::<Vec<_>>()
    };
    let record = GatewayRecord { version: "1".into(), started: at(0), listens: Vec::new() };
    for id in ids {
        store.announce(id, &record).await.unwrap();
    }
    assert_eq!(listed().await, ids);
    store.withdraw("b").await.unwrap();
    assert_eq!(listed().await, ["a", "c"]);
    clock.0.store(3_000, Ordering::SeqCst);
    store.announce("c", &record).await.unwrap();
    store.forget_silent_gateways(at(3_599)).await.unwrap();
    assert_eq!(listed().await, ["a", "c"]);
    store.forget_silent_gateways(at(3_600)).await.unwrap();
    assert_eq!(listed().await, ["c"]);
}
