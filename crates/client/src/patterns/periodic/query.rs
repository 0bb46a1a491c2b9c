//! Queries the tables of several periods as if they were one (P-8.5).

use super::{Periodic, Timed};
use crate::entity::Loaded;
use crate::error::{Error, ErrorKind};
use crate::query::{Entities, Selection};
use crate::table::Table;
use futures_util::future::try_join_all;
use lazuli_model::Timestamp;
use std::collections::VecDeque;
use std::ops::Range;

/// The most tables that one query reads.
const TABLES_MAX: usize = 400;
/// Tables whose first pages are fetched concurrently.
const AT_ONCE: usize = 8;
/// The most entities buffered when tables are merged, for up to 400 tables.
const ENTITIES_HELD: usize = 4000;
const PAGE_MAX: usize = 1000;

/// The order in which the tables are read.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// All concurrently, merged by key.
    Key,
    OldestFirst,
    NewestFirst,
}

/// A query over several tables, not sent yet.
#[must_use = "nothing is sent before the stream is polled"]
pub struct PeriodicQuery<T> {
    tables: Periodic<T>,
    selection: Selection,
    times: Range<Timestamp>,
    order: Order,
}

impl<T: Timed> PeriodicQuery<T> {
    pub(super) fn new(tables: Periodic<T>, selection: Selection, times: Range<Timestamp>) -> Self {
        Self { tables, selection, times, order: Order::Key }
    }

    /// Reads one table after the other from the newest on, each in key order. With row keys that begin with inverted
    /// ticks, this returns the newest entities without reading older tables.
    pub fn newest_first(self) -> Self {
        Self { order: Order::NewestFirst, ..self }
    }

    /// Reads one table after the other from the oldest on, each in key order.
    pub fn oldest_first(self) -> Self {
        Self { order: Order::OldestFirst, ..self }
    }

    /// The entities, one by one, by default in key order over all tables.
    pub fn stream(mut self) -> PeriodicEntities<T> {
        let (sources, fault) = match self.sources() {
            Ok(sources) => (sources, None),
            Err(error) => (VecDeque::new(), Some(error.at("query", None, None))),
        };
        PeriodicEntities { sources, times: self.times, merges: self.order == Order::Key, fault }
    }

    /// All entities; fails if there are more than `max`.
    pub async fn collect_at_most(self, max: usize) -> Result<Vec<Loaded<T>>, Error> {
        let mut stream = self.stream();
        let mut all = Vec::new();
        while let Some(entity) = stream.try_next().await? {
            if all.len() == max {
                return Err(Error::config(format!("there are more than {max} entities")));
            }
            all.push(entity);
        }
        Ok(all)
    }

    /// The queries of all tables, in reading order.
    fn sources(&mut self) -> Result<VecDeque<Source<T>>, Error> {
        let mut tables = Vec::new();
        let mut time = self.times.start;
        while time < self.times.end {
            let period = self.tables.period.of(time);
            if tables.len() == TABLES_MAX {
                let length = period.end.ticks().saturating_sub(period.start.ticks()).max(1);
                let span = self.times.end.ticks().saturating_sub(self.times.start.ticks());
                let reason = format!("about {} tables, more than 400", span.div_ceil(length));
                return Err(Error::config(reason));
            }
            tables.push(self.tables.table_at(time)?);
            time = period.end;
        }
        if self.order == Order::NewestFirst {
            tables.reverse();
        }
        // Each of the merged tables buffers a page.
        let page = match self.order {
            Order::Key => (ENTITIES_HELD / tables.len().max(1)).clamp(10, PAGE_MAX),
            Order::OldestFirst | Order::NewestFirst => PAGE_MAX,
        };
        let page = u16::try_from(page).unwrap_or(u16::MAX);
        let query = |table: &Table<T>| {
            let query = table.query(self.selection.again()?).page_size(page);
            Ok(Source { entities: query.stream(), head: None, is_over: false })
        };
        tables.iter().map(query).collect()
    }
}

/// The entities of one table.
struct Source<T> {
    entities: Entities<T>,
    /// The next entity.
    head: Option<Loaded<T>>,
    is_over: bool,
}

impl<T: Timed> Source<T> {
    /// Fetches the next entity in a time range. A missing table counts as empty.
    async fn fill(&mut self, times: &Range<Timestamp>) -> Result<(), Error> {
        while self.head.is_none() && !self.is_over {
            match self.entities.try_next().await {
                Ok(Some(entity)) if times.contains(&entity.time()) => self.head = Some(entity),
                Ok(Some(_)) => {}
                Ok(None) => self.is_over = true,
                Err(error) if *error.kind() == ErrorKind::TableNotFound => self.is_over = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The entities of several tables.
pub struct PeriodicEntities<T> {
    sources: VecDeque<Source<T>>,
    times: Range<Timestamp>,
    merges: bool,
    fault: Option<Error>,
}

impl<T: Timed> PeriodicEntities<T> {
    /// The next entity; `None` after the last. After an error, the page that failed is fetched again.
    pub async fn try_next(&mut self) -> Result<Option<Loaded<T>>, Error> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.merges { self.least().await } else { self.first().await }
    }

    /// The next entity of the first table that has one.
    async fn first(&mut self) -> Result<Option<Loaded<T>>, Error> {
        while let Some(source) = self.sources.front_mut() {
            source.fill(&self.times).await?;
            if let Some(entity) = source.head.take() {
                return Ok(Some(entity));
            }
            self.sources.pop_front();
        }
        Ok(None)
    }

    /// The entity with the least key of all tables.
    async fn least(&mut self) -> Result<Option<Loaded<T>>, Error> {
        let sources = self.sources.make_contiguous();
        for some in sources.chunks_mut(AT_ONCE) {
            try_join_all(some.iter_mut().map(|source| source.fill(&self.times))).await?;
        }
        self.sources.retain(|source| source.head.is_some());
        let key =
            |source: &&mut Source<T>| source.head.as_ref().map(|head| head.loaded_key().clone());
        let least = self.sources.iter_mut().min_by_key(key);
        Ok(least.and_then(|source| source.head.take()))
    }
}
