//! A cache of entity keys, so that a key service is not called again for each read (E-34).

use super::cek::Cek;
use super::keys::Wrapped;
use super::metadata::WrappedBy;
use super::secret_bytes::SecretBytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ENTRIES: usize = 1024;
const TIME: Duration = Duration::from_secs(300);
const REUSE_MAX: u32 = 1 << 20;

/// Keys of entities that were read, by the wrapping key and the wrapped bytes. They are kept in packed form, so
/// that their version is checked each time (E-40).
pub(super) struct CekCache {
    entries: usize,
    time: Duration,
    held: Mutex<Held>,
}

/// The id of a key, the name of its algorithm, and the bytes it wrapped.
type CacheKey = (String, String, Vec<u8>);

#[derive(Default)]
struct Held {
    ceks: HashMap<CacheKey, (SecretBytes, Duration)>,
    /// Oldest first.
    order: VecDeque<CacheKey>,
}

impl CekCache {
    pub(super) fn new(entries: usize, time: Duration) -> Self {
        Self { entries, time, held: Mutex::default() }
    }

    /// The key, if it was unwrapped recently enough before `now`.
    pub(super) fn get(&self, wrapped: WrappedBy<'_>, now: Duration) -> Option<SecretBytes> {
        let held = self.held();
        let (cek, since) = held.ceks.get(&cache_key(wrapped))?;
        (now.saturating_sub(*since) < self.time).then(|| cek.clone())
    }

    pub(super) fn put(&self, wrapped: WrappedBy<'_>, cek: SecretBytes, now: Duration) {
        if self.entries == 0 {
            return;
        }
        let mut held = self.held();
        let key = cache_key(wrapped);
        if held.ceks.insert(key.clone(), (cek, now)).is_none() {
            held.order.push_back(key);
        }
        while held.order.len() > self.entries
            && let Some(oldest) = held.order.pop_front()
        {
            held.ceks.remove(&oldest);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cache_key(wrapped: WrappedBy<'_>) -> CacheKey {
    (wrapped.key_id.to_owned(), wrapped.algorithm.to_owned(), wrapped.encrypted_key.to_vec())
}

impl Default for CekCache {
    fn default() -> Self {
        Self::new(ENTRIES, TIME)
    }
}

/// A key that several writes share, if that is configured.
#[derive(Default)]
pub(super) struct ReusedCek {
    time: Duration,
    entities: u32,
    shared: Mutex<Option<Shared>>,
}

struct Shared {
    cek: Cek,
    wrapped: Wrapped,
    since: Duration,
    left: u32,
}

impl ReusedCek {
    pub(super) fn new(time: Duration, entities: u32) -> Self {
        Self { time, entities: entities.min(REUSE_MAX), shared: Mutex::default() }
    }

    /// The shared key, for another entity.
    pub(super) fn take(&self, now: Duration) -> Option<(Cek, Wrapped)> {
        let mut shared = self.shared();
        let found = shared.as_mut()?;
        let is_fresh = now.saturating_sub(found.since) < self.time;
        found.left = found.left.checked_sub(1).filter(|_| is_fresh)?;
        Some((found.cek.clone(), found.wrapped.clone()))
    }

    /// Makes the key of one entity the shared key.
    pub(super) fn share(&self, cek: &Cek, wrapped: &Wrapped, now: Duration) {
        if let Some(left) = self.entities.checked_sub(1) {
            let (cek, wrapped) = (cek.clone(), wrapped.clone());
            *self.shared() = Some(Shared { cek, wrapped, since: now, left });
        }
    }

    fn shared(&self) -> MutexGuard<'_, Option<Shared>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::tests::cek;

    fn wrapped(bytes: &[u8]) -> WrappedBy<'_> {
        WrappedBy { key_id: "k", algorithm: "A256KW", encrypted_key: bytes }
    }

    #[test]
    fn keys_are_kept_for_a_while_and_the_oldest_leave_first() {
        // E-34.
        let at = Duration::from_secs;
        let cache = CekCache::new(2, at(10));
        for number in 0..3 {
            cache.put(wrapped(&[number]), cek().packed_v2(), at(u64::from(number)));
        }
        let known = |number, now| cache.get(wrapped(&[number]), at(now)).is_some();
        assert!(!known(0, 3) && known(1, 3) && known(2, 3));
        assert!(!known(1, 11) && known(2, 11) && !known(2, 12));
        let held = cache.held();
        assert_eq!((held.order.len(), held.ceks.len()), (2, 2));
        let none = CekCache::new(0, at(10));
        none.put(wrapped(&[1]), cek().packed_v2(), at(0));
        assert!(none.get(wrapped(&[1]), at(0)).is_none());
    }

    #[test]
    fn a_shared_key_serves_so_many_entities_and_so_long() {
        let at = Duration::from_secs;
        let wrapped = Wrapped { bytes: vec![1], algorithm: "A256KW".to_owned() };
        let reused = ReusedCek::new(at(10), 3);
        assert!(reused.take(at(0)).is_none());
        reused.share(&cek(), &wrapped, at(0));
        assert!(reused.take(at(1)).is_some() && reused.take(at(9)).is_some());
        assert!(reused.take(at(9)).is_none(), "three entities");
        reused.share(&cek(), &wrapped, at(20));
        assert!(reused.take(at(30)).is_none(), "too old");
        let off = ReusedCek::default();
        off.share(&cek(), &wrapped, at(0));
        assert!(off.take(at(0)).is_none(), "off by default");
    }
}
