//! Lost answers, refused requests and late requests: outcomes are settled (K-5).

use crate::common::engine_on;
use crate::with_seeds;
use crate::workload::{BORDERS, key, spread, survive};
use lazuli_engine::{Check, Commit, Engine, Expect, Revision, Write};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;

const CALLS: [&str; 8] = [
    "OnePC",
    "KvPrewrite",
    "KvCommit",
    "KvGet",
    "KvBatchGet",
    "KvCheckTxnStatus",
    "KvBatchRollback",
    "KvResolveLock",
];

fn insert(text: &str) -> Commit {
    let absent = Check { key: key(text), expect: Expect::Absent };
    let put = Write::Put(key(text), text.to_owned().into());
    Commit { checks: vec![absent], ..Commit::new(Revision(0), vec![put]) }
}

/// K-6.9: lost answers of every call, in one region and in many.
#[test]
fn lost_answers_are_settled() {
    with_seeds(|seed| {
        let cluster = StandIn::start();
        if seed.clone().one_in(2) {
            spread(&cluster);
        }
        let outcome = survive(&cluster, &seed, |random| {
            let call = CALLS[random.below(CALLS.len())];
            cluster.control(&format!("lose {call} 1"));
            cluster.control("count");
        });
        assert_eq!(outcome, (0, 0));
    });
}

#[test]
fn refused_and_late_calls_change_no_outcome() {
    with_seeds(|seed| {
        let cluster = StandIn::start();
        spread(&cluster);
        let outcome = survive(&cluster, &seed, |random| {
            let call = CALLS[random.below(CALLS.len())];
            match random.below(2) {
                0 => cluster.control(&format!("refuse {call} 1")),
                _ => cluster.control(&format!("delay {call} 1 {}", random.below(40))),
            };
        });
        assert_eq!(outcome, (0, 0));
    });
}

/// K-6.8.
#[test]
fn one_phase_commits_are_declined_now_and_then() {
    with_seeds(|seed| {
        let cluster = StandIn::start();
        let outcome = survive(&cluster, &seed, |random| {
            cluster.control(if random.one_in(2) { "onepc off" } else { "onepc on" });
        });
        assert_eq!(outcome, (0, 0));
    });
}

/// An insert whose answer is lost is acknowledged with its actual revision (K-5.4), whether or not
/// the cluster recognizes a repeated prewrite (K-5.5): none is sent.
#[test]
fn lost_insert_is_acknowledged_and_not_told_as_existing() {
    for repeat in ["repeat on", "repeat off"] {
        let cluster = StandIn::start();
        run(async {
            let engine = engine_on(&cluster);
            engine.commit(insert("warm")).await.unwrap();
            cluster.control("reset");
            cluster.control(repeat);
            cluster.control("lose OnePC 1");
            let revision = engine.commit(insert("new")).await.unwrap();
            let found = engine.read(&[key("new")]).await.unwrap();
            assert_eq!(found[0].as_ref().map(|found| found.revision), Some(revision));
            let counts = cluster.counts();
            assert_eq!((counts["KvPrewrite"], counts["KvCheckTxnStatus"]), (1, 1));
        });
    }
}

/// K-5.4: a prewrite that arrives after its transaction was settled does nothing.
#[test]
fn late_prewrite_is_refused_after_its_transaction_was_settled() {
    let cluster = StandIn::start();
    run(async {
        let engine = engine_on(&cluster);
        engine.commit(insert("warm")).await.unwrap();
        // The engine gives up on it, settles, and commits another.
        cluster.control("hold OnePC 1");
        let revision = engine.commit(insert("new")).await.unwrap();
        cluster.control("release");
        let other = engine_on(&cluster);
        assert!(cluster.counts()["KvPrewrite"] >= 3, "the one that is late, and another");
        // A later commit of the same key shows that nothing came between.
        let at = Check { key: key("new"), expect: Expect::At(revision) };
        let put = Write::Put(key("new"), "newer".into());
        let commit = Commit { checks: vec![at], ..Commit::new(Revision(0), vec![put]) };
        other.commit(commit).await.unwrap();
        assert_eq!(cluster.locks(), 0);
    });
}

/// K-6.14: the prewrite of the primary fails, that of another region succeeds.
#[test]
fn failed_prewrite_of_the_primary_leaves_no_lock() {
    with_seeds(|mut seed| {
        let cluster = StandIn::start();
        spread(&cluster);
        run(async {
            let engine = engine_on(&cluster);
            let both = |value: &'static str| {
                let put = |text: &str| Write::Put(key(text), value.into());
                Commit::new(Revision(0), vec![put("count0"), put("row0")])
            };
            engine.commit(both("old")).await.unwrap();
            let border = if seed.one_in(2) { b"Lcount0" } else { BORDERS[2] };
            cluster.control_at("refuse KvPrewrite 1", border);
            engine.commit(both("new")).await.unwrap();
            let found = engine_on(&cluster).read(&[key("count0"), key("row0")]).await.unwrap();
            let values: Vec<_> = found.iter().flatten().map(|found| &found.value[..]).collect();
            assert_eq!(values, [b"new", b"new"]);
            assert_eq!(cluster.locks(), 0);
        });
    });
}
