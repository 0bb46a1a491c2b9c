//! A counter that many clients increase (P-23.3).
//!
//! Writers of one row wait for each other, so the count is spread over shards. Each shard keeps the ids of its last
//! writes, so that an increase whose answer was lost is not repeated.

use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{partition, row};
use crate::table::Table;
use crate::update::Change;
use std::fmt::Write;

const COUNT: &str = "Count";
const SHARDS: u16 = 16;
const SHARDS_MAX: u64 = 1000;
/// Digits of a shard's number in its row key.
const WIDTH: usize = 3;
/// Shards that an increase tries before it gives up.
const ROUNDS: u32 = 4;

/// A counter: rows `{name}_{shard}` in one partition.
///
/// ```
/// # use lazuli_client::patterns::counter::Counter;
/// # use lazuli_client::prelude::*;
/// # async fn run(table: Table) -> Result<(), Error> {
/// let visits = Counter::new(&table, "page-17", "visits");
/// visits.add(1).await?;
/// assert_eq!(visits.read().await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    table: Table<Entity>,
    partition: String,
    name: String,
    shards: u16,
}

impl Counter {
    /// The counter called `name` in a partition. Makes no request.
    pub fn new<T: TableEntity>(table: &Table<T>, partition: &str, name: &str) -> Self {
        let (partition, name) = (partition.to_owned(), name.to_owned());
        Self { table: table.retyped(), partition, name, shards: SHARDS }
    }

    /// Spreads the count over this many rows, 1 to 1000, by default 16. With more rows, writers disturb each other
    /// less, but each read is more expensive. The number may be changed at any time.
    #[must_use]
    pub fn shards(self, shards: u16) -> Self {
        Self { shards: shards.clamp(1, 1000), ..self }
    }

    /// Adds to the counter, exactly once. After an error of kind [`ErrorKind::OutcomeUnknown`] the amount may or may
    /// not have been added: do not add again, unless counting twice is better than not at all.
    pub async fn add(&self, amount: i64) -> Result<(), Error> {
        let env = self.table.account.0.env.clone();
        let mut round = 1;
        loop {
            let shard = env.below(u64::from(self.shards));
            let key = (self.partition.clone(), self.row_key(shard));
            let fresh = Entity::new(key.0.clone(), key.1.clone()).with(COUNT, 0_i64);
            let add = move |entity: &mut Entity| {
                let count: i64 = entity.get(COUNT)?;
                let sum = count.checked_add(amount).ok_or("the counter does not go so far")?;
                entity.set(COUNT, sum);
                Ok(Change::Write)
            };
            let update = self.table.update_with(key, add).or_insert_with(move || fresh.clone());
            match update.await {
                Ok(_) => return Ok(()),
                // Other clients write to this shard: another one may be free.
                Err(error) if is_contended(&error) && round < ROUNDS => round += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The sum of all shards. It includes everything that was added before the read began.
    pub async fn read(&self) -> Result<i64, Error> {
        let rows = row().ge(self.row_key(0)).and(row().le(self.row_key(SHARDS_MAX - 1)));
        let mut shards = self.table.query(partition(&self.partition).and(rows)).stream();
        let mut sum = 0_i64;
        while let Some(shard) = shards.try_next().await? {
            if !self.has(shard.row_key()) {
                continue;
            }
            let count: i64 = shard.get(COUNT)?;
            let next = sum.checked_add(count);
            sum = next.ok_or_else(|| Error::config("the counter is out of range"))?;
        }
        Ok(sum)
    }

    fn row_key(&self, shard: u64) -> String {
        let mut key = self.name.clone();
        let _ = write!(key, "_{shard:0WIDTH$}");
        key
    }

    /// Whether a row is one of its shards, and not of a counter whose name only begins like its rows.
    fn has(&self, row_key: &str) -> bool {
        let number = row_key.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix('_'));
        number.is_some_and(|number| {
            number.len() == WIDTH && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    }
}

fn is_contended(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Contended { .. })
}
