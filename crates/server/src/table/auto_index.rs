//! Indexes that the server declares by itself, for filters that scan much and return little, and drops again
//! when nobody uses them.

use crate::table::advice::Advice;
use lazuli_advice::ShapeSummary;
use lazuli_model::{AccountName, Clock, IndexDefinition, TableName, Timestamp};
use lazuli_table::{IndexStatus, TableError, TableService};
use std::sync::Arc;

/// Entities that the queries of one shape have examined together, and for each that they returned.
const EXAMINED_MIN: u64 = 10_000;
const EXAMINED_PER_RETURNED: u64 = 100;
/// Scans of one shape: a report that runs once is not worth an index.
const SCANS_MIN: u64 = 10;
/// Seconds without use after which an index is dropped.
const UNUSED_SECONDS: u64 = 7 * 24 * 3600;
/// Characters of a property in the name of its index.
const NAME_CHARS_MAX: usize = 59;

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
    definition: IndexDefinition,
    filter: String,
    examined: u64,
    returned: u64,
}

impl AutoIndex {
    /// At most `per_table_max` indexes on a table.
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
        let Wish { table, definition, filter, examined, returned } = wish;
        let declared = self
            .tables
            .declare_automatic_index(account, table, definition, self.per_table_max)
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
        let indexes = match self.tables.indexes(account, table).await {
            Err(TableError::TableNotFound) => return Ok(()),
            indexes => indexes?,
        };
        for index in indexes.iter().filter(|index| index.is_automatic) {
            if !self.is_unused(account, table, index) {
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

    fn is_unused(&self, account: &AccountName, table: &TableName, index: &IndexStatus) -> bool {
        let name = index.definition.name().as_str();
        let last_read = self.advice.with_advisor(account, |advisor| {
            let is_it = |known: &&str| known.eq_ignore_ascii_case(table.as_str());
            let known = advisor.tables().map(|table| table.table).find(is_it)?;
            advisor.last_read_of_index(known, name)
        });
        let last: Timestamp = last_read.map_or(index.since, |read| read.max(index.since));
        self.clock.now().unix_seconds() > last.unix_seconds() + UNUSED_SECONDS
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

/// The index on the property that a shape compares with `eq`, if it can have one.
fn wish(table: &str, shape: &ShapeSummary<'_>) -> Option<Wish> {
    let property = shape.lookup?;
    let letters = property.chars().filter(char::is_ascii_alphanumeric).take(NAME_CHARS_MAX);
    let name: String = "auto".chars().chain(letters).collect();
    Some(Wish {
        table: named(table)?,
        definition: IndexDefinition::new(&name, &[property.to_owned()], false).ok()?,
        filter: shape.filter.to_owned(),
        examined: shape.examined,
        returned: shape.returned,
    })
}

/// Whether something was done; of a table that was dropped meanwhile, nothing.
fn found(outcome: Result<bool, TableError>) -> Result<bool, TableError> {
    match outcome {
        Err(TableError::TableNotFound) => Ok(false),
        outcome => outcome,
    }
}
