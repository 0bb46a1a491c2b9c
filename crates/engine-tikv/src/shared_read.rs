//! Reads of newest values that begin at the same time share one call.
//!
//! Most of what such a read costs a gateway is the call around it: a message each way, and the tasks and
//! threads that it wakes. So the first read of a region yields to the tasks that are ready, and includes what
//! they want to read there. No read waits for another caller's call, and a read that is alone is sent as soon
//! as no other task is ready. Each key is still read after its call and before its answer (K-2.2). Reads of
//! different regions are separate: one whose leader is lost delays no others.
//!
//! Nothing runs in the background: the read that gathers the others reads for them. If it gives up, they try
//! again.

use crate::cluster::SendError;
use crate::patience::ClientError;
use crate::read::{KEYS_PER_READ, Newest, Read};
use crate::region::Region;
use bytes::Bytes;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Maximum reads per call. Bounds how long one of them waits for the values of others.
pub(crate) const READS_MAX: usize = 16;

/// A region, the version of its bounds, and what is read there.
type Place = (u64, u64, Newest);

/// Reads waiting to be included in a call. A place is present while a read gathers there.
#[derive(Default)]
pub(crate) struct SharedReads(Mutex<HashMap<Place, VecDeque<Waiting>>>);

struct Waiting {
    keys: Vec<Bytes>,
    turn: oneshot::Sender<Turn>,
}

/// The outcome for a waiting read.
pub(crate) enum Turn {
    /// It reads for itself and for others.
    Reads(Call),
    Done(Result<Read, SendError>),
}

pub(crate) enum Entered {
    /// The first: it lets others begin, and reads for them.
    Reads(Call),
    Waits(oneshot::Receiver<Turn>),
}

/// A call to a region that is about to be made.
pub(crate) struct Call {
    reads: Arc<SharedReads>,
    place: Place,
    /// Whether others may still join.
    gathers: bool,
    /// The waiting reads that this call serves, in addition to its owner's.
    others: Vec<Waiting>,
}

impl SharedReads {
    /// A read of `keys` that begins now.
    pub(crate) fn enter(
        self: &Arc<Self>,
        region: &Region,
        newest: Newest,
        keys: &[Bytes],
    ) -> Entered {
        let place = (region.id(), region.version(), newest);
        match self.lines().entry(place) {
            Entry::Vacant(line) => {
                line.insert(VecDeque::new());
                Entered::Reads(self.call(place))
            }
            Entry::Occupied(mut line) => {
                let (turn, comes) = oneshot::channel();
                line.get_mut().push_back(Waiting { keys: keys.to_vec(), turn });
                Entered::Waits(comes)
            }
        }
    }

    fn call(self: &Arc<Self>, place: Place) -> Call {
        Call { reads: self.clone(), place, gathers: true, others: Vec::new() }
    }

    /// Lets the first read that still waits at a place gather the others.
    fn pass_on(self: &Arc<Self>, place: Place) {
        let first = {
            let mut lines = self.lines();
            let first = lines.get_mut(&place).and_then(VecDeque::pop_front);
            if first.is_none() {
                lines.remove(&place);
            }
            first
        };
        if let Some(first) = first {
            // If its caller is gone, the call is dropped here, which passes it on to the next.
            let _ = first.turn.send(Turn::Reads(self.call(place)));
        }
    }

    /// No code under the lock can panic halfway.
    fn lines(&self) -> MutexGuard<'_, HashMap<Place, VecDeque<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Includes the waiting reads. Reads that begin later are not part of it.
    pub(crate) fn gather(&mut self, own: &[Bytes]) {
        let mut keys = own.len();
        if let Some(line) = self.reads.lines().get_mut(&self.place) {
            while let Some(first) = line.pop_front() {
                // The caller may have stopped waiting.
                if first.turn.is_closed() {
                    continue;
                }
                keys += first.keys.len();
                if keys > KEYS_PER_READ || self.others.len() + 1 >= READS_MAX {
                    line.push_front(first);
                    break;
                }
                self.others.push(first);
            }
        }
        self.gathers = false;
        self.reads.pass_on(self.place);
    }

    /// The keys of all reads in the call, each once.
    pub(crate) fn keys(&self, own: &[Bytes]) -> Vec<Bytes> {
        if self.others.is_empty() {
            return own.to_vec();
        }
        let others = self.others.iter().flat_map(|other| &other.keys);
        let distinct: HashSet<&Bytes> = own.iter().chain(others).collect();
        distinct.into_iter().cloned().collect()
    }

    /// Gives each read its part of the answer, and returns the part for `own`.
    pub(crate) fn finish(
        mut self,
        own: &[Bytes],
        answer: Result<Read, SendError>,
    ) -> Result<Read, SendError> {
        if self.others.is_empty() {
            return answer;
        }
        for other in std::mem::take(&mut self.others) {
            let part = match &answer {
                Ok(read) => Ok(read.part(&other.keys)),
                // Time ran out for this read. Another one may have more.
                Err(SendError::Failed(ClientError::Unavailable(reason))) => {
                    Err(SendError::Unsent(reason.clone()))
                }
                Err(error) => Err(error.clone()),
            };
            // The caller may have stopped waiting.
            let _ = other.turn.send(Turn::Done(part));
        }
        answer.map(|read| read.part(own))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // If it was given up, the reads that it was to serve try again.
        if self.gathers {
            self.reads.pass_on(self.place);
        }
    }
}

#[cfg(test)]
mod tests;
