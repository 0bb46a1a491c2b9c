//! Automatic indexes: declared by the server for filters that scan much and return little, and dropped again
//! when unused.
//!
//! Every process stores when it last used an index (`advice/index_uses.rs`), so a drop is based on what all of
//! them know. An index without stored uses was declared by an earlier version: its week begins when that is
//! noticed.

use crate::table::advice::Advice;
use lazuli_advice::ShapeSummary;
use lazuli_model::limits::{INDEX_NAME_CHARS_MAX, TABLE_INDEXES_MAX};
use lazuli_model::{AccountName, Clock, IndexDefinition, TableName};
use lazuli_table::{IndexStatus, TableError, TableService};
use std::sync::Arc;

/// Entities that the queries of one shape examined in total, and per entity returned.
const EXAMINED_MIN: u64 = 10_000;
const EXAMINED_PER_RETURNED: u64 = 100;
/// Minimum scans of one shape: a report that runs once is not worth an index.
const SCANS_MIN: u64 = 10;
/// Seconds without use after which an automatic index is dropped.
const UNUSED_SECONDS: u64 = 7 * 24 * 3600;
/// Characters of a property in the name of its index: two digits still fit behind them.
const NAME_CHARS_MAX: usize = INDEX_NAME_CHARS_MAX - "auto".len() - 2;

/// Declares and drops indexes.
pub struct AutoIndex {
    advice: Arc<Advice>,
    tables: TableService,
    clock: Arc<dyn Clock>,
    per_table_max: usize,
}

/// A filter that an index would serve.
struct Wish {
    table: TableName,
    property: String,
    filter: String,
    examined: u64,
    returned: u64,
}

impl AutoIndex {
    /// Allows at most `per_table_max` indexes on a table.
    pub fn new(
        advice: Arc<Advice>,
        tables: TableService,
        clock: Arc<dyn Clock>,
        per_table_max: usize,
    ) -> Self {
        Self { advice, tables, clock, per_table_max }
    }

    /// One round over all tables whose traffic is known.
    pub async fn round(&self) -> Result<(), TableError> {
        // Include the uses of this process.
        self.advice.keep_index_uses().await?;
        for account in self.advice.watched() {
            let (names, wishes) = self.advice.with_advisor(&account, |advisor| {
                let names = advisor.tables().filter_map(|table| named(table.table));
                let wishes = advisor.tables().flat_map(|table| {
                    let shapes = table.shapes.iter().filter(|shape| is_wasteful(shape));
                    shapes.filter_map(|shape| wish(table.table, shape)).collect::<Vec<_>>()
                });
                (names.collect::<Vec<_>>(), wishes.collect::<Vec<_>>())
            });
            for table in names {
                self.drop_unused(&account, &table).await?;
            }
            for wish in wishes {
                self.declare(&account, &wish).await?;
            }
        }
        Ok(())
    }

    async fn declare(&self, account: &AccountName, wish: &Wish) -> Result<(), TableError> {
        let Wish { table, property, filter, examined, returned } = wish;
        let Some(definition) = index_on(property, &self.indexes(account, table).await?) else {
            return Ok(());
        };
        let declared = self
            .tables
            .declare_automatic_index(account, table, &definition, self.per_table_max)
            .await;
        if found(declared)? {
            tracing::info!(
                account = account.as_str(),
                table = table.as_str(),
                index = definition.name().as_str(),
                filter,
                examined,
                returned,
                "declared an index for queries that scan much and return little"
            );
        }
        Ok(())
    }

    async fn drop_unused(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<(), TableError> {
        let indexes = self.indexes(account, table).await?;
        let now = self.clock.now();
        for index in indexes.iter().filter(|index| index.is_automatic) {
            let Some(last_used) = index.last_used else {
                let names = [index.definition.name().clone()];
                match self.tables.note_index_uses(account, table, &names, now).await {
                    Ok(()) | Err(TableError::TableNotFound) => continue,
                    Err(error) => return Err(error),
                }
            };
            let last = last_used.max(index.since);
            if now.unix_seconds() <= last.unix_seconds() + UNUSED_SECONDS {
                continue;
            }
            let name = index.definition.name();
            if found(self.tables.drop_automatic_index(account, table, name).await)? {
                tracing::info!(
                    account = account.as_str(),
                    table = table.as_str(),
                    index = name.as_str(),
                    "dropped an index of the server's own making that nobody used for a week"
                );
            }
        }
        Ok(())
    }

    /// The indexes of a table; of one that was dropped meanwhile, none.
    async fn indexes(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<Vec<IndexStatus>, TableError> {
        match self.tables.indexes(account, table).await {
            Err(TableError::TableNotFound) => Ok(Vec::new()),
            indexes => indexes,
        }
    }
}

fn named(table: &str) -> Option<TableName> {
    TableName::parse(table).ok()
}

/// Whether queries of a shape scan much and return little.
fn is_wasteful(shape: &ShapeSummary<'_>) -> bool {
    let much = shape.returned.max(1).saturating_mul(EXAMINED_PER_RETURNED);
    shape.scans >= SCANS_MIN && shape.examined >= EXAMINED_MIN.max(much)
}

/// The property that a shape compares with `eq`, if there is one.
fn wish(table: &str, shape: &ShapeSummary<'_>) -> Option<Wish> {
    Some(Wish {
        table: named(table)?,
        property: shape.lookup?.to_owned(),
        filter: shape.filter.to_owned(),
        examined: shape.examined,
        returned: shape.returned,
    })
}

/// An index on a property, if it can have one. Names of indexes have letters and digits and are equal
/// whatever their case, unlike those of properties: where one is taken, a number follows it.
fn index_on(property: &str, taken: &[IndexStatus]) -> Option<IndexDefinition> {
    let letters = property.chars().filter(char::is_ascii_alphanumeric).take(NAME_CHARS_MAX);
    let name: String = "auto".chars().chain(letters).collect();
    let numbered = (2..=TABLE_INDEXES_MAX + 1).map(|number| format!("{name}{number}"));
    let names = std::iter::once(name.clone()).chain(numbered);
    let mut definitions =
        names.filter_map(|name| IndexDefinition::new(&name, &[property], false).ok());
    definitions.find(|own| taken.iter().all(|index| index.definition.name() != own.name()))
}

/// Whether something was done; of a table that was dropped meanwhile, nothing.
fn found(outcome: Result<bool, TableError>) -> Result<bool, TableError> {
    match outcome {
        Err(TableError::TableNotFound) => Ok(false),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::accounts::Accounts;
    use crate::table::advice::AdviceOptions;
    use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
    use lazuli_model::{IndexName, Timestamp};
    use std::sync::atomic::{AtomicU64, Ordering};

    const DAY: u64 = 24 * 3600;

    struct ManualClock(AtomicU64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_seconds(self.0.load(Ordering::SeqCst))
        }
    }

    /// A gateway of a shared store.
    struct Gateway {
        advice: Arc<Advice>,
        auto: AutoIndex,
        tables: TableService,
    }

    impl Gateway {
        fn new(engine: &Arc<MemoryEngine>, clock: &Arc<ManualClock>) -> Self {
            let tables = TableService::new(engine.clone(), clock.clone());
            let accounts = Accounts::new(Accounts::parse("acct1:a2V5").unwrap()).unwrap();
            let advice = Advice::new(
                tables.clone(),
                Arc::new(accounts),
                clock.clone(),
                AdviceOptions::default(),
            );
            let advice = Arc::new(advice);
            let auto = AutoIndex::new(advice.clone(), tables.clone(), clock.clone(), 2);
            Self { advice, auto, tables }
        }
    }

    /// the gateway that runs the chores knows when another one uses an index, and drops the index a
    /// week after the last use.
    #[tokio::test]
    async fn a_use_by_another_gateway_keeps_an_index() {
        let options = MemoryOptions { writers: Writers::Many, ..MemoryOptions::default() };
        let engine = Arc::new(MemoryEngine::new(options));
        let clock = Arc::new(ManualClock(AtomicU64::new(1_800_000_000)));
        let [one, other] = [(); 2].map(|()| Gateway::new(&engine, &clock));
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse("Orders").unwrap();
        one.tables.create_table(&account, &table).await.unwrap();
        let index = IndexDefinition::new("autoName", &["Name"], false).unwrap();
        let declared = one.tables.declare_automatic_index(&account, &table, &index, 2);
        assert!(declared.await.unwrap());
        let count = async || one.tables.indexes(&account, &table).await.unwrap().len();
        let pass = |seconds| clock.0.fetch_add(seconds, Ordering::SeqCst);
        let used = |gateway: &Gateway| {
            let names = [IndexName::parse("AUTONAME").unwrap()];
            gateway.advice.note_index_read(&account, &table, &names, clock.now());
        };
        for _ in 0..3 {
            pass(5 * DAY);
            used(&other);
            other.advice.keep_index_uses().await.unwrap();
            one.auto.drop_unused(&account, &table).await.unwrap();
            assert_eq!(count().await, 1);
        }
        // Uses are stored once an hour, and not lost before.
        let kept = async || one.tables.indexes(&account, &table).await.unwrap()[0].last_used;
        let before = kept().await;
        pass(600);
        used(&other);
        other.advice.keep_index_uses().await.unwrap();
        assert_eq!(kept().await, before);
        pass(3600);
        used(&other);
        other.advice.keep_index_uses().await.unwrap();
        assert_eq!(kept().await, Some(clock.now()));
        pass(7 * DAY + 1);
        one.auto.drop_unused(&account, &table).await.unwrap();
        assert_eq!(count().await, 0);
    }

    /// An index of an earlier version, without stored uses, has a week from now on.
    #[tokio::test]
    async fn an_index_of_an_earlier_version_is_not_dropped_at_once() {
        let engine = Arc::new(MemoryEngine::default());
        let clock = Arc::new(ManualClock(AtomicU64::new(1_800_000_000)));
        let gateway = Gateway::new(&engine, &clock);
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse("Orders").unwrap();
        gateway.tables.create_table(&account, &table).await.unwrap();
        let index = IndexDefinition::new("autoName", &["Name"], false).unwrap();
        gateway.tables.declare_automatic_index(&account, &table, &index, 2).await.unwrap();
        let forgotten = forget_uses(&engine).await;
        assert_eq!(forgotten, 1);
        clock.0.fetch_add(30 * DAY, Ordering::SeqCst);
        gateway.auto.drop_unused(&account, &table).await.unwrap();
        assert_eq!(gateway.tables.indexes(&account, &table).await.unwrap().len(), 1);
        clock.0.fetch_add(7 * DAY + 1, Ordering::SeqCst);
        gateway.auto.drop_unused(&account, &table).await.unwrap();
        assert_eq!(gateway.tables.indexes(&account, &table).await.unwrap().len(), 0);
    }

    /// Removes the stored uses; returns how many there were.
    async fn forget_uses(engine: &MemoryEngine) -> usize {
        use lazuli_engine::{Direction, Engine, KeyRange, Scan, Visit};
        let range = KeyRange::prefix(b"Lw");
        let mut count = 0;
        let scan = Scan {
            range: range.clone(),
            direction: Direction::Forward,
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
            rows_expected: usize::MAX,
        };
        let mut visit = |_: &[u8], _: &[u8], _| {
            count += 1;
            Visit::Continue
        };
        engine.view().await.unwrap().scan(scan, &mut visit).await.unwrap();
        engine.reclaim(range).await.unwrap();
        count
    }
}
