//! Get Messages and Peek Messages: the part that both ways of finding messages share.

use crate::dispenser::{Dispenser, Stored, Taken, next_tick};
use crate::error::QueueError;
use crate::messages::{PeekedMessage, ReceivedMessage};
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, ScanEnd, View, Visit, Write};
use lazuli_layout::queue::{MessageRecord, StoredText, VOIDED_MAX, decode_text};
use lazuli_layout::{CorruptRecord, Generation, Position, key};
use lazuli_model::limits::MESSAGES_PER_GET_MAX;
use lazuli_model::{AccountName, MessageText, PopReceipt, QueueName, Timestamp, VisibilityTimeout};
use lazuli_service::{Rows, key_range, step};
use std::ops::Range;
use std::sync::Arc;

/// Maximum messages per scan step.
pub(crate) const SCAN_ROWS_MAX: usize = 128;

/// Why messages were not delivered.
pub(crate) enum Undelivered {
    /// This message has changed since it was read.
    Stale(usize),
    /// The queue has changed since it was opened.
    QueueChanged,
    /// A conflict with another commit.
    Conflict,
    Error(QueueError),
}

impl<E: Into<QueueError>> From<E> for Undelivered {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl QueueService {
    /// Get Messages: up to `max` visible messages, which become invisible for `visibility`.
    pub async fn get_messages(
        &self,
        account: &AccountName,
        queue: &QueueName,
        max: usize,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let max = max.min(MESSAGES_PER_GET_MAX);
        match self.only_we_write() {
            true => self.retry(|| self.try_to_dispense(account, queue, max, visibility)).await,
            false => self.retry(|| self.try_to_spread(account, queue, max, visibility)).await,
        }
    }

    /// Peek Messages: up to `max` visible messages, which stay unchanged.
    pub async fn peek_messages(
        &self,
        account: &AccountName,
        queue: &QueueName,
        max: usize,
    ) -> Result<Vec<PeekedMessage>, QueueError> {
        let max = max.min(MESSAGES_PER_GET_MAX);
        match self.only_we_write() {
            true => self.retry(|| self.try_to_peek_dispensed(account, queue, max)).await,
            false => self.retry(|| self.try_to_peek_spread(account, queue, max)).await,
        }
    }

    /// Moves messages to their new visibility time, if none has changed since it was read.
    pub(crate) async fn deliver(
        &self,
        queue: &OpenQueue,
        dispenser: &Arc<Dispenser>,
        taken: &[Taken],
        visibility: VisibilityTimeout,
    ) -> Result<Vec<ReceivedMessage>, Undelivered> {
        let generation = queue.generation;
        let texts = self.load_texts(generation, taken).await?;
        let base = dispenser.tick(self.clock());
        let records = taken.iter().map(|taken| (taken.position, &taken.stored.record));
        let next_visible = free_tick(visibility.end_after(base), records);
        let mut commit = Commit::new(self.store.now(), Vec::with_capacity(2 * taken.len()));
        commit.guards.push(queue.lives.clone());
        let (mut written, mut received) = (Vec::new(), Vec::new());
        for (Taken { position, stored }, text) in taken.iter().zip(texts) {
            let mut record = revoid(stored.record.clone(), *position, base);
            record.dequeue_count = record.dequeue_count.saturating_add(1);
            let moved = Position { next_visible, id: position.id };
            let old = Key::from(key::queue::message(generation, *position));
            let expect = Expect::At(stored.revision);
            commit.checks.push(Check { key: old.clone(), expect });
            commit.writes.push(Write::Delete(old));
            let value = record.encode().into();
            commit.writes.push(Write::Put(key::queue::message(generation, moved).into(), value));
            let message = peeked(moved, &record, text);
            received.push(ReceivedMessage { message, receipt: PopReceipt::of_get(next_visible) });
            written.push((moved, record));
        }
        let sending = self.sending(dispenser, written, None);
        let outcome = self.store.engine.commit(commit).await;
        sending.ended(&outcome);
        match outcome {
            Ok(_) => {
                self.meter.received(&received);
                Ok(received)
            }
            Err(CommitError::CheckFailed { index, .. }) => Err(Undelivered::Stale(index)),
            Err(CommitError::GuardFailed { .. }) => Err(Undelivered::QueueChanged),
            Err(CommitError::Conflict) => Err(Undelivered::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// The texts of messages; separately stored ones take one read. Each change of a message
    /// changes its revision, so the check of the commit covers the text too.
    async fn load_texts(
        &self,
        generation: Generation,
        taken: &[Taken],
    ) -> Result<Vec<MessageText>, Undelivered> {
        let is_apart = |taken: &Taken| taken.stored.record.text == StoredText::Apart;
        let key_of = |taken: &Taken| Key::from(key::queue::text(generation, taken.position.id));
        let apart: Vec<Key> = taken.iter().filter(|taken| is_apart(taken)).map(key_of).collect();
        let mut found = match apart.is_empty() {
            true => Vec::new(),
            false => self.store.engine.read(&apart).await?,
        }
        .into_iter();
        let mut texts = Vec::with_capacity(taken.len());
        for (index, taken) in taken.iter().enumerate() {
            texts.push(match &taken.stored.record.text {
                StoredText::Inline(text) => text.clone(),
                StoredText::Apart => match found.next().flatten() {
                    Some(found) => decode_text(&found.value)?,
                    None => return Err(self.without_text(generation, index, taken).await),
                },
            });
        }
        Ok(texts)
    }

    /// A message without its text was changed since, or is corrupt.
    async fn without_text(
        &self,
        generation: Generation,
        index: usize,
        taken: &Taken,
    ) -> Undelivered {
        let key = key::queue::message(generation, taken.position).into();
        match self.store.read_one(&key).await {
            Ok(Some(found)) if found.revision == taken.stored.revision => {
                CorruptRecord("message without its text").into()
            }
            Ok(_) => Undelivered::Stale(index),
            Err(error) => error.into(),
        }
    }

    /// Messages of a view as Peek Messages returns them.
    pub(crate) async fn peeked(
        &self,
        view: &dyn View,
        generation: Generation,
        taken: Vec<Taken>,
    ) -> Result<Vec<PeekedMessage>, QueueError> {
        let mut messages = Vec::with_capacity(taken.len());
        for Taken { position, stored } in taken {
            let text = match &stored.record.text {
                StoredText::Inline(text) => text.clone(),
                StoredText::Apart => {
                    let found = view.get(&key::queue::text(generation, position.id)).await?;
                    let found = found.ok_or(CorruptRecord("message without its text"))?;
                    decode_text(&found.value)?
                }
            };
            messages.push(peeked(position, &stored.record, text));
        }
        Ok(messages)
    }
}

fn peeked(position: Position, record: &MessageRecord, text: MessageText) -> PeekedMessage {
    PeekedMessage {
        id: position.id,
        inserted: record.inserted,
        expires: record.expires,
        dequeue_count: record.dequeue_count,
        text,
    }
}

/// The result of a scan for visible messages, and where to continue.
pub(crate) struct Gathered {
    pub(crate) taken: Vec<Taken>,
    /// The position after the last message examined; `None` at the end of the range.
    pub(crate) reached: Option<Position>,
}

/// Collects unexpired messages from `range` at `now`, until it has `wanted` or there are no more. The
/// first step reads `rows` messages, so there may be more than `wanted`.
pub(crate) async fn gather(
    view: &dyn View,
    range: Range<Vec<u8>>,
    now: Timestamp,
    wanted: usize,
    mut rows: usize,
) -> Result<Gathered, QueueError> {
    let mut taken = Vec::new();
    let mut last = None;
    let mut next = Some(key_range(range));
    while let Some(range) = next.take() {
        let mut visit = |key: &[u8], value: &[u8], revision| {
            let (_, position) = key::queue::decode_message(key)?;
            last = Some(position);
            if MessageRecord::decode_expires(value)? > now {
                let stored = Stored { record: MessageRecord::decode(value)?, revision };
                taken.push(Taken { position, stored });
            }
            Ok(Visit::Continue)
        };
        let step = step(view, range, Rows::at_most(rows), &mut visit);
        if let ScanEnd::More(rest) = step.await? {
            next = Some(rest);
        }
        rows = SCAN_ROWS_MAX;
        if taken.len() >= wanted {
            break;
        }
        if next.is_some() {
            lazuli_engine::retry::give_way().await;
        }
    }
    let reached = next.and(last).map(Position::next);
    Ok(Gathered { taken, reached })
}

/// `tick`, or the first later tick that none of the messages has or had: a receipt names a message by its
/// tick, so an old receipt must not become valid again.
pub(crate) fn free_tick<'r>(
    mut tick: Timestamp,
    messages: impl IntoIterator<Item = (Position, &'r MessageRecord)> + Clone,
) -> Timestamp {
    let is_used = |tick: Timestamp| {
        let mut messages = messages.clone().into_iter();
        messages.any(|(position, record)| {
            position.next_visible == tick || record.voided.contains(&tick)
        })
    };
    while tick < Timestamp::MAX && is_used(tick) {
        tick = next_tick(tick);
    }
    tick
}

/// How far a clock may step back while the server is stopped, or lag behind another server's,
/// without reissuing a void receipt, in seconds.
const CLOCK_ERROR_SECONDS: u64 = 60;

/// The record of a message that leaves `position` at `now`. It records void receipts whose tick may
/// recur: those in the future or the recent past.
pub(crate) fn revoid(
    mut record: MessageRecord,
    position: Position,
    now: Timestamp,
) -> MessageRecord {
    record.voided.push(position.next_visible);
    record.voided.retain(|voided| voided.plus_seconds(CLOCK_ERROR_SECONDS) > now);
    if record.voided.len() > VOIDED_MAX {
        // The earliest is the first that can no longer recur.
        record.voided.sort_unstable();
        record.voided.remove(0);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_model::MessageId;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    fn position(seconds: u64) -> Position {
        Position { next_visible: at(seconds), id: MessageId::new(at(0), 1) }
    }

    fn record(voided: Vec<Timestamp>) -> MessageRecord {
        let text = StoredText::Inline(MessageText::default());
        MessageRecord { inserted: at(0), expires: Timestamp::MAX, dequeue_count: 0, voided, text }
    }

    #[test]
    fn a_tick_that_a_message_had_is_not_given_again() {
        let had = record(vec![at(30), next_tick(at(30))]);
        assert_eq!(free_tick(at(30), [(position(9), &had)]), next_tick(next_tick(at(30))));
        assert_eq!(free_tick(at(9), [(position(9), &had)]), next_tick(at(9)));
        assert_eq!(free_tick(at(8), [(position(9), &had)]), at(8));
        assert_eq!(free_tick(Timestamp::MAX, [(position(9), &had)]), Timestamp::MAX);
    }

    #[test]
    fn a_message_remembers_the_receipts_that_may_come_up_again() {
        let moved = revoid(record(vec![at(10), at(90)]), position(100), at(80));
        assert_eq!(moved.voided, [at(90), at(100)]);
        let mut many = record(Vec::new());
        for seconds in 0..20 {
            many = revoid(many, position(100 + seconds), at(0));
        }
        assert_eq!(many.voided, (112..120).map(at).collect::<Vec<_>>());
    }
}
