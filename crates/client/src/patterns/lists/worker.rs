//! Handles the notes that writers left.

use super::ListTable;
use super::note::{Note, kind};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::patterns::notes::{self, Settled};
use crate::queue::Queue;

/// Handles the notes of one type. Several may run concurrently.
#[derive(Clone, Debug)]
#[must_use = "a worker does nothing before `run`"]
pub struct ListWorker<T> {
    table: ListTable<T>,
    queue: Queue,
}

impl<T: TableEntity> ListTable<T> {
    /// The worker for the notes.
    pub fn worker(&self) -> Result<ListWorker<T>, Error> {
        let queue = self.queue.clone();
        let queue = queue.ok_or_else(|| Error::config("without notes there is no worker"))?;
        Ok(ListWorker { table: self.clone(), queue })
    }
}

impl<T: TableEntity> ListWorker<T> {
    /// Runs until `stop` completes.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        notes::run(&self.queue, self, stop).await
    }

    /// Handles all notes that are due, and returns how many there were.
    pub async fn run_until_idle(&self) -> Result<u64, Error> {
        notes::run_until_idle(&self.queue, self).await
    }
}

impl<T: TableEntity> notes::Settle for ListWorker<T> {
    async fn settle(&self, body: &[u8]) -> Result<Settled, Error> {
        match Note::parse::<T>(body) {
            Ok(note) if note.kind == kind::<T>() => {
                self.table.settle(&note).await.map(|()| Settled::Done)
            }
            Ok(_) => Ok(Settled::NotOurs),
            Err(reason) => Ok(Settled::NotANote(reason)),
        }
    }
}
