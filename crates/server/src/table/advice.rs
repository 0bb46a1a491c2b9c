//! Advice from live traffic: what is kept of requests, and what it shows.
//!
//! Each request leaves a small record in a list of bounded length. A background task examines the records
//! twice a second, using at most a thousandth of the time: on a busy server the list is closed most of the
//! time, and a request only reads a flag. So advice on busy tables is based on part of their traffic, in runs
//! of consecutive requests.

mod index_uses;
mod indexed;
mod json;
mod record;

pub(crate) use indexed::{Indexed, advised};
pub(crate) use json::document;
pub(crate) use record::Page;

use crate::auth::accounts::Accounts;
use crate::error::ApiError;
use crate::http::request::RequestContext;
use index_uses::{INDEXES_MAX, IndexPlace, IndexUses};
use lazuli_advice::{Advisor, Thresholds};
use lazuli_meter::{Family, Source, Value};
use lazuli_model::key_text::fnv1a;
use lazuli_model::{
    AccountName, Clock, EntityKey, Filter, IndexName, TableName, Timestamp, ValueRef,
};
use lazuli_table::{Mutation, TableError, TableService};
use record::Record;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum bytes of the sketches of one table.
const TABLE_BYTES: usize = 64 * 1024;
/// Maximum tables watched per account.
const TABLES_MAX: usize = 64;
/// Maximum queries per account whose empty pages are counted.
const EMPTY_MAX: usize = 256;
/// Maximum tables per account whose names are remembered.
const NAMES_MAX: usize = 1024;
/// Divisor: the share of time that examining records may take.
const TIME_SHARE: u64 = 1000;
/// How much of that time can be saved up, in ticks: 50 ms.
const TICKS_MAX: i64 = 500_000;

/// How much of the traffic is remembered.
#[derive(Clone, Copy, Debug)]
pub struct AdviceOptions {
    /// Memory for the sketches of all tables; zero turns watching off.
    pub bytes_max: usize,
    /// Maximum records waiting to be examined.
    pub records_max: usize,
}

impl Default for AdviceOptions {
    fn default() -> Self {
        Self { bytes_max: 64 * 1024 * 1024, records_max: 4096 }
    }
}

impl AdviceOptions {
    /// Maximum tables watched per account.
    fn tables_max(self) -> usize {
        (self.bytes_max / TABLE_BYTES).min(TABLES_MAX)
    }

    /// Maximum accounts watched; the traffic of others is ignored.
    fn accounts_max(self) -> usize {
        (self.bytes_max / TABLE_BYTES).div_ceil(TABLES_MAX)
    }
}

/// Watches the traffic of all accounts.
pub struct Advice {
    options: AdviceOptions,
    /// Whether records are taken.
    is_open: AtomicBool,
    records: Mutex<Vec<Record>>,
    /// When indexes were last read. All reads count, because an index that nobody reads is dropped.
    index_reads: Mutex<BTreeMap<IndexPlace, Timestamp>>,
    index_uses: Mutex<IndexUses>,
    state: Mutex<State>,
    kept: tokio::sync::Mutex<Kept>,
    tables: TableService,
    accounts: Arc<Accounts>,
    clock: Arc<dyn Clock>,
}

/// What is stored: a hash of each value, by account and name.
type Kept = BTreeMap<(AccountName, String), u64>;

#[derive(Default)]
struct State {
    accounts: BTreeMap<AccountName, Watched>,
    allowance: Allowance,
}

/// What is known about one account.
struct Watched {
    advisor: Advisor,
    /// The names of tables as they were first seen, by their lower-case forms.
    names: BTreeMap<Box<str>, Box<str>>,
    /// Empty pages in a row, by a hash of table and filter.
    empty: BTreeMap<u64, u32>,
}

impl Watched {
    fn new(options: AdviceOptions) -> Self {
        let advisor = Advisor::compact(Thresholds::default());
        let advisor = advisor.with_tables_max(options.tables_max());
        Self { advisor, names: BTreeMap::new(), empty: BTreeMap::new() }
    }
}

/// The time that may be used, in ticks.
struct Allowance {
    ticks: i64,
    last: Option<Timestamp>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { ticks: TICKS_MAX, last: None }
    }
}

impl Allowance {
    /// Subtracts the time used until `now`, and adds what was earned since the last call. Returns whether any
    /// is left.
    fn settle(&mut self, began: Timestamp, now: Timestamp) -> bool {
        let between = |from: Timestamp, to: Timestamp| to.ticks().saturating_sub(from.ticks());
        let earned = self.last.map_or(0, |last| between(last, began)) / TIME_SHARE;
        let signed = |ticks: u64| i64::try_from(ticks).unwrap_or(i64::MAX);
        self.ticks = self.ticks.saturating_add(signed(earned)).min(TICKS_MAX);
        self.ticks = self.ticks.saturating_sub(signed(between(began, now)));
        self.last = Some(began);
        self.ticks > 0
    }
}

impl Advice {
    pub(crate) fn new(
        tables: TableService,
        accounts: Arc<Accounts>,
        clock: Arc<dyn Clock>,
        options: AdviceOptions,
    ) -> Self {
        Self {
            options,
            is_open: AtomicBool::new(options.accounts_max() > 0),
            records: Mutex::default(),
            index_reads: Mutex::default(),
            index_uses: Mutex::default(),
            state: Mutex::default(),
            kept: tokio::sync::Mutex::default(),
            tables,
            accounts,
            clock,
        }
    }

    /// Whether records are taken; requests check this first.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Notes that an entity was read by its keys.
    #[cold]
    pub(crate) fn read(
        &self,
        context: &RequestContext<'_>,
        table: &TableName,
        key: &EntityKey,
        properties: &[(&str, ValueRef<'_>)],
        whole_bytes: Option<usize>,
    ) {
        self.push(Record::read(context, table, key, properties, whole_bytes));
    }

    /// Notes a change of an entity, and whether it failed.
    #[cold]
    pub(crate) fn written(
        &self,
        context: &RequestContext<'_>,
        table: &TableName,
        mutation: &Mutation<'_>,
        error: Option<&ApiError>,
        (body_bytes, is_batched): (usize, bool),
    ) {
        let status = error.map_or(204, |error| error.code.status());
        // A server failure says nothing about the design.
        if status < 500 {
            let how = (status, body_bytes, is_batched);
            self.push(Record::written(context, table, mutation, how));
        }
    }

    /// Notes a page of a query.
    pub(crate) fn queried(
        &self,
        context: &RequestContext<'_>,
        table: &TableName,
        filter: Option<Filter>,
        page: &Page<'_>,
    ) {
        self.push(Record::queried(context, table, filter, page));
    }

    /// Notes that a query used indexes.
    pub(crate) fn index_read(
        &self,
        context: &RequestContext<'_>,
        table: &TableName,
        names: &[IndexName],
    ) {
        self.note_index_read(&context.account.name, table, names, context.now);
    }

    pub(super) fn note_index_read(
        &self,
        account: &AccountName,
        table: &TableName,
        names: &[IndexName],
        at: Timestamp,
    ) {
        let mut reads = lock(&self.index_reads);
        for name in names {
            let place = (account.clone(), table.lower().into(), name.as_str().into());
            if reads.len() < INDEXES_MAX || reads.contains_key(&place) {
                reads.insert(place, at);
            }
        }
    }

    fn push(&self, record: Record) {
        let mut records = lock(&self.records);
        if records.len() < self.options.records_max {
            records.push(record);
        } else {
            self.is_open.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets a dropped table.
    pub(crate) fn forget(&self, account: &AccountName, table: &TableName) {
        // Examine waiting records first: they date from before the drop.
        self.look();
        let mut state = lock(&self.state);
        let Some(watched) = state.accounts.get_mut(account) else { return };
        if let Some(name) = watched.names.remove(table.lower()) {
            watched.advisor.forget(&name);
        }
    }

    /// What is known about an account so far.
    pub(crate) fn with_advisor<T>(
        &self,
        account: &AccountName,
        read: impl FnOnce(&Advisor) -> T,
    ) -> T {
        self.look();
        let mut state = lock(&self.state);
        match state.accounts.get_mut(account) {
            Some(watched) => read(&watched.advisor),
            None => read(&Advisor::compact(Thresholds::default())),
        }
    }

    /// The accounts that are watched.
    pub(crate) fn watched(&self) -> Vec<AccountName> {
        self.look();
        lock(&self.state).accounts.keys().cloned().collect()
    }

    /// One round of the background task: examines records, within the time that it may use.
    pub fn round(&self) {
        let began = self.clock.now();
        let has_time = lock(&self.state).allowance.ticks > 0;
        if has_time {
            self.look();
        }
        let has_time = lock(&self.state).allowance.settle(began, self.clock.now());
        self.open(has_time);
    }

    /// Opens or closes the list of records; it stays closed if nothing is watched.
    fn open(&self, is_open: bool) {
        self.is_open.store(is_open && self.options.accounts_max() > 0, Ordering::Relaxed);
    }

    /// Examines the records, and advances time.
    fn look(&self) {
        let now = self.clock.now();
        let records = std::mem::take(&mut *lock(&self.records));
        let reads = std::mem::take(&mut *lock(&self.index_reads));
        lock(&self.index_uses).note(&reads);
        let mut state = lock(&self.state);
        let mut written = BTreeMap::new();
        for record in &records {
            let account = &record.account.name;
            let is_full = state.accounts.len() >= self.options.accounts_max();
            if is_full && !state.accounts.contains_key(account) {
                continue;
            }
            let watched = || Watched::new(self.options);
            let watched = state.accounts.entry(account.clone()).or_insert_with(watched);
            watched.observe(record);
            if record.is_write() {
                written.insert((account, record.table.lower()), &record.table);
            }
        }
        for ((account, table, index), at) in &reads {
            if let Some((advisor, name)) = state.find(account, table) {
                advisor.note_index(*at, &name, index, true);
            }
        }
        for ((account, lower), table) in written {
            for index in self.tables.cached_indexes(account, table) {
                if let Some((advisor, name)) = state.find(account, lower) {
                    advisor.note_index(now, &name, index.as_str(), false);
                }
            }
        }
        for watched in state.accounts.values_mut() {
            watched.advisor.pass(now);
        }
        drop(state);
        self.open(true);
    }

    /// Reads what was kept before a restart. Ignores tables that no longer exist, and invalid values.
    pub async fn load(&self) -> Result<(), TableError> {
        let mut kept = self.kept.lock().await;
        for account in self.accounts.all().iter().take(self.options.accounts_max()) {
            for (table, bytes) in self.tables.kept_advice(&account.name).await? {
                let exists = match TableName::parse_any(&table) {
                    Ok(name) => self.exists(&account.name, &name).await?,
                    Err(_) => table.is_empty(),
                };
                kept.insert((account.name.clone(), table.clone()), fnv1a(&bytes));
                let mut state = lock(&self.state);
                let watched = || Watched::new(self.options);
                let watched = state.accounts.entry(account.name.clone()).or_insert_with(watched);
                if exists && watched.advisor.restore(&table, &bytes) && !table.is_empty() {
                    let lower = table.to_ascii_lowercase();
                    watched.names.insert(lower.into(), table.into());
                }
            }
        }
        Ok(())
    }

    async fn exists(&self, account: &AccountName, table: &TableName) -> Result<bool, TableError> {
        match self.tables.get_table(account, table).await {
            Ok(_) => Ok(true),
            Err(TableError::TableNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes what has changed since the last call to the store.
    pub async fn keep(&self) -> Result<(), TableError> {
        let mut kept = self.kept.lock().await;
        let mut saved = BTreeMap::new();
        {
            let state = lock(&self.state);
            for (account, watched) in &state.accounts {
                let tables = watched.advisor.save().into_iter();
                saved.extend(tables.map(|(table, bytes)| ((account.clone(), table), bytes)));
            }
        }
        let gone = kept.keys().filter(|place| !saved.contains_key(place)).cloned();
        for place in gone.collect::<Vec<_>>() {
            self.tables.keep_advice(&place.0, &place.1, None).await?;
            kept.remove(&place);
        }
        for (place, bytes) in saved {
            let hash = fnv1a(&bytes);
            if kept.get(&place) != Some(&hash) {
                self.tables.keep_advice(&place.0, &place.1, Some(bytes)).await?;
                kept.insert(place, hash);
            }
        }
        Ok(())
    }
}

impl State {
    /// The advisor of an account, and the name of the table with this lower-case form.
    fn find(&mut self, account: &AccountName, lower: &str) -> Option<(&mut Advisor, Box<str>)> {
        let watched = self.accounts.get_mut(account)?;
        let name = watched.names.get(lower)?.clone();
        Some((&mut watched.advisor, name))
    }
}

impl Source for Advice {
    fn report(&self) -> Vec<Family> {
        let bytes: usize =
            lock(&self.state).accounts.values().map(|watched| watched.advisor.bytes()).sum();
        let family = |name, help, bytes: usize| {
            let pool = vec![("pool", "sketches".into())];
            Family::new(name, help).with(pool, &Value::Gauge(bytes as f64))
        };
        vec![
            family("lazuli_memory_bytes", "Memory in use", bytes),
            family("lazuli_memory_limit_bytes", "Memory that may be used", self.options.bytes_max),
        ]
    }
}

impl Watched {
    fn observe(&mut self, record: &Record) {
        let lower = record.table.lower();
        if !self.names.contains_key(lower) {
            if self.names.len() >= NAMES_MAX {
                self.names.clear();
            }
            self.names.insert(lower.into(), record.table.as_str().into());
        }
        let name = self.names.get(lower).map_or(lower, |name| name);
        let (advisor, empty) = (&mut self.advisor, &mut self.empty);
        let empty_before = |shape: &str, is_empty: bool| {
            let place = fnv1a(shape.as_bytes()) ^ fnv1a(name.as_bytes()).rotate_left(1);
            if !is_empty {
                empty.remove(&place);
                return 0;
            }
            if empty.len() >= EMPTY_MAX {
                empty.clear();
            }
            let pages = empty.entry(place).or_default();
            *pages = pages.saturating_add(1);
            *pages - 1
        };
        record.show(name, empty_before, |sample| advisor.observe(sample));
    }
}

impl Advice {
    /// Stores the uses of indexes since the last call, each at most once an hour. Every gateway does so,
    /// whichever runs the chores.
    pub async fn keep_index_uses(&self) -> Result<(), TableError> {
        self.look();
        let tables = lock(&self.index_uses).take();
        let mut failure = None;
        for ((account, table), (indexes, at)) in tables {
            let Ok(name) = TableName::parse(&table) else { continue };
            let names: Vec<IndexName> =
                indexes.iter().filter_map(|index| IndexName::parse(index).ok()).collect();
            match self.tables.note_index_uses(&account, &name, &names, at).await {
                Ok(()) | Err(TableError::TableNotFound) => {
                    lock(&self.index_uses).kept(&account, &table, indexes, at);
                }
                Err(error) => {
                    let again = indexes
                        .into_iter()
                        .map(|index| ((account.clone(), table.clone(), index), at));
                    lock(&self.index_uses).note(&again.collect());
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X-5.2d: the background task stays within its share of the time.
    #[test]
    fn time_is_earned_and_spent() {
        let mut allowance = Allowance::default();
        let at = |ms: u64| {
            let start = Timestamp::from_unix_seconds(1_800_000_000).ticks();
            Timestamp::from_ticks(start + ms * 10_000).unwrap()
        };
        assert!(allowance.settle(at(0), at(40)));
        assert!(!allowance.settle(at(500), at(520)));
        // It owes ten milliseconds, which take ten seconds to earn.
        assert!(!allowance.settle(at(8000), at(8000)));
        assert!(allowance.settle(at(12_000), at(12_000)));
        // At most 50 ms are saved up.
        assert!(allowance.settle(at(10_000_000), at(10_000_000)));
        assert!(!allowance.settle(at(10_000_500), at(10_000_560)));
    }
}
