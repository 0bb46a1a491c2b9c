//! The worker for the notes of large values.

use super::note::Note;
use super::table::LargeValues;
use crate::error::Error;
use crate::patterns::notes::{self, Settled};
use crate::queue::Queue;

/// Deletes blobs that are no longer referred to. Several may run concurrently.
#[derive(Clone, Debug)]
#[must_use = "a worker does nothing before `run`"]
pub struct LargeWorker {
    pub(super) how: LargeValues,
    pub(super) queue: Queue,
}

impl LargeWorker {
    /// Runs until `stop` completes.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        notes::run(&self.queue, self, stop).await
    }

    /// Handles all notes that are due, and returns how many there were.
    pub async fn run_until_idle(&self) -> Result<u64, Error> {
        notes::run_until_idle(&self.queue, self).await
    }
}

impl notes::Settle for LargeWorker {
    async fn settle(&self, body: &[u8]) -> Result<Settled, Error> {
        let note = match Note::parse(body) {
            Ok(note) => note,
            Err(reason) => return Ok(Settled::NotANote(reason)),
        };
        let store = self.how.store();
        self.how.protocol(&store).settle(&note).await.map(|()| Settled::Done)
    }
}
