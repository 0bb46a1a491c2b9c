//! P-23.4.

use crate::{SEEDS, counted, methods, setup, table};
use lazuli_client::patterns::lease::{Held, Lease};
use lazuli_client::{ErrorKind, Table};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

fn lease(table: &Table) -> Lease {
    Lease::new(table, "leases", "report").duration(Duration::from_secs(60))
}

async fn write(held: &Held, table: &Table, text: &'static str) -> Result<(), ErrorKind> {
    let change = move |entity: &mut lazuli_client::Entity| {
        entity.set("Text", text);
        Ok(())
    };
    held.update(table, ("reports", "today"), change).await.map_err(|error| error.kind().clone())
}

#[tokio::test]
async fn one_holds_until_it_ends_or_gives_it_back() {
    let (server, table) = counted().await;
    let clock = server.clock().unwrap().clone();
    let mut first = lease(&table).acquire().await.unwrap().unwrap();
    assert_eq!(methods(&server), ["GET", "POST"]);
    assert!(lease(&table).acquire().await.unwrap().is_none());
    assert_eq!(methods(&server), ["GET"]);
    clock.advance(Duration::from_secs(40));
    first.renew().await.unwrap();
    assert_eq!(methods(&server), ["PATCH"]);
    clock.advance(Duration::from_secs(40));
    assert!(first.is_held() && lease(&table).acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    let second = lease(&table).acquire().await.unwrap().unwrap();
    assert_eq!(second.fence(), 2);
    // Clocks differ: others wait for the margin too.
    clock.advance(Duration::from_secs(62));
    assert!(!second.is_held() && lease(&table).acquire().await.unwrap().is_none());
    clock.advance(Duration::from_secs(4));
    assert_eq!(lease(&table).acquire().await.unwrap().unwrap().fence(), 3);
}

#[tokio::test]
async fn a_lease_may_last_less_than_a_second() {
    // Parts of a second were once cut off, and such a lease had ended when it began.
    let (server, table) = counted().await;
    let clock = server.clock().unwrap().clone();
    let short = Lease::new(&table, "leases", "short").duration(Duration::from_millis(900));
    let short = short.margin(Duration::from_millis(300));
    let first = short.acquire().await.unwrap().unwrap();
    assert!(first.is_held() && short.acquire().await.unwrap().is_none());
    clock.advance(Duration::from_millis(1000));
    assert!(!first.is_held() && short.acquire().await.unwrap().is_none());
    clock.advance(Duration::from_millis(200));
    assert_eq!(short.acquire().await.unwrap().unwrap().fence(), 2);
    let long = Lease::new(&table, "leases", "long").duration(Duration::MAX);
    assert!(long.acquire().await.unwrap().unwrap().is_held());
    assert!(long.acquire().await.unwrap().is_none());
}

#[tokio::test]
async fn a_stale_holder_can_neither_renew_nor_write() {
    // PS-23.2, P-18.3.
    let (server, table) = counted().await;
    let clock = server.clock().unwrap().clone();
    let mut paused = lease(&table).acquire().await.unwrap().unwrap();
    write(&paused, &table, "by the first").await.unwrap();
    clock.advance(Duration::from_secs(120));
    let next = lease(&table).acquire().await.unwrap().unwrap();
    assert!(next.fence() > paused.fence());
    write(&next, &table, "by the second").await.unwrap();
    assert_eq!(write(&paused, &table, "too late").await, Err(ErrorKind::LeaseLost));
    assert_eq!(*paused.renew().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    let row = table.get(("reports", "today")).required().await.unwrap();
    assert_eq!(row.str("Text").unwrap(), "by the second");
}

#[tokio::test]
async fn a_holder_that_dies_is_followed_when_its_time_is_over() {
    crash::every_point(
        setup,
        async |client: &TestClient, ()| lease(&table(client)).acquire().await.unwrap(),
        async |client, ()| client.clock.advance(Duration::from_secs(66)),
        async |client, (), outcome| {
            let next = lease(&table(client)).acquire().await.unwrap().unwrap();
            if let Some(held) = outcome {
                assert!(next.fence() > held.unwrap().fence());
            }
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn no_two_holders_have_one_fencing_number() {
    // PS-23.2, P-0.7.
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Mutex::new(Vec::new())
        },
        async |client, fences: &Mutex<Vec<i64>>, mut writer| {
            for _ in 0..6 {
                let pause = Duration::from_secs(writer.random.below(80) as u64);
                if let Ok(Some(mut held)) = lease(&table(client)).acquire().await {
                    fences.lock().unwrap().push(held.fence());
                    client.clock.pass(pause).await;
                    let _ = held.renew().await;
                    if writer.random.one_in(2) {
                        let _ = held.release().await;
                    }
                } else {
                    client.clock.pass(pause).await;
                }
            }
        },
        async |_, _| {},
        async |_, fences, _| {
            let fences = fences.lock().unwrap();
            let distinct: BTreeSet<_> = fences.iter().collect();
            assert_eq!(distinct.len(), fences.len(), "{fences:?}");
        },
    )
    .await
    .unwrap();
}
