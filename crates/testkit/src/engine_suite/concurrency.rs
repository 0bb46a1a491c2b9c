//! Promises that only hold if commits are linearizable and views are snapshots.

use super::sequential::collect;
use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;

pub fn concurrent_inserts_of_one_key_have_one_winner(make: Make<'_>) {
    run(async {
        let fixture = make();
        for round in 0..20 {
            let mut tasks = JoinSet::new();
            for writer in 0..16_u8 {
                let engine = fixture.engine.clone();
                tasks.spawn(async move {
                    let key = format!("k{round}");
                    let insert = commit([check(&key, Expect::Absent)], [put(&key, [writer])]);
                    (writer, engine.commit(insert).await)
                });
            }
            let results = tasks.join_all().await;
            let winners: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).collect();
            let [(winner, Ok(revision))] = winners.as_slice() else {
                panic!("winners: {winners:?}");
            };
            let found = find(fixture.engine.as_ref(), format!("k{round}")).await.unwrap();
            assert_eq!((found.value.as_ref(), found.revision), ([*winner].as_slice(), *revision));
            for (_, result) in &results {
                if let Err(CommitError::CheckFailed { index, found }) = result {
                    assert_eq!((*index, *found), (0, Some(*revision)));
                } else {
                    assert!(result.is_ok(), "{result:?}");
                }
            }
        }
    });
}

pub fn concurrent_modifies_lose_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut tasks = JoinSet::new();
        for _ in 0..64 {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                for _ in 0..20 {
                    write(engine.as_ref(), [modify("counter", Increment)]).await;
                }
            });
        }
        tasks.join_all().await;
        let counter = value(fixture.engine.as_ref(), "counter").await.unwrap();
        assert_eq!(number(&counter), 64 * 20);
    });
}

/// Two commits that share a revision would share an ETag, and one could be overwritten unseen.
pub fn concurrent_modifies_have_revisions_of_their_own(make: Make<'_>) {
    run(async {
        let fixture = make();
        let first = write(fixture.engine.as_ref(), [put("counter", 0_u64.to_be_bytes())]).await;
        let mut tasks = JoinSet::new();
        for writer in 0..32 {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                // One of four relies on a revision that is soon overwritten.
                let expect = if writer % 4 == 0 { Expect::At(first) } else { Expect::Present };
                let commit = commit([check("counter", expect)], [modify("counter", Increment)]);
                engine.commit(commit).await
            });
        }
        let (mut revisions, mut failed) = (BTreeSet::new(), 0);
        for result in tasks.join_all().await {
            match result {
                Ok(revision) => assert!(revision > first && revisions.insert(revision)),
                Err(CommitError::CheckFailed { index: 0, found: Some(found) }) => {
                    assert!(found > first);
                    failed += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(failed >= 7, "of those that relied on the first revision one can succeed");
        let found = find(fixture.engine.as_ref(), "counter").await.unwrap();
        assert_eq!(number(&found.value), revisions.len() as u64);
        assert_eq!(Some(&found.revision), revisions.last());
    });
}

pub fn concurrent_compare_and_swap_loses_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        write(fixture.engine.as_ref(), [put("counter", 0_u64.to_be_bytes())]).await;
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                for _ in 0..10 {
                    while !swap_once(engine.as_ref()).await {}
                }
            });
        }
        tasks.join_all().await;
        let counter = value(fixture.engine.as_ref(), "counter").await.unwrap();
        assert_eq!(number(&counter), 8 * 10);
    });
}

/// Reads the counter and writes its successor if no other writer won.
async fn swap_once(engine: &dyn Engine) -> bool {
    let found = find(engine, "counter").await.unwrap();
    let next = (number(&found.value) + 1).to_be_bytes();
    let unchanged = check("counter", Expect::At(found.revision));
    match engine.commit(commit([unchanged], [put("counter", next)])).await {
        Ok(_) => true,
        Err(CommitError::CheckFailed { .. } | CommitError::Conflict) => false,
        Err(other) => panic!("{other:?}"),
    }
}

/// Each of two commits checks what the other writes: at most one may happen (on TiKV K-6.6).
pub fn write_skew_is_refused(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut pairs = JoinSet::new();
        for round in 0..100 {
            let engine = fixture.engine.clone();
            pairs.spawn(async move {
                let (left, right) = (format!("{round}left"), format!("{round}right"));
                let first = commit([check(&right, Expect::Absent)], [put(&left, "x")]);
                let second = commit([check(&left, Expect::Absent)], [put(&right, "x")]);
                let (first, second) = tokio::join!(
                    tokio::spawn({
                        let engine = engine.clone();
                        async move { engine.commit(first).await }
                    }),
                    tokio::spawn({
                        let engine = engine.clone();
                        async move { engine.commit(second).await }
                    }),
                );
                let written =
                    [first.unwrap(), second.unwrap()].iter().filter(|r| r.is_ok()).count();
                let seen =
                    [find(engine.as_ref(), &left).await, find(engine.as_ref(), &right).await];
                assert_eq!(seen.iter().flatten().count(), written);
                assert!(written <= 1, "both happened");
            });
        }
        pairs.join_all().await;
    });
}

/// Inserts that check their guard race with its deletion, like inserts with the deletion of their
/// table: everything inserted existed when the guard was deleted, and nothing is inserted later.
pub fn no_insert_slips_past_the_deletion_of_its_guard(make: Make<'_>) {
    run(async {
        let fixture = make();
        for round in 0..20 {
            let engine = fixture.engine.as_ref();
            let guard = format!("guard{round}");
            write(engine, [put(&guard, "x")]).await;
            let mut tasks = JoinSet::new();
            for writer in 0..16 {
                let (engine, guard) = (fixture.engine.clone(), guard.clone());
                tasks.spawn(insert_while_guarded(engine, guard, format!("row{round}/{writer}/")));
            }
            // Wait for some rows, or there would be no race.
            while entries_with(engine, &format!("row{round}/")).await.is_empty() {
                tokio::task::yield_now().await;
            }
            write(engine, [delete(&guard)]).await;
            let at_deletion = entries_with(engine, &format!("row{round}/")).await;
            let acknowledged: usize = tasks.join_all().await.into_iter().sum();
            let at_last = entries_with(engine, &format!("row{round}/")).await;
            assert_eq!(at_last, at_deletion);
            assert_eq!(at_last.len(), acknowledged);
        }
    });
}

async fn insert_while_guarded(engine: Arc<dyn Engine>, guard: String, prefix: String) -> usize {
    for row in 0.. {
        let insert =
            commit([check(&guard, Expect::Present)], [put(format!("{prefix}{row:06}"), "x")]);
        match engine.commit(insert).await {
            Ok(_) => {}
            Err(CommitError::CheckFailed { index: 0, found: None }) => return row,
            Err(CommitError::Conflict) => return row,
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!("the guard goes some day")
}

async fn entries_with(engine: &dyn Engine, prefix: &str) -> Vec<Entry> {
    let view = engine.view().await.unwrap();
    entries(view.as_ref(), KeyRange::prefix(key(prefix).as_slice())).await
}

/// Every commit writes one number to all keys: a snapshot shows the same number everywhere, even if
/// it is read in many small scans.
pub fn scan_sees_one_snapshot_while_commits_go_on(make: Make<'_>) {
    run(async {
        let fixture = make();
        let write_round = |engine: Arc<dyn Engine>, round: u64| async move {
            let keys = (0..50).map(|n| put(format!("{n:02}"), round.to_be_bytes()));
            write(engine.as_ref(), keys).await;
        };
        write_round(fixture.engine.clone(), 0).await;
        let mut writers = JoinSet::new();
        for writer in 1..=4 {
            let engine = fixture.engine.clone();
            writers.spawn(async move {
                for round in 0..100 {
                    write_round(engine.clone(), writer * 1000 + round).await;
                }
            });
        }
        let mut going_on = true;
        while going_on {
            going_on = !writers.is_empty();
            while writers.try_join_next().is_some() {}
            let view = fixture.engine.view().await.unwrap();
            for direction in [Direction::Forward, Direction::Backward] {
                let bounds = (7, usize::MAX);
                let shown = collect(view.as_ref(), everything(), direction, bounds).await;
                let distinct: BTreeSet<_> = shown.iter().map(|(_, v, r)| (v.clone(), *r)).collect();
                assert_eq!((shown.len(), distinct.len()), (50, 1), "{distinct:?}");
            }
        }
    });
}

/// A reader that knows of an acknowledgement sees the commit.
pub fn acknowledged_commit_is_seen_by_all(make: Make<'_>) {
    run(async {
        let fixture = make();
        let acknowledged = Arc::new(AtomicU64::new(0));
        write(fixture.engine.as_ref(), [put("k", 0_u64.to_be_bytes())]).await;
        let mut readers = JoinSet::new();
        for _ in 0..4 {
            let (engine, acknowledged) = (fixture.engine.clone(), acknowledged.clone());
            readers.spawn(async move {
                loop {
                    let known = acknowledged.load(Ordering::SeqCst);
                    let seen = number(&value(engine.as_ref(), "k").await.unwrap());
                    assert!(seen >= known, "{known} was acknowledged, saw {seen}");
                    if known == 300 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        for round in 1..=300_u64 {
            write(fixture.engine.as_ref(), [put("k", round.to_be_bytes())]).await;
            acknowledged.store(round, Ordering::SeqCst);
        }
        readers.join_all().await;
    });
}
