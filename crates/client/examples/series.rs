//! Messages per hour: one row per day, one property per hour.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::DataSeries;
use lazuli_client::prelude::*;

#[derive(DataSeries)]
#[table(name = "SeriesExample", partition = "{department}", row = "{employee:06}_{day:date}")]
#[series(points = 24, step = "hour", prefix = "H", value = i64)]
struct MessageCount {
    department: String,
    employee: u32,
    day: Timestamp,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("SeriesExample").await?;
    tables.create_when_free("SeriesExample").await?;
    let stats = tables.series::<MessageCount>()?;
    let at = |text: &str| {
        let time = Timestamp::parse(text).ok_or("no time")?;
        Ok::<_, Box<dyn std::error::Error>>(MessageCount::at("Sales", 123, time)?)
    };

    // One write each, without a read.
    stats.set(&at("2014-08-21T22:00:00Z")?, 7).await?;
    stats.set(&at("2014-08-22T09:00:00Z")?, 41).await?;
    // A read and a write, counted once even if the answer is lost.
    stats.add(&at("2014-08-22T09:59:00Z")?, 1).await?;

    // One point read.
    let day: [Option<i64>; 24] = stats.row(&at("2014-08-22T00:00:00Z")?).await?;
    assert_eq!((day[8], day[9]), (None, Some(42)));

    // The last 24 hours are in two rows: two concurrent point reads.
    let now = Timestamp::parse("2014-08-22T13:30:00Z").ok_or("no time")?;
    let last = stats.last(&MessageCount::series("Sales", 123)?, now, 24).await?;
    for (hour, count) in &last {
        println!("{hour} {}", count.map_or("-".to_owned(), |count| count.to_string()));
    }
    assert_eq!(last.iter().filter_map(|(_, count)| *count).collect::<Vec<_>>(), [7, 42]);
    Ok(())
}
