//! Log-ins in one table per day; old tables are deleted as a whole.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "a program has a clock")]

use lazuli_client::patterns::periodic::{Period, Timed};
use lazuli_client::prelude::*;
use std::time::{Duration, SystemTime};

#[derive(TableEntity)]
#[table(partition = "{user}", row = "{at:rev}_{id:08}")]
struct Login {
    user: String,
    at: Timestamp,
    id: u32,
}

impl Timed for Login {
    fn time(&self) -> Timestamp {
        self.at
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let days_ago = |days: u64| Timestamp::from_unix_seconds(now - days * 86_400);

    // Everything is kept: three days of log-ins, each in its own table.
    let all = tables.periodic::<Login>("PeriodicExample", Period::Day)?;
    for days in 0..3 {
        all.upsert(&Login { user: "user-17".into(), at: days_ago(days), id: 1 }).await?;
    }
    let tomorrow = Timestamp::from_unix_seconds(now + 86_400);
    let mine = all.query(Login::range("user-17"), days_ago(2)..tomorrow).newest_first();
    let mine = mine.collect_at_most(10).await?;
    assert_eq!(mine.len(), 3);
    println!("the last: {}", mine.first().ok_or("none")?.at);

    // Kept for a day: the oldest table is deleted by one request.
    let kept = all.clone().keep(day);
    let gone = kept.expire().await?;
    println!("deleted: {gone:?}");
    assert_eq!(gone, [all.name_at(days_ago(2))]);
    // A late entry does not create it again.
    let late = kept.insert(&Login { user: "user-17".into(), at: days_ago(2), id: 2 }).await;
    println!("{}", late.err().ok_or("it was refused")?);
    for days in 0..2 {
        tables.delete(&all.name_at(days_ago(days))).await?;
    }
    Ok(())
}
