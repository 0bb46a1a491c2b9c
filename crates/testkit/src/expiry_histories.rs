//! Random histories of a table whose entities expire, on any engine: reads, conditions and the
//! feed agree with a model for which an expired entity does not exist.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::engine_suite::{self, Make};
use crate::moved_clock::MovedClock;
use crate::seed::Seeded;
use lazuli_engine::{ClockSource, Engine, Reclaimed};
use lazuli_model::{
    AccountName, ChangeOperation, Clock, EntityKey, Expiry, Feed, FeedRetention, IfMatch, Images,
    Properties, TableName, Timestamp, Value,
};
use lazuli_table::{
    After, EntityQuery, EntityRef, Mutation, MutationKind, TableError, TableService,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The clock moves by whole steps, and entities expire in the middle of one: so the duration of a
/// test does not matter.
const STEP_SECONDS: u64 = 1000;
const HALF_SECONDS: u64 = STEP_SECONDS / 2;
const STEPS: usize = 50;
const ROWS: usize = 5;

/// Runs `histories` one after the other on one engine, each on its own table.
pub fn expired_entities_do_not_exist(make: Make<'_>, histories: u64) {
    let (runtime, store) = engine_suite::on_one_thread(make);
    // One clock for all: the revisions of a later history are not before those of an earlier one.
    let clock = Arc::new(MovedClock::default());
    for seed in 0..histories {
        runtime.block_on(async { History::new(&store.engine, &clock, seed).await.run().await });
    }
}

/// In which step of the clock an entity expires; `None` is never.
type Model = BTreeMap<usize, Option<u64>>;

struct History {
    random: Seeded,
    service: TableService,
    clock: Arc<MovedClock>,
    account: AccountName,
    table: TableName,
    model: Model,
    /// Whether entities expire some time after their write, or at the time in their property.
    is_relative: bool,
    began: Timestamp,
    /// How far the clock had been moved by then.
    began_seconds: u64,
}

impl History {
    async fn new(engine: &Arc<dyn Engine>, clock: &Arc<MovedClock>, seed: u64) -> Self {
        let clock = clock.clone();
        let began_seconds = clock.moved_seconds();
        let service = TableService::new(engine.clone(), clock.clone()).with_index_settles_ms(0);
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse(&format!("Expiring{seed}")).unwrap();
        service.create_table(&account, &table).await.unwrap();
        let feed =
            Feed { images: Images::Both, retention: FeedRetention::from_hours(8760).unwrap() };
        service.set_feed(&account, &table, feed).await.unwrap();
        // A store with its own clock does not know the clock that the test moves.
        let is_relative = engine.nature().clock == ClockSource::Caller && seed.is_multiple_of(2);
        let mut random = Seeded::new(seed);
        let began = clock.now();
        let model = Model::new();
        let is_early = random.one_in(2);
        let history = Self {
            random,
            service,
            clock,
            account,
            table,
            model,
            is_relative,
            began,
            began_seconds,
        };
        if is_early {
            history.set_expiry().await;
        }
        history
    }

    async fn set_expiry(&self) {
        let expiry = match self.is_relative {
            true => Expiry::Seconds(STEP_SECONDS + HALF_SECONDS),
            false => Expiry::Property("At".into()),
        };
        self.service.set_expiry(&self.account, &self.table, &expiry).await.unwrap();
    }

    fn step(&self) -> u64 {
        (self.clock.moved_seconds() - self.began_seconds) / STEP_SECONDS
    }

    fn is_alive(&self, row: usize) -> bool {
        let ends = self.model.get(&row);
        ends.is_some_and(|ends| ends.is_none_or(|ends| self.step() <= ends))
    }

    async fn run(mut self) {
        // Entities written before the setting expire by it too.
        for _ in 0..3 {
            self.write_any().await;
        }
        self.set_expiry().await;
        for _ in 0..STEPS {
            match self.random.below(8) {
                0 => {
                    self.clock.advance_seconds(STEP_SECONDS);
                }
                1 => {
                    self.service.build_some().await.unwrap();
                }
                2 => {
                    self.service.sweep_some().await.unwrap();
                }
                _ => self.write().await,
            }
            self.compare().await;
        }
        self.end().await;
    }

    /// A write before expiry is turned on.
    async fn write_any(&mut self) {
        let row = self.random.below(ROWS);
        let mutation = self.mutation(row, MutationKind::InsertOrReplace);
        self.service.mutate(&self.account, &self.table, &mutation).await.unwrap();
        let ends = self.ends(row);
        self.model.insert(row, ends);
    }

    /// The last step of an entity written now; it depends on the row, so that all kinds occur.
    fn ends(&self, row: usize) -> Option<u64> {
        match self.is_relative {
            true => Some(self.step() + 1),
            false => (row > 0).then(|| self.step() + row as u64 - 1),
        }
    }

    fn mutation(&self, row: usize, kind: MutationKind) -> Mutation<'static> {
        let key = EntityKey::parse("p", &row.to_string()).unwrap();
        let at =
            self.ends(row).map(|ends| self.began.plus_seconds(ends * STEP_SECONDS + HALF_SECONDS));
        let at = at.map(|at| (Cow::Borrowed("At"), Value::from(at)));
        let properties = Properties::new(at.into_iter().collect()).unwrap();
        Mutation::new(key, kind, properties).unwrap()
    }

    async fn write(&mut self) {
        let kinds = [
            MutationKind::Insert,
            MutationKind::InsertOrReplace,
            MutationKind::InsertOrMerge,
            MutationKind::Merge(IfMatch::Any),
            MutationKind::Replace(IfMatch::Any),
            MutationKind::Delete(IfMatch::Any),
        ];
        let (row, kind) = (self.random.below(ROWS), kinds[self.random.below(kinds.len())]);
        let is_alive = self.is_alive(row);
        let mutation = self.mutation(row, kind);
        let outcome = self.service.mutate(&self.account, &self.table, &mutation).await;
        match (kind, is_alive, outcome) {
            (MutationKind::Insert, true, Err(TableError::EntityAlreadyExists)) => {}
            (
                MutationKind::Merge(_) | MutationKind::Replace(_) | MutationKind::Delete(_),
                false,
                Err(TableError::EntityNotFound),
            ) => {}
            (MutationKind::Delete(_), true, Ok(_)) => {
                self.model.remove(&row);
            }
            (_, _, Ok(_)) => {
                let ends = self.ends(row);
                self.model.insert(row, ends);
            }
            (kind, is_alive, outcome) => panic!("{kind:?} {is_alive} {outcome:?}"),
        }
    }

    /// Compares what a query and point reads find.
    async fn compare(&self) {
        let expect: Vec<String> =
            (0..ROWS).filter(|row| self.is_alive(*row)).map(|row| row.to_string()).collect();
        let mut found = Vec::new();
        let mut sink = |entity: EntityRef<'_>| found.push(entity.row_key.to_owned());
        let query = EntityQuery::default();
        self.service.query(&self.account, &self.table, query, &mut sink).await.unwrap();
        assert_eq!(found, expect);
        for row in 0..ROWS {
            let key = EntityKey::parse("p", &row.to_string()).unwrap();
            let got = self.service.get(&self.account, &self.table, &key).await;
            assert_eq!(got.is_ok(), self.is_alive(row), "{row}");
        }
    }

    /// Everything is swept; then the feed replays to the current state, and nothing else is stored.
    async fn end(self) {
        while self.service.build_some().await.unwrap() == Reclaimed::Partly {}
        while self.service.sweep_some().await.unwrap() == Reclaimed::Partly {}
        self.compare().await;
        let mut rows = BTreeSet::new();
        let mut after = After::Oldest;
        loop {
            let page = self.service.changes(&self.account, &self.table, after).await.unwrap();
            if page.changes.is_empty() {
                break;
            }
            for stored in &page.changes {
                let change = stored.decode().unwrap();
                let row: usize = change.row_key.parse().unwrap();
                let is_new = match change.operation {
                    ChangeOperation::Insert => rows.insert(row),
                    ChangeOperation::Delete | ChangeOperation::Expire => rows.remove(&row),
                    ChangeOperation::Replace | ChangeOperation::Merge => rows.contains(&row),
                };
                assert!(is_new, "{change:?}");
            }
            after = After::Token(page.next);
        }
        let alive: BTreeSet<usize> = (0..ROWS).filter(|row| self.is_alive(*row)).collect();
        assert_eq!(rows, alive);
        let page = self.service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        assert_eq!((page.found, page.next), (vec![], None));
    }
}
