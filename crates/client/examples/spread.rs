//! Events of an hour in sixteen partitions, read back as one sequence.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::TableEntity;
use lazuli_client::patterns::spread::Spread;
use lazuli_client::prelude::*;

#[derive(TableEntity, Clone, Debug)]
#[table(name = "SpreadEvents", rename_all = "PascalCase")]
#[table(partition = "{id:bucket(16)}_{hour}", row = "{id:08}")]
struct Event {
    hour: String,
    id: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("SpreadEvents").await?;
    tables.create_when_free("SpreadEvents").await?;
    let events = tables.of::<Event>()?;
    let hour = "2014082200";
    let all = (0..500).map(|id| Event { hour: hour.into(), id });
    let report = events.bulk().insert(lazuli_client::iter(all)).await?;
    println!("{} events in {} transactions", report.written, report.requests);

    let spread = Spread::open(&events, 16).await?;
    let mut merged = spread.query(|bucket| format!("{bucket}_{hour}")).await?;
    let mut next = 0;
    while let Some(event) = merged.try_next().await? {
        assert_eq!(event.id, next);
        next += 1;
    }
    println!("{next} events of {} buckets, in order", spread.buckets().count());
    Ok(())
}
