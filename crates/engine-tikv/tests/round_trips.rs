//! Round trips, counted by the stand-in cluster: exactly those of K-6.5 (K-11.1).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::engine_on;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Direction, Engine, Expect, Key, KeyRange,
    Modify, Reclaimed, Revision, Scan, View, Visit, Write,
};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
struct Append;

impl Modify for Append {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let current = current.map(|current| current.value).unwrap_or_default();
        Ok(Some([current, b"x"].concat()))
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn key(text: &str) -> Key {
    Key::from(format!("L{text}").into_bytes())
}

fn put(text: &str, bytes: usize) -> Write {
    Write::Put(key(text), vec![b'v'; bytes].into())
}

/// Guarded by the existence of a table, like every write of the table service.
fn guarded(checks: Vec<Check>, writes: Vec<Write>) -> Commit {
    let guards = vec![Check { key: key("catalog"), expect: Expect::Present }];
    Commit { guards, checks, ..Commit::new(Revision(0), writes) }
}

fn check(text: &str, expect: Expect) -> Check {
    Check { key: key(text), expect }
}

/// The calls that `action` makes to the cluster, once regions and connections are known.
#[track_caller]
fn assert_calls(cluster: &StandIn, action: impl Future<Output = ()>, expected: &[(&str, usize)]) {
    let expected: BTreeMap<_, _> = expected.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect();
    cluster.control("reset");
    block_on(action);
    assert_eq!(cluster.counts(), expected);
}

fn block_on(action: impl Future<Output = ()>) {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(action));
}

async fn done(commit: lazuli_engine::BoxFuture<'_, Result<Revision, CommitError>>) {
    commit.await.unwrap();
}

fn with_table(test: impl FnOnce(&StandIn, Arc<dyn Engine>)) {
    let cluster = StandIn::start();
    run(async {
        let engine: Arc<dyn Engine> = Arc::new(engine_on(&cluster));
        let table = Commit::new(Revision(0), vec![put("catalog", 10), put("there", 10)]);
        engine.commit(table).await.unwrap();
        test(&cluster, engine);
    });
}

/// Reads of one region at the same time share one call.
#[test]
fn point_reads_that_begin_together_share_a_call() {
    with_table(|cluster, engine| {
        let keys = [key("catalog"), key("there")];
        block_on(async { drop(engine.read(&keys).await.unwrap()) });
        cluster.control("reset");
        block_on(async {
            let read = || async {
                let found = engine.read(&keys).await.unwrap();
                assert_eq!(found.iter().flatten().count(), 2);
            };
            // One task starts all of them before it polls for answers.
            futures_util::future::join_all((0..12).map(|_| read())).await;
        });
        let expected = [("Tso", 1), ("KvBatchGet", 1)].map(|(call, n)| (call.to_owned(), n));
        assert_eq!(cluster.counts(), BTreeMap::from(expected));
    });
}

#[test]
fn point_read_is_two_round_trips() {
    with_table(|cluster, engine| {
        let keys = [key("catalog"), key("there")];
        let read =
            async { assert_eq!(engine.read(&keys).await.unwrap().iter().flatten().count(), 2) };
        assert_calls(cluster, read, &[("Tso", 1), ("KvBatchGet", 1)]);
    });
}

/// The guard is read while the timestamp is being fetched. No second phase follows (K-6.1).
#[test]
fn insert_and_upsert_are_two_round_trips() {
    with_table(|cluster, engine| {
        let expected = [("KvGet", 1), ("Tso", 1), ("KvPrewrite", 1)];
        let insert = guarded(vec![check("new", Expect::Absent)], vec![put("new", 10)]);
        assert_calls(cluster, done(engine.commit(insert)), &expected);
        let upsert = guarded(vec![], vec![put("new", 20)]);
        assert_calls(cluster, done(engine.commit(upsert)), &expected);
    });
}

#[test]
fn replace_delete_and_merge_are_three_round_trips() {
    with_table(|cluster, engine| {
        let expected = [("Tso", 1), ("KvBatchGet", 1), ("KvPrewrite", 1)];
        let present = || vec![check("there", Expect::Present)];
        let replace = guarded(present(), vec![put("there", 20)]);
        assert_calls(cluster, done(engine.commit(replace)), &expected);
        let merge = guarded(vec![], vec![Write::Modify(key("there"), Arc::new(Append))]);
        assert_calls(cluster, done(engine.commit(merge)), &expected);
        let delete = guarded(present(), vec![Write::Delete(key("there"))]);
        assert_calls(cluster, done(engine.commit(delete)), &expected);
    });
}

/// A batch of 100 is one request as long as it fits 1 MiB and one region.
#[test]
fn batch_in_one_region_is_two_round_trips() {
    with_table(|cluster, engine| {
        let rows = (0..100).map(|n| format!("row{n:03}"));
        let checks = rows.clone().map(|row| check(&row, Expect::Absent)).collect();
        let batch = guarded(checks, rows.map(|row| put(&row, 1000)).collect());
        let expected = [("KvGet", 1), ("Tso", 1), ("KvPrewrite", 1)];
        assert_calls(cluster, done(engine.commit(batch)), &expected);
    });
}

/// Guard and timestamp; two prewrites in parallel; the commit timestamp; the primary's commit. The
/// commit in the other region follows after the acknowledgement.
#[test]
fn batch_in_two_regions_is_four_round_trips() {
    with_table(|cluster, engine| {
        cluster.control_at("split", key("row1").as_slice());
        let warm = Commit::new(Revision(0), vec![put("row0", 1), put("row1", 1)]);
        block_on(done(engine.commit(warm)));
        // Its commit in the other region follows after the acknowledgement, and must not be counted.
        while cluster.locks() > 0 {
            std::thread::yield_now();
        }
        cluster.control("reset");
        let batch = guarded(vec![], vec![put("row0", 10), put("row1", 10)]);
        block_on(done(engine.commit(batch)));
        let counts = cluster.counts();
        let of = |call: &str| counts.get(call).copied().unwrap_or(0);
        assert_eq!((of("KvGet"), of("Tso"), of("KvPrewrite")), (1, 2, 2), "{counts:?}");
        assert!((1..=2).contains(&of("KvCommit")), "{counts:?}");
    });
}

/// K-6.8: one extra round trip for the commit timestamp, one for the commit.
#[test]
fn declined_one_phase_commit_is_committed_in_two() {
    with_table(|cluster, engine| {
        cluster.control("reset");
        cluster.control("onepc off");
        let upsert = guarded(vec![], vec![put("new", 10), put("other", 10)]);
        block_on(done(engine.commit(upsert)));
        let counts = cluster.counts();
        let expected = [("KvGet", 1), ("Tso", 2), ("KvPrewrite", 1), ("KvCommit", 1)];
        let expected: BTreeMap<_, _> = expected.map(|(c, n)| (c.to_owned(), n)).into();
        assert_eq!(counts, expected);
        assert_eq!(cluster.locks(), 0);
    });
}

/// Timestamp; the catalog key in parallel with the first chunk; more chunks as needed.
#[test]
fn query_page_is_a_timestamp_and_its_chunks() {
    with_table(|cluster, engine| {
        let rows = (0..500).map(|n| put(&format!("row{n:03}"), 1000));
        let rows = Commit::new(Revision(0), rows.collect());
        block_on(done(engine.commit(rows)));
        let page = |rows_max: usize| {
            let engine = engine.clone();
            async move {
                let view = engine.view().await.unwrap();
                let scan = Scan {
                    range: KeyRange::prefix(b"Lrow"),
                    direction: Direction::Forward,
                    rows_max,
                    bytes_max: usize::MAX,
                    rows_expected: rows_max,
                };
                let mut shown = 0;
                let mut visit = |_: &[u8], _: &[u8], _: Revision| {
                    shown += 1;
                    Visit::Continue
                };
                let catalog = key("catalog");
                let (catalog, end) =
                    tokio::join!(view.get(catalog.as_slice()), view.scan(scan, &mut visit));
                assert!(catalog.unwrap().is_some() && end.is_ok());
                assert_eq!(shown, rows_max);
            }
        };
        assert_calls(cluster, page(1), &[("Tso", 1), ("KvGet", 1), ("KvScan", 1)]);
        // 32, 128 and 340 rows.
        assert_calls(cluster, page(500), &[("Tso", 1), ("KvGet", 1), ("KvScan", 3)]);
    });
}

/// K-6.12: a step of a reclaim does not walk over the regions that earlier steps have emptied.
#[test]
fn reclaim_goes_on_where_it_ended() {
    with_table(|cluster, engine| {
        let rows: Vec<String> = (0..2_100).map(|n| format!("row{n:04}")).collect();
        rows.iter().step_by(300).for_each(|row| {
            cluster.control_at("split", key(row).as_slice());
        });
        for part in rows.chunks(500) {
            let puts = part.iter().map(|row| put(row, 10)).collect();
            block_on(done(engine.commit(Commit::new(Revision(0), puts))));
        }
        let scans = |reclaimed| {
            cluster.control("reset");
            let range = KeyRange::prefix(b"Lrow");
            block_on(async { assert_eq!(engine.reclaim(range).await.unwrap(), reclaimed) });
            cluster.counts()["KvScan"]
        };
        // One scan of a region finds at most its 300 rows.
        let mut steps = Vec::new();
        for _ in 0..7 {
            steps.push(scans(Reclaimed::Partly));
        }
        assert!(steps.iter().all(|scans| *scans <= 2), "{steps:?}");
        // The end was reached: one more pass over all regions.
        assert!(scans(Reclaimed::Fully) >= 7);
    });
}

/// Reads the catalog key, whose answer is late, and in parallel runs `read`, which uses the named call;
/// `read` gets a flag that says whether the catalog key was answered.
fn beside_a_late_get(call: &'static str, read: impl AsyncFnOnce(&dyn View, &AtomicBool)) {
    with_table(|cluster, engine| {
        // From another region.
        cluster.control_at("split", key("row").as_slice());
        let rows = vec![put("row1", 10), put("row2", 10)];
        block_on(done(engine.commit(Commit::new(Revision(0), rows))));
        cluster.control("reset");
        cluster.control_at("hold KvGet 1", key("catalog").as_slice());
        let release = || {
            while !cluster.counts().contains_key(call) {
                std::thread::yield_now();
            }
            cluster.control("release");
        };
        let page = async {
            let (view, is_found) = (engine.view().await.unwrap(), AtomicBool::new(false));
            let catalog = key("catalog");
            let look = async {
                assert!(view.get(catalog.as_slice()).await.unwrap().is_some());
                is_found.store(true, Ordering::SeqCst);
            };
            tokio::join!(look, read(&*view, &is_found));
        };
        std::thread::scope(|scope| {
            scope.spawn(release);
            block_on(page);
        });
    });
}

/// The catalog key is read in parallel with the first rows: these wait for it, or the page would be
/// read twice (K-4.3, K-11.8).
#[test]
fn scan_shows_nothing_before_an_earlier_get_is_answered() {
    beside_a_late_get("KvScan", async |view, is_found| {
        let scan = Scan {
            range: KeyRange::prefix(b"Lrow"),
            direction: Direction::Forward,
            rows_max: 10,
            bytes_max: usize::MAX,
            rows_expected: 10,
        };
        let mut shown = 0;
        let mut visit = |_: &[u8], _: &[u8], _: Revision| {
            assert!(is_found.load(Ordering::SeqCst), "a row is shown before the catalog key");
            shown += 1;
            Visit::Continue
        };
        view.scan(scan, &mut visit).await.unwrap();
        assert_eq!(shown, 2);
    });
}

/// The same for a query of single rows.
#[test]
fn read_of_keys_is_answered_after_an_earlier_one() {
    beside_a_late_get("KvBatchGet", async |view, is_found| {
        let rows = view.multi_get(&[key("row1"), key("row2")]).await.unwrap();
        assert!(is_found.load(Ordering::SeqCst), "rows are found before the catalog key");
        assert_eq!(rows.iter().flatten().count(), 2);
    });
}

/// Calls that wait at the same time share timestamps.
#[test]
fn timestamps_are_fetched_in_batches() {
    with_table(|cluster, engine| {
        cluster.control("reset");
        block_on(async {
            let writes = (0..256).map(|n| {
                let engine = engine.clone();
                async move {
                    let commit = Commit::new(Revision(0), vec![put(&format!("k{n}"), 1)]);
                    engine.commit(commit).await.unwrap()
                }
            });
            let revisions = futures_util::future::join_all(writes).await;
            let distinct: std::collections::BTreeSet<_> = revisions.iter().collect();
            assert_eq!(distinct.len(), 256);
        });
        let asked = cluster.counts()["Tso"];
        assert!(asked < 256, "{asked} requests for 256 timestamps");
    });
}
