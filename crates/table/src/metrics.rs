//! The analytics tables of an account: written by the service, read by clients like any table.
//!
//! The partition key of an entity is its interval, the row key is `access;operation` (T-9.42).
//! Counts are added to the stored values, so a restart within an interval loses nothing, and
//! several servers on one store can count for one account.

use crate::error::{BatchFailure, TableError};
use crate::query::{EntityQuery, EntityRef};
use crate::service::TableService;
use crate::{Batch, Mutation, MutationKind};
use lazuli_engine::retry::Attempt;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::metrics::MetricsRow;
use lazuli_model::{
    AccountName, ETag, EntityKey, Filter, IfMatch, Interval, Operator, PartitionKey, Properties,
    Property, RowKey, TableName, Timestamp, Value,
};
use std::collections::{BTreeMap, HashMap};

/// What to add to the entities of one interval, by row key.
pub type MetricsRows = BTreeMap<String, MetricsRow>;

impl TableService {
    /// Creates the analytics table `table` unless it exists.
    pub async fn create_metrics_table(
        &self,
        account: &AccountName,
        table: &TableName,
    ) -> Result<(), TableError> {
        match self.create_table(account, table).await {
            Ok(()) | Err(TableError::TableAlreadyExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds `rows` to the entities of the interval that begins at `start`. Missing entities are
    /// created, even if nothing was counted.
    ///
    /// A write with an unknown outcome is not retried: missing a request is better than counting it
    /// twice.
    pub async fn add_metrics(
        &self,
        account: &AccountName,
        table: &TableName,
        start: Timestamp,
        rows: &MetricsRows,
    ) -> Result<(), TableError> {
        let partition = start.compact_minute();
        self.retry(|| self.try_to_add_metrics(account, table, &partition, rows)).await?
    }

    async fn try_to_add_metrics(
        &self,
        account: &AccountName,
        table: &TableName,
        partition: &str,
        rows: &MetricsRows,
    ) -> Attempt<Result<(), TableError>> {
        match self.add_metrics_once(account, table, partition, rows).await {
            Ok(()) | Err(TableError::Undetermined) => Attempt::Done(Ok(())),
            // Another writer won: a client that deletes, or another server that adds counts.
            Err(
                TableError::TableNotFound
                | TableError::EntityAlreadyExists
                | TableError::EntityNotFound
                | TableError::ConditionNotMet,
            ) => Attempt::Again,
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    async fn add_metrics_once(
        &self,
        account: &AccountName,
        table: &TableName,
        partition: &str,
        rows: &MetricsRows,
    ) -> Result<(), TableError> {
        let stored = match self.stored_metrics(account, table, partition).await {
            Err(TableError::TableNotFound) => {
                self.create_metrics_table(account, table).await?;
                HashMap::new()
            }
            stored => stored?,
        };
        let changes = changes(table, partition, rows, &stored)?;
        if changes.is_empty() {
            return Ok(());
        }
        let batch = Batch::new(changes).map_err(|failure| failure.error)?;
        self.transact(account, &batch).await.map_err(|failure| failure.error)?;
        Ok(())
    }

    /// Deletes a page of entities whose intervals began before `cutoff`; returns their number.
    pub async fn expire_metrics(
        &self,
        account: &AccountName,
        table: &TableName,
        cutoff: Timestamp,
    ) -> Result<usize, TableError> {
        let before =
            partition_filter(Operator::Lt, &Interval::Minute.start(cutoff).compact_minute());
        let mut expired: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let query = EntityQuery { filter: Some(before), ..EntityQuery::default() };
        let mut sink = |entity: EntityRef<'_>| {
            let rows = expired.entry(entity.partition_key.to_owned()).or_default();
            rows.push(entity.row_key.to_owned());
        };
        let end = match self.query(account, table, query, &mut sink).await {
            Err(TableError::TableNotFound) => return Ok(0),
            end => end?,
        };
        for (partition, rows) in expired {
            for rows in rows.chunks(BATCH_OPERATIONS_MAX) {
                self.delete_metrics(account, table, &partition, rows).await?;
            }
        }
        Ok(usize::try_from(end.rows_returned).unwrap_or(usize::MAX))
    }

    async fn delete_metrics(
        &self,
        account: &AccountName,
        table: &TableName,
        partition: &str,
        rows: &[String],
    ) -> Result<(), TableError> {
        let delete = MutationKind::Delete(IfMatch::Any);
        let deletions: Result<Vec<_>, TableError> = rows
            .iter()
            .map(|row| mutation(table, partition, row, delete, &MetricsRow::default()))
            .collect();
        let batch = Batch::new(deletions?).map_err(|failure| failure.error)?;
        match self.transact(account, &batch).await {
            // A client may delete at the same time; the next round handles the rest.
            Ok(_) | Err(BatchFailure { error: TableError::EntityNotFound, .. }) => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }

    /// The entities of one interval, by row key.
    async fn stored_metrics(
        &self,
        account: &AccountName,
        table: &TableName,
        partition: &str,
    ) -> Result<HashMap<String, (MetricsRow, ETag)>, TableError> {
        let filter = Some(partition_filter(Operator::Eq, partition));
        let mut stored = HashMap::new();
        let mut sink = |entity: EntityRef<'_>| {
            let row = MetricsRow::read(entity.properties.iter().copied());
            stored.insert(entity.row_key.to_owned(), (row, ETag(entity.timestamp)));
        };
        // An interval has a few dozen rows: one page.
        let query = EntityQuery { filter, ..EntityQuery::default() };
        self.query(account, table, query, &mut sink).await?;
        Ok(stored)
    }
}

/// The writes that add `rows` to the stored values.
fn changes(
    table: &TableName,
    partition: &str,
    rows: &MetricsRows,
    stored: &HashMap<String, (MetricsRow, ETag)>,
) -> Result<Vec<(TableName, Mutation<'static>)>, TableError> {
    let mut changes = Vec::with_capacity(rows.len());
    for (name, row) in rows {
        match stored.get(name) {
            None => changes.push(mutation(table, partition, name, MutationKind::Insert, row)?),
            Some(_) if row.is_empty() => {}
            Some((before, etag)) => {
                let mut sum = before.clone();
                sum.add(row);
                let kind = MutationKind::Replace(IfMatch::Version(*etag));
                changes.push(mutation(table, partition, name, kind, &sum)?);
            }
        }
    }
    Ok(changes)
}

fn mutation(
    table: &TableName,
    partition: &str,
    row: &str,
    kind: MutationKind,
    metrics: &MetricsRow,
) -> Result<(TableName, Mutation<'static>), TableError> {
    // We choose the keys and columns, and they satisfy every limit.
    let own = |_| TableError::Corrupt(lazuli_layout::CorruptRecord("analytics entity"));
    let key = EntityKey::new(
        PartitionKey::parse(partition).map_err(own)?,
        RowKey::parse(row).map_err(own)?,
    );
    let properties = Properties::new(metrics.columns())?;
    Ok((table.clone(), Mutation::new(key, kind, properties)?))
}

fn partition_filter(operator: Operator, partition: &str) -> Filter {
    let value = Value::String(partition.to_owned().into());
    Filter::Compare { property: Property::PartitionKey, operator, value }
}
