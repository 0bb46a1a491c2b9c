//! P-23.5.

use crate::{SEEDS, counted, methods, setup, table};
use lazuli_client::patterns::sequence::Sequence;
use lazuli_test::crash::{self, chosen_seeds};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[tokio::test]
async fn numbers_come_by_blocks_from_1_on() {
    let (server, table) = counted().await;
    let sequence = Sequence::new(&table, "p", "orders").block(3);
    let other = Sequence::new(&table, "p", "orders").block(3);
    let mut numbers = Vec::new();
    for _ in 0..4 {
        numbers.push(sequence.next().await.unwrap());
    }
    assert_eq!(methods(&server), ["GET", "POST", "GET", "PUT"]);
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(other.next().await.unwrap(), 7);
    assert_eq!(sequence.clone().next().await.unwrap(), 5);
}

#[tokio::test]
async fn no_number_is_handed_out_twice() {
    // PS-23.3, P-0.7.
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Mutex::new(Vec::new())
        },
        async |client, handed: &Mutex<Vec<i64>>, _| {
            // Several clients in one: each has its own block.
            let clients: Vec<_> =
                (0..6).map(|_| Sequence::new(&table(client), "p", "n").block(2)).collect();
            for sequence in clients.iter().cycle().take(18) {
                if let Ok(number) = sequence.next().await {
                    handed.lock().unwrap().push(number);
                }
            }
        },
        async |_, _| {},
        async |_, handed, _| {
            let handed = handed.lock().unwrap();
            let distinct: BTreeSet<_> = handed.iter().collect();
            assert_eq!(distinct.len(), handed.len(), "{handed:?}");
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_client_that_dies_leaves_a_gap_at_most() {
    crash::every_point(
        setup,
        async |client, ()| Sequence::new(&table(client), "p", "n").block(10).next().await.unwrap(),
        async |_, ()| {},
        async |client, (), outcome| {
            let next = Sequence::new(&table(client), "p", "n").next().await.unwrap();
            assert!(next == 1 || next == 11);
            if let Some(number) = outcome {
                assert_eq!((number, next), (1, 11));
            }
        },
    )
    .await
    .unwrap();
}
