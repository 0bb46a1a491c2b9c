//! Logs that are read newest entry first (P-7).
//!
//! The row key begins with inverted ticks (`{at:rev}`, C-4.8), so the head of the partition is the end of the log.

use crate::entity::{Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{Filter, partition, row};
use crate::patterns::ticks;
use crate::query::Query;
use crate::table::Table;
use crate::write::Written;
use lazuli_model::key_text::{
    TICKS_DIGITS, parse_inverted_ticks, prefix_end, write_bucket, write_inverted_ticks,
};
use lazuli_model::{Timestamp, key};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Taken keys that `append` skips, one tick each, before it gives up (P-7.2).
const TICKS_MAX: u32 = 1000;
const OVERLAP: Duration = Duration::from_secs(5);
/// Entries that one poll of [`LogTail::follow`] accepts.
const ENTRIES_MAX: usize = 100_000;
const TICKS_PER_SECOND: u64 = 10_000_000;

/// An entry of a log: a type whose row key begins with the inverted ticks of its time.
pub trait LogEntry: TableEntity {
    /// Sets the time, which determines the key.
    fn stamp(&mut self, at: Timestamp);
}

/// A log that is appended to and read from its end. Cheap to clone; clones share their clock.
#[derive(Debug)]
pub struct LogTail<T> {
    table: Table<T>,
    overlap: Duration,
    clock: Arc<Mutex<Clock>>,
}

#[derive(Debug, Default)]
struct Clock {
    /// Seconds that the service's clock is ahead of ours.
    ahead_seconds: i64,
    /// The time of the last entry, in ticks.
    last: u64,
}

impl<T> Clone for LogTail<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), overlap: self.overlap, clock: Arc::clone(&self.clock) }
    }
}

impl<T: TableEntity> LogTail<T> {
    /// The log in this table. Makes no request.
    pub fn new(table: &Table<T>) -> Self {
        Self { table: table.clone(), overlap: OVERLAP, clock: Arc::default() }
    }

    /// How late an entry may arrive and still be returned by `follow`, 5 s by default: for writers whose clocks differ,
    /// or whose requests take long.
    #[must_use]
    pub fn overlap(self, overlap: Duration) -> Self {
        Self { overlap, ..self }
    }

    /// Stamps entries with the service's time from now on, determined by one request to the second.
    pub async fn server_time(self) -> Result<Self, Error> {
        let ahead_seconds = self.table.account.check().await?.clock_ahead_seconds;
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).ahead_seconds = ahead_seconds;
        Ok(self)
    }

    /// The newest entries of a partition, newest first.
    pub async fn latest(
        &self,
        partition_key: &str,
        entries: usize,
    ) -> Result<Vec<Loaded<T>>, Error> {
        self.sorted()?;
        self.table.query(partition(partition_key)).take(entries).collect_at_most(entries).await
    }

    /// The entries of a partition whose time is in a range, newest first.
    pub fn between(&self, partition_key: &str, times: Range<Timestamp>) -> Query<T> {
        self.table.query(partition(partition_key).and(rows_between(times)))
    }

    /// The newest entries of a log that is spread over the partitions of `{field:bucket(n)}`: reads the heads of all,
    /// up to `entries` each, and merges them by time.
    pub async fn latest_of_buckets(
        &self,
        buckets: u32,
        entries: usize,
    ) -> Result<Vec<Loaded<T>>, Error> {
        self.sorted()?;
        let heads = (0..buckets).map(|bucket| {
            let key = bucket_key(bucket, buckets);
            async move { self.latest(&key, entries).await }
        });
        let heads = futures_util::future::try_join_all(heads).await?;
        let mut all: Vec<_> = heads.into_iter().flatten().collect();
        let row = |entry: &Loaded<T>| entry.loaded_key().row.clone();
        all.sort_by(|a, b| key::compare(row(a).as_str(), row(b).as_str()));
        all.truncate(entries);
        Ok(all)
    }

    /// New entries of a partition as they arrive, oldest first: polls every `pause`. Existing entries are not returned.
    pub fn follow(&self, partition_key: &str, pause: Duration) -> Follow<T> {
        Follow {
            log: self.clone(),
            partition: partition_key.to_owned(),
            pause,
            newest: None,
            seen: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    fn sorted(&self) -> Result<(), Error> {
        if self.table.account.dialect().sorts() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotSorted).at("log tail", Some(self.table.name()), None))
    }

    /// A time later than all given so far, and not before now.
    fn next_time(&self) -> Timestamp {
        let now = self.table.account.0.env.now().ticks();
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = clock.ahead_seconds.saturating_mul(TICKS_PER_SECOND as i64);
        clock.last = now.saturating_add_signed(ahead).max(clock.last + 1);
        Timestamp::from_ticks(clock.last).unwrap_or(Timestamp::MAX)
    }
}

impl<T: LogEntry> LogTail<T> {
    /// Stamps an entry and inserts it. In one process, times in one log increase with every entry; an entry whose key
    /// another process has taken gets the next tick.
    pub async fn append(&self, entry: &mut T) -> Result<Written, Error> {
        for _ in 0..TICKS_MAX {
            entry.stamp(self.next_time());
            // With an id: after a lost answer the entry is found, and not appended again.
            match self.table.insert(entry).write_id().await {
                Err(error) if error.is_conflict() && !error.may_have_been_applied() => {}
                result => return result,
            }
        }
        let attempts = TICKS_MAX;
        Err(Error::new(ErrorKind::Contended { attempts }).at(
            "log tail",
            Some(self.table.name()),
            None,
        ))
    }
}

/// Rows whose keys begin with the inverted ticks of a time in a range (P-7.1).
pub fn rows_between(times: Range<Timestamp>) -> Filter {
    if times.is_empty() {
        return lazuli_model::Filter::Constant(false).into();
    }
    // An entry at `start` begins with its text, which is below the end of that prefix; one at `end` begins with a text
    // below that of the previous tick.
    let newest = Timestamp::from_ticks(times.end.ticks() - 1).unwrap_or(Timestamp::MIN);
    row().ge(inverted(newest)).and(since(times.start))
}

/// Rows from a time on.
fn since(time: Timestamp) -> Filter {
    match prefix_end(&inverted(time)) {
        Some(end) => row().lt(end),
        None => lazuli_model::Filter::Constant(true).into(),
    }
}

fn inverted(time: Timestamp) -> String {
    let mut text = String::with_capacity(TICKS_DIGITS);
    write_inverted_ticks(&mut text, time);
    text
}

/// The partition key of a bucket, in the template's format.
fn bucket_key(bucket: u32, buckets: u32) -> String {
    let mut sample = String::new();
    write_bucket(&mut sample, "", buckets.into());
    format!("{bucket:0width$}", width = sample.len())
}

/// New entries of a partition, as they arrive.
#[derive(Debug)]
#[must_use = "nothing is read before `next`"]
pub struct Follow<T> {
    log: LogTail<T>,
    partition: String,
    pause: Duration,
    /// The time of the newest entry seen; `None` before the first poll.
    newest: Option<Timestamp>,
    /// Row keys that have been seen and may be read again.
    seen: BTreeSet<String>,
    ready: VecDeque<Loaded<T>>,
}

impl<T: TableEntity> Follow<T> {
    /// Also returns existing entries from a time on.
    pub fn since(mut self, time: Timestamp) -> Self {
        let overlap = ticks(self.log.overlap);
        self.newest = Timestamp::from_ticks(time.ticks().saturating_add(overlap));
        self
    }

    /// Polls now, so that entries appended from now on are returned.
    pub async fn begin(&mut self) -> Result<(), Error> {
        if self.newest.is_none() {
            let _ = self.look().await?;
        }
        Ok(())
    }

    /// Waits for the next entry.
    pub async fn next(&mut self) -> Result<Loaded<T>, Error> {
        self.begin().await?;
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(entry);
            }
            let entries = self.look().await?;
            if entries.is_empty() {
                self.log.table.account.0.env.sleep(self.pause).await;
            }
            self.ready.extend(entries);
        }
    }

    /// Entries not seen before, oldest first.
    async fn look(&mut self) -> Result<Vec<Loaded<T>>, Error> {
        self.log.sorted()?;
        let overlap = ticks(self.log.overlap);
        let newest = self.newest.unwrap_or_else(|| self.log.next_time());
        let from = newest.ticks().saturating_sub(overlap);
        let from = Timestamp::from_ticks(from).unwrap_or(Timestamp::MIN);
        let filter = partition(&self.partition).and(since(from));
        let mut entries = self.log.table.query(filter).collect_at_most(ENTRIES_MAX).await?;
        let row = |entry: &Loaded<T>| entry.loaded_key().row.as_str().to_owned();
        entries.retain(|entry| !self.seen.contains(&row(entry)));
        let newest = entries.iter().filter_map(|entry| time_of(&row(entry))).fold(newest, Ord::max);
        self.newest = Some(newest);
        self.seen.extend(entries.iter().map(row));
        // Greater keys are older than anything that is read again.
        let oldest = Timestamp::from_ticks(newest.ticks().saturating_sub(overlap));
        let end = oldest.and_then(|oldest| prefix_end(&inverted(oldest)));
        self.seen.retain(|key| end.as_ref().is_none_or(|end| key::compare(key, end).is_lt()));
        entries.reverse();
        Ok(entries)
    }
}

/// The time at the beginning of a row key.
fn time_of(row_key: &str) -> Option<Timestamp> {
    parse_inverted_ticks(row_key.get(..TICKS_DIGITS)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct RowKey(String);

    impl lazuli_model::Row for RowKey {
        fn partition_key(&self) -> &str {
            ""
        }
        fn row_key(&self) -> &str {
            &self.0
        }
        fn timestamp(&self) -> Timestamp {
            Timestamp::MIN
        }
        fn custom(&self, _: &str) -> Option<lazuli_model::ValueRef<'_>> {
            None
        }
    }

    fn time() -> impl Strategy<Value = Timestamp> {
        let far = 0..=Timestamp::MAX.ticks();
        let near = 635_443_302_320_000_000..635_443_302_320_000_009_u64;
        prop_oneof![far, near].prop_map(|ticks| Timestamp::from_ticks(ticks).unwrap())
    }

    proptest! {
        #[test]
        fn a_range_of_times_has_its_start_and_not_its_end(
            start in time(), end in time(), at in time(), suffix in "(_[0-9a-f~\u{FFFF}]{0,4})?",
        ) {
            // P-7.1.
            let row = RowKey(inverted(at) + &suffix);
            prop_assert_eq!(rows_between(start..end).0.matches(&row), (start..end).contains(&at));
        }

        #[test]
        fn texts_sort_newest_first_and_read_back(a in time(), b in time()) {
            // PS-7.1.
            prop_assert_eq!(inverted(a).cmp(&inverted(b)), b.cmp(&a));
            prop_assert_eq!(time_of(&inverted(a)), Some(a));
        }
    }

    #[test]
    fn a_million_times_sort_newest_first_and_read_back() {
        // PS-7.1.
        let mut state = 1_u64;
        let mut time = || {
            // SplitMix64; the times of ten days, and of all years.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let z = z ^ (z >> 31);
            let span = if z & 1 == 0 { 10 * 86_400 * TICKS_PER_SECOND } else { u64::MAX };
            Timestamp::from_ticks((z >> 1) % span % (Timestamp::MAX.ticks() + 1)).unwrap()
        };
        let mut last = time();
        for _ in 0..1_000_000 {
            let next = time();
            let (text, before) = (inverted(next), inverted(last));
            assert_eq!(text.cmp(&before), last.cmp(&next), "{last} {next}");
            assert_eq!(time_of(&text), Some(next));
            last = next;
        }
    }

    #[test]
    fn buckets_are_named_as_templates_name_them() {
        assert_eq!(bucket_key(7, 16), "07");
        assert_eq!(bucket_key(7, 10), "7");
        assert_eq!(bucket_key(0, 101), "000");
    }
}
