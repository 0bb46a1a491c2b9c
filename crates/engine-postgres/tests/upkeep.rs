//! What happens to the rows of deleted keys (K-7.4, K-7.5).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{check, commit, fresh_with_address, key, open_on, put, raw};
use lazuli_engine::{CommitError, Engine, Expect, Reclaimed, Revision, Write};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::postgres::is_there;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

async fn count(client: &tokio_postgres::Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap().get(0)
}

async fn floor(client: &tokio_postgres::Client) -> i64 {
    let floor = "select value::bigint from lazuli_meta where name = 'floor'";
    client.query_one(floor, &[]).await.unwrap().get(0)
}

fn delete(text: &str) -> Write {
    Write::Delete(key(text))
}

#[test]
fn deleted_rows_go_after_the_floor_is_above_them() {
    if !is_there() {
        return;
    }
    run(async {
        let (address, keeps) = fresh_with_address();
        let client = raw(&address).await;
        let engine = open_on(&address, |options| {
            options.deleted_kept = Duration::ZERO;
            options.floor_settles = Duration::ZERO;
        });
        let mut last = Revision(0);
        for text in ["a", "b", "c"] {
            engine.commit(commit(vec![], vec![put(text, "v")])).await.unwrap();
        }
        // One statement, the function, and a key that never existed.
        for writes in [vec![delete("a")], vec![delete("b"), put("d", "v")], vec![delete("none")]] {
            last = engine.commit(commit(vec![], writes)).await.unwrap();
        }
        // A check on a missing key leaves a row, so that the unique index can decide (K-7.9).
        let other = commit(vec![check("other", Expect::Absent)], vec![put("e", "v")]);
        engine.commit(other).await.unwrap();
        assert_eq!(
            (count(&client, "lazuli_kv").await, count(&client, "lazuli_gone").await),
            (7, 4)
        );

        assert_eq!(keeps.tend().await.unwrap(), Reclaimed::Fully);
        assert_eq!(floor(&client).await, 0, "what was deleted just now is kept for an hour");
        assert_eq!(engine.tend().await.unwrap(), Reclaimed::Fully);
        assert!(floor(&client).await >= i64::try_from(last.0).unwrap());
        assert_eq!(count(&client, "lazuli_kv").await, 6, "the row of the check carries nothing");
        assert_eq!(engine.tend().await.unwrap(), Reclaimed::Fully);
        assert_eq!(
            (count(&client, "lazuli_kv").await, count(&client, "lazuli_gone").await),
            (3, 0)
        );
    });
}

/// A row that was written again after its deletion stays.
#[test]
fn key_that_came_back_is_not_removed() {
    if !is_there() {
        return;
    }
    run(async {
        let (address, _) = fresh_with_address();
        let engine = open_on(&address, |options| {
            options.deleted_kept = Duration::ZERO;
            options.floor_settles = Duration::ZERO;
        });
        for write in [put("a", "old"), delete("a"), put("a", "new")] {
            engine.commit(commit(vec![], vec![write])).await.unwrap();
        }
        for _ in 0..3 {
            engine.tend().await.unwrap();
        }
        let found = engine.read(&[key("a")]).await.unwrap().remove(0).unwrap();
        assert_eq!(found.value, "new");
    });
}

/// K-2.5: the floor and the revisions of keys decide, whatever the database's clock says.
#[test]
fn revisions_lie_above_the_floor_and_above_those_of_their_keys() {
    if !is_there() {
        return;
    }
    run(async {
        let (address, engine) = fresh_with_address();
        let client = raw(&address).await;
        let first = engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
        // As if the clock had been a day ahead when this row was written.
        let ahead = i64::try_from(first.0).unwrap() + 864_000_000_000;
        client.execute("update lazuli_kv set r = $1", &[&ahead]).await.unwrap();
        let ahead = u64::try_from(ahead).unwrap();
        let one = engine.commit(commit(vec![], vec![put("a", "w")])).await.unwrap();
        assert_eq!(one.0, ahead + 1);
        let several = commit(vec![], vec![put("a", "x"), put("b", "x")]);
        assert_eq!(engine.commit(several).await.unwrap().0, ahead + 2);
        assert_eq!(engine.commit(commit(vec![], vec![delete("a")])).await.unwrap().0, ahead + 3);
        let floor = (ahead + 1000).to_string();
        let raise = "update lazuli_meta set value = $1 where name = 'floor'";
        client.execute(raise, &[&floor]).await.unwrap();
        for writes in [vec![put("new", "v")], vec![put("newer", "v"), put("newest", "v")]] {
            assert_eq!(engine.commit(commit(vec![], writes)).await.unwrap().0, ahead + 1000);
        }
    });
}

/// Inserts and deletes of one key race with the removal of its deleted row.
#[test]
fn removal_races_with_commits() {
    if !is_there() {
        return;
    }
    run(async {
        let (address, _) = fresh_with_address();
        let engine = Arc::new(open_on(&address, |options| {
            options.deleted_kept = Duration::ZERO;
            options.floor_settles = Duration::ZERO;
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let tending = tokio::spawn({
            let (engine, is_over) = (engine.clone(), is_over.clone());
            async move {
                while !is_over.load(Ordering::SeqCst) {
                    engine.tend().await.unwrap();
                }
            }
        });
        let mut last = Revision(0);
        for round in 0..60 {
            let insert = vec![check("a", Expect::Absent)];
            let mut writes = vec![put("a", "v")];
            if round % 2 == 0 {
                writes.push(put(&format!("other{round}"), "v"));
            }
            let inserted = engine.commit(commit(insert, writes)).await.unwrap();
            let again = commit(vec![check("a", Expect::Absent)], vec![put("a", "w")]);
            let result = engine.commit(again).await;
            assert!(matches!(result, Err(CommitError::CheckFailed { .. })), "{result:?}");
            let deleted = engine.commit(commit(vec![], vec![delete("a")])).await.unwrap();
            assert!(last < inserted && inserted < deleted, "{last:?} {inserted:?} {deleted:?}");
            last = deleted;
        }
        is_over.store(true, Ordering::SeqCst);
        tending.await.unwrap();
    });
}
