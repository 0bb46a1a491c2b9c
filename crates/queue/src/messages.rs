//! Puts, updates and deletes messages.

use crate::count::Delta;
use crate::deliver::{free_tick, revoid};
use crate::dispenser::{Dispenser, Sending, Stored};
use crate::error::QueueError;
use crate::meter::Event;
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Revision, Write};
use lazuli_layout::queue::{MessageRecord, StoredText, encode_text};
use lazuli_layout::{Generation, Position, key};
use lazuli_model::{
    AccountName, MessageId, MessageText, PopReceipt, PutTimes, QueueName, Timestamp,
    VisibilityTimeout,
};
use lazuli_service::StoreError;
use std::sync::Arc;

/// The result of Put Message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutMessage {
    pub id: MessageId,
    pub inserted: Timestamp,
    /// [`Timestamp::MAX`] for a message that does not expire.
    pub expires: Timestamp,
    pub receipt: PopReceipt,
}

/// A message as Peek Messages returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedMessage {
    pub id: MessageId,
    pub inserted: Timestamp,
    /// [`Timestamp::MAX`] for a message that does not expire.
    pub expires: Timestamp,
    pub dequeue_count: u32,
    pub text: MessageText,
}

/// A message as Get Messages returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub message: PeekedMessage,
    pub receipt: PopReceipt,
}

/// The result of Update Message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatedMessage {
    pub receipt: PopReceipt,
}

/// A message that is about to be put.
pub(crate) struct Prepared {
    pub(crate) put: PutMessage,
    /// Its key.
    pub(crate) stored: Key,
    pub(crate) writes: Vec<Write>,
    pub(crate) sending: Sending,
}

/// A message found by its receipt.
struct Held {
    queue: OpenQueue,
    dispenser: Arc<Dispenser>,
    position: Position,
    stored: Stored,
}

impl QueueService {
    /// Put Message.
    pub async fn put_message(
        &self,
        account: &AccountName,
        queue: &QueueName,
        text: &MessageText,
        times: PutTimes,
    ) -> Result<PutMessage, QueueError> {
        let put = self.retry(|| self.try_to_put(account, queue, text, times)).await?;
        self.meter.count(Event::Put, 1);
        Ok(put)
    }

    async fn try_to_put(
        &self,
        account: &AccountName,
        name: &QueueName,
        text: &MessageText,
        times: PutTimes,
    ) -> Attempt<Result<PutMessage, QueueError>> {
        let queue = match self.open(account, name).await {
            Ok(queue) => queue,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let dispenser = self.dispenser(queue.generation);
        let _counted = dispenser.gate.read().await;
        let Prepared { put, stored, writes, sending } =
            self.prepare(&dispenser, queue.generation, text, times);
        let guards = vec![queue.lives.clone()];
        let commit = Commit { guards, ..Commit::new(self.store.now(), writes) };
        let outcome = self.store.engine.commit(commit).await;
        sending.ended(&outcome);
        match outcome {
            Ok(_) => Attempt::Done(Ok(put)),
            // No other message has this key: if it exists, it was put.
            Err(CommitError::Undetermined(_)) => match self.store.read_one(&stored).await {
                Ok(Some(_)) => Attempt::Done(Ok(put)),
                _ => Attempt::Done(Err(StoreError::Undetermined.into())),
            },
            Err(error) => self.after_failure(&queue, error),
        }
    }

    /// A new message, about to be sent to its queue, whose gate has been passed.
    pub(crate) fn prepare(
        &self,
        dispenser: &Arc<Dispenser>,
        generation: Generation,
        text: &MessageText,
        times: PutTimes,
    ) -> Prepared {
        let inserted = dispenser.tick(self.clock());
        let id = MessageId::new(inserted, (self.random)());
        let position = Position { next_visible: times.visibility().end_after(inserted), id };
        let record = MessageRecord {
            inserted,
            expires: times.time_to_live().end_after(inserted),
            dequeue_count: 0,
            voided: Vec::new(),
            text: StoredText::of(text),
        };
        let put = PutMessage {
            id,
            inserted,
            expires: record.expires,
            receipt: PopReceipt::of_get(position.next_visible),
        };
        let stored = Key::from(key::queue::message(generation, position));
        let mut writes = vec![Write::Put(stored.clone(), record.encode().into())];
        writes.extend(text_apart(generation, id, &record.text, text));
        let delta = Delta::Added(record.expires);
        let sending = self.sending(dispenser, vec![(position, record)], Some(delta));
        Prepared { put, stored, writes, sending }
    }

    /// Update Message: makes a message invisible for `visibility`, and replaces its text if one is
    /// given.
    pub async fn update_message(
        &self,
        account: &AccountName,
        queue: &QueueName,
        (id, receipt): (MessageId, PopReceipt),
        visibility: VisibilityTimeout,
        text: Option<&MessageText>,
    ) -> Result<UpdatedMessage, QueueError> {
        let attempt = || self.try_to_update(account, queue, (id, receipt), visibility, text);
        self.retry(attempt).await
    }

    async fn try_to_update(
        &self,
        account: &AccountName,
        name: &QueueName,
        (id, receipt): (MessageId, PopReceipt),
        visibility: VisibilityTimeout,
        text: Option<&MessageText>,
    ) -> Attempt<Result<UpdatedMessage, QueueError>> {
        let held = match self.find_held(account, name, id, receipt).await {
            Ok(held) => held,
            Err(attempt) => return attempt.map_done(),
        };
        let Held { queue, dispenser, position, stored } = held;
        let base = dispenser.tick(self.clock());
        let next_visible = free_tick(visibility.end_after(base), [(position, &stored.record)]);
        if next_visible > stored.record.expires {
            return Attempt::Done(Err(QueueError::VisibilityPastExpiry));
        }
        let generation = queue.generation;
        let mut record = revoid(stored.record.clone(), position, base);
        let mut writes = Vec::new();
        if let Some(text) = text {
            let was_apart = record.text == StoredText::Apart;
            record.text = StoredText::of(text);
            match text_apart(generation, id, &record.text, text) {
                Some(put) => writes.push(put),
                None if was_apart => writes.push(delete_text(generation, id)),
                None => {}
            }
        }
        let moved = Position { next_visible, id };
        writes.push(Write::Delete(key::queue::message(generation, position).into()));
        let value = record.encode().into();
        writes.push(Write::Put(key::queue::message(generation, moved).into(), value));
        let receipt = PopReceipt::of_update(next_visible, record.dequeue_count);
        let sending = self.sending(&dispenser, vec![(moved, record)], None);
        let commit = self.commit_of(&queue, position, stored.revision, writes);
        let outcome = self.store.engine.commit(commit).await;
        sending.ended(&outcome);
        match outcome {
            Ok(_) => {
                dispenser.left(position);
                Attempt::Done(Ok(UpdatedMessage { receipt }))
            }
            Err(error) => self.after_failure(&queue, error),
        }
    }

    /// Delete Message.
    pub async fn delete_message(
        &self,
        account: &AccountName,
        queue: &QueueName,
        id: MessageId,
        receipt: PopReceipt,
    ) -> Result<(), QueueError> {
        self.retry(|| self.try_to_delete(account, queue, id, receipt)).await?;
        self.meter.count(Event::Deleted, 1);
        Ok(())
    }

    async fn try_to_delete(
        &self,
        account: &AccountName,
        name: &QueueName,
        id: MessageId,
        receipt: PopReceipt,
    ) -> Attempt<Result<(), QueueError>> {
        let held = match self.find_held(account, name, id, receipt).await {
            Ok(held) => held,
            Err(attempt) => return attempt.map_done(),
        };
        let Held { queue, dispenser, position, stored } = held;
        let _counted = dispenser.gate.read().await;
        let key = Key::from(key::queue::message(queue.generation, position));
        let mut writes = vec![Write::Delete(key.clone())];
        if stored.record.text == StoredText::Apart {
            writes.push(delete_text(queue.generation, id));
        }
        let delta = Delta::Removed(stored.record.expires);
        let sending = self.sending(&dispenser, Vec::new(), Some(delta));
        let commit = self.commit_of(&queue, position, stored.revision, writes);
        let not_before = commit.not_before;
        let outcome = self.store.engine.commit(commit).await;
        sending.ended(&outcome);
        match outcome {
            Ok(_) => {
                dispenser.left(position);
                Attempt::Done(Ok(()))
            }
            // The message is unchanged: nothing happened, and a retry is safe.
            Err(CommitError::Undetermined(_))
                if self.store.did_not_happen(not_before, &[key]).await =>
            {
                Attempt::Again
            }
            Err(error) => self.after_failure(&queue, error),
        }
    }

    /// Finds the message that an id and a receipt name. One read returns both it and its queue.
    async fn find_held(
        &self,
        account: &AccountName,
        name: &QueueName,
        id: MessageId,
        receipt: PopReceipt,
    ) -> Result<Held, NotHeld> {
        let queue = self.open(account, name).await?;
        let position = Position { next_visible: receipt.next_visible, id };
        let key = Key::from(key::queue::message(queue.generation, position));
        let keys = [queue.lives.key.clone(), key];
        let found = self.store.engine.read(&keys).await?;
        let (catalog, message) = match <[_; 2]>::try_from(found) {
            Ok([catalog, message]) => (catalog, message),
            Err(_) => return Err(NotHeld::Again),
        };
        if !queue.is_proven_by(catalog.as_ref()) {
            self.forget(&queue);
            return Err(NotHeld::Again);
        }
        let found = message.ok_or(QueueError::MessageNotFound)?;
        let record = MessageRecord::decode(&found.value)?;
        let dispenser = self.dispenser(queue.generation);
        let is_expired = record.expires <= dispenser.now(self.clock());
        let is_other_count = receipt.dequeue_count.is_some_and(|n| n != record.dequeue_count);
        if is_expired || is_other_count {
            return Err(QueueError::MessageNotFound.into());
        }
        let stored = Stored { record, revision: found.revision };
        Ok(Held { queue, dispenser, position, stored })
    }

    /// A commit on the condition that the message at `position` is unchanged.
    fn commit_of(
        &self,
        queue: &OpenQueue,
        position: Position,
        revision: Revision,
        writes: Vec<Write>,
    ) -> Commit {
        let key = key::queue::message(queue.generation, position).into();
        Commit {
            guards: vec![queue.lives.clone()],
            checks: vec![Check { key, expect: Expect::At(revision) }],
            ..Commit::new(self.store.now(), writes)
        }
    }

    /// What to do after a failed commit: look again if something has changed.
    pub(crate) fn after_failure<T>(
        &self,
        queue: &OpenQueue,
        error: CommitError,
    ) -> Attempt<Result<T, QueueError>> {
        match error {
            CommitError::GuardFailed { .. } => {
                self.forget(queue);
                Attempt::Again
            }
            CommitError::CheckFailed { .. } | CommitError::Conflict => Attempt::Again,
            error => Attempt::Done(Err(error.into())),
        }
    }
}

/// Why a message was not found by its receipt.
enum NotHeld {
    /// The cached queue was outdated.
    Again,
    Error(QueueError),
}

impl NotHeld {
    fn map_done<T>(self) -> Attempt<Result<T, QueueError>> {
        match self {
            Self::Again => Attempt::Again,
            Self::Error(error) => Attempt::Done(Err(error)),
        }
    }
}

impl<E: Into<QueueError>> From<E> for NotHeld {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// The write of a separately stored text.
fn text_apart(
    generation: Generation,
    id: MessageId,
    stored: &StoredText,
    text: &MessageText,
) -> Option<Write> {
    let key = || key::queue::text(generation, id).into();
    (*stored == StoredText::Apart).then(|| Write::Put(key(), encode_text(text).into()))
}

pub(crate) fn delete_text(generation: Generation, id: MessageId) -> Write {
    Write::Delete(key::queue::text(generation, id).into())
}
