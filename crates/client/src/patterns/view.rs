//! A materialized view of an event stream: rows kept for reading (P-23.2).
//!
//! The view is a partition of any table. Its row `!view_{name}` stores the version of the last event applied, and is
//! written in the same transaction as the rows derived from the events. So each event takes effect exactly once, in
//! order, even if workers crash or run concurrently.

use super::stream::{EventStream, Recorded};
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::table::Table;
use crate::transaction::Transaction;

const VERSION: &str = "_v";
/// Events that are applied in one transaction.
const EVENTS: usize = 16;
const ATTEMPTS: u32 = 32;

/// A view that is updated from a stream.
#[derive(Clone, Debug)]
pub struct View {
    stream: EventStream,
    table: Table<Entity>,
    partition: String,
    name: String,
    events: usize,
}

impl View {
    /// The view called `name` of a stream, in a partition of `table`. Makes no request.
    pub fn new<T: TableEntity>(
        stream: &EventStream,
        table: &Table<T>,
        partition: &str,
        name: &str,
    ) -> Self {
        Self {
            stream: stream.clone(),
            table: table.retyped(),
            partition: partition.to_owned(),
            name: name.to_owned(),
            events: EVENTS,
        }
    }

    /// The number of events applied in one transaction; 16 by default. Together they may write 99 rows.
    #[must_use]
    pub fn events(self, events: usize) -> Self {
        Self { events: events.max(1), ..self }
    }

    /// The version of the last event applied.
    pub async fn version(&self) -> Result<i64, Error> {
        let checkpoint = self.table.get((&*self.partition, &*self.checkpoint())).await?;
        checkpoint.map_or(Ok(0), |row| Ok(row.get(VERSION)?))
    }

    /// Applies the events that the view has not seen, in order, and returns its new version. `apply` reads and writes
    /// rows of the view's partition; it may run several times for an event, but only one run takes effect.
    pub async fn catch_up<F, W>(&self, apply: F) -> Result<i64, Error>
    where
        F: Fn(Transaction, Recorded) -> W + Send + Sync,
        W: Future<Output = Result<(), Error>> + Send,
    {
        let mut version = self.version().await?;
        loop {
            let events = self.stream.read(version + 1, self.events).await?;
            if events.is_empty() {
                return Ok(version);
            }
            version = self.apply(events, &apply).await?;
        }
    }

    /// Applies events in one transaction; returns the new version of the view.
    async fn apply<F, W>(&self, events: Vec<Recorded>, apply: &F) -> Result<i64, Error>
    where
        F: Fn(Transaction, Recorded) -> W + Send + Sync,
        W: Future<Output = Result<(), Error>> + Send,
    {
        let events = &*events;
        let apply = self.table.transact(&self.partition, |tx| async move {
            let key = self.checkpoint();
            let checkpoint = tx.get((&*self.partition, &*key)).await?;
            let seen = match &checkpoint {
                Some(row) => row.get::<i64>(VERSION)?,
                None => 0,
            };
            // The view went back meanwhile, because somebody removed it to make it again: events are missing.
            if events.first().is_some_and(|first| first.version > seen.saturating_add(1)) {
                return Ok(seen);
            }
            let mut last = seen;
            for event in events.iter().filter(|event| event.version > seen) {
                last = event.version;
                apply(tx.clone(), event.clone()).await?;
            }
            match checkpoint {
                _ if last == seen => {}
                Some(mut row) => {
                    row.set(VERSION, last);
                    tx.replace(&row)?;
                }
                None => tx.insert(&Entity::new(&*self.partition, key).with(VERSION, last))?,
            }
            Ok(last)
        });
        apply.attempts(ATTEMPTS).await
    }

    fn checkpoint(&self) -> String {
        format!("!view_{}", self.name)
    }
}
