//! One table for each hour, day, month or year (P-8): old data is deleted with its table, in one request.
//!
//! The name of a table is a base followed by the digits of its period: `Logins20140822`. The base ends with a letter,
//! so that the digits are unambiguous, and no set of tables includes another's.

mod expire;
mod query;

pub use expire::ExpiryCost;
pub use query::{PeriodicEntities, PeriodicQuery};

use crate::entity::TableEntity;
use crate::error::{Error, ErrorKind};
use crate::key_part::{Calendar, KeyCalendar};
use crate::query::Selection;
use crate::table::Table;
use crate::tables::Tables;
use crate::write::{Write, Written};
use lazuli_model::Timestamp;
use lazuli_model::time::days_in_month;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

/// The longest base: a name has 63 characters, and an hour takes ten digits.
const BASE_MAX: usize = 53;

/// An entity with a time.
pub trait Timed: TableEntity {
    /// The time that determines its table. It must not change.
    fn time(&self) -> Timestamp;
}

/// The period of one table, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// `Logins2014082200`
    Hour,
    /// `Logins20140822`
    Day,
    /// `Logins201408`
    Month,
    /// `Logins2014`
    Year,
}

impl Period {
    /// The digits of a time's period.
    fn digits(self, time: Timestamp) -> String {
        let mut digits = String::new();
        // Every timestamp is a valid calendar time.
        let _ = time.write_calendar(&mut digits, self.calendar());
        digits.truncate(self.width());
        digits
    }

    const fn calendar(self) -> Calendar {
        match self {
            Self::Hour => Calendar::Hour,
            Self::Day => Calendar::Date,
            Self::Month | Self::Year => Calendar::Month,
        }
    }

    const fn width(self) -> usize {
        match self {
            Self::Year => 4,
            _ => self.calendar().width(),
        }
    }

    /// The period with these digits, from its first tick to the first of the next; `None` if they are invalid.
    fn parse(self, digits: &str) -> Option<Range<Timestamp>> {
        if digits.len() != self.width() {
            return None;
        }
        let start = match self {
            Self::Year => Calendar::Month.parse(&format!("{digits}01"))?,
            _ => self.calendar().parse(digits)?,
        };
        let number = |range| digits.get(range).and_then(|text: &str| text.parse::<u64>().ok());
        let days = match self {
            Self::Hour => return Some(start..start.plus_seconds(3600)),
            Self::Day => 1,
            Self::Month => days_in_month(number(0..4)?, number(4..6)?),
            Self::Year => 337 + days_in_month(number(0..4)?, 2),
        };
        Some(start..start.plus_seconds(days * 86_400))
    }

    /// The period that contains a time.
    fn of(self, time: Timestamp) -> Range<Timestamp> {
        self.parse(&self.digits(time)).unwrap_or(time..Timestamp::MAX)
    }
}

impl Tables {
    /// A table for each period: `tables.periodic::<Login>("Logins", Period::Day)?`. The base consists of letters and
    /// digits, at most 53, and begins and ends with a letter.
    pub fn periodic<T: Timed>(&self, base: &str, period: Period) -> Result<Periodic<T>, Error> {
        let is_letter =
            |character: Option<char>| character.is_some_and(|c| c.is_ascii_alphabetic());
        let is_base = base.len() <= BASE_MAX
            && is_letter(base.chars().next())
            && is_letter(base.chars().last())
            && base.chars().all(|character| character.is_ascii_alphanumeric());
        if !is_base {
            return Err(Error::new(ErrorKind::Name(base.to_owned(), "set of tables")));
        }
        let (tables, base) = (self.clone(), base.to_owned());
        Ok(Periodic { tables, base, period, retention: None, of: PhantomData })
    }
}

/// Entities in one table per period. Cheap to clone.
///
/// ```
/// # use lazuli_client::patterns::periodic::{Period, Timed};
/// # use lazuli_client::prelude::*;
/// # use std::time::Duration;
/// #[derive(TableEntity)]
/// #[table(partition = "{user}", row = "{at:rev}_{id:08}")]
/// struct Login { user: String, at: Timestamp, id: u32, address: String }
/// impl Timed for Login { fn time(&self) -> Timestamp { self.at } }
///
/// # async fn run(tables: Tables, attempt: Login, from: Timestamp, to: Timestamp) -> Result<(), Error> {
/// let day = Duration::from_secs(86_400);
/// let logins = tables.periodic::<Login>("Logins", Period::Day)?.keep(60 * day);
/// logins.insert(&attempt).await?;                                         // into the table of attempt.at
/// let mut mine = logins.query(Login::range("user-17"), from..to).stream();
/// while let Some(login) = mine.try_next().await? { println!("{}", login.at); }
/// let gone = logins.expire().await?;                                      // deletes whole tables
/// # Ok(())
/// # }
/// ```
pub struct Periodic<T> {
    tables: Tables,
    base: String,
    period: Period,
    retention: Option<Duration>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Periodic<T> {
    fn clone(&self) -> Self {
        let Self { tables, base, period, retention, of } = self;
        let (tables, base) = (tables.clone(), base.clone());
        Self { tables, base, period: *period, retention: *retention, of: *of }
    }
}

impl<T> fmt::Debug for Periodic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("base", &self.base)
            .field("period", &self.period)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

impl<T: Timed> Periodic<T> {
    /// How long entities are kept: a period expires this long after its end. Reads and writes of an expired period fail
    /// with [`ErrorKind::PeriodExpired`] before any request, and [`Periodic::expire`] deletes its table.
    #[must_use]
    pub fn keep(self, retention: Duration) -> Self {
        Self { retention: Some(retention), ..self }
    }

    /// The name of the table for a time.
    pub fn name_at(&self, time: Timestamp) -> String {
        format!("{}{}", self.base, self.period.digits(time))
    }

    /// The table for a time, for other operations. It may not exist.
    pub fn table_at(&self, time: Timestamp) -> Result<Table<T>, Error> {
        let name = self.name_at(time);
        if self.is_expired(&self.period.of(time)) {
            return Err(Error::new(ErrorKind::PeriodExpired { table: name }));
        }
        self.tables.table_of(&name)
    }

    /// Inserts an entity into the table for its time, which is created if it does not exist.
    pub async fn insert(&self, value: &T) -> Result<Written, Error> {
        self.write(value, |table| table.insert(value)).await
    }

    /// Inserts or replaces an entity in the table for its time, which is created if it does not exist.
    pub async fn upsert(&self, value: &T) -> Result<Written, Error> {
        self.write(value, |table| table.upsert(value)).await
    }

    async fn write(&self, value: &T, write: impl Fn(Table<T>) -> Write) -> Result<Written, Error> {
        let time = value.time();
        match write(self.table_at(time)?).await {
            Err(error) if *error.kind() == ErrorKind::TableNotFound => {
                // If the period has expired in the meantime, its table is not created again.
                let table = self.table_at(time)?;
                self.tables.create_if_missing(table.name()).await?;
                write(table).await
            }
            outcome => outcome,
        }
    }

    /// Creates the tables of this period and of the next, if they do not exist, because a new table is slow at first.
    /// Call it at least once per period.
    pub async fn ensure_next(&self) -> Result<(), Error> {
        let now = self.tables.account().0.env.now();
        for time in [now, self.period.of(now).end] {
            self.tables.create_if_missing(&self.name_at(time)).await?;
        }
        Ok(())
    }

    /// The entities of a time range, from all tables that may have them: `from` is inclusive, `to` exclusive. Missing
    /// tables count as empty; more than 400 tables are an error.
    pub fn query(
        &self,
        selection: impl Into<Selection>,
        times: Range<Timestamp>,
    ) -> PeriodicQuery<T> {
        PeriodicQuery::new(self.clone(), selection.into(), times)
    }

    fn is_expired(&self, period: &Range<Timestamp>) -> bool {
        let Some(retention) = self.retention else { return false };
        let now = self.tables.account().0.env.now();
        u128::from(now.ticks().saturating_sub(period.end.ticks())) * 100 >= retention.as_nanos()
            && now >= period.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn periods_are_named_by_their_digits() {
        let at = time("2016-02-29T23:59:59.9999999Z");
        for (period, digits, start, end) in [
            (Period::Hour, "2016022923", "2016-02-29T23:00:00Z", "2016-03-01T00:00:00Z"),
            (Period::Day, "20160229", "2016-02-29T00:00:00Z", "2016-03-01T00:00:00Z"),
            (Period::Month, "201602", "2016-02-01T00:00:00Z", "2016-03-01T00:00:00Z"),
            (Period::Year, "2016", "2016-01-01T00:00:00Z", "2017-01-01T00:00:00Z"),
        ] {
            assert_eq!(period.digits(at), digits);
            assert_eq!(period.of(at), time(start)..time(end));
            assert_eq!(period.of(time(end)).start, time(end), "periods follow each other");
        }
        assert_eq!(Period::Year.of(time("2015-06-01T00:00:00Z")).end, time("2016-01-01T00:00:00Z"));
        for (period, digits) in [
            (Period::Day, "20141399"),
            (Period::Day, "2014082"),
            (Period::Day, "20150229"),
            (Period::Hour, "2014082224"),
            (Period::Month, "201413"),
            (Period::Year, "20x4"),
        ] {
            assert_eq!(period.parse(digits), None, "{digits}");
        }
    }
}
