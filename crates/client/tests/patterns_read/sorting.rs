//! P-21.

use lazuli_client::{Entity, Loaded, Table, iter, partition, row};
use lazuli_model::key::compare;
use lazuli_test::TestServer;

async fn table(rows: impl IntoIterator<Item = Entity>) -> (TestServer, Table) {
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("Sorted").await.unwrap();
    assert!(
        table
            .bulk()
            .upsert(iter(rows.into_iter().collect::<Vec<_>>()))
            .await
            .unwrap()
            .failed
            .is_empty()
    );
    (server, table)
}

fn row_keys(rows: &[Loaded<Entity>]) -> Vec<&str> {
    rows.iter().map(|row| row.row_key()).collect()
}

#[tokio::test]
async fn padded_numbers_sort_as_numbers_and_others_as_text() {
    // PS-21.1, P-21.1.
    let padded = (1..=1000).map(|n| Entity::new("padded", format!("{n:08}")).with("N", n));
    let plain = (1..=1000).map(|n| Entity::new("plain", n.to_string()).with("N", n));
    let (_server, table) = table(padded.chain(plain)).await;
    let numbers = async |key: &str| -> Vec<i32> {
        let rows = table.query(partition(key)).collect_at_most(1000).await.unwrap();
        rows.iter().map(|row| row.get("N").unwrap()).collect()
    };
    assert!(numbers("padded").await.is_sorted());
    let plain = numbers("plain").await;
    assert_eq!(plain[..4], [1, 10, 100, 1000]);
    let sorted = table.query(partition("plain")).stream();
    let sorted = sorted
        .sorted_in_memory(1000, |a, b| a.get::<i32>("N").unwrap().cmp(&b.get::<i32>("N").unwrap()));
    assert_eq!(row_keys(&sorted.await.unwrap())[..3], ["1", "2", "3"]);
}

#[tokio::test]
async fn every_way_to_read_has_the_order_of_keys() {
    // PS-21.2, T-3.19.
    let mut keys = [
        "A",
        "Z",
        "a",
        "z",
        "0",
        "9",
        "_",
        "é",
        "\u{D7FF}",
        "\u{10000}",
        "\u{10FFFF}",
        "\u{E000}",
        "\u{FFFD}",
    ];
    let rows = keys.iter().flat_map(|p| keys.iter().map(|r| Entity::new(*p, *r)));
    let (_server, table) = table(rows.collect::<Vec<_>>()).await;
    keys.sort_by(|a, b| compare(a, b));
    let range = table.query(partition("é")).collect_at_most(100).await.unwrap();
    assert_eq!(row_keys(&range), keys);
    let some =
        table.query(partition("é").and(row().ge("\u{10000}"))).collect_at_most(100).await.unwrap();
    assert_eq!(row_keys(&some), ["\u{10000}", "\u{10FFFF}", "\u{E000}", "\u{FFFD}"]);
    let partitions = |rows: &[Loaded<Entity>]| {
        let mut keys: Vec<_> = rows.iter().map(|row| row.partition_key().to_owned()).collect();
        keys.dedup();
        keys
    };
    let merged =
        table.query_partitions(keys.iter().rev().copied()).collect_at_most(1000).await.unwrap();
    assert_eq!(partitions(&merged), keys);
    let split = table.scan().split(8).await.unwrap();
    assert!(split.len() > 4);
    let apart = table.scan().within(&split).collect_at_most(1000).await.unwrap();
    assert_eq!(partitions(&apart), keys);
    let points = partition("A").and(row().one_of(keys.iter().rev().copied()));
    let points = table.query(points).collect_at_most(100).await.unwrap();
    assert_eq!(row_keys(&points), keys);
}
