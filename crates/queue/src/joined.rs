//! Messages that are put in a commit of another service.

use crate::error::QueueError;
use crate::messages::{Prepared, PutMessage};
use crate::meter::Event;
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::{Commit, CommitError, Revision};
use lazuli_model::{AccountName, MessageText, PutTimes, QueueName};
use std::collections::BTreeMap;

/// A message to put.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub queue: QueueName,
    pub text: MessageText,
    pub times: PutTimes,
}

/// Why messages and the rest of their commit were not committed.
#[derive(Debug)]
pub enum PutFailure {
    /// The message with this index cannot be put.
    Message(usize, QueueError),
    Commit(CommitError),
}

impl QueueService {
    /// Adds messages to `commit`, guarded by their queues, and commits it once, without a retry.
    pub async fn put_with(
        &self,
        account: &AccountName,
        messages: &[NewMessage],
        mut commit: Commit,
    ) -> Result<(Revision, Vec<PutMessage>), PutFailure> {
        let mut opened = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let queue = self.open(account, &message.queue).await;
            opened.push(queue.map_err(|error| PutFailure::Message(index, error))?);
        }
        let queues: BTreeMap<_, &OpenQueue> =
            opened.iter().map(|queue| (queue.generation, queue)).collect();
        let dispensers: BTreeMap<_, _> =
            queues.keys().map(|generation| (*generation, self.dispenser(*generation))).collect();
        // In one global order: two transactions that wait for each other's gates would wait forever.
        let mut gates = Vec::with_capacity(dispensers.len());
        for dispenser in dispensers.values() {
            gates.push(dispenser.gate.read().await);
        }
        commit.guards.extend(queues.values().map(|queue| queue.lives.clone()));
        let (mut puts, mut sendings, mut first) = (Vec::new(), Vec::new(), None);
        for (message, queue) in messages.iter().zip(&opened) {
            let Some(dispenser) = dispensers.get(&queue.generation) else { continue };
            let Prepared { put, stored, writes, sending } =
                self.prepare(dispenser, queue.generation, &message.text, message.times);
            puts.push(put);
            sendings.push(sending);
            commit.writes.extend(writes);
            first.get_or_insert(stored);
        }
        let outcome = self.store.engine.commit(commit).await;
        sendings.into_iter().for_each(|sending| sending.ended(&outcome));
        let revision = match (outcome, first) {
            (Ok(revision), _) => revision,
            // No other message has this key: if it exists, the whole commit happened.
            (Err(error @ CommitError::Undetermined(_)), Some(stored)) => {
                match self.store.read_one(&stored).await {
                    Ok(Some(found)) => found.revision,
                    _ => return Err(PutFailure::Commit(error)),
                }
            }
            (Err(error), _) => {
                queues.values().for_each(|queue| self.forget(queue));
                return Err(PutFailure::Commit(error));
            }
        };
        self.meter.count(Event::Put, puts.len());
        Ok((revision, puts))
    }
}
