//! Regions: the key ranges into which the cluster is split, and a cache of where they are.

use crate::patience::ClientError;
use crate::proto::kv::Context;
use crate::proto::{Peer, RegionEpoch, RegionMeta};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Regions that are remembered. A 6 TiB cluster has about this many.
const REGIONS_MAX: usize = 65_536;

const GROUP_BYTES: usize = 8;
const GROUP_FULL: u8 = 0xFF;

/// The encoded form of a key, used for region bounds: groups of eight bytes, padded with zeros,
/// each followed by 255 minus the number of padding bytes. It keeps the order of keys.
pub(crate) fn encode(key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity((key.len() / GROUP_BYTES + 1) * (GROUP_BYTES + 1));
    let mut groups = key.chunks_exact(GROUP_BYTES);
    for group in groups.by_ref() {
        encoded.extend_from_slice(group);
        encoded.push(GROUP_FULL);
    }
    let rest = groups.remainder();
    let padding = GROUP_BYTES - rest.len();
    encoded.extend_from_slice(rest);
    encoded.extend(std::iter::repeat_n(0, padding));
    encoded.push(GROUP_FULL - padding as u8);
    encoded
}

/// The key that [`encode`] turned into this.
pub(crate) fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(encoded.len());
    for group in encoded.chunks(GROUP_BYTES + 1) {
        let (&marker, group) = group.split_last()?;
        let padding = usize::from(GROUP_FULL - marker);
        let kept = group.get(..GROUP_BYTES.checked_sub(padding)?)?;
        key.extend_from_slice(kept);
        if padding > 0 {
            return Some(key);
        }
    }
    None
}

/// A region as it was when the driver or a store last described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    id: u64,
    epoch: RegionEpoch,
    /// Encoded; an empty end is the end of all keys.
    start: Vec<u8>,
    end: Vec<u8>,
    leader: Peer,
}

impl Region {
    /// `None` if it has no replica.
    pub(crate) fn new(meta: RegionMeta, leader: Option<Peer>) -> Option<Self> {
        // Without a leader, any replica will do: it names the leader.
        let leader = leader.or_else(|| meta.peers.first().copied())?;
        let epoch = meta.region_epoch?;
        Some(Self { id: meta.id, epoch, start: meta.start_key, end: meta.end_key, leader })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The version of its bounds.
    pub(crate) fn version(&self) -> u64 {
        self.epoch.version
    }

    pub(crate) fn store(&self) -> u64 {
        self.leader.store_id
    }

    pub(crate) fn context(&self) -> Context {
        Context { region_id: self.id, region_epoch: Some(self.epoch), peer: Some(self.leader) }
    }

    pub(crate) fn contains(&self, encoded: &[u8]) -> bool {
        self.start.as_slice() <= encoded && self.is_before_end(encoded)
    }

    /// Whether keys just before `encoded` are here.
    pub(crate) fn reaches(&self, encoded: &[u8]) -> bool {
        self.start.as_slice() < encoded && (self.end.is_empty() || encoded <= self.end.as_slice())
    }

    fn is_before_end(&self, encoded: &[u8]) -> bool {
        self.end.is_empty() || encoded < self.end.as_slice()
    }

    /// The first key of the region; empty if it starts at the first of all keys.
    pub(crate) fn first_key(&self) -> Result<Vec<u8>, ClientError> {
        Self::bound(&self.start)
    }

    /// The first key after the region; `None` if it ends after the last of all keys.
    pub(crate) fn key_after(&self) -> Result<Option<Vec<u8>>, ClientError> {
        if self.end.is_empty() { Ok(None) } else { Self::bound(&self.end).map(Some) }
    }

    fn bound(encoded: &[u8]) -> Result<Vec<u8>, ClientError> {
        let strange = || ClientError::Corrupt("a bound of a region is not an encoded key".into());
        if encoded.is_empty() { Ok(Vec::new()) } else { decode(encoded).ok_or_else(strange) }
    }
}

/// The known regions, by their first key.
#[derive(Debug, Default)]
pub(crate) struct RegionCache(Mutex<BTreeMap<Vec<u8>, Arc<Region>>>);

impl RegionCache {
    /// The region that holds an encoded key.
    pub(crate) fn find(&self, encoded: &[u8]) -> Option<Arc<Region>> {
        let regions = self.regions();
        let (_, region) =
            regions.range::<[u8], _>((Bound::Unbounded, Bound::Included(encoded))).next_back()?;
        region.contains(encoded).then(|| region.clone())
    }

    /// The region that holds the keys just before an encoded key.
    pub(crate) fn find_before(&self, encoded: &[u8]) -> Option<Arc<Region>> {
        let regions = self.regions();
        let (_, region) =
            regions.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(encoded))).next_back()?;
        region.reaches(encoded).then(|| region.clone())
    }

    /// Remembers a region in place of all regions that it overlaps.
    pub(crate) fn insert(&self, region: Region) -> Arc<Region> {
        let region = Arc::new(region);
        let mut regions = self.regions();
        let overlaps = |other: &Region| {
            other.id == region.id
                || (region.is_before_end(&other.start) && other.is_before_end(&region.start))
        };
        if regions.len() >= REGIONS_MAX {
            regions.clear();
        }
        // Only the previous region and those that begin within this one can overlap.
        let before = regions
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(region.start.as_slice())))
            .next_back()
            .map(|(start, _)| start.clone());
        let within = regions
            .range::<[u8], _>((Bound::Included(region.start.as_slice()), Bound::Unbounded))
            .take_while(|(_, other)| region.is_before_end(&other.start))
            .map(|(start, _)| start.clone());
        let candidates: Vec<Vec<u8>> = before.into_iter().chain(within).collect();
        for start in candidates {
            if regions.get(&start).is_some_and(|other| overlaps(other)) {
                regions.remove(&start);
            }
        }
        regions.insert(region.start.clone(), region.clone());
        region
    }

    /// Forgets a region that has changed; a newer description stays.
    pub(crate) fn forget(&self, stale: &Region) {
        let mut regions = self.regions();
        if regions.get(&stale.start).is_some_and(|region| **region == *stale) {
            regions.remove(&stale.start);
        }
    }

    /// The region has a new leader.
    pub(crate) fn set_leader(&self, region: &Region, leader: Peer) {
        let mut regions = self.regions();
        if let Some(known) = regions.get_mut(&region.start).filter(|known| ***known == *region) {
            *known = Arc::new(Region { leader, ..region.clone() });
        }
    }

    /// No code under the lock can panic halfway.
    fn regions(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Arc<Region>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
