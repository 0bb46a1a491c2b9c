//! Many values of one kind in one field, one property each: `D001`, `D002`, .. (P-9, P-10).

use crate::column::{ColumnArg, Settable};
use crate::entity::Properties;
use crate::fields::Fields;
use crate::form::{Plain, StoredAs};
use crate::value::{DecodeError, EncodeError, Value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// `N` values, each of which may be absent: the field of `#[table(series(prefix = "D", points = 365))]`.
///
/// It is a slice of options. The first value is the property `D001`.
///
/// ```
/// # use lazuli_client::Series;
/// let mut days = Series::<i32, 365>::default();
/// days[299] = Some(17);
/// assert_eq!((days.len(), days[0], days.iter().flatten().count()), (365, None, 1));
/// ```
#[derive(Clone, PartialEq)]
pub struct Series<V, const N: usize>(Box<[Option<V>]>);

impl<V, const N: usize> Default for Series<V, N> {
    fn default() -> Self {
        Self((0..N).map(|_| None).collect())
    }
}

impl<V, const N: usize> From<[Option<V>; N]> for Series<V, N> {
    fn from(values: [Option<V>; N]) -> Self {
        Self(Box::new(values))
    }
}

impl<V, const N: usize> Deref for Series<V, N> {
    type Target = [Option<V>];

    fn deref(&self) -> &[Option<V>] {
        &self.0
    }
}

impl<V, const N: usize> DerefMut for Series<V, N> {
    fn deref_mut(&mut self) -> &mut [Option<V>] {
        &mut self.0
    }
}

impl<V: fmt::Debug, const N: usize> fmt::Debug for Series<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.iter().enumerate().filter_map(|(at, value)| Some((at, value.as_ref()?)));
        f.debug_map().entries(present).finish()
    }
}

impl<V: StoredAs<Plain>, const N: usize> Series<V, N> {
    /// The number of values.
    pub const POINTS: usize = N;

    #[doc(hidden)]
    pub fn write_points(&self, prefix: &str, out: &mut Properties) -> Result<(), EncodeError> {
        for (index, value) in self.iter().enumerate() {
            if let Some(value) = value {
                out.push(point_name(prefix, N, index), value.store()?);
            }
        }
        Ok(())
    }

    #[doc(hidden)]
    pub fn read_points(prefix: &str, fields: &mut Fields) -> Result<Self, DecodeError> {
        let points = (0..N).map(|index| fields.optional(&point_name(prefix, N, index)));
        points.collect::<Result<_, _>>().map(Self)
    }
}

/// The number of digits in the names of this many points.
pub(crate) const fn digits(points: usize) -> usize {
    let (mut digits, mut rest) = (1, points / 10);
    while rest > 0 {
        (digits, rest) = (digits + 1, rest / 10);
    }
    digits
}

/// The property of the point at `index`; names count from 1.
fn point_name(prefix: &str, points: usize, index: usize) -> String {
    format!("{prefix}{:0width$}", index + 1, width = digits(points))
}

/// The index of the point in a property, if it belongs to this series.
pub(crate) fn point_of(name: &str, prefix: &str, points: usize) -> Option<usize> {
    let number = name.strip_prefix(prefix)?;
    let is_number = number.len() == digits(points) && number.bytes().all(|b| b.is_ascii_digit());
    let number: usize = is_number.then(|| number.parse().ok()).flatten()?;
    (1..=points).contains(&number).then(|| number - 1)
}

/// A field with a [`Series`] of `V`: `Year::DAYS`.
///
/// ```no_run
/// use lazuli_client::prelude::*;
/// use lazuli_client::{Series, SeriesColumn};
///
/// #[derive(TableEntity)]
/// #[table(partition = "{meter}", row = "{month:month}")]
/// struct Month {
///     meter: String,
///     month: Timestamp,
///     #[table(series(prefix = "D", points = 31))]
///     days: Series<i32, 31>,
/// }
///
/// # async fn run(months: Table<Month>, november: Timestamp) -> Result<(), Error> {
/// let days: SeriesColumn<Month, i32> = Month::DAYS;
/// months.merge(Month::key("M17", november)?).set(days.point(9), 42).await?; // sends D10
/// # Ok(())
/// # }
/// ```
pub struct SeriesColumn<E, V> {
    prefix: &'static str,
    points: usize,
    of: PhantomData<fn() -> (E, V)>,
}

impl<E, V> SeriesColumn<E, V> {
    #[doc(hidden)]
    pub const fn new(prefix: &'static str, points: usize) -> Self {
        Self { prefix, points, of: PhantomData }
    }

    /// One of its values, counted from 0 as in the field: `Year::DAYS.point(299)` is `D300`. An index out of range
    /// makes the merge fail.
    pub fn point(self, index: usize) -> PointColumn<E, V> {
        let is_there = index < self.points;
        let name = is_there.then(|| point_name(self.prefix, self.points, index)).ok_or(index);
        PointColumn { name, of: PhantomData }
    }
}

impl<E, V> Clone for SeriesColumn<E, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V> Copy for SeriesColumn<E, V> {}

impl<E, V> fmt::Debug for SeriesColumn<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeriesColumn").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// One value of a series.
#[derive(Debug)]
pub struct PointColumn<E, V> {
    /// The name of the property; or the number of a point that does not exist.
    name: Result<String, usize>,
    of: PhantomData<fn() -> (E, V)>,
}

impl<E, V: StoredAs<Plain>, I: ColumnArg<V>> Settable<E, I> for PointColumn<E, V> {
    fn property(self, value: I) -> (Cow<'static, str>, Result<Value, EncodeError>) {
        match self.name {
            Ok(name) => (Cow::Owned(name), value.into_arg().store()),
            Err(index) => {
                let (value, edm_type) = (format!("point {index}"), "the series");
                (Cow::Borrowed(""), Err(EncodeError::OutOfRange { value, edm_type }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named_by_their_number_from_one() {
        assert_eq!(point_name("D", 365, 0), "D001");
        assert_eq!(point_name("D", 365, 364), "D365");
        assert_eq!((digits(9), digits(10), digits(365)), (1, 2, 3));
        for index in 0..365 {
            assert_eq!(point_of(&point_name("D", 365, index), "D", 365), Some(index));
        }
        for foreign in ["D000", "D366", "D01", "D0001", "E001", "D", "D00x"] {
            assert_eq!(point_of(foreign, "D", 365), None, "{foreign}");
        }
    }
}
