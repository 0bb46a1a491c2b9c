//! Processes suspended in the middle of a commit (SIGSTOP, a paused machine) while others change its
//! guards: what they do after resuming must not take effect after that change (K-2.3, K-6.17).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::engine_on;
use lazuli_engine::{
    Check, Commit, CommitError, Engine, Expect, GUARD_AGE_MS_MAX, Key, Revision, Write,
};
use lazuli_engine_tikv::TikvEngine;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;
use std::sync::Arc;

fn key(text: &str) -> Key {
    Key::from(format!("L{text}").into_bytes())
}

fn put(text: &str) -> Write {
    Write::Put(key(text), text.to_owned().into())
}

async fn write(engine: &TikvEngine, text: &str) -> Revision {
    engine.commit(Commit::new(Revision(0), vec![put(text)])).await.unwrap()
}

/// An upsert of two rows, which may be in two regions, under the settings of their table.
fn under(settings: Revision) -> Commit {
    let guard = Check { key: key("catalog"), expect: Expect::At(settings) };
    Commit { guards: vec![guard], ..Commit::new(Revision(0), vec![put("row1"), put("row2")]) }
}

/// The same as a commit that reads what it writes.
fn read_and_under(settings: Revision) -> Commit {
    let absent = Check { key: key("row0"), expect: Expect::Absent };
    Commit { checks: vec![absent], ..under(settings) }
}

/// One process begins `commit` and is suspended at `call`, the commit's first call of this name.
/// Another changes the settings and, once no commit under the old ones can happen, reads the rows.
/// Then the first process resumes.
fn assert_too_late(set_up: &[&str], call: &str, commit: fn(Revision) -> Commit) {
    let cluster = StandIn::start();
    cluster.control_at("split", key("row2").as_slice());
    run(async {
        let (stopped, other) = (Arc::new(engine_on(&cluster)), engine_on(&cluster));
        let settings = write(&other, "catalog").await;
        write(&stopped, "warm").await;
        stopped.read(&[key("row1"), key("row2"), key("catalog")]).await.unwrap();
        cluster.control("reset");
        set_up.iter().for_each(|command| drop(cluster.control(command)));
        cluster.control(&format!("hold {call} 1"));
        let engine = stopped.clone();
        let late = tokio::spawn(async move { engine.commit(commit(settings)).await });
        // The calls that have arrived by then. A guard read in parallel with the timestamp has been read.
        let arrived: &[&str] = match call {
            "OnePC" => &["KvPrewrite"],
            "Tso" => &["Tso", "KvGet"],
            call => &[call],
        };
        while !arrived.iter().all(|call| cluster.counts().contains_key(*call)) {
            tokio::task::yield_now().await;
        }
        let newer = write(&other, "catalog").await;
        cluster.control(&format!("forward {}", 2 * GUARD_AGE_MS_MAX));
        let rows = [key("row1"), key("row2")];
        let seen = other.view().await.unwrap().multi_get(&rows).await.unwrap();
        assert_eq!(seen, [None, None]);
        cluster.control("release");
        let done = late.await.unwrap();
        let is_refused = matches!(
            done,
            Err(CommitError::GuardFailed { index: 0, found: Some(found) }) if found == newer
        );
        assert!(is_refused, "{done:?}");
        assert_eq!(other.read(&rows).await.unwrap(), [None, None]);
    });
}

#[test]
fn one_phase_commit_that_arrives_late_is_refused() {
    assert_too_late(&["merge 4c"], "OnePC", under);
    assert_too_late(&["merge 4c"], "OnePC", read_and_under);
}

#[test]
fn locks_that_are_placed_late_are_not_committed() {
    assert_too_late(&[], "KvPrewrite", under);
    assert_too_late(&["merge 4c", "onepc off"], "KvPrewrite", read_and_under);
}

/// Other processes have removed its locks.
#[test]
fn commit_of_locks_that_have_expired_is_refused() {
    assert_too_late(&[], "KvCommit", under);
}

/// The guard is read in parallel with the timestamp, and may be older.
#[test]
fn guard_that_was_read_long_before_the_timestamp_is_read_again() {
    assert_too_late(&[], "Tso", under);
}
