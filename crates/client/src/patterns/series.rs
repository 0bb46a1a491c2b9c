//! Series of values, for example one row per day with a property for each hour (P-9): a chart takes one or two reads.
//!
//! The row of a day has `H00` to `H23`, only those that are set; that of an hour has `M00` to `M59`, and so on. A row
//! with shards is stored as several rows whose keys end in `~0`, `~1`, ..: a value is the sum over them.

mod add;
#[cfg(test)]
mod orders;
mod read;

use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::key::KeyError;
use crate::key_part::{Calendar, KeyCalendar};
use crate::kind::Kind;
use crate::table::Table;
use crate::tables::Tables;
use crate::value::TableValue;
use crate::write::Written;
use lazuli_model::{EntityKey, Timestamp};
use std::fmt;
use std::marker::PhantomData;

const TICKS_PER_SECOND: u64 = 10_000_000;

/// A series: derived by `#[derive(DataSeries)]`.
///
/// ```
/// # use lazuli_client::prelude::*;
/// # use lazuli_client::DataSeries;
/// #[derive(DataSeries)]
/// #[table(name = "MessageStats", partition = "{department}", row = "{employee:06}_{day:date}")]
/// #[series(points = 24, step = "hour", prefix = "H", value = i64)]
/// struct MessageCount { department: String, employee: u32, day: Timestamp }
///
/// # async fn run(tables: Tables, t: Timestamp) -> Result<(), Error> {
/// let stats = tables.series::<MessageCount>()?;
/// stats.set(&MessageCount::at("Sales", 123, t)?, 42).await?;                         // one write, no read
/// stats.add(&MessageCount::at("Sales", 123, t)?, 1).await?;                          // a read and a write
/// let day: [Option<i64>; 24] = stats.row(&MessageCount::at("Sales", 123, t)?).await?;
/// let last = stats.last(&MessageCount::series("Sales", 123)?, t, 24).await?;         // of two days
/// # Ok(())
/// # }
/// ```
pub trait DataSeries: Sized + Send + 'static {
    /// The type of a point.
    type Value: SeriesValue;
    /// The type of a row: an array of points.
    type Row: TryFrom<Vec<Option<Self::Value>>>;
    /// The table that stores them, if the type names one.
    const TABLE: Option<&'static str>;
    /// Distinguishes its rows from others in the table.
    const KIND: Option<Kind>;
    /// The number of points in a row.
    const POINTS: usize;
    /// Seconds from one point to the next.
    const STEP_SECONDS: u64;
    /// The prefix of the points' names.
    const PREFIX: &'static str;
    /// How much of the time is in the key of a row.
    const PERIOD: Calendar;
    /// The number of rows that share the increases of one row; 1 without shards.
    const SHARDS: u32;

    /// The key of the row for this series and time.
    fn key(&self) -> Result<EntityKey, KeyError>;

    /// Parses the key of a row; its time is that of the first point.
    fn parse(key: &EntityKey) -> Result<Self, KeyError>;
}

/// A value of a series: `i32`, `i64` or `f64`.
pub trait SeriesValue: TableValue + Copy + Default + PartialEq + Send + Sync + 'static {
    /// The sum; `None` on overflow.
    #[doc(hidden)]
    fn plus(self, other: Self) -> Option<Self>;
}

impl SeriesValue for i32 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl SeriesValue for i64 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl SeriesValue for f64 {
    fn plus(self, other: Self) -> Option<Self> {
        Some(self + other)
    }
}

/// One series: rows of one partition with a common key prefix. `MessageCount::series("Sales", 123)?` makes one.
#[derive(Debug)]
pub struct SeriesOf<S> {
    partition: String,
    prefix: String,
    of: PhantomData<fn() -> S>,
}

/// A point of a series. `MessageCount::at("Sales", 123, t)?` makes one.
#[derive(Debug)]
pub struct SeriesPoint<S> {
    key: EntityKey,
    index: usize,
    of: PhantomData<fn() -> S>,
}

impl<S> Clone for SeriesOf<S> {
    fn clone(&self) -> Self {
        Self { partition: self.partition.clone(), prefix: self.prefix.clone(), of: PhantomData }
    }
}

impl<S> Clone for SeriesPoint<S> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), index: self.index, of: PhantomData }
    }
}

impl<S: DataSeries> SeriesOf<S> {
    #[doc(hidden)]
    pub fn new(partition: String, prefix: String) -> Self {
        Self { partition, prefix, of: PhantomData }
    }

    /// The point for a time.
    pub fn at(&self, time: Timestamp) -> Result<SeriesPoint<S>, KeyError> {
        let index = time.ticks() % period_ticks::<S>() / step_ticks::<S>();
        let index = usize::try_from(index).map_err(|_| KeyError::TimeOutOfRange)?;
        Ok(SeriesPoint { key: self.row_key(time)?, index, of: PhantomData })
    }

    /// The key of the row for a time.
    fn row_key(&self, time: Timestamp) -> Result<EntityKey, KeyError> {
        let mut row = self.prefix.clone();
        time.write_calendar(&mut row, S::PERIOD)?;
        Ok(EntityKey::parse(&self.partition, &row)?)
    }
}

impl<S: DataSeries> SeriesPoint<S> {
    /// The key of its row, without a shard suffix.
    pub fn row(&self) -> &EntityKey {
        &self.key
    }

    /// Its index in the row, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The name of its property.
    pub fn property(&self) -> String {
        point_name::<S>(self.index)
    }
}

fn step_ticks<S: DataSeries>() -> u64 {
    S::STEP_SECONDS * TICKS_PER_SECOND
}

fn period_ticks<S: DataSeries>() -> u64 {
    step_ticks::<S>() * S::POINTS as u64
}

/// The name of a point: at least two digits, from 0 like hours and minutes.
fn point_name<S: DataSeries>(index: usize) -> String {
    let width = crate::series::digits(S::POINTS.saturating_sub(1)).max(2);
    format!("{}{index:0width$}", S::PREFIX)
}

/// The key of a shard of a row.
fn shard_key<S: DataSeries>(row: &EntityKey, shard: u64) -> Result<EntityKey, KeyError> {
    if S::SHARDS == 1 {
        return Ok(row.clone());
    }
    Ok(EntityKey::parse(row.partition.as_str(), &format!("{}~{shard}", row.row.as_str()))?)
}

impl Tables {
    /// The table that the series names.
    pub fn series<S: DataSeries>(&self) -> Result<SeriesTable<S>, Error> {
        let name = S::TABLE.ok_or_else(|| {
            Error::config(format!("{} names no table", std::any::type_name::<S>()))
        })?;
        Ok(SeriesTable::new(&self.table(name)?))
    }
}

/// A table of series. Cheap to clone.
pub struct SeriesTable<S> {
    rows: Table<Entity>,
    of: PhantomData<fn() -> S>,
}

impl<S> Clone for SeriesTable<S> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), of: PhantomData }
    }
}

impl<S> fmt::Debug for SeriesTable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SeriesTable").field(&self.rows).finish()
    }
}

impl<S: DataSeries> SeriesTable<S> {
    /// The series in a table.
    pub fn new<T: TableEntity>(table: &Table<T>) -> Self {
        Self { rows: table.retyped(), of: PhantomData }
    }

    /// The rows as they are stored.
    pub fn rows(&self) -> &Table<Entity> {
        &self.rows
    }

    /// Sets a point: one write without a read, which can safely be repeated. Concurrent writes to other points of the
    /// row do not conflict. A series with shards can only be added to.
    pub async fn set(&self, point: &SeriesPoint<S>, value: S::Value) -> Result<Written, Error> {
        if S::SHARDS > 1 {
            let error = Error::config("a series with shards is added to, not set");
            return Err(error.at("set", Some(self.rows.name()), Some(&point.key)));
        }
        let mut merge = self.rows.merge(point.key.clone()).try_set(point.property(), &value);
        if let Some(kind) = S::KIND {
            merge = merge.set_raw(kind.property, &*kind.text());
        }
        merge.or_insert().await
    }
}
