//! Writers against each other, and against the drop of their table.

use crate::fixture::{Fault, Fixture, mutation};
use lazuli_model::{AccountName, IfMatch, TableName, Value};
use lazuli_table::MutationKind::{Insert, InsertOrMerge, Merge};
use lazuli_table::{TableError, TableService};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn drop_table(fixture: &Fixture, and_create: bool) -> Fault {
    let (elsewhere, account) = (fixture.elsewhere(), fixture.account.clone());
    let table = fixture.table.clone();
    Fault::After(Box::pin(async move {
        elsewhere.delete_table(&account, &table).await.unwrap();
        if and_create {
            elsewhere.create_table(&account, &table).await.unwrap();
        }
    }))
}

#[tokio::test]
async fn an_insert_that_a_drop_overtakes_finds_no_table() {
    let fixture = Fixture::new().await;
    fixture.engine.plan([drop_table(&fixture, false)]);
    let result = fixture.mutate(Insert, ("p", "r"), &[]).await;
    assert!(matches!(result, Err(TableError::TableNotFound)));
}

#[tokio::test]
async fn an_insert_that_a_drop_and_a_creation_overtake_goes_to_the_new_table() {
    let fixture = Fixture::new().await;
    fixture.engine.plan([drop_table(&fixture, true)]);
    fixture.insert("p", "r").await;
    assert_eq!(fixture.pages(Default::default()).await.len(), 1);
}

#[tokio::test]
async fn a_conditional_write_that_a_drop_overtakes_does_not_match_the_new_table() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    fixture.engine.plan([drop_table(&fixture, true)]);
    let result = fixture.mutate(Merge(IfMatch::Any), ("p", "r"), &[]).await;
    assert!(matches!(result, Err(TableError::EntityNotFound)));
}

#[tokio::test]
async fn a_table_that_is_dropped_again_and_again_makes_the_service_busy() {
    let fixture = Fixture::new().await;
    let faults: Vec<_> = (0..32).map(|_| drop_table(&fixture, true)).collect();
    fixture.engine.plan(faults);
    let result = fixture.mutate(Insert, ("p", "r"), &[]).await;
    assert!(matches!(result, Err(TableError::Busy)));
}

#[tokio::test]
async fn policies_do_not_outlive_a_drop_that_overtakes_them() {
    let fixture = Fixture::new().await;
    fixture.engine.plan([drop_table(&fixture, false)]);
    let (account, table) = (&fixture.account, &fixture.table);
    let result = fixture.service.set_access_policies(account, table, Default::default()).await;
    assert!(matches!(result, Err(TableError::TableNotFound)));
}

/// Inserts rows; returns those that were acknowledged, each with the number of
/// drops that were done before it began and had begun when it ended.
async fn insert_on(
    service: TableService,
    account: AccountName,
    table: TableName,
    writer: usize,
    drops: Arc<[AtomicUsize; 2]>,
) -> Vec<(String, usize, usize)> {
    let mut acknowledged = Vec::new();
    for row in 0..400 {
        let row = format!("{writer}-{row}");
        let done = drops[1].load(Ordering::SeqCst);
        let insert = mutation(Insert, ("p", &row), &[]);
        match service.mutate(&account, &table, &insert).await {
            Ok(_) => acknowledged.push((row, done, drops[0].load(Ordering::SeqCst))),
            Err(TableError::TableNotFound | TableError::Busy) => {}
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_acknowledged_insert_is_lost_only_to_a_drop_after_it() {
    let fixture = Fixture::new().await;
    let drops = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (account, table) = (fixture.account.clone(), fixture.table.clone());
            tokio::spawn(insert_on(fixture.elsewhere(), account, table, writer, drops.clone()))
        })
        .collect();
    let (service, account, table) = (fixture.elsewhere(), &fixture.account, &fixture.table);
    for _ in 0..50 {
        drops[0].fetch_add(1, Ordering::SeqCst);
        service.delete_table(account, table).await.unwrap();
        drops[1].fetch_add(1, Ordering::SeqCst);
        service.create_table(account, table).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let stored = fixture.pages(Default::default()).await;
    let is_stored = |row: &str| stored.iter().any(|(_, stored)| stored == row);
    let total = drops[1].load(Ordering::SeqCst);
    for (row, done_before, begun_after) in &acknowledged {
        // Begun after every drop was done: it must exist. Ended before the last drop began: it must not.
        if *done_before == total {
            assert!(is_stored(row), "{row} was acknowledged and is lost");
        }
        if *begun_after < total {
            assert!(!is_stored(row), "{row} outlived its table");
        }
    }
    assert!(stored.iter().all(|(_, row)| acknowledged.iter().any(|(known, ..)| known == row)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_of_merges_on_one_entity_loses_nothing() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..200).map(|i| format!("p{i:03}")).collect();
    let tasks: Vec<_> = names
        .iter()
        .cloned()
        .enumerate()
        .map(|(index, name)| {
            let (service, account) = (fixture.elsewhere(), fixture.account.clone());
            let table = fixture.table.clone();
            tokio::spawn(async move {
                let pairs =
                    [(name.as_str(), Value::Int32(index as i32)), ("last", Value::Int32(0))];
                let merge = mutation(InsertOrMerge, ("p", "r"), &pairs);
                service.mutate(&account, &table, &merge).await.unwrap()
            })
        })
        .collect();
    let mut timestamps = Vec::new();
    for task in tasks {
        timestamps.push(task.await.unwrap());
    }
    let expect: Vec<String> = (0..200).map(|i| format!("p{i:03}=Int32({i})")).collect();
    let expect = format!("last=Int32(0) {}", expect.join(" "));
    assert_eq!(fixture.properties("p", "r").await.unwrap(), expect);
    timestamps.sort_unstable();
    timestamps.dedup();
    assert_eq!(timestamps.len(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_inserts_of_one_key_exactly_one_succeeds() {
    let fixture = Fixture::new().await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (service, account) = (fixture.elsewhere(), fixture.account.clone());
            let table = fixture.table.clone();
            tokio::spawn(async move {
                service.mutate(&account, &table, &mutation(Insert, ("p", "r"), &[])).await
            })
        })
        .collect();
    let mut succeeded = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => succeeded += 1,
            Err(TableError::EntityAlreadyExists) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(succeeded, 1);
}
