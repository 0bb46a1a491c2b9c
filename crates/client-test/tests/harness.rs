//! The harnesses detect what is wrong, and accept what is right (P-0.7, P-0.8).

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::prelude::*;
use lazuli_test::crash::{self, TestClient, Writer};
use lazuli_test::{Seeded, model};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

async fn setup(client: &TestClient) {
    client.tables().create("Pairs").await.unwrap();
}

fn pairs(client: &TestClient) -> Table {
    client.tables().table("Pairs").unwrap()
}

/// Rows that must exist together: written one after the other.
async fn torn(client: &TestClient, (): &()) -> Result<(), Error> {
    pairs(client).upsert(&Entity::new("p", "a")).await?;
    pairs(client).upsert(&Entity::new("p", "b")).await?;
    Ok(())
}

/// The same in one transaction.
async fn whole(client: &TestClient, (): &()) -> Result<(), Error> {
    let (a, b) = (Entity::new("p", "a"), Entity::new("p", "b"));
    pairs(client).batch("p").upsert(&a).upsert(&b).commit().await.map(drop)
}

async fn nothing(_: &TestClient, (): &()) {}

/// Completes a row whose other half is missing.
async fn completes(client: &TestClient, (): &()) {
    if pairs(client).get(("p", "a")).await.unwrap().is_some() {
        pairs(client).upsert(&Entity::new("p", "b")).await.unwrap();
    }
}

async fn both_or_none(client: &TestClient, (): &(), outcome: Option<Result<(), Error>>) {
    let (a, b) = (pairs(client).get(("p", "a")).await, pairs(client).get(("p", "b")).await);
    let (a, b) = (a.unwrap().is_some(), b.unwrap().is_some());
    assert_eq!(a, b);
    if let Some(outcome) = outcome {
        outcome.unwrap();
        assert!(a);
    }
}

#[tokio::test]
async fn a_torn_write_is_found_unless_it_is_healed() {
    use futures_util::FutureExt;
    let unhealed = crash::every_point(setup, torn, nothing, both_or_none);
    assert!(AssertUnwindSafe(unhealed).catch_unwind().await.is_err());
    assert_eq!(crash::every_point(setup, torn, completes, both_or_none).await.unwrap(), 2);
    assert_eq!(crash::every_point(setup, whole, nothing, both_or_none).await.unwrap(), 1);
}

#[tokio::test]
async fn three_writers_lose_no_acknowledged_step() {
    let setup = async |client: &TestClient| {
        let table = client.tables().create("Counters").await.unwrap();
        table.insert(&Entity::new("p", "r").with("Count", 0)).await.unwrap();
    };
    let write = async |client: &TestClient, (): &(), _: Writer| {
        let table = client.tables().table("Counters").unwrap();
        let mut steps = 0;
        for _ in 0..3 {
            let update = table.update_with(("p", "r"), |entity| {
                let count: i32 = entity.get("Count")?;
                entity.set("Count", count + 1);
                Ok(lazuli_client::Change::Write)
            });
            steps += i32::from(update.attempts(100).await.is_ok());
        }
        steps
    };
    let check = async |client: &TestClient, (): &(), outcomes: Vec<Option<i32>>| {
        let table = client.tables().table("Counters").unwrap();
        let count: i32 = table.get(("p", "r")).required().await.unwrap().get("Count").unwrap();
        assert_eq!(outcomes.len(), crash::WRITERS);
        let acknowledged: i32 = outcomes.iter().flatten().sum();
        // A writer that crashed may have done all its steps, and one that did not crash has returned what it did.
        let unsaid = outcomes.iter().filter(|outcome| outcome.is_none()).count() as i32 * 3;
        let unknown: i32 = outcomes.iter().flatten().map(|steps| 3 - steps).sum();
        assert!((acknowledged..=acknowledged + unsaid + unknown).contains(&count));
    };
    crash::seeds(crash::chosen_seeds(20), setup, write, nothing, check).await.unwrap();
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, i32),
    Delete(u8),
    Get(u8),
}

fn choose(random: &mut Seeded) -> Op {
    let key = random.below(3) as u8;
    match random.below(3) {
        0 => Op::Put(key, random.below(100) as i32),
        1 => Op::Delete(key),
        _ => Op::Get(key),
    }
}

async fn table(client: &TestClient) -> Table {
    client.tables().create("Model").await.unwrap()
}

async fn real(table: &Table, op: &Op) -> Option<i32> {
    match op {
        Op::Put(key, value) => {
            let row = Entity::new("p", key.to_string()).with("Value", *value);
            table.upsert(&row).await.unwrap();
            None
        }
        Op::Delete(key) => {
            table.delete_key(("p", key.to_string())).await.unwrap();
            None
        }
        Op::Get(key) => {
            let row = table.get(("p", key.to_string())).await.unwrap();
            row.map(|row| row.get("Value").unwrap())
        }
    }
}

#[tokio::test]
async fn a_table_is_a_map() {
    let model = |map: &mut BTreeMap<u8, i32>, op: &Op| match op {
        Op::Put(key, value) => map.insert(*key, *value).and(None),
        Op::Delete(key) => map.remove(key).and(None),
        Op::Get(key) => map.get(key).copied(),
    };
    model::compare(0..5, 40, choose, table, real, model).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "after [\n    Put(\n")]
async fn a_wrong_model_is_found_with_few_operations() {
    let forgetful = |map: &mut BTreeMap<u8, i32>, op: &Op| match op {
        Op::Put(key, value) => map.insert(*key, *value).and(None),
        Op::Delete(key) => map.remove(key).and(None),
        Op::Get(_) => None,
    };
    model::compare(0..5, 40, choose, table, real, forgetful).await.unwrap();
}
