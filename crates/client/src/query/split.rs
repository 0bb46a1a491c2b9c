//! Cuts a table into ranges of partitions that can be read separately (C-12.8, P-19.2).

use super::Query;
use crate::BoxFuture;
use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{Filter, col};
use crate::table::Table;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazuli_model::key::{compare, is_forbidden};
use std::cmp::Ordering;
use std::fmt;
use std::future::IntoFuture;
use std::str::FromStr;

const PREFIX: &str = "lzr1.";

/// Keys sampled for each range: more of them make the ranges more equal.
const SAMPLES_PER_RANGE: usize = 4;
/// Sampling requests at most, per range and in all.
const PROBES_PER_RANGE: usize = 16;
const PROBES: usize = 64;

/// The longest text made between two others: keys that differ only later are treated as equal.
const BETWEEN_CHARS_MAX: usize = 256;

/// A range of a table's partitions. Its text can be given to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    table: String,
    /// The first partition key; `None` for the start of the table.
    from: Option<String>,
    /// The partition key after the last; `None` for the end of the table.
    to: Option<String>,
}

impl ScanRange {
    /// The first partition key of the range; `None` if the range begins with the table.
    pub fn start(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// The first partition key after the range; `None` if the range ends with the table.
    pub fn end(&self) -> Option<&str> {
        self.to.as_deref()
    }

    /// The condition that entities of the range meet; `None` if all do.
    pub(super) fn filter(&self) -> Option<Filter> {
        let from = self.from.as_ref().map(|from| col("PartitionKey").ge(&**from));
        let to = self.to.as_ref().map(|to| col("PartitionKey").lt(&**to));
        from.into_iter().chain(to).reduce(Filter::and)
    }

    /// Fails unless the range is of this table.
    pub(super) fn check(&self, table: &str) -> Result<(), Error> {
        if self.table.eq_ignore_ascii_case(table) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TokenMismatch))
    }

    /// Orders ranges of one table by their beginning.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (&self.from, &other.from) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}

impl fmt::Display for ScanRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        // A key may be empty, so an absent one is marked.
        let key = |key: &Option<String>| {
            key.as_ref().map_or("-".into(), |key| format!("={}", encode(key)))
        };
        write!(f, "{PREFIX}{}.{}.{}", encode(&self.table), key(&self.from), key(&self.to))
    }
}

impl FromStr for ScanRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let mut fields = text.strip_prefix(PREFIX)?.split('.');
            let decode = |field: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(field).ok()?).ok();
            let table = decode(fields.next()?)?;
            let key = |field: &str| match field.strip_prefix('=') {
                Some(key) => decode(key).map(Some),
                None => (field == "-").then_some(None),
            };
            let (from, to) = (key(fields.next()?)?, key(fields.next()?)?);
            fields.next().is_none().then_some(Self { table, from, to })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::TokenMismatch))
    }
}

/// A split that has not been run yet.
#[must_use = "nothing is sent before `.await`"]
pub struct Split {
    table: Table<Entity>,
    ranges: usize,
}

impl Split {
    pub(super) fn new<T: TableEntity>(query: &Query<T>, ranges: usize) -> Self {
        Self {
            table: Table::new(query.account.clone(), query.table.clone()),
            ranges: ranges.max(1),
        }
    }

    async fn run(self) -> Result<Vec<ScanRange>, Error> {
        let keys = self.sample().await?;
        // No range begins before the first key.
        let keys = keys.get(1..).unwrap_or_default();
        let count = self.ranges.min(keys.len() + 1);
        let cuts = (1..count).filter_map(|cut| keys.get((cut * (keys.len() + 1) / count) - 1));
        let mut ranges = Vec::with_capacity(count);
        let mut from = None;
        let table = || self.table.name().to_owned();
        for cut in cuts {
            let to = Some(cut.clone());
            ranges.push(ScanRange { table: table(), from: from.take(), to: to.clone() });
            from = to;
        }
        ranges.push(ScanRange { table: table(), from, to: None });
        Ok(ranges)
    }

    /// Some partition keys of the table, in order, the first among them. Halves the widest gap between
    /// known keys until enough are known.
    async fn sample(&self) -> Result<Vec<String>, Error> {
        let Some(first) = self.probe("").await? else { return Ok(Vec::new()) };
        let mut alphabet = Alphabet::new();
        alphabet.learn(&first);
        let mut keys = vec![first.clone()];
        let mut gaps = vec![Gap { low: first, high: None, width: 1.0 }];
        let probes_max = PROBES_PER_RANGE.saturating_mul(self.ranges).saturating_add(PROBES);
        for _ in 0..probes_max {
            if keys.len() >= SAMPLES_PER_RANGE.saturating_mul(self.ranges) {
                break;
            }
            let widest = (0..gaps.len()).max_by(|a, b| {
                let width = |at: &usize| gaps.get(*at).map_or(0.0, |gap| gap.width);
                width(a).total_cmp(&width(b))
            });
            let Some(at) = widest else { break };
            let gap = gaps.swap_remove(at);
            let Some(middle) = alphabet.between(&gap.low, gap.high.as_deref()) else { continue };
            let found = self.probe(&middle).await?;
            let inside = found.filter(|key| {
                gap.high.as_ref().is_none_or(|high| compare(key, high) == Ordering::Less)
            });
            match inside {
                Some(key) => {
                    alphabet.learn(&key);
                    let width = gap.width / 2.0;
                    gaps.push(Gap { low: gap.low, high: Some(middle), width });
                    gaps.push(Gap { low: key.clone(), high: gap.high, width });
                    keys.push(key);
                }
                // Nothing is there: assume that the rest is nearly as dense as the whole was.
                None => gaps.push(Gap { low: gap.low, high: Some(middle), width: gap.width * 0.9 }),
            }
        }
        keys.sort_by(|a, b| compare(a, b));
        keys.dedup();
        Ok(keys)
    }

    /// The first partition key that is not less than `key`.
    async fn probe(&self, key: &str) -> Result<Option<String>, Error> {
        let query = self.table.scan().filter(col("PartitionKey").ge(key));
        let mut rows = query.select_names(["PartitionKey"]).take(1).stream();
        Ok(rows.try_next().await?.map(|row| row.partition_key().to_owned()))
    }
}

impl IntoFuture for Split {
    type Output = Result<Vec<ScanRange>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Keys that may lie between two places.
struct Gap {
    low: String,
    /// `None` for the end of the table.
    high: Option<String>,
    /// As a fraction of the whole, estimated.
    width: f64,
}

/// The characters that keys are made of, in key order.
struct Alphabet(Vec<char>);

impl Alphabet {
    fn new() -> Self {
        Self((' '..='~').filter(|c| !is_forbidden(*c)).collect())
    }

    fn learn(&mut self, key: &str) {
        for c in key.chars() {
            if let Err(at) = self.find(c) {
                self.0.insert(at, c);
            }
        }
    }

    fn find(&self, c: char) -> Result<usize, usize> {
        let text = |c: char| c.to_string();
        self.0.binary_search_by(|known| compare(&text(*known), &text(c)))
    }

    /// A text about in the middle between two; `None` if they are too close.
    fn between(&self, low: &str, high: Option<&str>) -> Option<String> {
        let mut text = String::new();
        let mut low = low.chars();
        let mut high = high.map(str::chars);
        for _ in 0..BETWEEN_CHARS_MAX {
            let (l, h) = (low.next(), high.as_mut().map(Iterator::next));
            // Positions of the characters, counted from one: zero is the end of a text.
            let place = |c: char| self.find(c).map_or_else(|at| at, |at| at + 1);
            let from = l.map_or(0, place);
            let to = match h {
                Some(Some(h)) => place(h),
                Some(None) => return None,
                None => self.0.len() + 1,
            };
            if to > from + 1 {
                text.push(*self.0.get((from + to) / 2 - 1)?);
                return Some(text);
            }
            match (l, h) {
                // They diverge here: continue after the low one, without an upper bound.
                (Some(l), _) if from < to => {
                    text.push(l);
                    high = None;
                }
                (Some(l), _) => text.push(l),
                // The low one has ended: continue below the high one.
                (None, Some(Some(h))) => text.push(h),
                (None, _) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_between_two_is_between_them(
            a in "[ !0-9a-c~é\u{10000}\u{E000}]{0,6}", b in "[ !0-9a-c~é\u{10000}\u{E000}]{0,6}",
        ) {
            let (low, high) = if compare(&a, &b) == Ordering::Less { (a, b) } else { (b, a) };
            let mut alphabet = Alphabet::new();
            alphabet.learn(&low);
            alphabet.learn(&high);
            if let Some(text) = alphabet.between(&low, Some(&high)) {
                prop_assert_eq!(compare(&low, &text), Ordering::Less);
                prop_assert_eq!(compare(&text, &high), Ordering::Less);
            }
            let after = alphabet.between(&low, None);
            prop_assert!(after.is_some_and(|text| compare(&low, &text) == Ordering::Less));
        }

        #[test]
        fn ranges_read_back(
            table in "[A-Za-z]{3,9}",
            from in prop::option::of(any::<String>()),
            to in prop::option::of(any::<String>()),
        ) {
            let range = ScanRange { table, from, to };
            prop_assert_eq!(range.to_string().parse::<ScanRange>().unwrap(), range);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = text.parse::<ScanRange>();
            let _ = format!("{PREFIX}{text}").parse::<ScanRange>();
        }
    }
}
