//! Reads: keys by name, and ranges in chunks.

use crate::cluster::{Cluster, SendError};
use crate::locks::unexpected;
use crate::patience::{ClientError, Patience};
use crate::proto::kv::{BatchGetRequest, GetRequest, KeyError, KvPair, LockInfo, ScanRequest};
use crate::region::Region;
use crate::shared_read::{Entered, Turn};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use futures_util::future::join_all;
use lazuli_engine::{Direction, KeyRange};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Keys per request. If the response is still too long, it is requested in parts.
pub(crate) const KEYS_PER_READ: usize = 32;

/// The longest answer to a scan: more than one row with the largest key and value.
pub(crate) const CHUNK_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Which values are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    At(Timestamp),
    Newest(Newest),
}

/// How the newest values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Newest {
    /// At a fresh timestamp: a commit it does not see is later than every snapshot begun before.
    Dated,
    /// At no timestamp, which saves a round trip. A store skips the lock of a transaction that is being
    /// committed if the lock is on the primary key, so the values may predate a commit that a snapshot at an
    /// earlier timestamp sees. Good enough for guards.
    Undated,
}

impl From<Timestamp> for When {
    fn from(at: Timestamp) -> Self {
        Self::At(at)
    }
}

impl From<Newest> for When {
    fn from(newest: Newest) -> Self {
        Self::Newest(newest)
    }
}

/// What one request for keys found.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) found: Vec<(Bytes, Bytes)>,
    /// Keys to read again, and the locks on them.
    locked: Vec<Bytes>,
    locks: Vec<LockInfo>,
}

/// Some entries of a range, in the order of the scan.
pub(crate) struct Chunk {
    pub(crate) entries: Vec<(Bytes, Bytes)>,
    /// What is still to be read; `None` at the end.
    pub(crate) rest: Option<KeyRange>,
}

/// What to scan: a range as of a timestamp.
pub(crate) struct RangeRead {
    pub(crate) range: KeyRange,
    pub(crate) direction: Direction,
    pub(crate) at: Timestamp,
    pub(crate) keys_only: bool,
}

impl Cluster {
    /// The values of the keys that exist.
    pub(crate) async fn get(
        &self,
        keys: Vec<Bytes>,
        when: When,
        patience: &mut Patience,
    ) -> Result<HashMap<Bytes, Bytes>, ClientError> {
        let distinct: BTreeSet<Bytes> = keys.into_iter().collect();
        let mut wanted: Vec<Bytes> = distinct.into_iter().collect();
        let mut found = HashMap::with_capacity(wanted.len());
        while !wanted.is_empty() {
            let groups = self.group(wanted, |key| key, patience).await?;
            let parts = groups.into_iter().flat_map(|(region, keys)| {
                let parts: Vec<Vec<Bytes>> =
                    keys.chunks(KEYS_PER_READ).map(<[Bytes]>::to_vec).collect();
                parts.into_iter().map(move |keys| (region.clone(), keys))
            });
            let reads = parts.map(|(region, keys)| self.get_part(region, keys, when, patience));
            let results = join_all(reads).await;
            wanted = Vec::new();
            let mut locks = Vec::new();
            for (keys, result) in results {
                match result {
                    Ok(read) => {
                        found.extend(read.found);
                        wanted.extend(read.locked);
                        locks.extend(read.locks);
                    }
                    Err(error) => {
                        wanted.extend(keys);
                        error.wait(patience).await?;
                    }
                }
            }
            self.wait_for(locks, patience).await?;
        }
        Ok(found)
    }

    async fn get_part(
        &self,
        region: Arc<Region>,
        keys: Vec<Bytes>,
        when: When,
        patience: &Patience,
    ) -> (Vec<Bytes>, Result<Read, SendError>) {
        let read = match when {
            When::Newest(newest) => self.get_newest(&region, &keys, newest, patience).await,
            When::At(at) => self.get_some(&region, &keys, at, patience).await,
        };
        (keys, read)
    }

    /// Like [`get_some`](Self::get_some), for the newest values, perhaps in one call with other reads.
    async fn get_newest(
        &self,
        region: &Region,
        keys: &[Bytes],
        newest: Newest,
        patience: &Patience,
    ) -> Result<Read, SendError> {
        let mut call = match self.shared_reads.enter(region, newest, keys) {
            Entered::Reads(call) => {
                yield_now().await;
                call
            }
            Entered::Waits(turn) => match timeout(patience.call_time(), turn).await {
                Ok(Ok(Turn::Done(read))) => return read,
                Ok(Ok(Turn::Reads(call))) => call,
                Ok(Err(_)) => {
                    return Err(SendError::Unsent("the read before was given up".to_owned()));
                }
                Err(_) => return Err(SendError::Lost("reads of the region are slow".to_owned())),
            },
        };
        call.gather(keys);
        // After gathering: all reads that share this timestamp have begun.
        let at = match newest {
            Newest::Undated => Ok(Timestamp::LATEST),
            Newest::Dated => self.oracle.now(&mut patience.clone()).await,
        };
        let read = match at {
            Ok(at) => self.get_some(region, &call.keys(keys), at, patience).await,
            Err(error) => Err(SendError::Failed(error)),
        };
        call.finish(keys, read)
    }

    /// The values of keys of one region. If they are too long for one answer, asks for half of the
    /// keys, then the other half.
    async fn get_some(
        &self,
        region: &Region,
        keys: &[Bytes],
        at: Timestamp,
        patience: &Patience,
    ) -> Result<Read, SendError> {
        let mut read = Read::default();
        let mut parts = vec![keys];
        while let Some(keys) = parts.pop() {
            let part = match keys {
                [key] => self.get_one(region, key, at, patience).await,
                _ => self.get_many(region, keys, at, patience).await,
            };
            match part {
                Err(SendError::TooLong(_)) if keys.len() > 1 => {
                    parts.extend(<[_; 2]>::from(keys.split_at(keys.len() / 2)));
                }
                part => read.add(part?),
            }
        }
        Ok(read)
    }

    async fn get_one(
        &self,
        region: &Region,
        key: &Bytes,
        at: Timestamp,
        patience: &Patience,
    ) -> Result<Read, SendError> {
        let mut request = GetRequest { key: key.clone(), version: at.0, ..Default::default() };
        let answer = self.send(region, &mut request, patience).await?;
        let mut read = Read::default();
        let absent = answer.not_found || answer.value.is_empty();
        match answer.error {
            Some(error) => read.note_lock(error, std::slice::from_ref(key))?,
            None if absent => {}
            None => read.found.push((key.clone(), answer.value)),
        }
        Ok(read)
    }

    async fn get_many(
        &self,
        region: &Region,
        keys: &[Bytes],
        at: Timestamp,
        patience: &Patience,
    ) -> Result<Read, SendError> {
        let mut request =
            BatchGetRequest { keys: keys.to_vec(), version: at.0, ..Default::default() };
        let answer = self.send(region, &mut request, patience).await?;
        let mut read = Read::default();
        if let Some(error) = answer.error {
            read.note_lock(error, keys)?;
            return Ok(read);
        }
        for pair in answer.pairs {
            match pair.error {
                Some(error) => {
                    let key = error.locked.iter().map(|lock| lock.key.clone()).collect::<Vec<_>>();
                    read.note_lock(error, &key)?;
                }
                // An empty value means none (K-6.15).
                None if pair.value.is_empty() => {}
                None => read.found.push((pair.key, pair.value)),
            }
        }
        Ok(read)
    }

    /// The next entries of a range: at most `rows`, from one region, in an answer of at most
    /// `bytes_max` bytes; [`ClientError::TooLong`] if they are longer than that.
    pub(crate) async fn scan(
        &self,
        read: &RangeRead,
        rows: usize,
        bytes_max: usize,
        patience: &mut Patience,
    ) -> Result<Chunk, ClientError> {
        let limit = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        loop {
            let (region, part) = self.part_of(read, patience).await?;
            let (start, end) = match read.direction {
                Direction::Forward => (&part.start, &part.end),
                Direction::Backward => (&part.end, &part.start),
            };
            let mut request = ScanRequest {
                start_key: Bytes::copy_from_slice(start),
                limit,
                version: read.at.0,
                key_only: read.keys_only,
                reverse: read.direction == Direction::Backward,
                end_key: Bytes::copy_from_slice(end),
                ..ScanRequest::default()
            };
            let sent = self.send_within(&region, &mut request, bytes_max, patience);
            let answer = match sent.await {
                Ok(answer) => answer,
                Err(SendError::TooLong(reason)) => return Err(ClientError::TooLong(reason)),
                Err(error) => {
                    error.wait(patience).await?;
                    continue;
                }
            };
            let errors = answer.error.iter().chain(answer.pairs.iter().flat_map(|p| &p.error));
            let locks = errors.map(lock_of).collect::<Result<Vec<_>, _>>()?;
            if locks.is_empty() {
                return Ok(read.chunk(&part, answer.pairs, limit));
            }
            self.wait_for(locks, patience).await?;
        }
    }

    /// The region in which the scan continues, and its part of the range.
    async fn part_of(
        &self,
        read: &RangeRead,
        patience: &mut Patience,
    ) -> Result<(Arc<Region>, KeyRange), ClientError> {
        let mut part = read.range.clone();
        let region = match read.direction {
            Direction::Forward => {
                let region = self.region_of(&part.start, patience).await?;
                if let Some(next) = region.key_after()?.filter(|next| *next < part.end) {
                    part.end = next;
                }
                region
            }
            Direction::Backward => {
                let region = self.region_before(&part.end, patience).await?;
                part.start = region.first_key()?.max(part.start);
                region
            }
        };
        Ok((region, part))
    }

    /// Waits until these locks are gone, or worth checking again.
    async fn wait_for(
        &self,
        locks: Vec<LockInfo>,
        patience: &mut Patience,
    ) -> Result<(), ClientError> {
        if locks.is_empty() || self.resolve(locks, patience).await? {
            return Ok(());
        }
        patience.pause("a key is locked by another transaction").await
    }
}

impl Read {
    /// The part of the result that concerns `keys`.
    pub(crate) fn part(&self, keys: &[Bytes]) -> Self {
        let found = self.found.iter().filter(|(key, _)| keys.contains(key));
        let locked: Vec<Bytes> =
            self.locked.iter().filter(|key| keys.contains(key)).cloned().collect();
        let locks = if locked.is_empty() { Vec::new() } else { self.locks.clone() };
        Self { found: found.cloned().collect(), locked, locks }
    }

    fn add(&mut self, part: Self) {
        self.found.extend(part.found);
        self.locked.extend(part.locked);
        self.locks.extend(part.locks);
    }

    fn note_lock(&mut self, error: KeyError, keys: &[Bytes]) -> Result<(), SendError> {
        self.locks.push(lock_of(&error).map_err(SendError::Failed)?);
        self.locked.extend_from_slice(keys);
        Ok(())
    }
}

impl RangeRead {
    fn chunk(&self, part: &KeyRange, pairs: Vec<KvPair>, limit: u32) -> Chunk {
        let is_full = pairs.len() >= limit as usize;
        let last = pairs.last().map(|pair| pair.key.clone()).filter(|_| is_full);
        let rest = match (self.direction, last) {
            (Direction::Forward, Some(last)) => {
                KeyRange::new([&last[..], &[0]].concat(), self.range.end.clone())
            }
            (Direction::Forward, None) => KeyRange::new(part.end.clone(), self.range.end.clone()),
            (Direction::Backward, Some(last)) => {
                KeyRange::new(self.range.start.clone(), last.to_vec())
            }
            (Direction::Backward, None) => {
                KeyRange::new(self.range.start.clone(), part.start.clone())
            }
        };
        let has_value = |pair: &KvPair| self.keys_only || !pair.value.is_empty();
        let entries = pairs.into_iter().filter(has_value).map(|pair| (pair.key, pair.value));
        Chunk { entries: entries.collect(), rest: Some(rest).filter(|rest| !rest.is_empty()) }
    }
}

fn lock_of(error: &KeyError) -> Result<LockInfo, ClientError> {
    error.locked.clone().ok_or_else(|| unexpected(error))
}
