//! The engine on PostgreSQL: one table that any number of gateways share (`docs/spec/cluster.md`, K-7).
//!
//! A commit of one write is one statement (`one_write.rs`); any other is one call of a function
//! (`many_writes.rs`, `commit_function.sql`). Functions of a commit run in the gateway, on the condition
//! that what they read has not changed, for many commits of one key at once (`group.rs`), and under locks
//! after conflicts (`locked.rs`). A commit whose answer was lost is looked up by its id (`settle.rs`).

mod address;
mod commit;
mod commit_lanes;
mod committer;
mod expected;
mod fault;
mod group;
mod lanes;
mod line;
mod locked;
mod many_writes;
mod meter;
mod one_write;
mod open;
mod patience;
mod pool;
mod read;
mod scan;
mod session;
mod settle;
mod statement;
mod stored;
mod tls;
mod upkeep;
mod view;

pub use address::{Address, AddressError, without_password};
pub use open::{FORMAT_VERSION, OpenError, Opened};
pub use tls::{TlsFault, TlsSetupError};

use commit_lanes::CommitLanes;
use committer::Committer;
use lanes::Lanes;
use lazuli_engine::chunks::ChunkMemory;
use lazuli_engine::meter::{Call, StoreMeter, TimedCall};
use lazuli_engine::retry::Pace;
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits, Nature,
    Reclaimed, Revision, View,
};
use line::Lines;
use meter::ConnectionMeter;
use patience::Patience;
use pool::Pool;
use statement::Statement;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use view::PostgresView;

/// Keys up to 4 KiB: those of the services have at most 3.1 KiB. Views live for two requests; kept views
/// live no longer than the database can go without removing old row versions (K-7.19).
const LIMITS: Limits = Limits {
    key_bytes_max: 4 * 1024,
    commit_bytes_max: 64 * 1024 * 1024,
    view_ms_max: view::OF_REQUEST.life_ms,
    kept_view_ms_max: view::KEPT.life_ms,
    ..Limits::DEFAULT
};

/// Kept views may occupy one in this many of the connections that views may use.
const KEPT_SHARE: usize = 4;

/// How long an answer about the store's health holds (K-8.6).
const HEALTH_MS: u64 = 1_000;

/// One in this many connections is a lane of point reads, and as many are lanes of inserts.
const LANES_SHARE: usize = 4;

/// How an engine uses its database.
#[derive(Clone)]
pub struct PostgresOptions {
    pub address: Address,
    /// Maximum connections; a quarter of them is kept free of views.
    pub connections: NonZeroU32,
    /// The name of this gateway among the sessions of the database.
    pub gateway: String,
    /// How long a call may wait in total for its turn, a connection and an answer.
    pub wait_max: Duration,
    /// How long after the call an unknown commit outcome may take to settle.
    pub settle_max: Duration,
    /// How long to try to connect at start-up, instead of 30 s.
    pub connect_max: Option<Duration>,
    /// Memory for the chunks of all scans.
    pub chunk_bytes: usize,
    /// How long deleted rows are kept.
    pub deleted_kept: Duration,
    /// How long after the floor was raised every commit is certain to respect it.
    pub floor_settles: Duration,
    /// Use a database that loses writes when it crashes.
    pub accept_unsafe: bool,
    /// Create the tables in a database that has none.
    pub creates: bool,
    /// Time and randomness.
    pub pace: Arc<dyn Pace>,
}

impl PostgresOptions {
    pub fn new(address: Address, pace: Arc<dyn Pace>) -> Self {
        Self {
            address,
            connections: NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN),
            gateway: "gateway".into(),
            wait_max: Duration::from_secs(5),
            settle_max: Duration::from_secs(10),
            connect_max: None,
            chunk_bytes: 256 * 1024 * 1024,
            deleted_kept: Duration::from_secs(3600),
            floor_settles: Duration::from_secs(60),
            accept_unsafe: false,
            creates: true,
            pace,
        }
    }
}

/// The engine. Any number of engines, in any number of processes, may use one database.
pub struct PostgresEngine {
    store: Arc<Store>,
    committer: Arc<Committer>,
    /// When the store was last found healthy, by the pace's clock, plus one; zero for never.
    healthy_ms: AtomicU64,
}

/// What all parts of an engine use.
pub(crate) struct Store {
    limits: Limits,
    pub(crate) options: Arc<PostgresOptions>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) chunk_memory: ChunkMemory,
    pub(crate) meter: StoreMeter,
    pub(crate) connections: Arc<ConnectionMeter>,
    pub(crate) lanes: Lanes,
    pub(crate) commit_lanes: CommitLanes,
    pub(crate) lines: Lines,
}

impl Store {
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The deadlines of a call that begins now.
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(self.options.wait_max, self.options.settle_max)
    }

    /// A number that no other commit has.
    pub(crate) fn commit_id(&self) -> i64 {
        self.options.pace.random().cast_signed()
    }
}

impl PostgresEngine {
    /// An engine on a database whose tables exist. It connects when it is used.
    pub fn new(options: PostgresOptions) -> Self {
        let address = options.address.clone().with_gateway(&options.gateway);
        let options = Arc::new(PostgresOptions { address, ..options });
        let connections = Arc::new(ConnectionMeter::default());
        let pool = Arc::new(Pool::new(options.clone(), connections.clone()));
        let chunk_memory = ChunkMemory::new(options.chunk_bytes);
        let meter = StoreMeter::default();
        let in_lanes = options.connections.get() as usize / LANES_SHARE;
        let for_views = pool::for_views(options.connections);
        let kept_views_max = (for_views / KEPT_SHARE).max(usize::from(for_views > 1));
        let store = Arc::new(Store {
            limits: Limits { kept_views_max, ..LIMITS },
            options,
            pool,
            chunk_memory,
            meter,
            connections,
            lanes: Lanes::new(in_lanes),
            commit_lanes: CommitLanes::new(in_lanes),
            lines: Lines::default(),
        });
        let committer = Arc::new(Committer::new(store.clone()));
        Self { store, committer, healthy_ms: AtomicU64::new(0) }
    }

    fn view_of(&self, kind: &'static view::Kind) -> Result<Arc<dyn View>, EngineError> {
        self.store.meter.called(Call::View);
        self.committer.check_open()?;
        Ok(Arc::new(PostgresView::new(self.store.clone(), kind)))
    }

    async fn ask_health(&self) -> Result<(), EngineError> {
        self.committer.check_open()?;
        let now = self.store.options.pace.now_ms();
        let last = self.healthy_ms.load(Ordering::Relaxed);
        if last > 0 && now.saturating_sub(last - 1) < HEALTH_MS {
            return Ok(());
        }
        let patience = self.store.patience();
        let (first, last) = (patience.first(), patience.deadline());
        let rows = self.store.query_within(Statement::Health, &[], first, last).await?;
        if let Some(row) = rows.first() {
            self.store.pool.heard_clock(row.get(0));
        }
        self.healthy_ms.store(now + 1, Ordering::Relaxed);
        Ok(())
    }
}

pub(crate) fn closed() -> EngineError {
    EngineError::Unavailable("it is closed".into())
}

impl lazuli_meter::Source for PostgresEngine {
    fn report(&self) -> Vec<lazuli_meter::Family> {
        [self.store.meter.report(), self.store.connections.report()].concat()
    }
}

impl Engine for PostgresEngine {
    fn limits(&self) -> &Limits {
        self.store.limits()
    }

    fn nature(&self) -> Nature {
        Nature::SHARED
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.store.meter.called(Call::Read);
        Box::pin(
            self.store
                .meter
                .timed(TimedCall::Get, self.store.read_in_lane(keys, self.store.patience())),
        )
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(std::future::ready(self.view_of(&view::OF_REQUEST)))
    }

    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(std::future::ready(self.view_of(&view::KEPT)))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.store.meter.called(Call::Commit);
        Box::pin(async move {
            let began = Instant::now();
            let result = self.committer.commit(commit).await;
            self.store.meter.committed(&result, began.elapsed());
            result
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.store.meter.called(Call::Upkeep);
        Box::pin(async move { self.store.reclaim(&range).await })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.ask_health())
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.store.meter.called(Call::Upkeep);
        Box::pin(self.store.tend())
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            self.committer.close().await;
            self.store.pool.close();
            Ok(())
        })
    }
}
