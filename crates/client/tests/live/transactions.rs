//! Functions that read and write one partition, with concurrent writers and with lost answers.

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::{Entity, Error, ErrorKind, Retry, Table, Transaction, partition};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn department(count: i32) -> Entity {
    Entity::new("Sales", "Department").with("EmployeeCount", count)
}

/// Adds an employee and counts him.
async fn hire(tx: Transaction, row: String) -> Result<(), Error> {
    let Some(mut sales) = tx.get(("Sales", "Department")).await? else {
        return Ok(());
    };
    let count: i32 = sales.get("EmployeeCount")?;
    sales.set("EmployeeCount", count + 1);
    tx.replace(&sales)?;
    tx.insert(&Entity::new("Sales", row))
}

async fn count(table: &Table) -> (i32, usize) {
    let rows = table.scan().collect_at_most(1000).await.unwrap();
    let department = table.get(("Sales", "Department")).required().await.unwrap();
    (department.get("EmployeeCount").unwrap(), rows.len() - 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_lose_no_change() {
    let server = TestServer::start();
    let table = server.table("Staff").await;
    table.insert(&department(0)).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let table = table.clone();
            tokio::spawn(async move {
                for number in 0..10 {
                    let row = format!("{task}-{number}");
                    let work = |tx| hire(tx, row.clone());
                    table.transact("Sales", work).attempts(1000).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&table).await, (80, 80));
}

#[tokio::test]
async fn a_lost_answer_does_nothing_twice() {
    let server = TestServer::start();
    server.table("Staff").await.insert(&department(0)).await.unwrap();
    let faults = FaultyTransport::new();
    let pause = Duration::from_millis(1);
    let retry = Retry::default().pauses(pause, pause);
    let account = server.builder().transport(faults.clone()).retry(retry).build().unwrap();
    let table = account.tables().table("Staff").unwrap();
    for number in 1..=5 {
        faults.next(&[Fault::None, Fault::LosesAnswer]);
        let row = format!("{number}");
        table.transact("Sales", |tx| hire(tx, row.clone())).await.unwrap();
        assert_eq!(faults.methods(), ["GET", "POST", "POST", "GET"]);
        assert_eq!(count(&table).await, (number, number as usize));
    }
    faults.next(&[Fault::None, Fault::LosesRequest]);
    table.transact("Sales", |tx| hire(tx, "6".to_owned())).await.unwrap();
    assert_eq!(count(&table).await, (6, 6));
}

#[tokio::test]
async fn reads_see_the_writes_before_them() {
    let server = TestServer::start();
    let table = server.table("Staff").await;
    table.insert(&department(1)).await.unwrap();
    let seen = table
        .transact("Sales", |tx| async move {
            tx.insert(&Entity::new("Sales", "1").with("Age", 30))?;
            let mut first = tx.get(("Sales", "1")).await?.ok_or_else(missing)?;
            first.set("Age", 31);
            tx.replace(&first)?;
            let department = tx.get(("Sales", "Department")).await?.ok_or_else(missing)?;
            tx.delete(&department)?;
            assert!(tx.get(("Sales", "Department")).await?.is_none());
            let first = tx.get(("Sales", "1")).await?.ok_or_else(missing)?;
            Ok(first.get::<i32>("Age")?)
        })
        .await
        .unwrap();
    assert_eq!(seen, 31);
    let rows = table.scan().collect_at_most(10).await.unwrap();
    assert_eq!((rows.len(), rows[0].get::<i32>("Age")), (1, Ok(31)));
}

fn missing() -> Error {
    lazuli_client::DecodeError {
        property: "any".into(),
        reason: lazuli_client::ValueError::Missing,
        key: None,
    }
    .into()
}

#[tokio::test]
async fn a_guard_has_the_transaction_run_again() {
    let server = TestServer::start();
    let table = server.table("Staff").await;
    table.insert(&department(1)).await.unwrap();
    let rounds = AtomicU32::new(0);
    let (rounds_ref, rival) = (&rounds, &table);
    let seen = table
        .transact("Sales", |tx| async move {
            let department = tx.get(("Sales", "Department")).await?.ok_or_else(missing)?;
            tx.guard(&department)?;
            if rounds_ref.fetch_add(1, Ordering::Relaxed) == 0 {
                rival.merge(("Sales", "Department")).set("EmployeeCount", 2).await?;
            }
            tx.insert(&Entity::new("Sales", "1"))?;
            Ok(department.get::<i32>("EmployeeCount")?)
        })
        .await
        .unwrap();
    assert_eq!((seen, rounds.load(Ordering::Relaxed)), (2, 2));
}

#[tokio::test]
async fn a_function_that_fails_changes_nothing_and_a_wrong_one_is_told() {
    let server = TestServer::start();
    let table = server.table("Staff").await;
    let failed: Result<(), Error> = table
        .transact("Sales", |tx| async move {
            tx.insert(&Entity::new("Sales", "1"))?;
            Err(missing())
        })
        .await;
    assert!(matches!(failed.unwrap_err().kind(), ErrorKind::Decode(_)));
    let other = table
        .transact("Sales", |tx| async move { tx.insert(&Entity::new("Marketing", "1")) })
        .await
        .unwrap_err();
    assert!(other.to_string().contains("one partition"), "{other}");
    assert_eq!(table.scan().collect_at_most(10).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_transaction_can_require_what_it_reads() {
    // C-7.1.
    let server = TestServer::start();
    let table = server.table("Required").await;
    let missing = table.transact("p", |tx| async move { tx.get(("p", "r")).required().await });
    let error = missing.await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("(p, r)"), "{error}");
    table.insert(&Entity::new("p", "r").with("N", 1)).await.unwrap();
    let found = table.transact("p", |tx| async move {
        let mut row = tx.get(("p", "r")).required().await?;
        row.set("N", 2);
        tx.replace(&row)?;
        tx.get(("p", "r")).required().await?.get::<i32>("N").map_err(Error::from)
    });
    assert_eq!(found.await.unwrap(), 2);
}

#[tokio::test]
async fn a_transaction_queries_before_it_writes() {
    // C-10.4.
    let server = TestServer::start();
    let table = server.table("Staff").await;
    table.insert(&department(0)).await.unwrap();
    for row in ["1", "2", "3"] {
        table.insert(&Entity::new("Sales", row)).await.unwrap();
    }
    let work = |tx: Transaction| async move {
        let rows = tx.query::<Entity>(partition("Sales")).collect_at_most(10).await?;
        for row in &rows {
            tx.guard(row)?;
        }
        let after_guards = tx.query::<Entity>(partition("Sales")).collect_at_most(10).await?;
        tx.insert(&Entity::new("Sales", "count").with("Rows", after_guards.len() as i32))?;
        let late = tx.query::<Entity>(partition("Sales")).collect_at_most(10).await;
        Ok((rows.len(), late.map(|_| ()).unwrap_err().to_string()))
    };
    let (rows, late) = table.transact("Sales", work).await.unwrap();
    assert_eq!(rows, 4);
    assert!(late.contains("before its first write"), "{late}");
    let counted = table.get(("Sales", "count")).required().await.unwrap();
    assert_eq!(counted.get::<i32>("Rows"), Ok(4));
}
