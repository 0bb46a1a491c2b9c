//! A counter, a lease, a sequence and an idempotency key.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::patterns::counter::Counter;
use lazuli_client::patterns::lease::Lease;
use lazuli_client::patterns::once::Once;
use lazuli_client::patterns::sequence::Sequence;
use lazuli_client::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.tables().delete_if_present("Coordination").await?;
    let table = account.tables().create_when_free("Coordination").await?;

    let visits = Counter::new(&table, "page-17", "visits").shards(4);
    for _ in 0..10 {
        visits.add(1).await?;
    }
    println!("visits: {}", visits.read().await?);
    assert_eq!(visits.read().await?, 10);

    let lease = Lease::new(&table, "leases", "report");
    let held = lease.acquire().await?.ok_or("nobody else is here")?;
    assert!(lease.acquire().await?.is_none(), "one at a time");
    let write = |report: &mut Entity| {
        report.set("Text", "all is well");
        Ok(())
    };
    held.update(&table, ("reports", "today"), write).await?;
    println!("written by holder {}", held.fence());
    held.release().await?;

    let invoices = Sequence::new(&table, "sequences", "invoices").block(10);
    let numbers = [invoices.next().await?, invoices.next().await?];
    println!("invoices: {numbers:?}");
    assert_eq!(numbers, [1, 2]);

    let once = Once::new(&table);
    let charge = async || Ok(b"charged 12.50".to_vec());
    let first = once.run("request-4711", charge).await?;
    let again = once.run("request-4711", charge).await?;
    println!("again: {}", again.is_repeated);
    assert_eq!((first.bytes, again.is_repeated), (again.bytes, true));
    Ok(())
}
