//! A log in blobs whose names contain the time: written from a buffer, read by time.
// needs: blob

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::patterns::blob_log::{BlobLog, LogLine};
use lazuli_client::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.blobs().create_if_missing("applogs").await?;
    let log = BlobLog::new(&account, "applogs", "example")?;
    let time = |text: &str| Timestamp::parse(text).ok_or("a time");
    // An earlier run may have left some entries.
    log.expire(time("2014-08-01T00:00:00Z")?).await?;

    for minute in 0..60 {
        let level = if minute % 20 == 5 { "Error" } else { "Info" };
        let at = time(&format!("2014-07-31T15:{minute:02}:00Z"))?;
        let _ = log.write_line(LogLine::new(at, [level, "a field; with a semicolon"]));
    }
    log.write_line(LogLine::new(time("2014-07-31T16:00:00Z")?, ["Info", "stored"]))
        .durable()
        .await?;

    let times = time("2014-07-31T15:04:00Z")?..time("2014-07-31T15:30:00Z")?;
    let mut errors =
        log.read(times).filter(|line| line.fields.first().is_some_and(|l| l == "Error"));
    let mut found = 0;
    while let Some(line) = errors.try_next().await? {
        println!("{} {:?}", line.at, line.fields);
        found += 1;
    }
    assert_eq!(found, 2);
    Ok(())
}
