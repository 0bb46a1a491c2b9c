//! The patterns of reading and of keys by time: log tail (P-7), large results (P-16), parallel reads (P-19), sorting
//! (P-21), with their cost and what a crash leaves.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod jobs;
mod logs;
mod parallel;
mod sorting;

use lazuli_client::{Entity, Table, iter};

/// Rows `n` of a partition, `n` with five digits.
async fn fill(table: &Table, partition: &str, rows: i32) {
    let row = |n| Entity::new(partition, format!("{n:05}")).with("Number", n);
    let report = table.bulk().upsert(iter((0..rows).map(row))).await.unwrap();
    assert_eq!(report.written, rows as u64);
}
