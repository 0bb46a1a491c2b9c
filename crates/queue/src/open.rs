//! Finds queues, and caches their records and dispensers.

use crate::bounds::QueueBounds;
use crate::dispenser::{BufferMemory, Dispenser, Losses};
use crate::error::QueueError;
use crate::service::QueueService;
use lazuli_engine::{Check, Expect, Found, Key};
use lazuli_layout::queue::QueueRecord;
use lazuli_layout::{Generation, key};
use lazuli_model::{AccountName, QueueName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue as found in the catalog.
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

    /// Whether `found`, read at the catalog key, is the record that this queue was opened with.
    pub(crate) fn is_proven_by(&self, found: Option<&Found>) -> bool {
        self.lives.expect.holds(found.map(|found| found.revision))
    }
}

/// Cached records, by catalog key. Each use verifies the record: with a guard of its commit, or by
/// reading it again.
pub(crate) struct KnownQueues {
    queues: Mutex<HashMap<Key, OpenQueue>>,
    queues_max: usize,
}

impl KnownQueues {
    pub(crate) fn new(bounds: QueueBounds) -> Self {
        Self { queues: Mutex::default(), queues_max: bounds.known_queues_max }
    }

    fn find(&self, catalog: &Key) -> Option<OpenQueue> {
        self.lock().get(catalog).cloned()
    }

    pub(crate) fn remember(&self, queue: &OpenQueue) {
        let mut known = self.lock();
        if known.len() >= self.queues_max {
            known.clear();
        }
        known.insert(queue.lives.key.clone(), queue.clone());
    }

    pub(crate) fn forget(&self, catalog: &Key) {
        self.lock().remove(catalog);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, OpenQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The dispensers of queues in use.
pub(crate) struct OpenQueues {
    in_use: Mutex<InUse>,
    pub(crate) memory: Arc<BufferMemory>,
    losses: Losses,
}

#[derive(Default)]
struct InUse {
    dispensers: HashMap<Generation, (Arc<Dispenser>, u64)>,
    uses: u64,
}

impl OpenQueues {
    pub(crate) fn new(bounds: QueueBounds, losses: Losses) -> Self {
        Self { in_use: Mutex::default(), memory: Arc::new(BufferMemory::new(bounds)), losses }
    }

    pub(crate) fn of(&self, generation: Generation) -> Arc<Dispenser> {
        let mut in_use = self.lock();
        in_use.uses += 1;
        let uses = in_use.uses;
        let queues_max = self.memory.bounds.active_queues_max;
        if in_use.dispensers.len() >= queues_max && !in_use.dispensers.contains_key(&generation) {
            // Forget several at once, because this examines all of them.
            in_use.forget_idle(queues_max.div_ceil(4));
        }
        let new = || {
            let dispenser = Dispenser::new(generation, self.memory.clone(), self.losses.clone());
            (Arc::new(dispenser), uses)
        };
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
    /// Drops the `number` least recently used dispensers that are idle: a scan from the beginning can
    /// rebuild one, unless a request holds it or a commit is in doubt.
    fn forget_idle(&mut self, number: usize) {
        let idle = self.dispensers.iter().filter(|(_, (dispenser, _))| {
            Arc::strong_count(dispenser) == 1 && !dispenser.is_needed()
        });
        let mut idle: Vec<_> = idle.map(|(generation, (_, used))| (*used, *generation)).collect();
        idle.sort_unstable();
        for (_, generation) in idle.into_iter().take(number) {
            self.dispensers.remove(&generation);
        }
    }
}

impl QueueService {
    /// Finds a queue as it is now, or was; the caller must verify it.
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

    /// O-7.1.
    #[test]
    fn so_many_records_are_cached_and_no_more() {
        let known = KnownQueues::new(QueueBounds { known_queues_max: 3, ..QueueBounds::default() });
        for name in 0..10_u8 {
            let lives = Check { key: Key::from(vec![name]), expect: Expect::Absent };
            known.remember(&OpenQueue { generation: generation(1), lives });
            assert!(known.lock().len() <= 3 && known.find(&Key::from(vec![name])).is_some());
        }
    }

    #[test]
    fn idle_queues_are_forgotten_and_those_in_use_are_not() {
        let active_queues_max = 10;
        let bounds = QueueBounds { active_queues_max, ..QueueBounds::default() };
        let queues = OpenQueues::new(bounds, Arc::new(|| 0));
        let held = queues.of(generation(0));
        (1..50).for_each(|queue| drop(queues.of(generation(queue))));
        assert!(queues.lock().dispensers.len() <= active_queues_max);
        assert!(queues.existing(generation(0)).is_some_and(|found| Arc::ptr_eq(&found, &held)));
        assert!(queues.existing(generation(1)).is_none());
        assert!(queues.existing(generation(49)).is_some());
    }
}
