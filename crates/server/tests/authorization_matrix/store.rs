//! Below the server: a store that counts accesses, and the services on it, restored to the state in
//! which every operation succeeds once.

use crate::credential::at;
use crate::server::ACCOUNT;
use crate::service::Service;
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, MemoryEngine, Revision, View,
};
use lazuli_model::service_properties::CorsRule;
use lazuli_model::{
    AccessPolicies, AccountName, Clock, EntityKey, Expiry, Feed, FeedRetention, IfMatch, Images,
    IndexDefinition, IndexDefinitions, MessageText, Metadata, Properties, PutTimes, QueueName,
    ServicePropertiesPatch, TableName, Timestamp,
};
use lazuli_queue::QueueService;
use lazuli_table::{Mutation, MutationKind, TableService};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stands still, so that every cell of the matrix has the same time.
pub(crate) struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        at(0)
    }
}

/// Counts accesses to the store.
#[derive(Default)]
pub(crate) struct CountingEngine {
    inner: MemoryEngine,
    views: AtomicUsize,
    commits: AtomicUsize,
}

impl Layer for CountingEngine {
    fn below(&self) -> &dyn Engine {
        &self.inner
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.views.fetch_add(1, Ordering::SeqCst);
        self.inner.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.views.fetch_add(1, Ordering::SeqCst);
        self.inner.view()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.inner.commit(commit)
    }
}

impl CountingEngine {
    /// Views and commits so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.views.load(Ordering::SeqCst), self.commits.load(Ordering::SeqCst))
    }
}

/// Both services, on one store. Each has two resources, [`Service::resource`] and
/// [`Service::other_resource`], with some content.
pub(crate) struct Store {
    pub(crate) engine: Arc<Layered<CountingEngine>>,
    pub(crate) tables: TableService,
    pub(crate) queues: QueueService,
}

/// The message in the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) receipt: String,
}

impl Store {
    pub(crate) fn new(clock: Arc<StandingClock>) -> Self {
        let engine = Arc::new(Layered::<CountingEngine>::default());
        let drawn = AtomicU64::new(1);
        let random = Arc::new(move || drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed));
        Self {
            tables: TableService::new(engine.clone(), clock.clone()),
            queues: QueueService::new(engine.clone(), clock, random),
            engine,
        }
    }

    /// Restores the state in which every operation of the service succeeds once.
    pub(crate) async fn reset(&self, service: Service) -> Message {
        let patch = ServicePropertiesPatch {
            cors: Some(vec![cors_rule()]),
            ..ServicePropertiesPatch::default()
        };
        match service {
            Service::Table => {
                self.tables.set_service_properties(&account(), patch).await.unwrap();
                self.reset_tables().await;
                Message::default()
            }
            Service::Queue => {
                self.queues.set_service_properties(&account(), patch).await.unwrap();
                self.reset_queues().await
            }
        }
    }

    async fn reset_tables(&self) {
        for name in ["Fresh", "Spare", "Orders", "Other"] {
            let _ = self.tables.delete_table(&account(), &table(name)).await;
        }
        for name in ["Spare", "Orders", "Other"] {
            self.tables.create_table(&account(), &table(name)).await.unwrap();
        }
        for name in ["Orders", "Other"] {
            self.insert(name, "m", "5").await;
        }
        let index = IndexDefinition::new("byV", &["v"], false).unwrap();
        let indexes = IndexDefinitions::new(vec![index]).unwrap();
        self.tables.declare_indexes(&account(), &table("Orders"), &indexes).await.unwrap();
        let expiry = Expiry::Property("until".into());
        self.tables.set_expiry(&account(), &table("Orders"), &expiry).await.unwrap();
        let feed = Feed { images: Images::New, retention: FeedRetention::from_hours(1).unwrap() };
        self.tables.set_feed(&account(), &table("Orders"), feed).await.unwrap();
    }

    async fn reset_queues(&self) -> Message {
        let none = Metadata::default();
        for name in ["fresh", "orders", "other"] {
            let _ = self.queues.delete_queue(&account(), &queue(name)).await;
        }
        for name in ["orders", "other"] {
            self.queues.create_queue(&account(), &queue(name), &none).await.unwrap();
        }
        let text = MessageText::new("text").unwrap();
        let times = PutTimes::default();
        let (account, orders) = (account(), queue("orders"));
        let put = self.queues.put_message(&account, &orders, &text, times).await.unwrap();
        Message { id: put.id.to_string(), receipt: lazuli_wire::pop_receipt::to_text(put.receipt) }
    }

    pub(crate) async fn insert(&self, name: &str, partition: &str, row: &str) {
        self.mutate(name, partition, row, MutationKind::InsertOrReplace).await;
    }

    pub(crate) async fn delete(&self, name: &str, partition: &str, row: &str) {
        self.mutate(name, partition, row, MutationKind::Delete(IfMatch::Any)).await;
    }

    async fn mutate(&self, name: &str, partition: &str, row: &str, kind: MutationKind) {
        let key = EntityKey::parse(partition, row).unwrap();
        let mutation = Mutation::new(key, kind, Properties::default()).unwrap();
        self.tables.mutate(&account(), &table(name), &mutation).await.unwrap();
    }

    /// Sets the policies of a table or queue.
    pub(crate) async fn set_policies(&self, service: Service, name: &str, set: AccessPolicies) {
        match service {
            Service::Table => {
                self.tables.set_access_policies(&account(), &table(name), set).await.unwrap();
            }
            Service::Queue => {
                self.queues.set_access_policies(&account(), &queue(name), &set).await.unwrap();
            }
        }
    }
}

fn account() -> AccountName {
    AccountName::parse(ACCOUNT).unwrap()
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn cors_rule() -> CorsRule {
    let list = |item: &str| vec![item.to_owned()];
    CorsRule {
        allowed_origins: list("http://site"),
        allowed_methods: list("GET"),
        allowed_headers: Vec::new(),
        exposed_headers: Vec::new(),
        max_age_seconds: 5,
    }
}
