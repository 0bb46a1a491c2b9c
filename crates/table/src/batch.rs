//! Entity group transactions: up to 100 changes of one partition, all or none.

use crate::error::{BatchFailure, TableError};
use crate::mutate::{Mutation, Step};
use crate::service::TableService;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{AccountName, TableName, Timestamp};
use std::collections::HashSet;

/// 1 to 100 mutations of one table and one partition, no entity twice. A batch that exists keeps
/// these rules.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    table: TableName,
    mutations: Vec<Mutation<'a>>,
}

impl<'a> Batch<'a> {
    /// The first operation that breaks any rule is to blame.
    pub fn new(operations: Vec<(TableName, Mutation<'a>)>) -> Result<Self, BatchFailure> {
        check_rules(&operations)?;
        let mut mutations = Vec::with_capacity(operations.len());
        let mut table = None;
        for (name, mutation) in operations {
            table.get_or_insert(name);
            mutations.push(mutation);
        }
        let table = table.ok_or(BatchFailure::new(0, TableError::EmptyBatch))?;
        Ok(Self { table, mutations })
    }

    pub fn table(&self) -> &TableName {
        &self.table
    }

    pub fn mutations(&self) -> &[Mutation<'a>] {
        &self.mutations
    }
}

impl TableService {
    /// Applies a batch, all or nothing. All its entities get the Timestamp returned.
    pub async fn transact(
        &self,
        account: &AccountName,
        batch: &Batch<'_>,
    ) -> Result<Timestamp, BatchFailure> {
        let steps: Vec<Step<'_>> = batch.mutations.iter().map(Step::from).collect();
        self.apply(account, &batch.table, &steps).await
    }
}

fn check_rules(operations: &[(TableName, Mutation<'_>)]) -> Result<(), BatchFailure> {
    let Some((table, first)) = operations.first() else {
        return Ok(());
    };
    let partition = &first.key().partition;
    let mut rows = HashSet::new();
    for (index, (name, mutation)) in operations.iter().enumerate() {
        // The service blames the hundredth operation, whatever the surplus (T-6.42).
        let surplus = operations.len() > BATCH_OPERATIONS_MAX;
        let broken = if surplus && index + 1 == BATCH_OPERATIONS_MAX {
            TableError::TooManyOperations
        } else if name != table {
            TableError::DifferentTable
        } else if mutation.key().partition != *partition {
            TableError::DifferentPartition
        } else if !rows.insert(mutation.key().row.as_str()) {
            TableError::DuplicateRow
        } else {
            continue;
        };
        return Err(BatchFailure::new(index, broken));
    }
    Ok(())
}
