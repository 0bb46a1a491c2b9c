//! A year of daily counts in one entity: 365 properties in two rows, written together.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{Change, Series};

#[derive(TableEntity)]
#[table(name = "WideExample", partition = "{department}", row = "{employee:06}_{year:04}")]
#[table(wide(parts = 2))]
struct Year {
    department: String,
    employee: u32,
    year: u16,
    #[table(series(prefix = "D", points = 365))]
    days: Series<i32, 365>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.create_if_missing("WideExample").await?;
    let years = tables.wide::<Year>()?;
    let key = || Year::key("Sales", 123, 2014);

    // One transaction of two rows.
    let days = std::array::from_fn(|_| Some(1)).into();
    years.upsert(&Year { department: "Sales".into(), employee: 123, year: 2014, days }).await?;

    // Day 300 is in the second row: one merge.
    years.merge(key()?).set(Year::DAYS.point(299), 17).await?;

    // Read, change, write if no row has changed in the meantime.
    years
        .update_with(key()?, |year| {
            year.days.iter_mut().take(31).for_each(|day| *day = None);
            Ok(Change::Write)
        })
        .await?;

    let year = years.get(key()?).await?.ok_or("it is gone")?;
    let total: i32 = year.days.iter().flatten().sum();
    println!("{} days, {total} messages", year.days.iter().flatten().count());
    assert_eq!((year.days.first(), total), (Some(&None), 365 - 31 + 16));

    let rows = years.rows().query(partition("Sales")).collect_at_most(10).await?;
    for row in &rows {
        println!("{} has {} properties", row.row_key(), row.len());
    }
    assert_eq!(rows.len(), 2);
    Ok(())
}
