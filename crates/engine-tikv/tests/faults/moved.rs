//! Regions that split, merge and move, and stores that go away: no error reaches a caller.

use crate::with_seeds;
use crate::workload::{BORDERS, all, key, spread, survive};
use lazuli_engine::{Commit, Direction, Engine, Revision, Write};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::stores::tikv::StandIn;

fn any_border(random: &mut Seeded) -> &'static [u8] {
    BORDERS[random.below(BORDERS.len())]
}

#[test]
fn regions_split_merge_and_change_their_leader() {
    with_seeds(|seed| {
        let cluster = StandIn::start();
        let outcome = survive(&cluster, &seed, |random| {
            let border = any_border(random);
            match random.below(3) {
                0 => drop(cluster.control_at("split", border)),
                1 => drop(cluster.control_at("merge", border)),
                _ => cluster.lead(border, random.below(3) + 1),
            }
        });
        assert_eq!(outcome, (0, 0));
    });
}

/// The store of the leader goes away, the leader moves, the store comes back.
#[test]
fn store_goes_away_and_its_regions_move() {
    with_seeds(|seed| {
        let cluster = StandIn::start();
        spread(&cluster);
        let (open, refused) = survive(&cluster, &seed, |random| {
            let store = random.below(3) + 1;
            cluster.control(&format!("stop {store}"));
            for border in BORDERS.into_iter().chain([&b"L"[..]]) {
                cluster.lead(border, store % 3 + 1);
            }
            cluster.control(&format!("start {store}"));
        });
        assert_eq!((open, refused), (0, 0));
    });
}

/// A scan continues in the same snapshot when its regions change during it.
#[test]
fn scan_does_not_notice_that_regions_change() {
    with_seeds(|mut seed| {
        let cluster = StandIn::start();
        run(async {
            let engine = crate::common::engine_on(&cluster);
            let rows: Vec<String> = (0..200).map(|n| format!("row{n:03}")).collect();
            let puts = rows.iter().map(|row| Write::Put(key(row), "x".into())).collect();
            engine.commit(Commit::new(Revision(0), puts)).await.unwrap();
            for _ in 0..10 {
                let row = key(&rows[seed.below(rows.len())]);
                match seed.below(3) {
                    0 => drop(cluster.control_at("merge", row.as_slice())),
                    1 => cluster.lead(row.as_slice(), seed.below(3) + 1),
                    _ => drop(cluster.control_at("split", row.as_slice())),
                }
                for direction in [Direction::Forward, Direction::Backward] {
                    let mut found = all(&engine, direction).await;
                    if direction == Direction::Backward {
                        found.reverse();
                    }
                    let keys: Vec<_> = found.into_iter().map(|(key, ..)| key).collect();
                    let expected: Vec<_> =
                        rows.iter().map(|row| key(row).as_slice().to_vec()).collect();
                    assert_eq!(keys, expected);
                }
            }
        });
    });
}

/// The whole cluster is killed and comes back with its data: no acknowledged write is lost.
#[test]
fn cluster_is_killed_and_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = StandIn::start_in(directory.path());
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        run(async {
            let engine = crate::common::engine_on(&cluster);
            for n in 0..20 {
                let name = format!("row{round}/{n}");
                let put = Write::Put(key(&name), name.clone().into());
                let revision = engine.commit(Commit::new(Revision(0), vec![put])).await.unwrap();
                acknowledged.push((key(&name), revision));
            }
        });
        cluster = cluster.restart_in(directory.path());
        run(async {
            let engine = crate::common::engine_on(&cluster);
            for (key, revision) in &acknowledged {
                let found = engine.read(std::slice::from_ref(key)).await.unwrap();
                assert_eq!(found[0].as_ref().map(|found| found.revision), Some(*revision));
            }
        });
    }
}
