//! Transactions over partitions and tables: one commit, guarded by every table it names.

use crate::error::{BatchFailure, TableError};
use crate::mutate::{Mutation, Step, failure_of};
use crate::service::{OpenTable, TableService, timestamp};
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Commit, CommitError, Key, Revision};
use lazuli_layout::FeedId;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{AccountName, TableName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

/// What another service commits together with mutations.
pub trait Companion: Send + Sync {
    /// Adds to `commit`, and commits it. An error without a cause comes from the companion, which knows the
    /// cause.
    fn commit(&self, commit: Commit) -> CompanionCommit<'_>;
}

/// The outcome of a commit with a [`Companion`].
pub type CompanionCommit<'c> =
    Pin<Box<dyn Future<Output = Result<Revision, Option<CommitError>>> + Send + 'c>>;

/// A mutation and its table.
pub(crate) type TableMutation<'a> = (&'a TableName, Mutation<'a>);

impl TableService {
    /// Atomically applies mutations of any tables and partitions, and what `companion` adds: at most 100, no
    /// entity twice. The error names the first that breaks a rule or fails.
    pub async fn transact_any(
        &self,
        account: &AccountName,
        operations: &[TableMutation<'_>],
        companion: Option<&dyn Companion>,
    ) -> Result<Timestamp, BatchFailure> {
        check_rules(operations)?;
        let tried = self.retry(|| self.try_any(account, operations, companion)).await;
        tried.unwrap_or_else(|busy| Err(BatchFailure::new(0, busy)))
    }

    async fn try_any(
        &self,
        account: &AccountName,
        operations: &[TableMutation<'_>],
        companion: Option<&dyn Companion>,
    ) -> Attempt<Result<Timestamp, BatchFailure>> {
        let mut tables: BTreeMap<&str, OpenTable> = BTreeMap::new();
        for (index, (name, _)) in operations.iter().enumerate() {
            if tables.contains_key(name.lower()) {
                continue;
            }
            match self.open_to_prove(account, name).await {
                Ok(table) => tables.insert(name.lower(), table),
                Err(error) => return Attempt::Done(Err(BatchFailure::new(index, error))),
            };
        }
        let steps: Vec<Step<'_>> =
            operations.iter().map(|(_, mutation)| Step::from(mutation)).collect();
        let ids = operations.iter().map(|(name, _)| tables.get(name.lower()).map(|table| table.id));
        let keys: Option<Vec<Key>> =
            steps.iter().zip(ids).map(|(step, id)| Some(step.stored_key(id?))).collect();
        // Every table was opened above.
        let keys = keys.unwrap_or_default();
        let not_before = self.store.now();
        let recorded: Vec<FeedId> = tables.values().filter_map(OpenTable::feed_id).collect();
        let entries = operations.iter().filter(|(name, _)| {
            tables.get(name.lower()).is_some_and(|table| table.feed_id().is_some())
        });
        let entries = entries.count() as u64;
        let tables: Vec<OpenTable> = tables.into_values().collect();
        let expiring: Vec<OpenTable> =
            tables.iter().filter(|table| table.expiring()).cloned().collect();
        let commit = self.commit_of(&steps, &keys, not_before, tables);
        let outcome = match companion {
            None => self.store.engine.commit(commit).await,
            Some(companion) => match companion.commit(commit).await {
                Err(None) => return Attempt::Done(Err(BatchFailure::new(0, TableError::Busy))),
                Err(Some(error)) => Err(error),
                Ok(revision) => Ok(revision),
            },
        };
        match outcome {
            Ok(revision) => {
                self.changes.recorded.add(entries);
                recorded.iter().for_each(|feed| self.news.tell(feed.table));
                Attempt::Done(Ok(timestamp(revision)))
            }
            Err(CommitError::GuardFailed { .. }) => {
                operations.iter().for_each(|(name, _)| self.forget(account, name));
                Attempt::Again
            }
            Err(CommitError::Conflict) => Attempt::Again,
            Err(CommitError::Undetermined(_))
                if self.store.did_not_happen(not_before, &keys).await =>
            {
                Attempt::Again
            }
            Err(error) => {
                let failure = failure_of(&steps, &keys, &expiring, error);
                match self.frees_values(&expiring, &failure).await {
                    true => Attempt::Again,
                    false => Attempt::Done(Err(failure)),
                }
            }
        }
    }
}

fn check_rules(operations: &[TableMutation<'_>]) -> Result<(), BatchFailure> {
    if operations.len() > BATCH_OPERATIONS_MAX {
        let index = BATCH_OPERATIONS_MAX - 1;
        return Err(BatchFailure::new(index, TableError::TooManyOperations));
    }
    let mut seen = BTreeSet::new();
    for (index, (table, mutation)) in operations.iter().enumerate() {
        let key = mutation.key();
        if !seen.insert((table.lower(), key.partition.as_str(), key.row.as_str())) {
            return Err(BatchFailure::new(index, TableError::DuplicateRow));
        }
    }
    Ok(())
}
