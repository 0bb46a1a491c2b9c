//! Partitions read in parallel, a table cut into ranges for four workers, and a custom order.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::iter;
use lazuli_client::patterns::partitioned::Partitioned;
use lazuli_client::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let staff = tables.create_if_missing("ParallelExample").await?;
    let row = |n: i32| {
        Entity::new(format!("dept-{:02}", n % 40), format!("{n:06}")).with("Age", 20 + n * 7 % 45)
    };
    staff.bulk().upsert(iter((0..4000).map(row))).await?.into_result()?;

    // One query for each partition, eight at a time, in key order.
    let three = staff.query_partitions(["dept-30", "dept-07", "dept-12"]).filter(col("Age").lt(30));
    println!("{:?}, {} requests at least", three.explain().class, three.explain().requests_min);
    let young = three.collect_at_most(1000).await?;
    assert!(young.is_sorted_by_key(|row| row.row_key().len()));
    println!("{} young people in three departments", young.len());

    // Another order takes memory, so it is bounded.
    let by_age = staff.query(partition("dept-07")).stream();
    let age = |row: &Entity| row.get::<i32>("Age").unwrap_or_default();
    let by_age = by_age.sorted_in_memory(1000, |a, b| age(a).cmp(&age(b))).await?;
    assert!(by_age.is_sorted_by_key(|row| age(row)));

    // Ranges for four workers. Their text goes to other processes; here they are tasks.
    let text = Partitioned::new(staff.scan().split(16).await?).to_string();
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (staff, text) = (staff.clone(), text.clone());
            tokio::spawn(async move {
                let all: Partitioned = text.parse()?;
                let mut rows = staff.scan().within(all.assign(worker, 4)).unordered().stream();
                let mut count = 0;
                while rows.try_next().await?.is_some() {
                    count += 1;
                }
                Ok::<_, Error>(count)
            })
        })
        .collect();
    let mut counts = Vec::new();
    for worker in workers {
        counts.push(worker.await??);
    }
    println!("four workers read {counts:?} rows");
    assert_eq!(counts.iter().sum::<i32>(), 4000);
    Ok(())
}
