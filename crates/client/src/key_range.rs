//! Ranges of keys, built field by field from a key template (C-4.9).

use crate::entity::TableEntity;
use crate::filter::{Filter, partition, row};
use crate::key::KeyError;
use crate::kind::Kind;
use crate::query::Selection;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::sync::Arc;

/// Entities of one partition whose row keys lie in a range.
///
/// The derived `range(..)` of a type makes one; it only offers ranges that keys can express.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::KeyRange;
///
/// #[derive(TableEntity)]
/// #[table(partition = "{team}", row = "p_{number:03}")]
/// struct Player { team: String, number: u32 }
///
/// let starters: KeyRange<Player> = Player::range("Reds").number(1..=11);
/// assert_eq!(
///     starters.to_filter().unwrap().to_string(),
///     "PartitionKey eq 'Reds' and RowKey ge 'p_001' and RowKey le 'p_011'"
/// );
/// ```
#[must_use = "a range does nothing by itself: give it to `query`"]
pub struct KeyRange<T> {
    keys: Result<Keys, KeyError>,
    filter: Option<Filter>,
    of: PhantomData<fn() -> T>,
}

#[derive(Clone, Debug)]
struct Keys {
    partition: String,
    /// The common prefix of the row keys.
    prefix: String,
    /// The number of row key fields with a fixed value.
    fixed: usize,
    rows: Rows,
}

#[derive(Clone, Debug)]
enum Rows {
    /// All row keys with the prefix.
    Prefix,
    /// The one row whose key is the prefix.
    One,
    Between(Bound<String>, Bound<String>),
}

/// Something with keys that ranges can select: an entity type, or an index.
pub trait Ranged {
    /// How many fields of the row key must be fixed until no other rows can lie between.
    const OWN_AFTER: usize;
    /// The kind of its rows.
    const KIND: Option<Kind>;
}

impl<T: TableEntity> Ranged for T {
    const OWN_AFTER: usize = T::LAYOUT.own_after;
    const KIND: Option<Kind> = <T as TableEntity>::KIND;
}

/// A field of a row key, as needed for a range.
#[doc(hidden)]
pub struct Part<V> {
    /// Appends the text of a value.
    pub write: fn(&V, &mut String) -> Result<(), KeyError>,
    /// The literal that follows.
    pub literal: &'static str,
    /// Whether the key ends here.
    pub is_last: bool,
    /// Whether greater values have lesser texts.
    pub is_reversed: bool,
}

impl<T: Ranged> KeyRange<T> {
    #[doc(hidden)]
    pub fn new(partition: Result<String, KeyError>, prefix: &str) -> Self {
        let keys = partition.map(|partition| Keys {
            partition,
            prefix: prefix.to_owned(),
            fixed: 0,
            rows: Rows::Prefix,
        });
        Self { keys, filter: None, of: PhantomData }
    }

    /// Only entities for which this is true as well.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(known) => known.and(filter),
            None => filter,
        });
        self
    }

    /// The filter that a query sends; an error if a value does not fit into a key.
    pub fn to_filter(&self) -> Result<Filter, KeyError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        let mut filter = partition(&keys.partition);
        match &keys.rows {
            Rows::Prefix if keys.prefix.is_empty() => {}
            Rows::Prefix => filter = filter.and(row().starts_with(&keys.prefix)),
            Rows::One => filter = filter.and(row().eq(&*keys.prefix)),
            Rows::Between(from, to) => {
                for bound in [from_filter(from), to_filter(to)].into_iter().flatten() {
                    filter = filter.and(bound);
                }
            }
        }
        // Rows of other types may lie between (C-6.3, P-6.2).
        if keys.fixed < T::OWN_AFTER
            && !matches!(keys.rows, Rows::One)
            && let Some(kind) = T::KIND
        {
            filter = filter.and(kind.filter());
        }
        Ok(match &self.filter {
            Some(more) => filter.and(more.clone()),
            None => filter,
        })
    }

    /// The range, if every value fits into a key.
    pub fn checked(self) -> Result<Self, KeyError> {
        self.to_filter()?;
        Ok(self)
    }

    #[doc(hidden)]
    pub fn fix<V>(self, part: &Part<V>, value: &V) -> Self {
        self.change(|keys| {
            (part.write)(value, &mut keys.prefix)?;
            keys.prefix.push_str(part.literal);
            keys.fixed += 1;
            if part.is_last {
                keys.rows = Rows::One;
            }
            Ok(())
        })
    }

    #[doc(hidden)]
    pub fn starting<V>(self, part: &Part<V>, prefix: &V) -> Self {
        self.change(|keys| (part.write)(prefix, &mut keys.prefix))
    }

    fn between<V>(self, part: &Part<V>, from: Bound<&V>, to: Bound<&V>) -> Self {
        self.change(|keys| {
            let text = |value: &V| {
                let mut text = keys.prefix.clone();
                (part.write)(value, &mut text)?;
                text.push_str(part.literal);
                Ok::<String, KeyError>(text)
            };
            let (from, to) = if part.is_reversed { (to, from) } else { (from, to) };
            let from = match from {
                Bound::Included(value) => Bound::Included(text(value)?),
                Bound::Excluded(value) if part.is_last => Bound::Excluded(text(value)?),
                Bound::Excluded(value) => {
                    after(&text(value)?).map_or(Bound::Unbounded, Bound::Included)
                }
                Bound::Unbounded => Bound::Included(keys.prefix.clone()),
            };
            let to = match to {
                Bound::Excluded(value) => Bound::Excluded(text(value)?),
                Bound::Included(value) if part.is_last => Bound::Included(text(value)?),
                Bound::Included(value) => {
                    after(&text(value)?).map_or(Bound::Unbounded, Bound::Excluded)
                }
                Bound::Unbounded => after(&keys.prefix).map_or(Bound::Unbounded, Bound::Excluded),
            };
            keys.rows = Rows::Between(from, to);
            Ok(())
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Keys) -> Result<(), KeyError>) -> Self {
        self.keys = self.keys.and_then(|mut keys| change(&mut keys).map(|()| keys));
        self
    }
}

/// The first text after all texts with `prefix`.
fn after(prefix: &str) -> Option<String> {
    lazuli_model::key_text::prefix_end(prefix)
}

fn from_filter(bound: &Bound<String>) -> Option<Filter> {
    match bound {
        Bound::Included(text) if text.is_empty() => None,
        Bound::Included(text) => Some(row().ge(&**text)),
        Bound::Excluded(text) => Some(row().gt(&**text)),
        Bound::Unbounded => None,
    }
}

fn to_filter(bound: &Bound<String>) -> Option<Filter> {
    match bound {
        Bound::Included(text) => Some(row().le(&**text)),
        Bound::Excluded(text) => Some(row().lt(&**text)),
        Bound::Unbounded => None,
    }
}

impl<T: Ranged> From<KeyRange<T>> for Selection {
    fn from(range: KeyRange<T>) -> Self {
        Self::of_keys(range.to_filter())
    }
}

impl<T> Clone for KeyRange<T> {
    fn clone(&self) -> Self {
        Self { keys: self.keys.clone(), filter: self.filter.clone(), of: PhantomData }
    }
}

impl<T: Ranged> fmt::Debug for KeyRange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The filter, or why there is none.
impl<T: Ranged> fmt::Display for KeyRange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_filter() {
            Ok(filter) => filter.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

/// A bound for a field of a row key: one value, after which more fields may be given; or a range, which must be last.
pub trait KeyBound<V>: Sized {
    /// What can follow; `N` offers the next fields.
    type Then<T: Ranged, N: From<KeyRange<T>>>;

    #[doc(hidden)]
    fn apply<T: Ranged, N: From<KeyRange<T>>>(
        self,
        range: KeyRange<T>,
        part: &Part<V>,
    ) -> Self::Then<T, N>;
}

impl<V> KeyBound<V> for V {
    type Then<T: Ranged, N: From<KeyRange<T>>> = N;

    fn apply<T: Ranged, N: From<KeyRange<T>>>(self, range: KeyRange<T>, part: &Part<V>) -> N {
        range.fix(part, &self).into()
    }
}

macro_rules! ranges {
    ($($range:ident, $range_value:ident => $from:expr, $to:expr;)*) => {$(
        impl<V> KeyBound<V> for $range<V> {
            type Then<T: Ranged, N: From<KeyRange<T>>> = KeyRange<T>;

            fn apply<T: Ranged, N: From<KeyRange<T>>>(
                self,
                range: KeyRange<T>,
                part: &Part<V>,
            ) -> KeyRange<T> {
                let $range_value = self;
                range.between(part, $from, $to)
            }
        }
    )*};
}

ranges! {
    Range, range => Bound::Included(&range.start), Bound::Excluded(&range.end);
    RangeInclusive, range => Bound::Included(range.start()), Bound::Included(range.end());
    RangeFrom, range => Bound::Included(&range.start), Bound::Unbounded;
    RangeTo, range => Bound::Unbounded, Bound::Excluded(&range.end);
    RangeToInclusive, range => Bound::Unbounded, Bound::Included(&range.end);
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl KeyBound<$text> for &str {
            type Then<T: Ranged, N: From<KeyRange<T>>> = N;

            fn apply<T: Ranged, N: From<KeyRange<T>>>(
                self,
                range: KeyRange<T>,
                part: &Part<$text>,
            ) -> N {
                range.fix(part, &self.into()).into()
            }
        }

        impl KeyBound<$text> for Range<&str> {
            type Then<T: Ranged, N: From<KeyRange<T>>> = KeyRange<T>;

            fn apply<T: Ranged, N: From<KeyRange<T>>>(
                self,
                range: KeyRange<T>,
                part: &Part<$text>,
            ) -> KeyRange<T> {
                let (from, to) = (self.start.into(), self.end.into());
                range.between(part, Bound::Included(&from), Bound::Excluded(&to))
            }
        }

        impl KeyBound<$text> for RangeInclusive<&str> {
            type Then<T: Ranged, N: From<KeyRange<T>>> = KeyRange<T>;

            fn apply<T: Ranged, N: From<KeyRange<T>>>(
                self,
                range: KeyRange<T>,
                part: &Part<$text>,
            ) -> KeyRange<T> {
                let (from, to) = ((*self.start()).into(), (*self.end()).into());
                range.between(part, Bound::Included(&from), Bound::Included(&to))
            }
        }
    )*};
}

texts!(String, Box<str>, Arc<str>);
