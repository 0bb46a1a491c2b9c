//! Finds queues, and caches their records and dispensers.

use crate::dispenser::{BufferMemory, Dispenser};
use crate::error::QueueError;
use crate::service::QueueService;
use lazuli_engine::{Check, Expect, Found, Key};
use lazuli_layout::queue::QueueRecord;
use lazuli_layout::{Generation, key};
use lazuli_model::{AccountName, QueueName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of cached records; beyond it the cache is cleared.
const KNOWN_MAX: usize = 4096;
/// Maximum number of dispensers. Beyond it, idle ones are dropped, the least recently used first,
/// until this many fewer are left.
const DISPENSERS_MAX: usize = 1024;
const DISPENSERS_FORGOTTEN: usize = 256;

/// A queue as it was found in the catalog.
#[derive(Clone, Debug)]
pub(crate) struct OpenQueue {
    pub(crate) generation: Generation,
    /// Holds until the queue is deleted, cleared or gets other metadata.
    pub(crate) lives: Check,
}

impl OpenQueue {
    pub(crate) fn new(catalog: Key, found: &Found) -> Result<Self, QueueError> {
        let generation = QueueRecord::decode_generation(&found.value)?;
        Ok(Self { generation, lives: Check { key: catalog, expect: Expect::At(found.revision) } })
    }

    /// Whether `found`, read at the catalog key, is the record with which the queue was opened.
    pub(crate) fn is_proven_by(&self, found: Option<&Found>) -> bool {
        self.lives.expect.holds(found.map(|found| found.revision))
    }
}

/// Cached records, by catalog key. Each use verifies the record: with a guard of its commit, or by
/// reading it again.
#[derive(Default)]
pub(crate) struct KnownQueues(Mutex<HashMap<Key, OpenQueue>>);

impl KnownQueues {
    fn find(&self, catalog: &Key) -> Option<OpenQueue> {
        self.lock().get(catalog).cloned()
    }

    pub(crate) fn remember(&self, queue: &OpenQueue) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(queue.lives.key.clone(), queue.clone());
    }

    pub(crate) fn forget(&self, catalog: &Key) {
        self.lock().remove(catalog);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, OpenQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The dispensers of queues in use.
#[derive(Default)]
pub(crate) struct OpenQueues {
    in_use: Mutex<InUse>,
    pub(crate) memory: Arc<BufferMemory>,
}

#[derive(Default)]
struct InUse {
    dispensers: HashMap<Generation, (Arc<Dispenser>, u64)>,
    uses: u64,
}

impl OpenQueues {
    pub(crate) fn new(buffer_bytes_max: usize) -> Self {
        let memory = Arc::new(BufferMemory::new(buffer_bytes_max));
        Self { in_use: Mutex::default(), memory }
    }

    pub(crate) fn of(&self, generation: Generation) -> Arc<Dispenser> {
        let mut in_use = self.lock();
        in_use.uses += 1;
        let uses = in_use.uses;
        if in_use.dispensers.len() >= DISPENSERS_MAX && !in_use.dispensers.contains_key(&generation)
        {
            in_use.forget_idle();
        }
        let new = || (Arc::new(Dispenser::new(generation, self.memory.clone())), uses);
        let (dispenser, used) = in_use.dispensers.entry(generation).or_insert_with(new);
        *used = uses;
        Arc::clone(dispenser)
    }

    /// The existing dispenser of a queue.
    pub(crate) fn existing(&self, generation: Generation) -> Option<Arc<Dispenser>> {
        self.lock().dispensers.get(&generation).map(|(dispenser, _)| Arc::clone(dispenser))
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InUse {
    /// A scan from the beginning can rebuild a dispenser, unless a request holds it or a commit is
    /// in doubt.
    fn forget_idle(&mut self) {
        let idle = self.dispensers.iter().filter(|(_, (dispenser, _))| {
            Arc::strong_count(dispenser) == 1 && !dispenser.is_needed()
        });
        let mut idle: Vec<_> = idle.map(|(generation, (_, used))| (*used, *generation)).collect();
        idle.sort_unstable();
        for (_, generation) in idle.into_iter().take(DISPENSERS_FORGOTTEN) {
            self.dispensers.remove(&generation);
        }
    }
}

impl QueueService {
    /// Finds a queue as it is now, or was: the caller must verify it.
    pub(crate) async fn open(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<OpenQueue, QueueError> {
        let catalog = Key::from(key::queue::catalog(account, name));
        match self.known.find(&catalog) {
            Some(queue) => Ok(queue),
            None => Ok(self.look_up(catalog).await?.0),
        }
    }

    /// Reads the record of a queue.
    pub(crate) async fn look_up(&self, catalog: Key) -> Result<(OpenQueue, Found), QueueError> {
        let found = self.store.read_one(&catalog).await?;
        let found = found.ok_or(QueueError::QueueNotFound)?;
        let queue = OpenQueue::new(catalog, &found)?;
        self.known.remember(&queue);
        Ok((queue, found))
    }

    /// Removes an outdated queue from the cache.
    pub(crate) fn forget(&self, queue: &OpenQueue) {
        self.known.forget(&queue.lives.key);
    }

    /// Whether a queue is unchanged since it was opened; removes it from the cache if not.
    pub(crate) async fn lives(&self, queue: &OpenQueue) -> Result<bool, QueueError> {
        let found = self.store.read_one(&queue.lives.key).await?;
        let lives = queue.is_proven_by(found.as_ref());
        if !lives {
            self.forget(queue);
        }
        Ok(lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_layout::QueueId;

    fn generation(queue: usize) -> Generation {
        Generation { queue: QueueId(queue as u64), epoch: 0 }
    }

    #[test]
    fn idle_queues_are_forgotten_and_those_in_use_are_not() {
        let queues = OpenQueues::default();
        let held = queues.of(generation(0));
        (1..5 * DISPENSERS_MAX).for_each(|queue| drop(queues.of(generation(queue))));
        assert!(queues.lock().dispensers.len() <= DISPENSERS_MAX);
        assert!(queues.existing(generation(0)).is_some_and(|found| Arc::ptr_eq(&found, &held)));
        assert!(queues.existing(generation(1)).is_none());
        assert!(queues.existing(generation(5 * DISPENSERS_MAX - 1)).is_some());
    }
}
