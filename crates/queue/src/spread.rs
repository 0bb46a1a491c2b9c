//! Delivery with other writers: the in-memory state is only a hint.
//!
//! Each Get reads a view, from slightly before the last known first message, and takes messages on
//! the condition that they are unchanged. Messages that were put late, or by a slower clock, lie up to
//! a minute further back. It looks for them once a second, and whenever it would otherwise say that
//! there are no more: an empty answer is exact. Only then does it pass over all messages that were
//! deleted in that minute.
//!
//! A single consumer takes the first ones, so it gets messages in order. After a conflict a consumer
//! picks at random from a window, and doubles the window with each conflict: then the order is
//! approximate, which the service allows.

use crate::deliver::{Undelivered, gather};
use crate::dispenser::Dispenser;
use crate::error::QueueError;
use crate::messages::{PeekedMessage, ReceivedMessage};
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Key, View};
use lazuli_layout::{Generation, Position, key};
use lazuli_model::{AccountName, QueueName, Timestamp, VisibilityTimeout};
use std::sync::Arc;

/// Maximum size of the window, in messages.
const WIDTH_MAX: usize = 256;
/// How far before the first message a scan begins that looks back, in seconds: longer than a commit
/// may take, and than the clock skew between two servers.
const LOOK_BACK_SECONDS: u64 = 60;
/// How far before the first message any other scan begins, in seconds, and how often one looks back:
/// so much later is a message found, while there are others, that was put late.
const LOOK_BACK_EVERY_SECONDS: u64 = 1;
/// How often a scan starts at the beginning, for messages that a recovered store restores.
const FULL_SCAN_SECONDS: u64 = 300;

impl QueueService {
    pub(crate) async fn try_to_spread(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
        visibility: VisibilityTimeout,
    ) -> Attempt<Result<Vec<ReceivedMessage>, QueueError>> {
        let spread = self.spread(account, name, max, visibility).await;
        Attempt::Done(match spread {
            Ok(received) => Ok(received),
            Err(Undelivered::Error(error)) => Err(error),
            Err(Undelivered::Stale(_) | Undelivered::QueueChanged | Undelivered::Conflict) => {
                return Attempt::Again;
            }
        })
    }

    async fn spread(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
        visibility: VisibilityTimeout,
    ) -> Result<Vec<ReceivedMessage>, Undelivered> {
        let view = self.store.engine.view().await?;
        let queue = self.open_in(&*view, account, name).await?;
        let dispenser = self.dispenser(queue.generation);
        let width = dispenser.hint().width;
        let mut taken = self.scan_from_hint(&*view, &dispenser, 1, max + width).await?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let room = taken.len().saturating_sub(max).min(width) as u64;
        let first = (self.random)() % (room + 1);
        taken.drain(..first as usize);
        taken.truncate(max);
        let delivered = self.deliver(&queue, &dispenser, &taken, visibility).await;
        dispenser.set_hint(|hint| match &delivered {
            Ok(_) => hint.width = hint.width.saturating_sub(1),
            Err(_) => hint.width = (2 * hint.width).clamp(max, WIDTH_MAX),
        });
        delivered
    }

    pub(crate) async fn try_to_peek_spread(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
    ) -> Attempt<Result<Vec<PeekedMessage>, QueueError>> {
        Attempt::Done(self.peek_spread(account, name, max).await)
    }

    async fn peek_spread(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
    ) -> Result<Vec<PeekedMessage>, QueueError> {
        let view = self.store.engine.view().await?;
        let queue = self.open_in(&*view, account, name).await?;
        let dispenser = self.dispenser(queue.generation);
        let mut taken = self.scan_from_hint(&*view, &dispenser, max, max).await?;
        taken.truncate(max);
        self.peeked(&*view, queue.generation, taken).await
    }

    /// The number of messages in a queue: as counted within the last second, plus the changes of
    /// this process since. Messages added during the count may be counted twice, so that the count
    /// is never lower than what this process knows.
    pub(crate) async fn count_spread(&self, generation: Generation) -> Result<u64, QueueError> {
        let dispenser = self.dispenser(generation);
        let now = dispenser.now(self.clock());
        match dispenser.hint().counted {
            Some((at, count)) if now >= at && now.millis_since(at) < 1_000 => Ok(count),
            _ => {
                let added = dispenser.hint().added;
                let view = self.store.engine.view().await?;
                let count = self.tally(&*view, generation, now).await?.live(now);
                dispenser.set_hint(|hint| {
                    let count = count + hint.added.saturating_sub(added);
                    hint.counted = Some((now, count));
                });
                Ok(count)
            }
        }
    }

    async fn open_in(
        &self,
        view: &dyn View,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<OpenQueue, QueueError> {
        let catalog = Key::from(key::queue::catalog(account, name));
        let found = view.get(catalog.as_slice()).await?.ok_or(QueueError::QueueNotFound)?;
        OpenQueue::new(catalog, &found)
    }

    /// The first visible messages of a view, and some after them. If it finds fewer than `needed`, there
    /// are no more.
    async fn scan_from_hint(
        &self,
        view: &dyn View,
        dispenser: &Arc<Dispenser>,
        needed: usize,
        wanted: usize,
    ) -> Result<Vec<crate::dispenser::Taken>, QueueError> {
        let clock = self.clock();
        let now = dispenser.now(clock);
        let hint = dispenser.hint();
        // The time of the queue stands still while a clock that was set back is behind it, so the clock counts.
        let was_ahead = clock < before(hint.looked_back, LOOK_BACK_EVERY_SECONDS);
        let is_full = was_ahead || clock >= hint.full_scan.plus_seconds(FULL_SCAN_SECONDS);
        let scan = async |start| {
            let start = Position::first_at(start);
            let range = key::queue::visible_range(dispenser.generation, start, now);
            Ok::<_, QueueError>(gather(view, range, now, wanted, wanted).await?.taken)
        };
        let is_due = clock < hint.looked_back
            || clock >= hint.looked_back.plus_seconds(LOOK_BACK_EVERY_SECONDS);
        let mut taken = Vec::new();
        let mut looks_back = is_full || is_due;
        if !looks_back {
            taken = scan(hint.first.min(before(clock, LOOK_BACK_EVERY_SECONDS))).await?;
            looks_back = taken.len() < needed;
        }
        if looks_back {
            taken = scan(if is_full { Timestamp::MIN } else { hint.start }).await?;
        }
        let first = taken.first().map_or(now, |taken| taken.position.next_visible);
        dispenser.set_hint(|hint| {
            hint.first = first;
            if looks_back {
                hint.start = first.min(before(clock, LOOK_BACK_SECONDS));
                hint.looked_back = clock;
            }
            if is_full {
                hint.full_scan = clock;
            }
        });
        Ok(taken)
    }
}

fn before(time: Timestamp, seconds: u64) -> Timestamp {
    let ticks = Timestamp::MIN.plus_seconds(seconds).ticks();
    Timestamp::from_ticks(time.ticks().saturating_sub(ticks)).unwrap_or(Timestamp::MIN)
}
