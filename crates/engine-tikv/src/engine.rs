//! The engine contract on a cluster.

use crate::address::TikvAddress;
use crate::cluster::{Cluster, TRAILING_MAX};
use crate::commit;
use crate::patience::{ClientError, Patience};
use crate::read::{Newest, When};
use crate::start::{FORMAT_KEY, OpenError};
use crate::timestamp::Timestamp;
use crate::tls::Tls;
use crate::value;
use crate::view::TikvView;
use bytes::Bytes;
use lazuli_engine::chunks::ChunkMemory;
use lazuli_engine::meter::{Call, StoreMeter, TimedCall};
use lazuli_engine::queue::KeyQueue;
use lazuli_engine::retry::Pace;
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits, Nature,
    Reclaimed, Revision, View,
};
use lazuli_meter::{Family, Source};
use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Values are bounded by TiKV's log entries, 8 MiB each; commits by its memory (K-6.10).
const LIMITS: Limits = Limits {
    key_bytes_max: 4 * 1024,
    value_bytes_max: 6 * 1024 * 1024,
    commit_bytes_max: 64 * 1024 * 1024,
    commit_writes_max: 8 * 1024,
    view_ms_max: 120_000,
    // Half of the time for which the cluster keeps old versions.
    kept_view_ms_max: 300_000,
    kept_views_max: usize::MAX,
};

/// Concurrent commits; more wait for a place.
const COMMITS_MAX: u32 = 4096;
/// Keys that commits of this process may wait for.
const QUEUE_PLACES_MAX: usize = 64 * 1024;

/// How to reach and use a cluster.
#[derive(Clone)]
pub struct TikvOptions {
    pub address: TikvAddress,
    /// Time and randomness of retries.
    pub pace: Arc<dyn Pace>,
    /// How long a read or a commit may wait for the cluster, in milliseconds. Longer than locks
    /// live, or a killed process would make others fail.
    pub wait_ms_max: u64,
    /// Whether [`Engine::tend`] lets the cluster drop old versions. False where TiDB does.
    pub collect_garbage: bool,
    /// Memory for chunks of scans in flight, all scans together.
    pub chunk_bytes: usize,
    /// What the format record of a new cluster gives as its creator.
    pub created_by: String,
    /// Whether [`TikvEngine::open`] may write: a format record into an empty cluster, and a probe.
    pub creates: bool,
}

impl TikvOptions {
    pub fn new(address: TikvAddress, pace: Arc<dyn Pace>) -> Self {
        Self {
            address,
            pace,
            wait_ms_max: 5_000,
            collect_garbage: true,
            chunk_bytes: 256 * 1024 * 1024,
            created_by: "lazuli".to_owned(),
            creates: true,
        }
    }
}

/// The engine on a TiKV cluster.
pub struct TikvEngine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) collect_garbage: bool,
    /// Where the search for abandoned locks continues, and when it began.
    pub(crate) sweep: tokio::sync::Mutex<Option<(Vec<u8>, Timestamp)>>,
    /// Where the reclaim of a range continues, by the end of the range.
    pub(crate) reclaims: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

/// What commits that outlive their callers need.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) limits: Limits,
    pub(crate) queue: KeyQueue,
    pub(crate) chunks: ChunkMemory,
    pub(crate) meter: Arc<StoreMeter>,
    is_closed: AtomicBool,
    /// Each commit holds a permit; closing takes all.
    commits: Semaphore,
}

impl TikvEngine {
    /// Connects when first used, and checks nothing: [`open`](Self::open) is for servers.
    pub fn new(options: &TikvOptions) -> Result<Self, OpenError> {
        let (address, pace) = (&options.address, options.pace.clone());
        let tls = address.tls.as_ref().map(Tls::load).transpose();
        let tls = tls.map_err(OpenError::Files)?;
        let meter = Arc::new(StoreMeter::default());
        let drivers = address.drivers.clone();
        let cluster = Cluster::new(drivers, tls, pace, options.wait_ms_max, meter.clone());
        let shared = Shared {
            cluster: Arc::new(cluster),
            limits: LIMITS,
            queue: KeyQueue::new(QUEUE_PLACES_MAX),
            chunks: ChunkMemory::new(options.chunk_bytes),
            meter,
            is_closed: AtomicBool::new(false),
            commits: Semaphore::new(COMMITS_MAX as usize),
        };
        Ok(Self {
            shared: Arc::new(shared),
            collect_garbage: options.collect_garbage,
            sweep: tokio::sync::Mutex::default(),
            reclaims: Mutex::default(),
        })
    }

    /// A view that may be used for `life_ms`.
    fn view_for(&self, life_ms: u64) -> Result<Arc<dyn View>, EngineError> {
        self.shared.check_open()?;
        self.shared.meter.called(Call::View);
        Ok(Arc::new(TikvView::new(self.shared.clone(), life_ms)))
    }
}

impl Shared {
    fn check_open(&self) -> Result<(), EngineError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(EngineError::Unavailable("it is closed".to_owned()));
        }
        Ok(())
    }

    /// The values of the keys that exist.
    pub(crate) async fn find(
        &self,
        keys: Vec<Bytes>,
        when: impl Into<When>,
        patience: &mut Patience,
    ) -> Result<HashMap<Bytes, Found>, ClientError> {
        let stored = self.cluster.get(keys, when.into(), patience).await?;
        stored.into_iter().map(|(key, stored)| Ok((key, value::load(&stored)?))).collect()
    }

    /// The values of `keys`, in their order.
    pub(crate) async fn find_in_order(
        &self,
        keys: &[Key],
        when: impl Into<When>,
        patience: &mut Patience,
    ) -> Result<Vec<Option<Found>>, EngineError> {
        let wanted = keys.iter().map(|key| key.clone().into_bytes()).collect();
        let found = self.find(wanted, when, patience).await?;
        Ok(keys.iter().map(|key| found.get(key.as_slice()).cloned()).collect())
    }

    async fn commit(&self, commit: &Commit) -> Result<Revision, CommitError> {
        self.meter.called(Call::Commit);
        let (began_ms, patience) = (self.cluster.pace.now_ms(), self.cluster.patience());
        let result = self.commit_within(commit, &patience).await;
        let waited = self.cluster.pace.now_ms().saturating_sub(began_ms);
        self.meter.committed(&result, Duration::from_millis(waited));
        result
    }

    async fn commit_within(
        &self,
        commit: &Commit,
        patience: &Patience,
    ) -> Result<Revision, CommitError> {
        // `close` takes all permits and does not give them back.
        let permit = patience.within(self.commits.acquire()).await.ok_or(CommitError::Busy)?;
        let _permit = permit.map_err(|_| EngineError::Unavailable("it is closed".to_owned()))?;
        self.check_open()?;
        commit::run(self, commit, patience).await
    }
}

impl Source for TikvEngine {
    fn report(&self) -> Vec<Family> {
        self.shared.meter.report()
    }
}

impl Engine for TikvEngine {
    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    fn nature(&self) -> Nature {
        Nature::SHARED
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            self.shared.check_open()?;
            self.shared.meter.called(Call::Read);
            let mut patience = self.shared.cluster.patience();
            let found = self.shared.find_in_order(keys, Newest::Dated, &mut patience);
            self.shared.meter.timed(TimedCall::Get, found).await
        })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(ready(self.view_for(self.shared.limits.view_ms_max)))
    }

    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(ready(self.view_for(self.shared.limits.kept_view_ms_max)))
    }

    /// The commit continues if its caller goes away: half a commit would leave locks behind.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let done = tokio::spawn(async move { shared.commit(&commit).await }).await;
            done.unwrap_or_else(|stopped| Err(CommitError::Undetermined(Box::new(stopped))))
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async move {
            self.shared.check_open()?;
            self.shared.meter.called(Call::Upkeep);
            Ok(self.reclaim_some(range).await?)
        })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            self.shared.check_open()?;
            let mut patience = self.shared.cluster.patience();
            let probe = vec![Bytes::from_static(FORMAT_KEY)];
            self.shared.find(probe, Newest::Undated, &mut patience).await?;
            Ok(())
        })
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async move {
            self.shared.check_open()?;
            self.shared.meter.called(Call::Upkeep);
            Ok(self.tend_some().await?)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            if !self.shared.is_closed.swap(true, Ordering::SeqCst) {
                // Commits that wait for a permit find the engine closed when they get it.
                drop(self.shared.commits.acquire_many(COMMITS_MAX).await);
                // Finish, so that other processes find no locks of this one.
                drop(self.shared.cluster.trailing.acquire_many(TRAILING_MAX).await);
            }
            Ok(())
        })
    }
}
