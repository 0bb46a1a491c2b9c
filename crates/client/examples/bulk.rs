//! 100,000 rows into 500 partitions, with a line of progress, a checkpoint, and a row that cannot be written.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{OnError, iter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ROWS: u64 = 100_000;

/// Rows in no particular order of partitions, as if read from a file.
fn row(n: u64) -> Entity {
    let row_key = if n == 77_777 { "not/a/key".to_owned() } else { format!("{n:06}") };
    Entity::new(format!("p{:03}", n % 500), row_key).with("Number", n as i64)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let rows = tables.create_if_missing("BulkExample").await?;

    // A load that crashed would resume here: `(durable..ROWS)`.
    let durable = Arc::new(AtomicU64::new(0));
    let stored = Arc::clone(&durable);
    let report = rows
        .bulk()
        .concurrency(16)
        .on_error(OnError::Collect)
        .checkpoint(50_000, move |n| stored.store(n, Ordering::Relaxed))
        .progress(|done| println!("{:>6} rows, {:>4} transactions", done.written, done.requests))
        .upsert(iter((0..ROWS).map(row)))
        .await?;
    println!("{} written in {} transactions", report.written, report.requests);
    for failure in &report.failed {
        println!("row {} of the input: {}", failure.index, failure.error);
    }
    assert_eq!((report.written, report.failed.len()), (ROWS - 1, 1));
    assert!(report.failed.iter().all(|failure| failure.index == 77_777));
    // A failed row is not durable: a load that resumes from the checkpoint meets it again.
    assert_eq!(durable.load(Ordering::Relaxed), 77_777);

    let found = rows.query_partitions(["p001", "p002"]).collect_at_most(1000).await?;
    assert_eq!(found.len(), 400);
    let gone = rows.bulk().delete_where(col("Number").lt(1_000_i64)).await?;
    println!("{} deleted in {} transactions", gone.written, gone.requests);
    assert_eq!(gone.written, 1000);
    Ok(())
}
