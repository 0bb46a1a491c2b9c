//! A job over a large result crashes twice, and continues each time with the page it was at.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::iter;
use lazuli_client::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let orders = tables.create_if_missing("JobOrders").await?;
    let state = tables.create_if_missing("JobState").await?;
    let order = |n| Entity::new("2026", format!("{n:05}")).with("Total", n);
    orders.bulk().upsert(iter((0..950).map(order))).await?.into_result()?;

    let job = || orders.query(partition("2026")).page_size(100).job("sum", &state);
    let _ = job().restart().await?;
    let sum = AtomicI64::new(0);
    let mut runs = 0;
    loop {
        runs += 1;
        let done = job()
            .run(async |page| {
                // The first two runs crash at their fourth page: it comes again.
                if runs < 3 && page.number() >= 3 * runs {
                    return Err("killed".into());
                }
                for order in page.items() {
                    sum.fetch_add(order.get::<i32>("Total")?.into(), Ordering::Relaxed);
                }
                Ok(())
            })
            .await;
        match done {
            Ok(report) => {
                println!(
                    "run {runs}: {} pages, after {} before",
                    report.pages, report.pages_before
                );
                break;
            }
            Err(error) if *error.kind() == ErrorKind::Refused => println!("run {runs}: {error:#}"),
            Err(error) => return Err(error.into()),
        }
    }
    let sum = sum.into_inner();
    println!("the sum of all orders is {sum}");
    assert_eq!((sum, runs), (950 * 949 / 2, 3));
    Ok(())
}
