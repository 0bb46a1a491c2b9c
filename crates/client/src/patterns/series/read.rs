//! Reads a series: a row, the last points, a time range (P-9.3, P-9.5).

use super::{
    DataSeries, SeriesOf, SeriesPoint, SeriesTable, SeriesValue, period_ticks, point_name,
    step_ticks,
};
use crate::entity::{Entity, Loaded};
use crate::error::Error;
use crate::filter::{Filter, partition, row};
use crate::key::KeyError;
use futures_util::future::try_join;
use lazuli_model::{EntityKey, Timestamp};
use std::collections::HashMap;
use std::ops::Range;

/// The most points that one read returns.
const POINTS_MAX: u64 = 1_000_000;

/// The points of rows, by the row's key without a shard suffix.
type Rows<V> = HashMap<String, Vec<Option<V>>>;

/// Points in order, each with its start time.
type Points<S> = Vec<(Timestamp, Option<<S as DataSeries>::Value>)>;

impl<S: DataSeries> SeriesTable<S> {
    /// The row of a point, with all its values. One point read, or one query if there are shards.
    pub async fn row(&self, point: &SeriesPoint<S>) -> Result<S::Row, Error> {
        let place = |error: Error| error.at("row", Some(self.rows.name()), Some(&point.key));
        let points = self.read_row(&point.key).await.map_err(place)?;
        S::Row::try_from(points).map_err(|_| place(Error::protocol("a row of another length")))
    }

    /// The last `points` points, in order; `now` falls into the last one. Up to two rows are concurrent point reads,
    /// more are one query.
    pub async fn last(
        &self,
        series: &SeriesOf<S>,
        now: Timestamp,
        points: u64,
    ) -> Result<Vec<(Timestamp, Option<S::Value>)>, Error> {
        let end = (now.ticks() / step_ticks::<S>() + 1) * step_ticks::<S>();
        let start = end.saturating_sub(points.saturating_mul(step_ticks::<S>()));
        self.placed_between(series, start..end).await
    }

    /// The points that begin in a time range, in order: `from` is inclusive, `to` exclusive. A point that was never set
    /// is `None`, not zero.
    pub async fn range(
        &self,
        series: &SeriesOf<S>,
        times: Range<Timestamp>,
    ) -> Result<Vec<(Timestamp, Option<S::Value>)>, Error> {
        let step = step_ticks::<S>();
        let up = |time: Timestamp| time.ticks().div_ceil(step) * step;
        self.placed_between(series, up(times.start)..up(times.end)).await
    }

    async fn placed_between(
        &self,
        series: &SeriesOf<S>,
        ticks: Range<u64>,
    ) -> Result<Points<S>, Error> {
        let points = self.between(series, ticks).await;
        points.map_err(|error| error.at("series", Some(self.rows.name()), None))
    }

    /// The points between two ticks, both at the beginning of a point.
    async fn between(&self, series: &SeriesOf<S>, ticks: Range<u64>) -> Result<Points<S>, Error> {
        let (step, period) = (step_ticks::<S>(), period_ticks::<S>());
        let count = ticks.end.saturating_sub(ticks.start) / step;
        if count > POINTS_MAX {
            let reason = format!("{count} points, of which one read returns {POINTS_MAX}");
            return Err(Error::config(reason));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let time = |ticks| Timestamp::from_ticks(ticks).ok_or(KeyError::TimeOutOfRange);
        let first = series.row_key(time(ticks.start)?)?;
        let last = series.row_key(time(ticks.end - step)?)?;
        let are_neighbours = (ticks.end - step) / period - ticks.start / period <= 1;
        let rows = self.read_rows(&first, &last, are_neighbours).await?;
        let mut points = Vec::new();
        let (mut of, mut row) = (None, None);
        for at in (0..count).map(|number| ticks.start + number * step) {
            let begins = time(at)?;
            if of != Some(at / period) {
                (of, row) = (Some(at / period), rows.get(series.row_key(begins)?.row.as_str()));
            }
            let index = usize::try_from(at % period / step).unwrap_or(usize::MAX);
            points.push((begins, row.and_then(|row| row.get(index).copied().flatten())));
        }
        Ok(points)
    }

    /// A range of rows: point reads if they are at most two, else one query.
    async fn read_rows(
        &self,
        first: &EntityKey,
        last: &EntityKey,
        are_neighbours: bool,
    ) -> Result<Rows<S::Value>, Error> {
        let name = |key: &EntityKey| key.row.as_str().to_owned();
        if first == last {
            return Ok([(name(first), self.read_row(first).await?)].into());
        }
        if are_neighbours && S::SHARDS == 1 {
            let (a, b) = try_join(self.read_row(first), self.read_row(last)).await?;
            return Ok([(name(first), a), (name(last), b)].into());
        }
        let mut rows = Rows::new();
        self.add_rows(&mut rows, with_shards(first, last)).await?;
        Ok(rows)
    }

    /// The points of one row, or the sums of its shards.
    async fn read_row(&self, key: &EntityKey) -> Result<Vec<Option<S::Value>>, Error> {
        let mut rows = Rows::new();
        if S::SHARDS == 1 {
            if let Some(row) = self.rows.get(key.clone()).await? {
                add_row::<S>(&mut rows, key.row.as_str(), &row)?;
            }
        } else {
            self.add_rows(&mut rows, with_shards(key, key)).await?;
        }
        Ok(rows.remove(key.row.as_str()).unwrap_or_else(|| vec![None; S::POINTS]))
    }

    async fn add_rows(&self, rows: &mut Rows<S::Value>, range: Filter) -> Result<(), Error> {
        let mut found = self.rows.query(range).stream();
        while let Some(row) = found.try_next().await? {
            let name = row.row_key();
            let name = match name.rsplit_once('~') {
                Some((name, shard)) if shard.bytes().all(|byte| byte.is_ascii_digit()) => name,
                _ => name,
            };
            add_row::<S>(rows, name, &row)?;
        }
        Ok(())
    }
}

/// A range of rows, with their shards, whose keys end with `~` and digits.
fn with_shards(first: &EntityKey, last: &EntityKey) -> Filter {
    let from = partition(first.partition.as_str()).and(row().ge(first.row.as_str()));
    from.and(row().lt(format!("{}~:", last.row.as_str())))
}

/// Adds the points of a row to those read so far.
fn add_row<S: DataSeries>(
    rows: &mut Rows<S::Value>,
    name: &str,
    row: &Loaded<Entity>,
) -> Result<(), Error> {
    let points = rows.entry(name.to_owned()).or_insert_with(|| vec![None; S::POINTS]);
    for (index, point) in points.iter_mut().enumerate() {
        let Some(more) = row.opt::<S::Value>(&point_name::<S>(index))? else { continue };
        *point = match *point {
            None => Some(more),
            Some(known) => Some(known.plus(more).ok_or_else(|| {
                Error::config("the sum of the shards does not fit the type of the series")
            })?),
        };
    }
    Ok(())
}
