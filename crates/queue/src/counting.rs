//! Counts the messages of a queue: once by a scan, then incrementally.

use crate::count::Tally;
use crate::error::QueueError;
use crate::service::QueueService;
use lazuli_engine::retry::give_way;
use lazuli_engine::{ScanEnd, View, Visit};
use lazuli_layout::queue::MessageRecord;
use lazuli_layout::{Generation, key};
use lazuli_model::Timestamp;
use lazuli_service::{Rows, key_range, step};

impl QueueService {
    /// The number of messages in a queue, visible or not, without expired ones.
    pub(crate) async fn count(&self, generation: Generation) -> Result<u64, QueueError> {
        if !self.only_we_write() {
            return self.count_spread(generation).await;
        }
        let dispenser = self.dispenser(generation);
        let now = dispenser.now(self.clock());
        if let Some(count) = dispenser.known_count(now) {
            return Ok(count);
        }
        let _turn = dispenser.counting.lock().await;
        let now = dispenser.now(self.clock());
        if let Some(count) = dispenser.known_count(now) {
            return Ok(count);
        }
        // While the gate is held, no commit that changes the count is pending: each is in the view,
        // or is recorded.
        let (load, view) = {
            let _all = dispenser.gate.write().await;
            (dispenser.begin_count(self.clock()), self.store.engine.view().await?)
        };
        let tally = self.tally(&*view, generation, now).await?;
        Ok(load.finish(tally, dispenser.now(self.clock())))
    }

    /// Counts the messages of a view that are not expired at `now`.
    pub(crate) async fn tally(
        &self,
        view: &dyn View,
        generation: Generation,
        now: Timestamp,
    ) -> Result<Tally, QueueError> {
        let mut tally = Tally::default();
        let mut next = Some(key_range(key::queue::message_range(generation)));
        while let Some(range) = next.take() {
            let mut visit = |_: &[u8], value: &[u8], _| {
                let expires = MessageRecord::decode_expires(value)?;
                // Same rule as in the tally: a removal is reported for each counted message.
                if Tally::counts(expires, now) {
                    tally.add(expires);
                }
                Ok(Visit::Continue)
            };
            let rows = Rows::at_most(usize::MAX);
            if let ScanEnd::More(rest) = step(view, range, rows, &mut visit).await? {
                next = Some(rest);
                give_way().await;
            }
        }
        Ok(tally)
    }
}
