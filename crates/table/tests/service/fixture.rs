//! What the tests of the service share: a service on the memory engine, a manual clock, an engine
//! that fails on demand, and shorthands for entities.

use lazuli_engine::{
    BoxFuture, ClockSource, Commit, CommitError, Engine, EngineError, Found, Key, MemoryEngine,
    MemoryOptions, Nature, Revision, View, Writers,
};
use lazuli_model::{
    AccountName, Clock, EntityKey, Filter, IfMatch, Operator, Properties, Property, TableName,
    Timestamp, Value,
};
use lazuli_table::{
    Batch, BatchFailure, Continuation, EntityQuery, Mutation, MutationKind, QueryEnd, TableError,
    TableService,
};
use lazuli_testkit::engine_suite;
use lazuli_testkit::layer::{Layer, Layered};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A memory engine for random histories.
pub(crate) fn store(writers: Writers) -> engine_suite::Fixture {
    let options = MemoryOptions { writers, ..MemoryOptions::default() };
    engine_suite::Fixture::new(MemoryEngine::new(options), ())
}

/// A clock that stands still unless a test turns it, or makes it move at each look.
pub(crate) struct ManualClock {
    ticks: AtomicU64,
    step: AtomicU64,
}

impl ManualClock {
    pub(crate) fn advance_ms(&self, ms: u64) {
        self.ticks.fetch_add(ms * 10_000, Ordering::SeqCst);
    }

    pub(crate) fn set_back_ms(&self, ms: u64) {
        self.ticks.fetch_sub(ms * 10_000, Ordering::SeqCst);
    }

    pub(crate) fn advance_ms_per_look(&self, ms: u64) {
        self.step.store(ms * 10_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let ticks = self.ticks.fetch_add(self.step.load(Ordering::SeqCst), Ordering::SeqCst);
        Timestamp::from_ticks(ticks).unwrap()
    }
}

/// What happens to a commit.
pub(crate) enum Fault {
    /// The commit happens, and its answer is lost.
    LoseAnswer,
    /// The commit is lost, and so is its answer.
    LoseCommit,
    /// The store is gone, and the commit's outcome is unknown.
    LoseStore,
    Conflict,
    Busy,
    /// Something else happens first.
    After(BoxFuture<'static, ()>),
}

/// The memory engine, with a list of faults for the next commits.
pub(crate) struct FaultyEngine {
    inner: Arc<MemoryEngine>,
    faults: Mutex<VecDeque<Fault>>,
    is_gone: AtomicBool,
    clock: ClockSource,
    /// Reads, views and commits so far.
    pub(crate) trips: AtomicUsize,
}

impl FaultyEngine {
    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    fn gone(&self) -> Option<EngineError> {
        let is_gone = self.is_gone.load(Ordering::SeqCst);
        is_gone.then(|| EngineError::Unavailable("gone".into()))
    }
}

impl Layer for FaultyEngine {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn nature(&self) -> Nature {
        Nature { clock: self.clock, ..self.inner.nature() }
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        if let Some(gone) = self.gone() {
            return Box::pin(std::future::ready(Err(gone)));
        }
        self.inner.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        if let Some(gone) = self.gone() {
            return Box::pin(std::future::ready(Err(gone)));
        }
        self.inner.view()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        let lost = || Err(CommitError::Undetermined("the line is dead".into()));
        let fault = self.faults.lock().unwrap().pop_front();
        Box::pin(async move {
            match fault {
                None => self.inner.commit(commit).await,
                Some(Fault::LoseAnswer) => {
                    self.inner.commit(commit).await?;
                    lost()
                }
                Some(Fault::LoseCommit) => lost(),
                Some(Fault::LoseStore) => {
                    self.is_gone.store(true, Ordering::SeqCst);
                    lost()
                }
                Some(Fault::Conflict) => Err(CommitError::Conflict),
                Some(Fault::Busy) => Err(CommitError::Busy),
                Some(Fault::After(first)) => {
                    first.await;
                    self.inner.commit(commit).await
                }
            }
        })
    }
}

/// A service with one table, `Orders`.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) service: TableService,
    pub(crate) engine: Arc<Layered<FaultyEngine>>,
    /// The store beneath the faults.
    pub(crate) memory: Arc<MemoryEngine>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) account: AccountName,
    pub(crate) table: TableName,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with_options(MemoryOptions::default()).await
    }

    pub(crate) async fn with_clock(clock: ClockSource) -> Self {
        Self::with(MemoryOptions::default(), clock).await
    }

    pub(crate) async fn with_options(options: MemoryOptions) -> Self {
        Self::with(options, ClockSource::Caller).await
    }

    /// The store has other writers: see [`elsewhere`](Self::elsewhere).
    async fn with(options: MemoryOptions, clock_source: ClockSource) -> Self {
        let options = MemoryOptions { writers: Writers::Many, ..options };
        let memory = Arc::new(MemoryEngine::new(options));
        let engine = Arc::new(Layered::new(FaultyEngine {
            inner: memory.clone(),
            faults: Mutex::default(),
            is_gone: AtomicBool::new(false),
            clock: clock_source,
            trips: AtomicUsize::new(0),
        }));
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let ticks = AtomicU64::new(now.ticks());
        let clock = Arc::new(ManualClock { ticks, step: AtomicU64::new(0) });
        let service = TableService::new(engine.clone(), clock.clone());
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse("Orders").unwrap();
        service.create_table(&account, &table).await.unwrap();
        Self { service, engine, memory, clock, account, table }
    }

    /// The same store, seen by another process, without the faults.
    pub(crate) fn elsewhere(&self) -> TableService {
        TableService::new(self.memory.clone(), self.clock.clone())
    }

    pub(crate) async fn mutate(
        &self,
        kind: MutationKind,
        key: (&str, &str),
        pairs: &[(&str, Value<'_>)],
    ) -> Result<Timestamp, TableError> {
        self.service.mutate(&self.account, &self.table, &mutation(kind, key, pairs)).await
    }

    pub(crate) async fn insert(&self, partition: &str, row: &str) -> Timestamp {
        self.mutate(MutationKind::Insert, (partition, row), &[]).await.unwrap()
    }

    pub(crate) async fn transact(
        &self,
        mutations: Vec<Mutation<'_>>,
    ) -> Result<Timestamp, BatchFailure> {
        let operations = mutations.into_iter().map(|m| (self.table.clone(), m)).collect();
        self.service.transact(&self.account, &Batch::new(operations)?).await
    }

    /// The properties of an entity as text, in the order stored; `None` if it does not exist.
    pub(crate) async fn properties(&self, partition: &str, row: &str) -> Option<String> {
        let key = EntityKey::parse(partition, row).unwrap();
        match self.service.get(&self.account, &self.table, &key).await {
            Ok(entity) => {
                let properties = entity.properties().unwrap();
                let pairs = properties.iter().map(|(name, value)| format!("{name}={value:?}"));
                Some(pairs.collect::<Vec<_>>().join(" "))
            }
            Err(TableError::EntityNotFound) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn timestamp(&self, partition: &str, row: &str) -> Timestamp {
        let key = EntityKey::parse(partition, row).unwrap();
        self.service.get(&self.account, &self.table, &key).await.unwrap().timestamp
    }

    /// One page: its keys, and how it ended.
    pub(crate) async fn page(&self, query: EntityQuery) -> (Vec<(String, String)>, QueryEnd) {
        let mut keys = Vec::new();
        let mut sink = |entity: lazuli_table::EntityRef<'_>| {
            keys.push((entity.partition_key.to_owned(), entity.row_key.to_owned()));
        };
        let end = self.service.query(&self.account, &self.table, query, &mut sink).await.unwrap();
        assert_eq!(end.rows_returned, keys.len() as u64);
        (keys, end)
    }

    /// Counts entities without passing them on.
    pub(crate) async fn count(&self, query: EntityQuery) -> QueryEnd {
        let mut sink = |entity: lazuli_table::EntityRef<'_>| panic!("{entity:?}");
        self.service.query(&self.account, &self.table, query, &mut sink).await.unwrap()
    }

    /// All pages.
    pub(crate) async fn pages(&self, query: EntityQuery) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut from: Option<Continuation> = query.from.clone();
        loop {
            let (keys, end) = self.page(EntityQuery { from, ..query.clone() }).await;
            all.extend(keys);
            match end.next {
                Some(next) => from = Some(next),
                None => return all,
            }
        }
    }
}

pub(crate) fn mutation<'a>(
    kind: MutationKind,
    (partition, row): (&str, &str),
    pairs: &[(&'a str, Value<'a>)],
) -> Mutation<'a> {
    let key = EntityKey::parse(partition, row).unwrap();
    Mutation::new(key, kind, properties(pairs)).unwrap()
}

pub(crate) fn properties<'a>(pairs: &[(&'a str, Value<'a>)]) -> Properties<'a> {
    let pairs = pairs.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone()));
    Properties::new(pairs.collect()).unwrap()
}

pub(crate) fn compare(property: &str, operator: Operator, text: &str) -> Filter {
    Filter::Compare {
        property: Property::from_name(property),
        operator,
        value: Value::String(text.to_owned().into()),
    }
}

pub(crate) fn version(timestamp: Timestamp) -> IfMatch {
    IfMatch::Version(lazuli_model::ETag(timestamp))
}
