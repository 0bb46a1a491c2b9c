//! Spreads keys that grow with time over several partitions (P-13).
//!
//! A partition key that consists only of time sends every insert to one partition. With a bucket in front,
//! `partition = "{id:bucket(16)}_{at:hour}"`, the inserts of an hour go to sixteen. [`Spread`] reads them back as one
//! sequence.
//!
//! The compiler warns of a partition key of time alone (P-13.1), unless the type says that this is meant:
//!
//! ```
//! #![deny(deprecated)]
//! # use lazuli_client::prelude::*;
//! #[derive(TableEntity)]
//! #[table(partition = "{at:hour}", row = "{id:06}", allow(append))]
//! struct Event { at: Timestamp, id: u32 }
//! ```
//!
//! ```compile_fail
//! #![deny(deprecated)]
//! # use lazuli_client::prelude::*;
//! #[derive(TableEntity)]
//! #[table(partition = "{at:hour}", row = "{id:06}")]
//! struct Event { at: Timestamp, id: u32 }
//! ```

use crate::codec::INDEX_MARK;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::partition;
use crate::query::Entities;
use crate::table::Table;
use futures_util::future::try_join_all;
use lazuli_model::key;
use lazuli_model::key_text::write_bucket;

/// The row of a table with all bucket counts ever used.
const NOTE: (&str, &str) = ("!layout", "spread");
const BUCKETS: &str = "Buckets";
/// Attempts of an update that other clients disturb.
const ATTEMPTS: u32 = 16;
/// The most partitions that one query reads.
const BUCKETS_MAX: u32 = 1000;

/// A table whose partition keys begin with buckets.
///
/// ```no_run
/// # use lazuli_client::prelude::*;
/// # use lazuli_client::patterns::spread::Spread;
/// # async fn run<Event: TableEntity>(events: Table<Event>) -> Result<(), Error> {
/// let spread = Spread::open(&events, 16).await?;
/// let mut hour = spread.query(|bucket| format!("{bucket}_2014082200")).await?;
/// while let Some(event) = hour.try_next().await? { /* in the order of row keys */ }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Spread<T> {
    table: Table<T>,
    /// The buckets, formatted as in keys.
    labels: Vec<String>,
}

impl<T: TableEntity> Spread<T> {
    /// Opens a table whose template currently has this many buckets. The count is recorded in the table, in the row
    /// `(!layout, spread)`, and all buckets ever recorded are read: the count may grow or shrink.
    ///
    /// Costs a point read, and a write when the count is new.
    pub async fn open(table: &Table<T>, buckets: u32) -> Result<Self, Error> {
        let place = |error: Error| error.at("spread", Some(table.name()), None);
        if !(1..=BUCKETS_MAX).contains(&buckets) {
            let reason = format!("1 to {BUCKETS_MAX} buckets");
            return Err(place(Error::config(reason)));
        }
        let numbers = noted(&table.retyped(), buckets).await.map_err(place)?;
        let mut labels: Vec<String> = numbers.into_iter().flat_map(labels).collect();
        labels.sort();
        labels.dedup();
        Ok(Self { table: table.clone(), labels })
    }

    /// The buckets that are read, formatted as in keys.
    pub fn buckets(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str)
    }

    /// The entities of one partition per bucket, in the order of their row keys. `key` returns the partition key for a
    /// bucket. The first pages are read concurrently.
    pub async fn query(&self, key: impl Fn(&str) -> String) -> Result<Merged<T>, Error> {
        if !self.table.account.dialect().sorts() {
            let error = Error::new(ErrorKind::NotSorted);
            return Err(error.at("spread", Some(self.table.name()), None));
        }
        let partitions = self.labels.iter().map(|label| {
            let mut entities = self.table.query(partition(&key(label))).stream();
            async move {
                let head = entities.try_next().await?;
                Ok::<_, Error>(head.map(|head| Source { head, entities }))
            }
        });
        let sources = try_join_all(partitions).await?;
        Ok(Merged { sources: sources.into_iter().flatten().collect() })
    }

    /// The first entities by row key: the latest, if row keys are inverted times.
    pub async fn latest(
        &self,
        entities: usize,
        key: impl Fn(&str) -> String,
    ) -> Result<Vec<Loaded<T>>, Error> {
        let mut merged = self.query(key).await?;
        let mut latest = Vec::new();
        while latest.len() < entities
            && let Some(entity) = merged.try_next().await?
        {
            latest.push(entity);
        }
        Ok(latest)
    }
}

/// Entities of several partitions, in the order of their row keys.
#[must_use = "nothing is read before `try_next`"]
pub struct Merged<T> {
    sources: Vec<Source<T>>,
}

/// A partition and its next entity.
struct Source<T> {
    head: Loaded<T>,
    entities: Entities<T>,
}

impl<T: TableEntity> Merged<T> {
    /// The next entity; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<Loaded<T>>, Error> {
        let row = |source: &Source<T>| source.head.loaded_key().row.clone();
        let by_row = |(_, a): &(usize, &Source<T>), (_, b): &(usize, &Source<T>)| {
            key::compare(row(a).as_str(), row(b).as_str())
        };
        let first = self.sources.iter().enumerate().min_by(by_row).map(|(at, _)| at);
        let Some(at) = first else { return Ok(None) };
        let Some(source) = self.sources.get_mut(at) else { return Ok(None) };
        match source.entities.try_next().await? {
            Some(next) => Ok(Some(std::mem::replace(&mut source.head, next))),
            None => Ok(Some(self.sources.swap_remove(at).head)),
        }
    }
}

/// Records a bucket count, and returns all recorded counts.
async fn noted(table: &Table<Entity>, buckets: u32) -> Result<Vec<u32>, Error> {
    for _ in 0..ATTEMPTS {
        let found = table.get(NOTE).await?;
        let mut numbers = match &found {
            Some(note) => parse(note)?,
            None => Vec::new(),
        };
        if numbers.contains(&buckets) {
            return Ok(numbers);
        }
        numbers.push(buckets);
        numbers.sort_unstable();
        let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
        // Typed reads skip rows with this mark (P-0.3).
        let note = Entity::new(NOTE.0, NOTE.1).with(INDEX_MARK, "!layout/spread");
        let note = note.with(BUCKETS, text.join(","));
        let written = match found {
            Some(found) => table.replace(&found.map(|_| note)).await,
            None => table.insert(&note).await,
        };
        match written {
            Err(error) if error.is_conflict() || error.is_precondition_failed() => {}
            written => return written.map(|_| numbers),
        }
    }
    Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
}

fn parse(note: &Entity) -> Result<Vec<u32>, Error> {
    let numbers = note.str(BUCKETS)?.split(',').map(|number| match number.parse() {
        Ok(number) if (1..=BUCKETS_MAX).contains(&number) => Ok(number),
        _ => Err(Error::protocol(format!("{number:?} is not a number of buckets"))),
    });
    numbers.collect()
}

/// The buckets, formatted as in templates.
fn labels(buckets: u32) -> Vec<String> {
    let mut sample = String::new();
    write_bucket(&mut sample, "", buckets.into());
    let width = sample.len();
    (0..buckets).map(|bucket| format!("{bucket:0width$}")).collect()
}
