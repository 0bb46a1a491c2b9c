//! P-20, on the client's own traffic.

use crate::counted;
use lazuli_client::patterns::advisor::{Code, Thresholds, Watch};
use lazuli_client::{Entity, assert_no_advice, col, partition, row};

fn codes(watch: &Watch) -> Vec<Code> {
    watch.findings().iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn the_guide_s_examples_are_advised_on() {
    // PS-20.2.
    let (server, table) = counted().await;
    let account = server.account();
    let table = account.tables().table(table.name()).unwrap();
    table.insert(&Entity::new("Sales", "000121x").with("LastName", "Jones")).await.unwrap();
    let watch = Watch::new(&account, Thresholds::default());
    let range = partition("Sales").and(row().ge("S")).and(row().lt("T"));
    table.query(range).collect_at_most(10).await.unwrap();
    table.get(("Sales", "000121x")).await.unwrap();
    assert_no_advice!(watch);

    table.scan().filter(col("LastName").eq("Jones")).collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::TableScan]);
    assert_eq!(watch.findings()[0].subject, "LastName");

    let watch = Watch::new(&account, Thresholds::default());
    for _ in 0..100 {
        let smith = partition("Sales").and(col("LastName").eq("Smith"));
        table.query(smith).collect_at_most(10).await.unwrap();
    }
    assert_eq!(codes(&watch), [Code::PartitionScan]);

    let watch = Watch::new(&account, Thresholds::default());
    let or = partition("Sales").and(row().eq("121").or(row().eq("322")));
    // Cut into point reads, it is fine; sent as it is, the service scans.
    table.query(or.clone()).collect_at_most(10).await.unwrap();
    assert_no_advice!(watch);
    table.query(or).as_written().collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::OrOfKeys]);
    table.scan().filter(row().eq("121")).collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::OrOfKeys, Code::RowWithoutPartition]);
}

#[tokio::test]
async fn writes_are_seen_one_by_one_and_in_batches() {
    let (server, _table) = counted().await;
    let account = server.account();
    let table = account.tables().table("Beyond").unwrap();
    let watch = Watch::new(&account, Thresholds::default());
    let batch = table.batch("p").insert(&Entity::new("p", "id_9"));
    batch.insert(&Entity::new("p", "id_10")).commit().await.unwrap();
    assert_eq!(codes(&watch), [Code::UnpaddedNumbers]);
    drop(watch);
    // Nobody watches: nothing is gathered, and nothing breaks.
    table.insert(&Entity::new("p", "id_11")).await.unwrap();
}
