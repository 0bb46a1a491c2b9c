//! Sends requests to the regions that hold their keys, wherever those are now.

use crate::driver::Driver;
use crate::grpc::{Channel, MESSAGE_BYTES_MAX, RpcError};
use crate::oracle::Oracle;
use crate::patience::{ClientError, Patience};
use crate::proto::error::RegionError;
use crate::proto::kv::{RegionRequest, RegionResponse};
use crate::region::{Region, RegionCache, encode};
use crate::shared_read::SharedReads;
use crate::tls::Tls;
use lazuli_engine::meter::StoreMeter;
use lazuli_engine::retry::Pace;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{MutexGuard, Semaphore};

/// Acknowledged commits that are still being finished. Beyond this, commits finish before they are
/// acknowledged.
pub(crate) const TRAILING_MAX: u32 = 1024;

/// A TiKV cluster.
pub(crate) struct Cluster {
    pub(crate) driver: Arc<Driver>,
    pub(crate) oracle: Oracle,
    pub(crate) pace: Arc<dyn Pace>,
    pub(crate) meter: Arc<StoreMeter>,
    /// How long one call may wait for the cluster before it has done anything; then as long again to
    /// settle what may have happened.
    pub(crate) wait_ms_max: u64,
    /// Commits in other regions that follow their acknowledgement; each holds a permit.
    pub(crate) trailing: Arc<Semaphore>,
    tls: Option<Tls>,
    regions: RegionCache,
    /// Held while the driver is asked, so that calls that miss the same region ask once.
    asking: tokio::sync::Mutex<()>,
    pub(crate) shared_reads: Arc<SharedReads>,
    /// Connections by store.
    stores: Mutex<HashMap<u64, Arc<Channel>>>,
}

/// Why a request has no answer from its region.
#[derive(Clone, Debug)]
pub(crate) enum SendError {
    /// The request never left this process.
    Unsent(String),
    /// The region has moved, or its bounds have changed: the request was very likely not executed.
    Moved(String),
    /// The server asks us to wait: the request was not executed.
    Busy(u64, String),
    /// The request may have been executed.
    Lost(String),
    /// The answer is too long: the request may have been executed.
    TooLong(String),
    /// The request was not executed, and never will be.
    Failed(ClientError),
}

impl Cluster {
    pub(crate) fn new(
        drivers: Vec<String>,
        tls: Option<Tls>,
        pace: Arc<dyn Pace>,
        wait_ms_max: u64,
        meter: Arc<StoreMeter>,
    ) -> Self {
        let driver = Arc::new(Driver::new(drivers, tls.clone()));
        Self {
            oracle: Oracle::new(driver.clone()),
            driver,
            pace,
            meter,
            wait_ms_max,
            trailing: Arc::new(Semaphore::new(TRAILING_MAX as usize)),
            tls,
            regions: RegionCache::default(),
            asking: tokio::sync::Mutex::default(),
            shared_reads: Arc::default(),
            stores: Mutex::default(),
        }
    }

    /// The patience of a new call.
    pub(crate) fn patience(&self) -> Patience {
        Patience::new(&self.pace, &self.meter, self.wait_ms_max)
    }

    /// The region that holds a key.
    pub(crate) async fn region_of(
        &self,
        key: &[u8],
        patience: &mut Patience,
    ) -> Result<Arc<Region>, ClientError> {
        let encoded = encode(key);
        if let Some(region) = self.regions.find(&encoded) {
            return Ok(region);
        }
        let _asking = self.asking(patience).await?;
        loop {
            if let Some(region) = self.regions.find(&encoded) {
                return Ok(region);
            }
            let (meta, leader) = self.driver.region_of(&encoded, patience).await?;
            match Region::new(meta, leader).filter(|region| region.contains(&encoded)) {
                Some(region) => return Ok(self.regions.insert(region)),
                None => patience.pause("the driver names a region without replicas").await?,
            }
        }
    }

    /// The region that holds the keys just before `end`.
    pub(crate) async fn region_before(
        &self,
        end: &[u8],
        patience: &mut Patience,
    ) -> Result<Arc<Region>, ClientError> {
        let encoded = encode(end);
        if let Some(region) = self.regions.find_before(&encoded) {
            return Ok(region);
        }
        let _asking = self.asking(patience).await?;
        loop {
            if let Some(region) = self.regions.find_before(&encoded) {
                return Ok(region);
            }
            let (meta, leader) = self.driver.region_of(&encoded, patience).await?;
            let (meta, leader) = if meta.start_key == encoded {
                self.driver.region_before(&encoded, patience).await?
            } else {
                (meta, leader)
            };
            match Region::new(meta, leader).filter(|region| region.reaches(&encoded)) {
                Some(region) => return Ok(self.regions.insert(region)),
                None => patience.pause("the driver names a region without replicas").await?,
            }
        }
    }

    /// A turn to ask the driver for a region.
    async fn asking(&self, patience: &Patience) -> Result<MutexGuard<'_, ()>, ClientError> {
        let slow = || ClientError::Unavailable("the placement driver is slow".to_owned());
        patience.within(self.asking.lock()).await.ok_or_else(slow)
    }

    /// Groups the items by the region that holds their key, in order of first appearance.
    pub(crate) async fn group<Item>(
        &self,
        items: Vec<Item>,
        key: fn(&Item) -> &[u8],
        patience: &mut Patience,
    ) -> Result<Vec<(Arc<Region>, Vec<Item>)>, ClientError> {
        let mut groups: Vec<(Arc<Region>, Vec<Item>)> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        for item in items {
            let region = self.region_of(key(&item), patience).await?;
            let place = *places.entry(region.id()).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, group)) => group.push(item),
                None => groups.push((region, vec![item])),
            }
        }
        Ok(groups)
    }

    /// Sends a request to a region, once.
    pub(crate) async fn send<Request: RegionRequest>(
        &self,
        region: &Region,
        request: &mut Request,
        patience: &Patience,
    ) -> Result<Request::Response, SendError> {
        self.send_within(region, request, MESSAGE_BYTES_MAX, patience).await
    }

    /// The same, with an answer of at most `bytes_max` bytes.
    pub(crate) async fn send_within<Request: RegionRequest>(
        &self,
        region: &Region,
        request: &mut Request,
        bytes_max: usize,
        patience: &Patience,
    ) -> Result<Request::Response, SendError> {
        request.set_context(region.context());
        let channel = match self.channel(region.store(), &mut patience.clone()).await {
            Ok(channel) => channel,
            Err(ClientError::Unavailable(reason)) => {
                // The store may have left the cluster.
                self.regions.forget(region);
                return Err(SendError::Unsent(reason));
            }
            Err(error) => return Err(SendError::Failed(error)),
        };
        let answer: Result<Request::Response, RpcError> =
            channel.call_within(Request::PATH, request, bytes_max, patience.call_time()).await;
        match answer {
            Ok(mut answer) => match answer.take_region_error() {
                None => Ok(answer),
                Some(error) => Err(self.note(region, error)),
            },
            Err(RpcError::Unsent(reason)) => {
                // The store may be gone, or have a new address.
                self.regions.forget(region);
                self.stores().remove(&region.store());
                Err(SendError::Unsent(reason))
            }
            Err(RpcError::Lost(reason)) => {
                self.regions.forget(region);
                Err(SendError::Lost(reason))
            }
            Err(RpcError::TooLong(reason)) => Err(SendError::TooLong(reason)),
            Err(RpcError::Refused(reason)) => Err(SendError::Failed(ClientError::Refused(reason))),
        }
    }

    /// Sends a request that may be executed twice to the region of a key until it is answered.
    pub(crate) async fn send_to<Request: RegionRequest>(
        &self,
        key: &[u8],
        mut request: Request,
        patience: &mut Patience,
    ) -> Result<Request::Response, ClientError> {
        loop {
            let region = self.region_of(key, patience).await?;
            match self.send(&region, &mut request, patience).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error.wait(patience).await?,
            }
        }
    }

    /// Applies what a region error says to the cache.
    fn note(&self, region: &Region, error: RegionError) -> SendError {
        let reason = error.message;
        if error.undetermined_result.is_some() {
            return SendError::Lost(reason);
        }
        if let Some(busy) = error.server_is_busy {
            return SendError::Busy(busy.backoff_ms, format!("busy: {}", busy.reason));
        }
        if error.raft_entry_too_large.is_some() {
            return SendError::Failed(ClientError::Refused("the write is too large".to_owned()));
        }
        if error.disk_full.is_some() || error.flashback_in_progress.is_some() {
            return SendError::Failed(ClientError::Unavailable(reason));
        }
        if error.store_not_match.is_some() {
            self.stores().remove(&region.store());
        }
        match error.not_leader.and_then(|not_leader| not_leader.leader) {
            Some(leader) => self.regions.set_leader(region, leader),
            None => self.regions.forget(region),
        }
        SendError::Moved(reason)
    }

    async fn channel(
        &self,
        store_id: u64,
        patience: &mut Patience,
    ) -> Result<Arc<Channel>, ClientError> {
        if let Some(channel) = self.stores().get(&store_id) {
            return Ok(channel.clone());
        }
        let store = self.driver.store(store_id, patience).await?;
        let fresh = || Arc::new(Channel::new(&store.address, self.tls.clone()));
        Ok(self.stores().entry(store_id).or_insert_with(fresh).clone())
    }

    /// No code under the lock can panic halfway.
    fn stores(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Channel>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SendError {
    /// Waits before sending the request again; the request must be safe to repeat.
    pub(crate) async fn wait(self, patience: &mut Patience) -> Result<(), ClientError> {
        match self {
            Self::Unsent(reason)
            | Self::Moved(reason)
            | Self::Lost(reason)
            | Self::TooLong(reason) => patience.pause(reason).await,
            Self::Busy(0, reason) => patience.pause(reason).await,
            Self::Busy(ms, reason) => patience.pause_for(ms, reason).await,
            Self::Failed(error) => Err(error),
        }
    }
}
