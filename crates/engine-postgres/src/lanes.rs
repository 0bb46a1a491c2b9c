//! Combines point reads that wait for a connection into one statement.
//!
//! Most of what a point read costs the database is the statement around it: waking a process, reading and
//! writing a message, starting a plan. So reads use few connections, the *lanes*. A read that finds a free lane
//! is sent at once; reads that arrive while all lanes are busy go into one statement as soon as a lane is free.
//! Each key is still read after its call and before its answer (K-2.2).

use crate::Store;
use crate::fault::same;
use crate::patience::{Patience, too_late};
use lazuli_engine::{EngineError, Found, Key};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

/// Maximum reads per statement. Bounds how long one read waits for the values of others.
const READS_MAX: usize = 16;

/// Maximum keys per statement. A read with more keys is sent alone.
const KEYS_MAX: usize = 64;

/// Reads that wait for a lane.
pub(crate) struct Lanes {
    lanes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    busy: usize,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    keys: Vec<Key>,
    answer: oneshot::Sender<Result<Vec<Option<Found>>, EngineError>>,
}

impl Lanes {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes: lanes.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lane for a new read, if one is free and no earlier read waits.
    fn enter(&self) -> bool {
        let mut state = self.state();
        let is_free = state.busy < self.lanes;
        state.busy += usize::from(is_free);
        is_free
    }

    /// What to send next on a free lane; if empty, the lane is released.
    fn next(&self) -> Vec<Waiting> {
        let mut state = self.state();
        let mut group: Vec<Waiting> = Vec::new();
        let mut keys = 0;
        while let Some(first) = state.waiting.front() {
            let fits = keys + first.keys.len() <= KEYS_MAX && group.len() < READS_MAX;
            if !fits && !group.is_empty() {
                break;
            }
            let Some(first) = state.waiting.pop_front() else { break };
            // The caller may have stopped waiting.
            if !first.answer.is_closed() {
                keys += first.keys.len();
                group.push(first);
            }
        }
        if group.is_empty() {
            state.busy -= 1;
        }
        group
    }
}

impl Store {
    /// The values of `keys`, each read between this call and its answer.
    pub(crate) async fn read_in_lane(
        self: &Arc<Self>,
        keys: &[Key],
        patience: Patience,
    ) -> Result<Vec<Option<Found>>, EngineError> {
        if keys.len() > KEYS_MAX {
            return self.read(keys, patience).await;
        }
        if self.lanes.enter() {
            let lane = Lane(self.clone());
            let found = self.read(keys, patience).await;
            drop(lane);
            return found;
        }
        let (answer, found) = oneshot::channel();
        let waiting = Waiting { keys: keys.to_vec(), answer };
        self.lanes.state().waiting.push_back(waiting);
        // The last lane may have been released by now.
        if self.lanes.enter() {
            drop(Lane(self.clone()));
        }
        match timeout_at(patience.deadline(), found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(crate::closed()),
            Err(_) => Err(too_late()),
        }
    }

    /// Reads for a group, and answers each member.
    async fn read_group(&self, group: Vec<Waiting>) {
        let mut keys: Vec<Key> = group.iter().flat_map(|one| one.keys.iter().cloned()).collect();
        keys.sort_unstable();
        keys.dedup();
        // Each waiting read has its own deadline; one that gave up gets no answer.
        match self.read(&keys, self.patience()).await {
            Ok(found) => {
                for one in group {
                    let find = |key: &Key| found.get(keys.binary_search(key).ok()?)?.clone();
                    // The caller may have stopped waiting.
                    let _ = one.answer.send(Ok(one.keys.iter().map(find).collect()));
                }
            }
            Err(error) => {
                for one in group {
                    let _ = one.answer.send(Err(same(&error)));
                }
            }
        }
    }
}

/// A lane in use. When its holder is done or gives up, the lane serves the next reads in the queue.
struct Lane(Arc<Store>);

impl Drop for Lane {
    fn drop(&mut self) {
        let group = self.0.lanes.next();
        if group.is_empty() {
            return;
        }
        let lane = Self(self.0.clone());
        // Without a runtime no caller waits for an answer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                lane.0.read_group(group).await;
                drop(lane);
            });
        }
    }
}
