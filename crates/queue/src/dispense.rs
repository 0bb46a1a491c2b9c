//! Delivery if this process is the only writer: messages come from the queue's [`Dispenser`], so
//! that consumers of one queue neither scan the same messages nor conflict in a commit.

use crate::deliver::{SCAN_ROWS_MAX, Undelivered, gather};
use crate::dispenser::{Claim, Dispenser, Stored};
use crate::error::QueueError;
use crate::messages::{PeekedMessage, ReceivedMessage};
use crate::open::OpenQueue;
use crate::service::QueueService;
use lazuli_engine::Key;
use lazuli_engine::retry::Attempt;
use lazuli_layout::key;
use lazuli_layout::queue::MessageRecord;
use lazuli_model::{AccountName, QueueName, Timestamp, VisibilityTimeout};
use std::sync::Arc;

impl QueueService {
    pub(crate) async fn try_to_dispense(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
        visibility: VisibilityTimeout,
    ) -> Attempt<Result<Vec<ReceivedMessage>, QueueError>> {
        let queue = match self.open(account, name).await {
            Ok(queue) => queue,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let dispenser = self.dispenser(queue.generation);
        let mut claim = match self.claim(&dispenser, max).await {
            Ok(claim) => claim,
            Err(error) => return Attempt::Done(Err(error)),
        };
        if claim.taken().is_empty() {
            return self.empty_if_it_lives(&queue).await;
        }
        loop {
            match self.deliver(&queue, &dispenser, claim.taken(), visibility).await {
                Ok(received) => {
                    claim.delivered();
                    return Attempt::Done(Ok(received));
                }
                Err(Undelivered::Stale(index)) => claim.forget(index),
                Err(Undelivered::QueueChanged) => {
                    self.forget(&queue);
                    return Attempt::Again;
                }
                Err(Undelivered::Conflict) => return Attempt::Again,
                Err(Undelivered::Error(error)) => return Attempt::Done(Err(error)),
            }
            if claim.taken().is_empty() {
                return Attempt::Again;
            }
        }
    }

    pub(crate) async fn try_to_peek_dispensed(
        &self,
        account: &AccountName,
        name: &QueueName,
        max: usize,
    ) -> Attempt<Result<Vec<PeekedMessage>, QueueError>> {
        let queue = match self.open(account, name).await {
            Ok(queue) => queue,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let dispenser = self.dispenser(queue.generation);
        let peeked = self.peek_from_floor(&queue, &dispenser, max).await;
        match peeked {
            Ok(Some(peeked)) => Attempt::Done(Ok(peeked)),
            Ok(None) => {
                self.forget(&queue);
                Attempt::Again
            }
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// `None` if the queue has changed.
    async fn peek_from_floor(
        &self,
        queue: &OpenQueue,
        dispenser: &Arc<Dispenser>,
        max: usize,
    ) -> Result<Option<Vec<PeekedMessage>>, QueueError> {
        self.settle_doubts(dispenser).await?;
        // Take the floor before opening the view: messages that move later are ahead of it.
        let floor = dispenser.floor();
        let view = self.store.engine.view().await?;
        let record = view.get(queue.lives.key.as_slice()).await?;
        if !queue.is_proven_by(record.as_ref()) {
            return Ok(None);
        }
        let now = dispenser.now(self.clock());
        let range = key::queue::visible_range(queue.generation, floor, now);
        let mut taken = gather(&*view, range, now, max, max).await?.taken;
        taken.truncate(max);
        Ok(Some(self.peeked(&*view, queue.generation, taken).await?))
    }

    /// Returns no messages if the queue still exists. Then it also existed when none was found: its
    /// record has not changed in between.
    async fn empty_if_it_lives<T: Default>(
        &self,
        queue: &OpenQueue,
    ) -> Attempt<Result<T, QueueError>> {
        match self.lives(queue).await {
            Ok(true) => Attempt::Done(Ok(T::default())),
            Ok(false) => Attempt::Again,
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Claims up to `max` messages, after a scan if the buffer has too few.
    async fn claim(&self, dispenser: &Arc<Dispenser>, max: usize) -> Result<Claim, QueueError> {
        let now = dispenser.now(self.clock());
        let mut claim = dispenser.claim(max, now);
        if claim.taken().len() < max {
            let _turn = dispenser.refilling.lock().await;
            let now = dispenser.now(self.clock());
            // Another request may have scanned since.
            claim.top_up(max, now);
            // Scan again if others have claimed what a scan found: there may be more after it.
            while claim.taken().len() < max && self.refill(dispenser, &mut claim, max, now).await? {
            }
        }
        Ok(claim)
    }

    /// Continues the scan from the cursor until it finds as many messages as `claim` lacks, or all that
    /// are visible. Returns whether there may be more.
    async fn refill(
        &self,
        dispenser: &Dispenser,
        claim: &mut Claim,
        max: usize,
        now: Timestamp,
    ) -> Result<bool, QueueError> {
        self.settle_doubts(dispenser).await?;
        let refill = dispenser.begin_refill(now);
        let range = key::queue::visible_range(dispenser.generation, refill.start, refill.now);
        if range.start >= range.end || dispenser.is_empty(now) {
            return Ok(!refill.finish(Vec::new(), None, claim, max));
        }
        let view = self.store.engine.view().await?;
        let wanted = max.saturating_sub(claim.taken().len());
        let gathered = gather(&*view, range, now, wanted, SCAN_ROWS_MAX).await?;
        let is_valid = refill.finish(gathered.taken, gathered.reached, claim, max);
        Ok(!is_valid || gathered.reached.is_some())
    }

    /// Looks up messages in doubt.
    async fn settle_doubts(&self, dispenser: &Dispenser) -> Result<(), QueueError> {
        let clock = self.clock();
        let doubts = dispenser.doubts_to_look_up(clock);
        if doubts.is_empty() {
            return Ok(());
        }
        let key = |position| Key::from(key::queue::message(dispenser.generation, position));
        let keys: Vec<Key> = doubts.iter().map(|position| key(*position)).collect();
        let found = self.store.engine.read(&keys).await?;
        for (position, found) in doubts.into_iter().zip(found) {
            let stored = match found {
                None => None,
                Some(found) => {
                    let record = MessageRecord::decode(&found.value)?;
                    Some(Stored { record, revision: found.revision })
                }
            };
            dispenser.looked_up(position, stored, clock);
        }
        Ok(())
    }
}
