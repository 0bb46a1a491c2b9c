//! Deletes expired messages, a few at a time, in all queues in turn.
//!
//! No operation returns an expired message, so this only frees space, and nothing waits for it.

use crate::count::Delta;
use crate::error::QueueError;
use crate::messages::delete_text;
use crate::meter::Event;
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Found, Key, KeyRange, Reclaimed, Revision, ScanEnd, View,
    Visit, Write,
};
use lazuli_layout::queue::{MessageRecord, StoredText};
use lazuli_layout::{Generation, Position, key};
use lazuli_model::Timestamp;
use lazuli_service::{Rows, key_range, step};

/// Maximum messages examined per step.
const STEP_ROWS_MAX: usize = 1024;

/// The progress of a round.
#[derive(Default)]
pub(crate) struct Sweep {
    /// The catalog keys of the remaining queues of this round.
    queues: Option<KeyRange>,
    /// The remaining messages of the first of them, if it was started.
    messages: Option<(Generation, KeyRange)>,
}

struct Expired {
    position: Position,
    record: MessageRecord,
    revision: Revision,
}

impl QueueService {
    /// Examines some messages and deletes the expired ones. Returns [`Reclaimed::Fully`] at the end
    /// of a round, and [`Reclaimed::Partly`] before.
    pub async fn expire_some(&self) -> Result<Reclaimed, QueueError> {
        let Ok(mut sweep) = self.sweep.try_lock() else { return Ok(Reclaimed::Fully) };
        let view = self.store.engine.view().await?;
        let queues = sweep.queues.clone().unwrap_or_else(|| key_range(key::queue::catalogs()));
        let Some(queue) = first_queue(&*view, queues.clone()).await? else {
            *sweep = Sweep::default();
            return Ok(Reclaimed::Fully);
        };
        let messages = match sweep.messages.take() {
            Some((generation, rest)) if generation == queue.generation => rest,
            _ => key_range(key::queue::message_range(queue.generation)),
        };
        let now = self.clock();
        let (expired, rest) = gather_expired(&*view, messages, now).await?;
        self.delete_expired(&queue, expired).await?;
        let catalog = queue.lives.key.as_slice();
        *sweep = match rest {
            Some(rest) => Sweep {
                queues: Some(KeyRange::new(catalog, queues.end)),
                messages: Some((queue.generation, rest)),
            },
            None => {
                let after = [catalog, &[0]].concat();
                Sweep { queues: Some(KeyRange::new(after, queues.end)), messages: None }
            }
        };
        Ok(Reclaimed::Partly)
    }

    async fn delete_expired(
        &self,
        queue: &OpenQueue,
        expired: Vec<Expired>,
    ) -> Result<(), QueueError> {
        if expired.is_empty() {
            return Ok(());
        }
        // A count that is loaded later does not include them.
        let dispenser = self.dispensers.existing(queue.generation);
        let _counted = match &dispenser {
            Some(dispenser) => Some(dispenser.gate.read().await),
            None => None,
        };
        let mut commit = Commit::new(self.store.now(), Vec::new());
        commit.guards.push(queue.lives.clone());
        for Expired { position, record, revision } in &expired {
            let key = Key::from(key::queue::message(queue.generation, *position));
            commit.checks.push(Check { key: key.clone(), expect: Expect::At(*revision) });
            commit.writes.push(Write::Delete(key));
            if record.text == StoredText::Apart {
                commit.writes.push(delete_text(queue.generation, position.id));
            }
        }
        match self.store.engine.commit(commit).await {
            Ok(_) => {
                self.meter.count(Event::Expired, expired.len());
                for Expired { position, record, .. } in expired {
                    if let Some(dispenser) = &dispenser {
                        dispenser.left(position);
                        dispenser.counted(Delta::Removed(record.expires));
                    }
                }
                Ok(())
            }
            // Another process won, or the queue is gone: the next round finds the rest.
            Err(
                CommitError::GuardFailed { .. }
                | CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn first_queue(view: &dyn View, queues: KeyRange) -> Result<Option<OpenQueue>, QueueError> {
    let mut first = None;
    let mut visit = |key: &[u8], value: &[u8], revision| {
        first = Some((key.to_vec(), Found { value: value.to_vec().into(), revision }));
        Ok(Visit::StopBefore)
    };
    step(view, queues, Rows::at_most(1), &mut visit).await?;
    first.map(|(catalog, found)| OpenQueue::new(catalog.into(), &found)).transpose()
}

/// The expired messages in the next part of `range`, and the rest of the range.
async fn gather_expired(
    view: &dyn View,
    range: KeyRange,
    now: Timestamp,
) -> Result<(Vec<Expired>, Option<KeyRange>), QueueError> {
    let mut expired = Vec::new();
    let mut visit = |key: &[u8], value: &[u8], revision| {
        if MessageRecord::decode_expires(value)? <= now {
            let (_, position) = key::queue::decode_message(key)?;
            expired.push(Expired { position, record: MessageRecord::decode(value)?, revision });
        }
        Ok(Visit::Continue)
    };
    let rows = Rows::at_most(STEP_ROWS_MAX);
    let rest = match step(view, range, rows, &mut visit).await? {
        ScanEnd::More(rest) => Some(rest),
        ScanEnd::Done | ScanEnd::Stopped => None,
    };
    Ok((expired, rest))
}
