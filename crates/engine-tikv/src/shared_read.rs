//! Reads of newest values that begin at the same time share a call.
//!
//! Most of what such a read costs a gateway is the call around it: a message each way, and the tasks and
//! threads that wake for it. So the first read of a region lets the tasks run that are ready, and takes with it what
//! they want to read there. Nobody waits for a call of somebody else, and a read that is alone is sent as soon
//! as nothing else is ready to run. Each key is still read after its call and before its answer (K-2.2). Reads of
//! other regions are apart: one whose leader is lost delays nobody else.
//!
//! Nothing runs in the background: whoever gathers the others reads for them. If that one gives up, they try
//! again.

use crate::cluster::SendError;
use crate::read::{KEYS_PER_READ, Newest, Read};
use crate::region::Region;
use bytes::Bytes;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Reads that share a call, at most. Bounds how much one of them waits for the values of others.
pub(crate) const READS_MAX: usize = 16;

/// A region, the version of its bounds, and what is read there.
type Place = (u64, u64, Newest);

/// The reads that wait to be taken along. A place is here while somebody gathers.
#[derive(Default)]
pub(crate) struct SharedReads(Mutex<HashMap<Place, VecDeque<Waiting>>>);

struct Waiting {
    keys: Vec<Bytes>,
    turn: oneshot::Sender<Turn>,
}

/// What becomes of a read that waits.
pub(crate) enum Turn {
    /// It reads for itself, and for others.
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
    /// Those that this call reads for, beside the one who holds it.
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

    /// Lets the first of those who still wait at a place gather the others.
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
            // If it has gone away, the call is dropped here, which passes it on to the next.
            let _ = first.turn.send(Turn::Reads(self.call(place)));
        }
    }

    /// Nothing done under the lock can panic halfway.
    fn lines(&self) -> MutexGuard<'_, HashMap<Place, VecDeque<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Takes along those who wait. Whoever begins later is not part of it.
    pub(crate) fn gather(&mut self, own: &[Bytes]) {
        let mut keys = own.len();
        if let Some(line) = self.reads.lines().get_mut(&self.place) {
            while let Some(first) = line.pop_front() {
                // Whoever asked may have gone away.
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

    /// The keys of all for whom it reads, each once.
    pub(crate) fn keys(&self, own: &[Bytes]) -> Vec<Bytes> {
        if self.others.is_empty() {
            return own.to_vec();
        }
        let others = self.others.iter().flat_map(|other| &other.keys);
        let distinct: HashSet<&Bytes> = own.iter().chain(others).collect();
        distinct.into_iter().cloned().collect()
    }

    /// Gives everybody their part of the answer, and returns that of the reader of `own`.
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
                Err(error) => Err(error.clone()),
            };
            // Whoever asked may have gone away.
            let _ = other.turn.send(Turn::Done(part));
        }
        answer.map(|read| read.part(own))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // If it was given up, those whom it was to read for try again.
        if self.gathers {
            self.reads.pass_on(self.place);
        }
    }
}

#[cfg(test)]
mod tests;
