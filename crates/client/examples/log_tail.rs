//! The newest expenses first, those in a time range, and new ones as they arrive.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::Timestamp;
use lazuli_client::patterns::log_tail::{LogEntry, LogTail};
use lazuli_client::prelude::*;
use std::time::Duration;

#[derive(TableEntity, Debug)]
#[table(name = "LogTailExample", partition = "{employee}", row = "{at:rev}_{id:08}")]
struct Expense {
    employee: String,
    at: Timestamp,
    id: u32,
    amount: i32,
}

impl LogEntry for Expense {
    fn stamp(&mut self, at: Timestamp) {
        self.at = at;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("LogTailExample").await?;
    tables.create_when_free("LogTailExample").await?;
    let log = LogTail::new(&tables.of::<Expense>()?);
    let claim = |id| Expense { employee: "empid".into(), at: Timestamp::MIN, id, amount: 7 };
    for id in 0..25 {
        log.append(&mut claim(id)).await?;
    }

    let ten = log.latest("empid", 10).await?;
    for expense in &ten {
        println!("{} {}", expense.at, expense.id);
    }
    assert_eq!((ten.len(), ten.first().map(|expense| expense.id)), (10, Some(24)));

    // From the 20th on, and before the 24th: two bounds on the row key.
    let at = |id: u32| ten.iter().find(|expense| expense.id == id).map(|expense| expense.at);
    let (from, to) = (at(20).ok_or("20")?, at(24).ok_or("24")?);
    let four = log.between("empid", from..to).collect_at_most(10).await?;
    assert_eq!(four.iter().map(|expense| expense.id).collect::<Vec<_>>(), [23, 22, 21, 20]);

    let mut live = log.follow("empid", Duration::from_millis(100));
    live.begin().await?;
    log.append(&mut claim(25)).await?;
    let new = live.next().await?;
    println!("new: {}", new.id);
    assert_eq!(new.id, 25);
    Ok(())
}
