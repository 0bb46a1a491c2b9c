//! Futures dropped at any point: CS-25.

use crate::peer::Peer;
use lazuli_client::prelude::*;
use lazuli_client::{AccountBuilder, BoxFuture, Change, Transaction};
use lazuli_test::Seeded;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

crate::scenarios! { cs_25_a_dropped_future_leaves_before_or_after }

/// The number of cancellations.
fn rounds() -> usize {
    lazuli_test::crash::chosen_rounds(1000)
}

/// Completes when the future does, or after this many polls.
struct Polled<F> {
    future: F,
    left: usize,
}

impl<F: Future + Unpin> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        let outcome = Pin::new(&mut self.future).poll(context).map(Some);
        // The last poll ends it, whether or not anything wakes it.
        if outcome.is_pending() && self.left == 0 { Poll::Ready(None) } else { outcome }
    }
}

/// The operations, each on its own row that starts with zeros, so that a request which arrives late does not disturb
/// another round.
const VERBS: usize = 12;

fn row_of(round: i32, value: i32) -> Entity {
    Entity::new("p", format!("{round:08}")).with("A", value).with("B", value)
}

/// A row that does not exist yet.
fn other_of(round: i32) -> Entity {
    Entity::new("p", format!("{round:08}-other")).with("A", round).with("B", round)
}

/// Changes the row of `round` from zeros to `round`, or inserts another, or reads.
fn verb(number: usize, table: &Table, round: i32) -> BoxFuture<'static, Result<(), Error>> {
    let (entity, table) = (row_of(round, round), table.clone());
    let set = move |entity: &mut Entity| {
        entity.set("A", round);
        entity.set("B", round);
        Ok(Change::Write)
    };
    Box::pin(async move {
        let key = ("p", entity.row_key());
        match number {
            0 => table.upsert(&entity).await.map(drop),
            1 => table.overwrite(&entity).await.map(drop),
            2 => table.merge(key).set("A", round).set("B", round).await.map(drop),
            3 => table.upsert_merge(&entity).await.map(drop),
            4 => {
                let batch = table.batch("p").upsert(&entity).insert(&other_of(round));
                batch.commit().await.map(drop)
            }
            5 => table.update_with(key, set).await.map(drop),
            6 => {
                let loaded = table.get(key).required().await?;
                table.replace(&loaded.map(|_| entity.clone())).await.map(drop)
            }
            7 => {
                let work = |tx: Transaction| {
                    let entity = &entity;
                    async move {
                        if let Some(loaded) = tx.get(("p", entity.row_key())).await? {
                            tx.replace(&loaded.map(|_| entity.clone()))?;
                        }
                        tx.insert(&other_of(round))
                    }
                };
                table.transact("p", work).await
            }
            8 => table.insert(&other_of(round)).await.map(drop),
            9 => table.delete_key(key).await.map(drop),
            10 => table.get(key).await.map(drop),
            _ => table.query(partition("p")).take(3).collect_at_most(3).await.map(drop),
        }
    })
}

/// Whether the operation was carried out. Fails if it was carried out partly.
async fn is_done(number: usize, table: &Table, round: i32) -> bool {
    let read = async |row: String| {
        let row = table.get(("p", row)).await.unwrap()?;
        let values: [i32; 2] = [row.get("A").unwrap(), row.get("B").unwrap()];
        assert!(values == [0; 2] || values == [round; 2], "round {round}: {values:?}");
        Some(values[0] == round)
    };
    let row = format!("{round:08}");
    let other = format!("{round:08}-other");
    match number {
        4 | 7 => {
            // Read the new row first: if it exists, the other row has been changed too.
            let is_made = read(other).await.is_some();
            let is_changed = read(row).await == Some(true);
            assert!(is_changed || !is_made, "round {round}: half of a transaction");
            is_changed
        }
        8 => read(other).await.is_some(),
        9 => read(row).await.is_none(),
        10 | 11 => true,
        _ => read(row).await == Some(true),
    }
}

async fn cs_25_a_dropped_future_leaves_before_or_after(peer: Peer) {
    let checker = peer.table("Cancelled").await;
    let runtime = tokio::runtime::Handle::current().metrics();
    let tasks_before = runtime.num_alive_tasks();
    // A permit that is not returned would hang the test.
    let account = AccountBuilder::from_connection_string(peer.connection_string()).unwrap();
    let account = account.concurrency_max(2).build().unwrap();
    let table = account.tables().table(checker.name()).unwrap();
    let rounds = rounds();
    let mut random = Seeded::new(25);
    let (mut dropped, mut done_though_dropped) = (0, 0);
    let mut round = 0;
    while dropped < rounds {
        round += 1;
        if round % 100 == 1 {
            let rows = (round..round + 100).map(|round| row_of(round, 0));
            let batch = rows.fold(checker.batch("p"), |batch, row| batch.insert(&row));
            batch.commit().await.unwrap();
        }
        let number = random.below(VERBS);
        let left = 1 + random.below(4);
        let outcome = Polled { future: verb(number, &table, round), left }.await;
        let is_done = is_done(number, &checker, round).await;
        match outcome {
            Some(outcome) => {
                outcome.unwrap();
                assert!(is_done, "verb {number} of round {round} was acknowledged");
            }
            None => {
                dropped += 1;
                done_though_dropped += usize::from(is_done && number < 10);
            }
        }
    }
    assert!(done_though_dropped > 0, "no request was dropped on its way");
    table.upsert(&row_of(0, 0)).await.unwrap();
    drop((table, account));
    // Connections end, and their tasks with them; the task that checks for idle connections ends within a minute.
    // If futures left their tasks behind, there would be thousands; a few connections may still be closing.
    let tasks_max = tasks_before + 8;
    for _ in 0..6000 {
        if runtime.num_alive_tasks() <= tasks_max {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} tasks, {tasks_before} before", runtime.num_alive_tasks());
}
