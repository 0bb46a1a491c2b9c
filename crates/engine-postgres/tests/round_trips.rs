//! How often each operation waits for the database: the table of K-7, counted by a proxy (K-11.1).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Append, Line, check, commit, key, on_one_thread, put, raw};
use lazuli_engine::{
    Commit, CommitError, Direction, Engine, Expect, KeyRange, Revision, Scan, ScanEnd, Visit, Write,
};
use std::sync::Arc;

struct Counted(Line);

impl Counted {
    /// One call at a time takes one connection, so that statements are prepared once.
    fn new() -> Self {
        Self(Line::new())
    }

    /// The round trips of an operation whose statements are prepared.
    async fn of<T>(&self, operation: impl AsyncFn() -> T) -> u64 {
        operation().await;
        let before = self.0.proxy.exchanges();
        operation().await;
        self.0.proxy.exchanges() - before
    }

    async fn of_commit(&self, commit: impl Fn() -> Commit) -> u64 {
        self.of(async || {
            let result = self.0.engine.commit(commit()).await;
            result.unwrap();
        })
        .await
    }

    async fn revision(&self, text: &str) -> Revision {
        self.0.engine.read(&[key(text)]).await.unwrap().remove(0).unwrap().revision
    }
}

fn scan(direction: Direction, rows_max: usize) -> Scan {
    let range = KeyRange::prefix(b"Lrow");
    Scan { range, direction, rows_max, bytes_max: usize::MAX, rows_expected: rows_max }
}

#[test]
fn read_of_two_keys_is_one_round_trip() {
    on_one_thread(async {
        let counted = Counted::new();
        let read = async || counted.0.engine.read(&[key("table"), key("row")]).await.unwrap();
        assert_eq!(counted.of(read).await, 1);
    });
}

#[test]
fn each_write_of_one_key_is_one_round_trip() {
    on_one_thread(async {
        let counted = Counted::new();
        let engine = &counted.0.engine;
        let table = engine.commit(commit(vec![], vec![put("table", "t")])).await.unwrap();
        let guarded = |commit: Commit| {
            let guards = vec![check("table", Expect::At(table))];
            Commit { guards, ..commit }
        };
        let upsert = || guarded(commit(vec![], vec![put("row", "v")]));
        assert_eq!(counted.of_commit(upsert).await, 1, "upsert");
        let replace =
            || guarded(commit(vec![check("row", Expect::Present)], vec![put("row", "w")]));
        assert_eq!(counted.of_commit(replace).await, 1, "replace");
        let delete = |checks| guarded(commit(checks, vec![Write::Delete(key("row"))]));
        assert_eq!(counted.of_commit(|| delete(vec![])).await, 1, "delete");

        // These cannot run twice: the first is measured after another commit has prepared the statement.
        let insert =
            |text| guarded(commit(vec![check(text, Expect::Absent)], vec![put(text, "v")]));
        engine.commit(insert("first")).await.unwrap();
        let before = counted.0.proxy.exchanges();
        engine.commit(insert("second")).await.unwrap();
        assert_eq!(counted.0.proxy.exchanges() - before, 1, "insert");
        for (round, text) in ["first", "second"].into_iter().enumerate() {
            let at = check(text, Expect::At(counted.revision(text).await));
            let before = counted.0.proxy.exchanges();
            let delete = commit(vec![at], vec![Write::Delete(key(text))]);
            engine.commit(guarded(delete)).await.unwrap();
            let prepared = round > 0;
            assert!(!prepared || counted.0.proxy.exchanges() - before == 1, "delete at a revision");
        }
    });
}

/// K-3.8: commits that wait for a key are sent together, and each has its own revision.
#[test]
fn merges_that_wait_for_each_other_are_sent_together() {
    const WRITERS: u64 = 16;
    on_one_thread(async {
        let counted = Counted::new();
        counted.0.engine.commit(commit(vec![], vec![put("hot", "v")])).await.unwrap();
        let merge = || {
            let writes = vec![Write::Modify(key("hot"), Arc::new(Append("+")))];
            counted.0.engine.commit(commit(vec![check("hot", Expect::Present)], writes))
        };
        let all = async || futures_util::future::join_all((0..WRITERS).map(|_| merge())).await;
        let mut revisions: Vec<Revision> = all().await.into_iter().map(Result::unwrap).collect();
        let before = counted.0.proxy.exchanges();
        revisions.extend(all().await.into_iter().map(Result::unwrap));
        // The first is alone; the others read once, and write once.
        assert_eq!(counted.0.proxy.exchanges() - before, 2 + 2);
        assert!(revisions.is_sorted_by(|one, next| one < next), "each has a revision of its own");
        let found = counted.0.engine.read(&[key("hot")]).await.unwrap().remove(0).unwrap();
        assert_eq!(found.value.len() as u64, 1 + 2 * WRITERS);
        assert_eq!(Some(&found.revision), revisions.last());
    });
}

/// Reads that arrive while all lanes are busy share a statement.
#[test]
fn point_reads_that_wait_are_sent_together() {
    const READERS: u64 = 20;
    on_one_thread(async {
        let counted = Counted::new();
        for n in 0..READERS {
            let row = put(&format!("row{n}"), &n.to_string());
            counted.0.engine.commit(commit(vec![], vec![row])).await.unwrap();
        }
        let all = async || {
            let read = async |n: u64| {
                let keys = [key(&format!("row{n}")), key("none"), key(&format!("row{n}"))];
                let found = counted.0.engine.read(&keys).await.unwrap();
                let text = |at: usize| found.get(at).unwrap().clone().map(|found| found.value);
                assert_eq!(text(0).unwrap(), n.to_string());
                assert_eq!((text(1), text(2)), (None, text(0)));
            };
            futures_util::future::join_all((0..READERS).map(read)).await;
        };
        all().await;
        let before = counted.0.proxy.exchanges();
        all().await;
        // Eight lanes of 32 connections take one read each; the other twelve go together.
        assert_eq!(counted.0.proxy.exchanges() - before, 8 + 1);
    });
}

/// Inserts and upserts that arrive while all lanes are busy share a statement, and each is judged separately.
#[test]
fn inserts_that_wait_are_sent_together() {
    const WRITERS: u64 = 20;
    on_one_thread(async {
        let counted = Counted::new();
        let table = counted.0.engine.commit(commit(vec![], vec![put("table", "t")])).await.unwrap();
        let write = |is_insert: bool, text: String| {
            let checks = if is_insert { vec![check(&text, Expect::Absent)] } else { vec![] };
            let guards = vec![check("table", Expect::At(table))];
            let commit = commit(checks, vec![put(&text, &text)]);
            counted.0.engine.commit(Commit { guards, ..commit })
        };
        for is_insert in [true, false] {
            for name in ["warm", "row"] {
                let text = |n: u64| format!("{name}/{is_insert}/{n}");
                let before = counted.0.proxy.exchanges();
                let writes = (0..WRITERS).map(|n| write(is_insert, text(n)));
                let done = futures_util::future::join_all(writes).await;
                let trips = counted.0.proxy.exchanges() - before;
                for (n, done) in (0..).zip(done) {
                    assert_eq!(counted.revision(&text(n)).await, done.unwrap());
                }
                // Eight lanes of 32 connections take one each; the other twelve share a statement,
                // perhaps on a connection that must first prepare it.
                assert!(name == "warm" || trips <= 8 + 2, "{trips} round trips");
            }
        }
    });
}

/// An insert that fails does not affect the others of its statement.
#[test]
fn insert_that_fails_among_others_fails_alone() {
    on_one_thread(async {
        let counted = Counted::new();
        let engine = &counted.0.engine;
        let table = engine.commit(commit(vec![], vec![put("table", "t")])).await.unwrap();
        let there = engine.commit(commit(vec![], vec![put("row15", "old")])).await.unwrap();
        let insert = |n: u64| {
            let text = format!("row{n}");
            // One of them is guarded by a table that was dropped.
            let guard = if n == 13 { "dropped" } else { "table" };
            let guards = vec![check(guard, Expect::At(table))];
            let commit = commit(vec![check(&text, Expect::Absent)], vec![put(&text, "new")]);
            engine.commit(Commit { guards, ..commit })
        };
        let done = futures_util::future::join_all((0..20).map(insert)).await;
        for (n, done) in done.into_iter().enumerate() {
            match (n, done) {
                (13, Err(CommitError::GuardFailed { index: 0, found: None })) => {}
                (15, Err(CommitError::CheckFailed { index: 0, found })) => {
                    assert_eq!(found, Some(there));
                }
                (13 | 15, other) => panic!("{n}: {other:?}"),
                (_, done) => assert_eq!(counted.revision(&format!("row{n}")).await, done.unwrap()),
            }
        }
        assert!(engine.read(&[key("row13")]).await.unwrap().remove(0).is_none());
    });
}

/// Upserts of one key are done one after the other, in any statements, and each has its own revision.
#[test]
fn upserts_of_one_key_that_wait_are_all_done() {
    on_one_thread(async {
        let counted = Counted::new();
        let upsert = |n: u64| {
            let text = if n.is_multiple_of(3) { "hot".to_owned() } else { format!("row{n}") };
            counted.0.engine.commit(commit(vec![], vec![put(&text, &n.to_string())]))
        };
        let done = futures_util::future::join_all((0..60).map(upsert)).await;
        let mut hot: Vec<Revision> = done.into_iter().step_by(3).map(Result::unwrap).collect();
        hot.sort();
        hot.dedup();
        assert_eq!(hot.len(), 20);
        assert_eq!(hot.last(), Some(&counted.revision("hot").await));
    });
}

#[test]
fn merge_is_two_round_trips() {
    on_one_thread(async {
        let counted = Counted::new();
        counted.0.engine.commit(commit(vec![], vec![put("row", "v")])).await.unwrap();
        let merge = || {
            let writes = vec![Write::Modify(key("row"), Arc::new(Append("+")))];
            commit(vec![check("row", Expect::Present)], writes)
        };
        assert_eq!(counted.of_commit(merge).await, 2);
    });
}

#[test]
fn batch_is_one_round_trip_and_with_merges_two() {
    on_one_thread(async {
        let counted = Counted::new();
        let rows = || (0..100).map(|n| put(&format!("row{n}"), "v"));
        assert_eq!(counted.of_commit(|| commit(vec![], rows().collect())).await, 1);
        let merge = || Write::Modify(key("other"), Arc::new(Append("+")));
        let with_merge = || commit(vec![], rows().chain([merge()]).collect());
        assert_eq!(counted.of_commit(with_merge).await, 2);
    });
}

/// The begin of the transaction, the table's record and the first chunk travel together.
#[test]
fn query_is_one_round_trip_and_one_per_further_chunk() {
    on_one_thread(async {
        let counted = Counted::new();
        let rows = (0..150).map(|n| put(&format!("row{n:03}"), "value"));
        counted.0.engine.commit(commit(vec![], rows.collect())).await.unwrap();
        let scan = |rows_max| scan(Direction::Forward, rows_max);
        for (rows_max, expected) in [(10, 1), (1000, 2)] {
            for is_prepared in [false, true] {
                let view = counted.0.engine.view().await.unwrap();
                // The end of the view before is answered with the first statement.
                counted.0.engine.read(&[key("none")]).await.unwrap();
                let before = counted.0.proxy.exchanges();
                let mut shown = 0;
                let mut visitor = |_: &[u8], _: &[u8], _: Revision| {
                    shown += 1;
                    Visit::Continue
                };
                let table = key("table");
                let (found, end) = tokio::join!(
                    view.get(table.as_slice()),
                    view.scan(scan(rows_max), &mut visitor)
                );
                assert!(found.unwrap().is_none());
                assert_eq!(end.unwrap() == ScanEnd::Done, rows_max > 150);
                assert_eq!(shown, rows_max.min(150));
                let trips = counted.0.proxy.exchanges() - before;
                assert!(!is_prepared || trips == expected, "{trips} for {rows_max} rows");
            }
        }
    });
}

/// K-7.15: no statement looks at more than 4,096 entries beside those that it may show, and none of the others
/// is missed.
#[test]
fn scan_of_deleted_entries_is_a_round_trip_for_every_4096() {
    on_one_thread(async {
        let counted = Counted::new();
        // Short keys, and some of which the index has only a part, in its order.
        let (long, rest) = ("repeat('r', 1996)", "convert_to(i::text, 'UTF8')");
        for (key, digest, rest) in
            [("lpad(i::text, 5, '0')", "''", "''"), (long, &*format!("sha256({rest})"), rest)]
        {
            let client = raw(&counted.0.address).await;
            // Of 10,000 entries three are there. The first statement may look at 11 more than 4,096: it shows
            // the second one as the last, and says that it was.
            let fill = format!(
                "truncate lazuli_kv; insert into lazuli_kv select convert_to('Lrow' || {key}, 'UTF8'), \
                 {digest}, {rest}, i, 0, case when i in (10000, 14106, 19999) then '' end::bytea \
                 from generate_series(10000, 19999) i"
            );
            client.batch_execute(&fill).await.unwrap();
            for direction in [Direction::Forward, Direction::Backward] {
                let shown = async || {
                    let view = counted.0.engine.view().await.unwrap();
                    let mut shown = Vec::new();
                    let mut visitor = |_: &[u8], _: &[u8], revision: Revision| {
                        shown.push(revision.0);
                        Visit::Continue
                    };
                    let end = view.scan(scan(direction, 10), &mut visitor).await.unwrap();
                    assert_eq!(end, ScanEnd::Done);
                    shown
                };
                let mut expected = [10_000, 14_106, 19_999];
                if direction == Direction::Backward {
                    expected.reverse();
                }
                assert_eq!(shown().await, expected);
                let statements = counted.of(async || shown().await).await;
                assert!((3..=6).contains(&statements), "{statements} for {direction:?}");
            }
        }
    });
}
