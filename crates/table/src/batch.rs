//! Entity group transactions: up to 100 changes of one partition, all or none.

use crate::error::{BatchFailure, TableError};
use crate::mutate::{Mutation, Step};
use crate::service::TableService;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{AccountName, TableName, Timestamp};
use std::borrow::Borrow;
use std::collections::BTreeSet;

/// 1 to 100 mutations of one table and one partition, no entity twice. Every batch satisfies these
/// rules, except the one-partition rule if it was built with [`Batch::across_partitions`].
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    table: TableName,
    mutations: Vec<Mutation<'a>>,
}

impl<'a> Batch<'a> {
    /// The error names the first operation that breaks a rule.
    pub fn new(
        operations: Vec<(impl Borrow<TableName>, Mutation<'a>)>,
    ) -> Result<Self, BatchFailure> {
        check_rules(&operations, Partitions::One)?;
        Self::assemble(operations)
    }

    /// The same for entities of any partitions of the table, which the service refuses and
    /// emulators accept. It is still applied atomically.
    pub fn across_partitions(
        operations: Vec<(impl Borrow<TableName>, Mutation<'a>)>,
    ) -> Result<Self, BatchFailure> {
        check_rules(&operations, Partitions::Any)?;
        Self::assemble(operations)
    }

    /// Checks that the operations satisfy the rules of a batch.
    pub fn check(
        operations: &[(impl Borrow<TableName>, Mutation<'a>)],
    ) -> Result<(), BatchFailure> {
        check_rules(operations, Partitions::One)
    }

    /// The same, with merges limited only by storage.
    pub fn relaxed(self) -> Self {
        Self { mutations: self.mutations.into_iter().map(Mutation::relaxed).collect(), ..self }
    }

    fn assemble(
        operations: Vec<(impl Borrow<TableName>, Mutation<'a>)>,
    ) -> Result<Self, BatchFailure> {
        let mut mutations = Vec::with_capacity(operations.len());
        let mut table = None;
        for (name, mutation) in operations {
            table.get_or_insert_with(|| name.borrow().clone());
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
    /// Applies a batch atomically. All its entities get the returned Timestamp.
    pub async fn transact(
        &self,
        account: &AccountName,
        batch: &Batch<'_>,
    ) -> Result<Timestamp, BatchFailure> {
        let steps: Vec<Step<'_>> = batch.mutations.iter().map(Step::from).collect();
        self.apply(account, &batch.table, &steps).await
    }
}

/// How many partitions a batch may touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partitions {
    One,
    Any,
}

fn check_rules(
    operations: &[(impl Borrow<TableName>, Mutation<'_>)],
    partitions: Partitions,
) -> Result<(), BatchFailure> {
    let Some((table, first)) = operations.first() else {
        return Ok(());
    };
    let table = table.borrow();
    let partition = &first.key().partition;
    let mut rows = BTreeSet::new();
    for (index, (name, mutation)) in operations.iter().enumerate() {
        // The service names the hundredth operation, however many there are (T-6.42).
        let surplus = operations.len() > BATCH_OPERATIONS_MAX;
        let within = match partitions {
            Partitions::One => "",
            Partitions::Any => mutation.key().partition.as_str(),
        };
        let broken = if surplus && index + 1 == BATCH_OPERATIONS_MAX {
            TableError::TooManyOperations
        } else if name.borrow() != table {
            TableError::DifferentTable
        } else if partitions == Partitions::One && mutation.key().partition != *partition {
            TableError::DifferentPartition
        } else if !rows.insert((within, mutation.key().row.as_str())) {
            TableError::DuplicateRow
        } else {
            continue;
        };
        return Err(BatchFailure::new(index, broken));
    }
    Ok(())
}
