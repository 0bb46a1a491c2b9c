//! P-23.3.

use crate::{SEEDS, counted, methods, setup, table};
use lazuli_client::patterns::counter::Counter;
use lazuli_client::{Entity, ErrorKind};
use lazuli_test::crash::{self, chosen_seeds};
use lazuli_test::{Fault, TestServer};
use std::sync::atomic::{AtomicI64, Ordering};

#[tokio::test]
async fn an_increase_is_a_read_and_a_write_and_a_sum_one_query() {
    let (server, table) = counted().await;
    let counter = Counter::new(&table, "p", "visits").shards(1);
    counter.add(3).await.unwrap();
    assert_eq!(methods(&server), ["GET", "POST"]);
    counter.add(-1).await.unwrap();
    assert_eq!(methods(&server), ["GET", "PUT"]);
    assert_eq!(counter.read().await.unwrap(), 2);
    assert_eq!(methods(&server), ["GET"]);
    // Other counters in the partition are not counted.
    Counter::new(&table, "p", "visits2").add(100).await.unwrap();
    assert_eq!(counter.read().await.unwrap(), 2);
    // Nor are those whose names begin like its rows: `visits_home` was once a part of `visits`.
    for name in ["visits_home", "visits_000", "visits_0"] {
        let other = Counter::new(&table, "p", name).shards(1);
        other.add(1000).await.unwrap();
        assert_eq!(other.read().await.unwrap(), 1000, "{name}");
    }
    table.insert(&Entity::new("p", "visits_00x")).await.unwrap();
    assert_eq!(counter.read().await.unwrap(), 2);
    assert!(counter.add(i64::MAX).await.is_err());
    assert_eq!(counter.read().await.unwrap(), 2);
}

#[tokio::test]
async fn a_lost_response_is_not_counted_twice() {
    let (server, table) = counted().await;
    let counter = Counter::new(&table, "p", "visits").shards(1);
    for round in 1..=3 {
        server.faults().next([Fault::Pass, Fault::DropReply]);
        counter.add(1).await.unwrap();
        assert_eq!(counter.read().await.unwrap(), round);
    }
}

#[tokio::test]
async fn many_clients_count_exactly() {
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("Beyond").await.unwrap();
    let adds = (0..20).map(|_| {
        let counter = Counter::new(&table, "p", "visits").shards(8);
        tokio::spawn(async move {
            for _ in 0..20 {
                counter.add(1).await.unwrap();
            }
        })
    });
    for add in adds.collect::<Vec<_>>() {
        add.await.unwrap();
    }
    assert_eq!(Counter::new(&table, "p", "visits").read().await.unwrap(), 400);
}

#[tokio::test]
async fn a_client_that_dies_has_counted_once_or_not() {
    let requests = crash::every_point(
        setup,
        async |client, ()| Counter::new(&table(client), "p", "n").shards(1).add(5).await,
        async |_, ()| {},
        async |client, (), outcome| {
            let sum = Counter::new(&table(client), "p", "n").read().await.unwrap();
            assert!(sum == 0 || sum == 5);
            if let Some(outcome) = outcome {
                outcome.unwrap();
                assert_eq!(sum, 5);
            }
        },
    );
    assert_eq!(requests.await.unwrap(), 2);
}

/// What writers of one run did: increases that were acknowledged, and those that may have been carried out.
#[derive(Default)]
struct Tally {
    acknowledged: AtomicI64,
    possible: AtomicI64,
}

#[tokio::test]
async fn three_writers_with_faults_count_what_they_acknowledged() {
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Tally::default()
        },
        async |client, tally, _| {
            let counter = Counter::new(&table(client), "p", "n").shards(2);
            for _ in 0..5 {
                tally.possible.fetch_add(1, Ordering::Relaxed);
                match counter.add(1).await {
                    Ok(()) => {
                        tally.acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => {}
                    Err(_) => {
                        tally.possible.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
        },
        async |_, _| {},
        async |client, tally, _| {
            let sum = Counter::new(&table(client), "p", "n").read().await.unwrap();
            let bound = |number: &AtomicI64| number.load(Ordering::Relaxed);
            assert!(sum >= bound(&tally.acknowledged), "{sum}");
            assert!(sum <= bound(&tally.possible), "{sum}");
        },
    )
    .await
    .unwrap();
}
