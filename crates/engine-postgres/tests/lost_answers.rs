//! Commits whose answer is lost: settled, never doubled, never misreported (K-5, K-7.12).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Append, Line, check, commit, key, put, raw};
use lazuli_engine::{BoxError, CommitError, Current, Engine, Expect, Modify, Revision, Write};
use lazuli_testkit::engine_suite::{self, run};
use lazuli_testkit::stores::postgres::is_there;
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// An engine whose idle connections, several, have died without a word; the line is good again.
async fn after_a_silence(wait_max: Duration, settle_max: Duration) -> Line {
    let line = Line::with(|options| {
        options.wait_max = wait_max;
        options.settle_max = settle_max;
    });
    // Each commit takes its own connection.
    let keys: Vec<String> = (0..4).map(|n| format!("{n}")).collect();
    let commits = keys.iter().map(|key| line.engine.commit(commit(vec![], vec![put(key, "v")])));
    futures_util::future::try_join_all(commits).await.unwrap();
    line.proxy.set(Weather::HalfOpen);
    line.proxy.set(Weather::Clear);
    line
}

/// K-10.5: a dead connection costs part of the time, not the answer.
#[test]
fn read_on_a_connection_that_fell_silent_is_answered_by_another() {
    if !is_there() {
        return;
    }
    run(async {
        let line = after_a_silence(Duration::from_secs(10), Duration::from_secs(20)).await;
        let view = line.engine.view().await.unwrap();
        let key = key("0");
        let keys = [key.clone()];
        let (found, seen) = tokio::join!(line.engine.read(&keys), view.get(key.as_slice()));
        assert!(found.unwrap().remove(0).is_some());
        assert!(seen.unwrap().is_some());
    });
}

/// K-5.1: the outcome is looked up on a new connection, not on others that fell silent at the same time.
#[test]
fn commit_on_a_connection_that_fell_silent_is_settled_by_another() {
    if !is_there() {
        return;
    }
    run(async {
        let line = after_a_silence(Duration::from_secs(4), Duration::from_secs(30)).await;
        let insert = commit(vec![check("new", Expect::Absent)], vec![put("new", "v")]);
        let result = line.engine.commit(insert).await;
        let happened = line.value("new").await.is_some();
        match result {
            Ok(_) => assert!(happened),
            Err(CommitError::Engine(_)) => assert!(!happened),
            Err(other) => panic!("{other:?}"),
        }
    });
}

fn modify(text: &str) -> Write {
    Write::Modify(key(text), Arc::new(Append("+")))
}

/// K-5.1: inserts that share a statement lose its answer together, and each is settled separately.
#[test]
fn lost_answer_of_inserts_that_were_sent_together_is_settled() {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        for round in 0..4 {
            let insert = |n: u64| {
                let text = format!("row{round}/{n}");
                let commit = commit(vec![check(&text, Expect::Absent)], vec![put(&text, "v")]);
                line.engine.commit(commit)
            };
            // The first round prepares the statements on many connections.
            let one_in = if round == 0 { usize::MAX } else { 4 };
            line.proxy.set(Weather::LosesAnswers { one_in });
            let done = futures_util::future::join_all((0..40).map(insert)).await;
            line.proxy.set(Weather::Clear);
            for (n, done) in done.into_iter().enumerate() {
                let found = line.value(&format!("row{round}/{n}")).await;
                match done {
                    Ok(revision) => assert_eq!(found, Some(("v".into(), revision))),
                    Err(CommitError::Undetermined(_)) => {}
                    Err(CommitError::Engine(_)) => assert_eq!(found, None),
                    Err(other) => panic!("row {n} of round {round}: {other:?}"),
                }
            }
        }
    });
}

/// Each kind of commit, sent twice: the first time to prepare its statements.
#[test]
fn lost_answer_is_settled() {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        for text in ["warm", "real"] {
            let name = |part: &str| format!("{text}/{part}");
            let insert = |part: &str| {
                commit(vec![check(&name(part), Expect::Absent)], vec![put(&name(part), "v")])
            };
            let commits = [
                insert("a"),
                commit(vec![], vec![put(&name("b"), "v")]),
                commit(vec![check(&name("a"), Expect::Present)], vec![put(&name("a"), "w")]),
                commit(vec![check(&name("a"), Expect::Present)], vec![modify(&name("a"))]),
                commit(
                    vec![check(&name("c"), Expect::Absent)],
                    vec![put(&name("c"), "v"), modify(&name("a")), Write::Delete(key(&name("b")))],
                ),
                commit(
                    vec![check(&name("c"), Expect::Present)],
                    vec![Write::Delete(key(&name("c")))],
                ),
            ];
            let mut last = Revision(0);
            for (which, commit) in commits.into_iter().enumerate() {
                let revision = match text {
                    "warm" => line.engine.commit(commit).await.unwrap(),
                    _ => line
                        .commit_and_lose(commit)
                        .await
                        .unwrap_or_else(|e| panic!("{which}: {e}")),
                };
                assert!(revision > last);
                last = revision;
            }
            assert_eq!(line.value(&name("a")).await.unwrap().0, "w++");
            assert_eq!(line.value(&name("b")).await, None);
            assert_eq!(line.value(&name("c")).await, None);
        }
        assert!(line.proxy.lost() >= 6);
    });
}

/// The answer to a failed check is lost too: it is asked again, with the same result (K-5.6).
#[test]
fn failed_check_whose_answer_is_lost_is_still_named() {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        let there = line.engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
        for _ in 0..2 {
            let insert = commit(vec![check("a", Expect::Absent)], vec![put("a", "w")]);
            match line.commit_and_lose(insert).await {
                Err(lazuli_engine::CommitError::CheckFailed { index: 0, found }) => {
                    assert_eq!(found, Some(there));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

/// A session that waits for a lock does not notice that its client is gone. It is terminated before its
/// commit is sent again, so that the commit cannot happen late (K-7.12).
#[test]
fn commit_that_waits_in_the_database_does_not_happen_late() {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        line.engine.commit(commit(vec![], vec![put("a", "old")])).await.unwrap();
        let holder = raw(&line.address).await;
        holder.batch_execute("begin; select 1 from lazuli_kv for update").await.unwrap();
        let waiting = line.engine.commit(commit(vec![], vec![modify("a")]));
        let cut = async {
            wait_for_lock(&holder).await;
            line.proxy.set(Weather::Cut);
            line.proxy.set(Weather::Clear);
            // The first session is terminated although the lock is still held; the second one waits.
            wait_for_lock(&holder).await;
            holder.batch_execute("commit").await.unwrap();
        };
        let (result, ()) = tokio::join!(waiting, cut);
        let revision = result.unwrap();
        assert_eq!(line.value("a").await, Some(("old+".to_owned(), revision)));
    });
}

/// A function during which another session writes the row, three times; then that one locks it.
struct Disturbed {
    by: Arc<tokio_postgres::Client>,
    /// Is cut once the row is locked for this function.
    line: Option<Arc<WireCut>>,
    calls: AtomicUsize,
}

impl Modify for Disturbed {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let disturbed = async {
            if call < 3 {
                self.by.batch_execute("update lazuli_kv set r = r + 1").await?;
            }
            if call == 2 {
                self.by.batch_execute("begin; select 1 from lazuli_kv for update").await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        tokio::task::block_in_place(|| Handle::current().block_on(disturbed))?;
        if call == 3
            && let Some(line) = &self.line
        {
            line.set(Weather::Cut);
            line.set(Weather::Clear);
        }
        Append("+").modify(current)
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

impl std::fmt::Debug for Disturbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disturbed")
    }
}

/// K-7.13: after three conflicts a commit locks what it reads. If its connection is lost meanwhile, it reads
/// again.
#[test]
fn commit_that_loses_its_connection_while_it_locks_rows_is_done() {
    check_disturbed(false);
}

/// K-7.13: the next connection is lost as well, when the rows are locked and the commit is not yet sent.
#[test]
fn commit_that_loses_its_connection_after_it_locked_rows_is_done() {
    check_disturbed(true);
}

#[track_caller]
fn check_disturbed(is_cut_before_commit: bool) {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        line.engine.commit(commit(vec![], vec![put("a", "old")])).await.unwrap();
        let by = Arc::new(raw(&line.address).await);
        let function = Disturbed {
            by: by.clone(),
            line: is_cut_before_commit.then(|| line.proxy.clone()),
            calls: AtomicUsize::new(0),
        };
        let function = Arc::new(function);
        let waiting = line.engine.commit(commit(vec![], vec![Write::Modify(key("a"), function)]));
        let cut = async {
            wait_for_lock(&by).await;
            line.proxy.set(Weather::Cut);
            line.proxy.set(Weather::Clear);
            by.batch_execute("commit").await.unwrap();
        };
        let (result, ()) = tokio::join!(waiting, cut);
        let revision = result.unwrap();
        assert_eq!(line.value("a").await, Some(("old+".to_owned(), revision)));
    });
}

/// Waits until a session waits for a row that this one has locked.
async fn wait_for_lock(holder: &tokio_postgres::Client) {
    let waits =
        "select 1 from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))";
    // Within a transaction, the activity view is cached at first use unless cleared.
    let forget = "select pg_stat_clear_snapshot()";
    while holder.query(waits, &[]).await.unwrap().is_empty() {
        holder.batch_execute(forget).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// If the outcome cannot be known in time, the answer says so, and what did not happen never happens later.
#[test]
fn undetermined_commit_is_whole_or_nothing() {
    if !is_there() {
        return;
    }
    let Line { engine, proxy, .. } = Line::with(|options| {
        // Too short to find out.
        options.settle_max = Duration::from_millis(1);
    });
    let engine: Arc<dyn Engine> = Arc::new(engine);
    engine_suite::undetermined_commit_is_whole_or_nothing(&engine, |is_bad| {
        proxy.set(if is_bad { Weather::LosesAnswers { one_in: 3 } } else { Weather::Clear });
    });
}

/// Merges of one key that are sent as one (`group.rs`), through two gateways, one of them on a line that loses
/// answers: each merge reported as done happened once, and has its own revision.
#[test]
fn merges_of_a_group_whose_answer_is_lost_happen_once() {
    if !is_there() {
        return;
    }
    run(async {
        let line = Line::new();
        line.other.commit(commit(vec![], vec![put("hot", "v")])).await.unwrap();
        line.proxy.set(Weather::LosesAnswers { one_in: 4 });
        let merge = || commit(vec![check("hot", Expect::Present)], vec![modify("hot")]);
        let all = (0..3).map(|_| async {
            let merges =
                (0..20).flat_map(|_| [line.engine.commit(merge()), line.other.commit(merge())]);
            futures_util::future::join_all(merges).await
        });
        let (mut revisions, mut unknown) = (Vec::new(), 0);
        for merges in all {
            for result in merges.await {
                match result {
                    Ok(revision) => revisions.push(revision),
                    Err(CommitError::Undetermined(_)) => unknown += 1,
                    // It did not happen: the line was too bad, or the machine too slow.
                    Err(CommitError::Engine(_) | CommitError::Conflict | CommitError::Busy) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
        line.proxy.set(Weather::Clear);
        let (value, last) = line.value("hot").await.unwrap();
        let merged = value.len() - 1;
        assert!((revisions.len()..=revisions.len() + unknown).contains(&merged), "{merged}");
        revisions.sort_unstable();
        assert!(revisions.is_sorted_by(|one, next| one < next), "two share a revision");
        assert!(revisions.iter().all(|revision| *revision <= last));
        assert!(!revisions.is_empty(), "nothing was done");
    });
}
