//! Promises about guards, plain reads, hints, health and closing.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinSet;

fn guarded(guards: impl IntoIterator<Item = Check>, commit: Commit) -> Commit {
    Commit { guards: guards.into_iter().collect(), ..commit }
}

pub fn guard_that_fails_writes_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let there = write(engine, [put("there", "x")]).await;
        let cases = [
            (check("there", Expect::Absent), Some(there)),
            (check("missing", Expect::Present), None),
            (check("there", Expect::At(Revision(there.0 + 1))), Some(there)),
        ];
        for (failing, expected) in cases {
            let guards = [check("there", Expect::Present), failing];
            // The failed check would be reported if it were evaluated first.
            let commit = commit([check("missing", Expect::Present)], [put("new", "x")]);
            match engine.commit(guarded(guards, commit)).await {
                Err(CommitError::GuardFailed { index: 1, found }) => assert_eq!(found, expected),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(find(engine, "new").await, None);
        let holds = [check("there", Expect::At(there)), check("missing", Expect::Absent)];
        engine.commit(guarded(holds, commit([], [put("new", "x")]))).await.unwrap();
        assert_eq!(value(engine, "new").await.unwrap(), "x");
    });
}

/// Writers of different keys under one guard never block each other.
pub fn guard_is_not_a_lock(make: Make<'_>) {
    run(async {
        let fixture = make();
        let alive = write(fixture.engine.as_ref(), [put("table", "x")]).await;
        let mut tasks = JoinSet::new();
        for writer in 0..32 {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                for n in 0..10 {
                    let guard = check("table", Expect::At(alive));
                    let insert = commit([], [put(format!("row{writer}/{n}"), "x")]);
                    settle(engine.as_ref(), guarded([guard], insert)).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

/// Inserts under a guard race with its deletion: an insert that begins after the acknowledged
/// deletion never succeeds, and every acknowledged insert is stored.
pub fn guard_that_is_gone_stops_what_begins_later(make: Make<'_>) {
    run(async {
        let fixture = make();
        for round in 0..10 {
            let engine = fixture.engine.as_ref();
            let guard = format!("guard{round}");
            write(engine, [put(&guard, "x")]).await;
            let deleted = Arc::new(AtomicBool::new(false));
            let inserted = Arc::new(AtomicUsize::new(0));
            let mut tasks = JoinSet::new();
            for writer in 0..16 {
                let (engine, guard) = (fixture.engine.clone(), guard.clone());
                let (deleted, inserted) = (deleted.clone(), inserted.clone());
                tasks.spawn(async move {
                    for n in 0.. {
                        let was_deleted = deleted.load(Ordering::SeqCst);
                        let insert = commit([], [put(format!("row{round}/{writer}/{n}"), "x")]);
                        let guard = check(&guard, Expect::Present);
                        match engine.commit(guarded([guard], insert)).await {
                            Ok(_) => assert!(!was_deleted, "it began after the deletion"),
                            Err(CommitError::GuardFailed { index: 0, found: None }) => return,
                            Err(CommitError::Conflict) => continue,
                            Err(other) => panic!("{other:?}"),
                        }
                        inserted.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            while inserted.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            write(engine, [delete(&guard)]).await;
            deleted.store(true, Ordering::SeqCst);
            tasks.join_all().await;
            let view = engine.view().await.unwrap();
            let rows = KeyRange::prefix(key(format!("row{round}/")).as_slice());
            let found = entries(view.as_ref(), rows).await.len();
            assert_eq!(found, inserted.load(Ordering::SeqCst));
        }
    });
}

pub fn read_answers_in_order(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let revision = write(engine, [put("a", "1"), put("b", "2")]).await;
        let found = engine.read(&["b", "missing", "a", "b"].map(key)).await.unwrap();
        let two = Some(Found { value: "2".into(), revision });
        let one = Some(Found { value: "1".into(), revision });
        assert_eq!(found, [two.clone(), None, one, two]);
        assert!(engine.read(&[]).await.unwrap().is_empty());
    });
}

/// A reader that knows of an acknowledgement reads the commit.
pub fn read_sees_every_acknowledged_commit(make: Make<'_>) {
    run(async {
        let fixture = make();
        let acknowledged = Arc::new(AtomicUsize::new(0));
        write(fixture.engine.as_ref(), [put("k", 0_u64.to_be_bytes())]).await;
        let mut readers = JoinSet::new();
        for _ in 0..4 {
            let (engine, acknowledged) = (fixture.engine.clone(), acknowledged.clone());
            readers.spawn(async move {
                loop {
                    let known = acknowledged.load(Ordering::SeqCst);
                    let found = engine.read(&[key("k")]).await.unwrap().pop().flatten().unwrap();
                    assert!(number(&found.value) >= known as u64, "{known} was acknowledged");
                    if known == 200 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        for round in 1..=200_usize {
            write(fixture.engine.as_ref(), [put("k", (round as u64).to_be_bytes())]).await;
            acknowledged.store(round, Ordering::SeqCst);
        }
        readers.join_all().await;
    });
}

pub fn rows_expected_changes_no_answer(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, (0..50).map(|n| put(format!("{n:02}"), vec![b'v'; n + 1]))).await;
        let view = engine.view().await.unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            for (rows_max, bytes_max) in [(7, usize::MAX), (usize::MAX, 100), (100, 10_000)] {
                let mut answers = Vec::new();
                for rows_expected in [0, 1, 5, 50, usize::MAX] {
                    let range = everything();
                    let scan = Scan { range, direction, rows_max, bytes_max, rows_expected };
                    let mut shown = Vec::new();
                    let visitor = &mut |key: &[u8], _: &[u8], _: Revision| {
                        shown.push(key.to_vec());
                        Visit::Continue
                    };
                    let end = view.scan(scan, visitor).await.unwrap();
                    answers.push((shown, end));
                }
                assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
            }
        }
    });
}

pub fn modify_sees_the_revision_and_may_delete(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let written = write(engine, [put("k", "v"), put("other", "v")]).await;
        let next = write(engine, [modify("k", StoreRevision)]).await;
        assert_eq!(number(&value(engine, "k").await.unwrap()), written.0);
        write(engine, [modify("k", StoreRevision), modify("none", StoreRevision)]).await;
        assert_eq!(number(&value(engine, "k").await.unwrap()), next.0);
        assert_eq!(number(&value(engine, "none").await.unwrap()), 0);
        write(engine, [modify("k", Remove), modify("never", Remove)]).await;
        assert_eq!((find(engine, "k").await, find(engine, "never").await), (None, None));
        assert_eq!(value(engine, "other").await.unwrap(), "v");
    });
}

pub fn tending_comes_to_an_end(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("a", "x")]).await;
        let mut steps = 0;
        while engine.tend().await.unwrap() == lazuli_engine::Reclaimed::Partly {
            steps += 1;
            assert!(steps < 1000, "upkeep has no end");
        }
        assert_eq!(value(engine, "a").await.unwrap(), "x");
    });
}

pub fn closed_engine_takes_no_commits_and_is_not_healthy(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        engine.health().await.unwrap();
        write(engine, [put("a", "x")]).await;
        engine.close().await.unwrap();
        engine.close().await.unwrap();
        assert!(matches!(engine.health().await, Err(EngineError::Unavailable(_))));
        let result = engine.commit(commit([], [put("b", "x")])).await;
        let refused = matches!(result, Err(CommitError::Engine(EngineError::Unavailable(_))));
        assert!(refused, "{result:?}");
    });
}

/// Commits in flight when the engine closes have happened or were refused; none is in doubt.
pub fn close_finishes_what_was_taken(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut tasks = JoinSet::new();
        for writer in 0..32 {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                let result = engine.commit(commit([], [put(format!("{writer}"), "x")])).await;
                match result {
                    Ok(_) | Err(CommitError::Engine(EngineError::Unavailable(_))) => {}
                    other => panic!("{other:?}"),
                }
            });
        }
        fixture.engine.close().await.unwrap();
        tasks.join_all().await;
    });
}

/// K-3.6: a view that is used for too long returns an error, and a new one works; one that is kept between
/// requests still shows its state. `outlive` makes every other view of the engine expire; see
/// [`Limits::view_ms_max`](lazuli_engine::Limits::view_ms_max).
pub fn expired_view_says_so(engine: &dyn Engine, outlive: impl FnOnce()) {
    run(async {
        write(engine, [put("k", "old")]).await;
        let view = engine.view().await.unwrap();
        let kept = engine.kept_view().await.unwrap();
        for view in [&view, &kept] {
            assert_eq!(view.get(key("k").as_slice()).await.unwrap().unwrap().value, "old");
        }
        write(engine, [put("k", "new")]).await;
        outlive();
        let got = view.get(key("k").as_slice()).await;
        assert!(matches!(got, Err(EngineError::Expired)), "{got:?}");
        let got = view.multi_get(&[key("k")]).await;
        assert!(matches!(got, Err(EngineError::Expired)), "{got:?}");
        let scan = Scan {
            range: everything(),
            direction: Direction::Forward,
            rows_max: 1,
            bytes_max: 1,
            rows_expected: 1,
        };
        let visitor = &mut |_: &[u8], _: &[u8], _: Revision| panic!("it shows what is gone");
        let got = view.scan(scan.clone(), visitor).await;
        assert!(matches!(got, Err(EngineError::Expired)), "{got:?}");
        let mut shown = Vec::new();
        let visitor = &mut |_: &[u8], value: &[u8], _: Revision| {
            shown.push(value.to_vec());
            Visit::Continue
        };
        kept.scan(scan, visitor).await.unwrap();
        assert_eq!(shown, [b"old"]);
        let got = kept.multi_get(&[key("k")]).await.unwrap();
        assert_eq!(got[0].as_ref().unwrap().value, "old");
        assert_eq!(value(engine, "k").await.unwrap(), "new");
    });
}

/// Stores the revision it finds.
#[derive(Debug)]
struct StoreRevision;

impl Modify for StoreRevision {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let revision = current.map_or(0, |current| current.revision.0);
        Ok(Some(revision.to_be_bytes().to_vec()))
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
