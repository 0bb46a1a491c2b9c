//! Random histories of a table with random sets of indexes, on any engine: every query finds
//! what its filter selects among all entities, unique values have one owner, and in the end a
//! verification finds nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;
mod random;

use crate::engine_suite::{self, Fixture, Make};
use crate::moved_clock::MovedClock;
use lazuli_engine::{Direction, KeyRange, Reclaimed, Scan, ScanEnd, Visit};
use lazuli_model::{
    AccountName, Clock, EntityKey, Filter, IfMatch, IndexDefinition, IndexDefinitions, Properties,
    TableName,
};
use lazuli_table::{
    Batch, Continuation, EntityQuery, EntityRef, IndexState, Mutation, MutationKind, TableError,
    TableService,
};
use model::Model;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use random::{Change, Effect, History, Step};
use std::borrow::Cow;
use std::sync::Arc;

/// Longer than any pass of reclaiming waits.
const RECLAIM_WAIT_SECONDS: u64 = 2 * 3_600;

/// Filters that are queried while indexes come and go: each page costs commits.
const IN_TURNS_MAX: usize = 3;

/// Runs `cases` random histories on one engine, each on its own table.
pub fn an_index_changes_no_answer(make: Make<'_>, cases: u32) {
    let (runtime, store) = engine_suite::on_one_thread(make);
    let clock = Arc::new(MovedClock::default());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&random::history(), |history| {
        runtime.block_on(async { Tested::new(&store, &clock).await.run(history).await })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// A table under test, and what it should hold.
struct Tested<'s> {
    store: &'s Fixture,
    service: TableService,
    clock: Arc<MovedClock>,
    account: AccountName,
    table: TableName,
    model: Model,
    declared: Vec<IndexDefinition>,
}

type Outcome = Result<(), TestCaseError>;

impl<'s> Tested<'s> {
    async fn new(store: &'s Fixture, clock: &Arc<MovedClock>) -> Self {
        let clock = clock.clone();
        // No other process writes to the table.
        let service =
            TableService::new(store.engine.clone(), clock.clone()).with_index_settles_ms(0);
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse("Indexed").unwrap();
        let model = Model::default();
        let tested = Self { store, service, clock, account, table, model, declared: vec![] };
        let Self { service, account, table, .. } = &tested;
        // A failed case leaves its table behind, and then a smaller case is tried.
        if service.delete_table(account, table).await.is_ok() {
            tested.reclaim().await;
        }
        service.create_table(account, table).await.unwrap();
        tested
    }

    async fn run(mut self, history: History) -> Outcome {
        let History { steps, filters, top, sets } = history;
        for step in steps {
            match step {
                Step::Change(changes) => self.change(&changes).await?,
                Step::Declare(indexes) => self.declare(indexes).await,
                Step::Build(rounds) => {
                    for _ in 0..rounds {
                        self.service.build_some().await.unwrap();
                    }
                }
            }
        }
        self.compare(&filters, top).await?;
        self.compare_in_turns(&filters, &sets, top).await?;
        while self.service.build_some().await.unwrap() == Reclaimed::Partly {}
        self.compare(&filters, top).await?;
        self.check_states().await?;
        self.check_entries().await?;
        self.service.delete_table(&self.account, &self.table).await.unwrap();
        self.reclaim().await;
        for kind in *b"eiubjw" {
            proptest::prop_assert_eq!(self.stored(kind).await, 0, "{}", kind as char);
        }
        Ok(())
    }

    /// Makes changes in one commit. They happen, or are refused because two entities would share a
    /// unique value.
    async fn change(&mut self, changes: &[Change]) -> Outcome {
        let Some(after) = self.model.after(changes) else {
            let outcome = self.commit(changes).await;
            proptest::prop_assert!(matches!(outcome, Err(TableError::EntityNotFound)));
            return Ok(());
        };
        match self.commit(changes).await {
            Ok(()) => self.model = after,
            Err(TableError::IndexConflict(conflict)) => {
                let index = self.declared.iter().find(|index| *index.name() == conflict.index);
                let index = index.filter(|index| index.is_unique()).unwrap();
                proptest::prop_assert!(after.shares_values(index), "{changes:?} by {index:?}");
            }
            Err(error) => panic!("{changes:?}: {error}"),
        }
        Ok(())
    }

    async fn commit(&self, changes: &[Change]) -> Result<(), TableError> {
        if let [change] = changes {
            let mutation = mutation(change);
            return self.service.mutate(&self.account, &self.table, &mutation).await.map(drop);
        }
        let operations = changes.iter().map(|change| (&self.table, mutation(change))).collect();
        let batch = Batch::across_partitions(operations).unwrap();
        let outcome = self.service.transact(&self.account, &batch).await;
        outcome.map(drop).map_err(|failure| failure.error)
    }

    async fn declare(&mut self, indexes: Vec<IndexDefinition>) {
        self.declared = indexes;
        let definitions = IndexDefinitions::new(self.declared.clone()).unwrap();
        self.service.declare_indexes(&self.account, &self.table, &definitions).await.unwrap();
    }

    /// Every filter finds what it selects, whole and in pages.
    async fn compare(&self, filters: &[Filter], top: usize) -> Outcome {
        for filter in filters {
            let expected = self.model.selected(filter);
            let whole = self.pages(filter, EntityQuery::default().top).await;
            proptest::prop_assert_eq!(&whole.concat(), &expected, "{:?}", filter);
            let pages = self.pages(filter, top).await;
            proptest::prop_assert_eq!(&pages.concat(), &expected, "{:?}", filter);
            let is_full = |page: &Vec<_>| page.len() == top;
            proptest::prop_assert!(pages.iter().rev().skip(1).all(is_full), "{filter:?}");
        }
        Ok(())
    }

    /// The same while indexes come and go between the pages: a continuation does not depend on them.
    async fn compare_in_turns(
        &mut self,
        filters: &[Filter],
        sets: &[Vec<IndexDefinition>],
        top: usize,
    ) -> Outcome {
        let mut turn = 0;
        for filter in filters.iter().take(IN_TURNS_MAX) {
            let (mut found, mut from) = (Vec::new(), None);
            loop {
                let (keys, next) = self.page(filter, top, from.take()).await;
                proptest::prop_assert!(next.is_none() || keys.len() == top, "{filter:?}");
                found.extend(keys);
                let Some(next) = next else { break };
                from = Some(next);
                match (turn % 3, sets.get(turn / 3 % sets.len().max(1))) {
                    (0, Some(set)) => self.declare(set.clone()).await,
                    _ => drop(self.service.build_some().await.unwrap()),
                }
                turn += 1;
            }
            proptest::prop_assert_eq!(&found, &self.model.selected(filter), "{:?}", filter);
        }
        Ok(())
    }

    async fn pages(&self, filter: &Filter, top: usize) -> Vec<Vec<(String, String)>> {
        let mut pages = Vec::new();
        let mut from = None;
        loop {
            let (keys, next) = self.page(filter, top, from).await;
            pages.push(keys);
            match next {
                Some(next) => from = Some(next),
                None => return pages,
            }
        }
    }

    async fn page(
        &self,
        filter: &Filter,
        top: usize,
        from: Option<Continuation>,
    ) -> (Vec<(String, String)>, Option<Continuation>) {
        let mut keys = Vec::new();
        let mut sink = |entity: EntityRef<'_>| {
            keys.push((entity.partition_key.to_owned(), entity.row_key.to_owned()));
        };
        let filter = Some(filter.clone());
        let query = EntityQuery { filter, top, from, ..EntityQuery::default() };
        let end = self.service.query(&self.account, &self.table, query, &mut sink).await.unwrap();
        (keys, end.next)
    }

    /// A built index is ready, or failed because entities share values; in a ready one no entities
    /// share values.
    async fn check_states(&self) -> Outcome {
        for status in self.service.indexes(&self.account, &self.table).await.unwrap() {
            let index = &status.definition;
            match status.state {
                IndexState::Ready if index.is_unique() => {
                    proptest::prop_assert!(!self.model.shares_values(index), "{index:?}");
                }
                IndexState::Ready => {}
                IndexState::Failed(reason) => {
                    proptest::prop_assert!(index.is_unique(), "{index:?}: {reason}");
                }
                IndexState::Building => panic!("{index:?} is still being built"),
            }
        }
        Ok(())
    }

    /// Entries are those of the entities, and nothing else is stored.
    async fn check_entries(&self) -> Outcome {
        // The entries of dropped indexes are reclaimed with their space.
        self.reclaim().await;
        let page = self.service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        proptest::prop_assert_eq!(page.next, None);
        proptest::prop_assert_eq!(page.found, []);
        let indexes = self.service.indexes(&self.account, &self.table).await.unwrap();
        if indexes.iter().any(|index| index.state == IndexState::Ready) {
            proptest::prop_assert_eq!(page.entities, self.model.len() as u64);
        }
        proptest::prop_assert_eq!(page.entries, self.stored(b'i').await);
        Ok(())
    }

    /// Reclaims everything, in both passes.
    async fn reclaim(&self) {
        for _ in 0..3 {
            self.clock.advance_seconds(RECLAIM_WAIT_SECONDS);
            let now = || self.clock.now();
            while self.service.reclaim_some(now()).await.unwrap() == Reclaimed::Partly {}
        }
    }

    /// How many keys of a kind are stored.
    async fn stored(&self, kind: u8) -> u64 {
        let view = self.store.engine.view().await.unwrap();
        let mut next = Some(KeyRange::prefix(&[b'L', kind]));
        let mut count = 0;
        while let Some(range) = next.take() {
            let mut visit = |_: &[u8], _: &[u8], _| {
                count += 1;
                Visit::Continue
            };
            let scan = Scan {
                range,
                direction: Direction::Forward,
                rows_max: usize::MAX,
                bytes_max: usize::MAX,
                rows_expected: usize::MAX,
            };
            if let ScanEnd::More(rest) = view.scan(scan, &mut visit).await.unwrap() {
                next = Some(rest);
            }
        }
        count
    }
}

fn mutation(change: &Change) -> Mutation<'_> {
    let key = EntityKey::parse(&change.partition, &change.row).unwrap();
    let (kind, pairs) = match &change.effect {
        Effect::Put(pairs) => (MutationKind::InsertOrReplace, pairs.as_slice()),
        Effect::Merge(pairs) => (MutationKind::InsertOrMerge, pairs.as_slice()),
        Effect::Delete => (MutationKind::Delete(IfMatch::Any), [].as_slice()),
    };
    let pairs = pairs.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone()));
    Mutation::new(key, kind, Properties::new(pairs.collect()).unwrap()).unwrap()
}
