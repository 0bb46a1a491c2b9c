//! Deletes the entities that a filter selects, in bounded commits.

use crate::error::{BatchFailure, TableError};
use crate::explain::PlanReport;
use crate::index::IndexUse;
use crate::mutate::{Mutation, MutationKind, Step};
use crate::query::{Continuation, EntityQuery, KeyBounds};
use crate::scan::Timer;
use crate::service::TableService;
use lazuli_model::limits::{PAGE_ITEMS_MAX, QUERY_EXECUTION_MS_MAX};
use lazuli_model::{AccountName, ETag, EntityKey, Filter, IfMatch, Properties, TableName};

/// Maximum entities per commit in a table with settings: each may derive many writes.
const DERIVED_DELETES_MAX: usize = 200;

/// The first commit has this part of the entities that later ones may have: how long they take shows only then.
const FIRST_PART: usize = 8;

/// What to delete, and for how long.
#[derive(Clone, Debug)]
pub struct DeleteWhere {
    pub filter: Filter,
    pub from: Option<Continuation>,
    pub bounds: KeyBounds,
    /// Entities that one scan of the table may examine.
    pub rows_read_max: u64,
    /// After this, no further commit begins.
    pub ms_max: u64,
    /// Whether the plan is reported.
    pub explain: bool,
}

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deleted {
    pub deleted: u64,
    /// Entities examined.
    pub examined: u64,
    /// The indexes that served it.
    pub index: Option<IndexUse>,
    /// If the request asked for it: the plan of the first look at the table, with what all cost.
    pub report: Option<Box<PlanReport>>,
    /// Where to go on; `None` if everything was seen.
    pub next: Option<Continuation>,
}

impl TableService {
    /// Deletes what the filter selects, each entity only if it has not changed since it was read.
    pub async fn delete_where(
        &self,
        account: &AccountName,
        table: &TableName,
        request: DeleteWhere,
    ) -> Result<Deleted, TableError> {
        let DeleteWhere { filter, mut from, bounds, rows_read_max, ms_max, explain } = request;
        let mut timer = Timer::of_ms(&*self.store.clock, ms_max);
        let most = match self.open_now(account, table).await?.settings {
            Some(_) => DERIVED_DELETES_MAX,
            None => PAGE_ITEMS_MAX,
        };
        let mut top = most / FIRST_PART;
        let mut done = Deleted::default();
        loop {
            let began = timer.elapsed_micros();
            let query = EntityQuery {
                filter: Some(filter.clone()),
                top,
                from: from.take(),
                bounds: bounds.clone(),
                rows_read_max,
                ms_max: QUERY_EXECUTION_MS_MAX.min(ms_max.saturating_sub(began / 1000)),
                explain,
                ..EntityQuery::default()
            };
            let mut found = Vec::new();
            let mut sink = |entity: crate::EntityRef<'_>| {
                let key = EntityKey::parse(entity.partition_key, entity.row_key);
                found.extend(key.ok().map(|key| (key, ETag(entity.timestamp))));
            };
            let end = self.query(account, table, query, &mut sink).await?;
            done.examined += end.rows_read;
            done.index = end.index.or(done.index);
            done.deleted += self.delete_unchanged(account, table, &found).await?;
            timer.look();
            if let Some(report) = end.report {
                let bytes = report.bytes + done.report.as_ref().map_or(0, |before| before.bytes);
                let first = done.report.take().unwrap_or(report);
                let micros = timer.elapsed_micros();
                done.report = Some(Box::new(PlanReport { bytes, micros, ..*first }));
            }
            // The next commit may be twice as large.
            let now = timer.elapsed_micros();
            let next_ends_ms = now.saturating_add(2 * now.saturating_sub(began)) / 1000;
            match end.next {
                None => return Ok(done),
                Some(next) if timer.is_over() || next_ends_ms > ms_max => {
                    return Ok(Deleted { next: Some(next), ..done });
                }
                Some(next) => (from, top) = (Some(next), most.min(2 * top)),
            }
        }
    }

    /// Deletes entities in one commit, except those that have changed. Returns how many.
    async fn delete_unchanged(
        &self,
        account: &AccountName,
        table: &TableName,
        found: &[(EntityKey, ETag)],
    ) -> Result<u64, TableError> {
        let deletion = |(key, etag): &(EntityKey, ETag)| {
            let kind = MutationKind::Delete(IfMatch::Version(*etag));
            Mutation::new(key.clone(), kind, Properties::default())
        };
        let mut mutations = found.iter().map(deletion).collect::<Result<Vec<_>, _>>()?;
        while !mutations.is_empty() {
            let steps: Vec<Step<'_>> = mutations.iter().map(Step::from).collect();
            let outcome = self.apply(account, table, &steps).await;
            drop(steps);
            match outcome {
                Ok(_) => break,
                Err(BatchFailure {
                    index,
                    error: TableError::ConditionNotMet | TableError::EntityNotFound,
                }) if index < mutations.len() => {
                    mutations.remove(index);
                }
                Err(failure) => return Err(failure.error),
            }
        }
        Ok(mutations.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::MemoryEngine;
    use lazuli_model::{SystemClock, Timestamp};
    use std::sync::Arc;

    ///
    #[tokio::test]
    async fn an_entity_that_has_changed_is_left_alone() {
        let service = TableService::new(Arc::new(MemoryEngine::default()), Arc::new(SystemClock));
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse("Orders").unwrap();
        service.create_table(&account, &table).await.unwrap();
        let mut found = Vec::new();
        for row in ["1", "2", "3", "4"] {
            let key = EntityKey::parse("p", row).unwrap();
            let insert = Mutation::new(key.clone(), MutationKind::Insert, Properties::default());
            let written = service.mutate(&account, &table, &insert.unwrap()).await.unwrap();
            found.push((key, ETag(written)));
        }
        found[1].1 = ETag(Timestamp::UNIX_EPOCH);
        let gone = EntityKey::parse("p", "gone").unwrap();
        found.push((gone, ETag(Timestamp::UNIX_EPOCH)));
        assert_eq!(service.delete_unchanged(&account, &table, &found).await.unwrap(), 3);
        let mut left = Vec::new();
        let mut sink = |entity: crate::EntityRef<'_>| left.push(entity.row_key.to_owned());
        service.query(&account, &table, EntityQuery::default(), &mut sink).await.unwrap();
        assert_eq!(left, ["2"]);
    }
}
