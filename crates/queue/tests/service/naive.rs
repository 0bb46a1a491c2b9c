//! The simplest possible queue: a list of messages, searched from end to end.

use lazuli_model::{MessageId, PopReceipt, PutTimes, Timestamp, VisibilityTimeout};
use lazuli_queue::{PutMessage, ReceivedMessage};

#[derive(Clone, Debug)]
pub(crate) struct NaiveMessage {
    pub(crate) id: MessageId,
    pub(crate) expires: Timestamp,
    pub(crate) dequeue_count: u32,
    pub(crate) text: String,
    pub(crate) receipt: PopReceipt,
    /// Receipts that must never be valid again.
    pub(crate) void: Vec<PopReceipt>,
}

#[derive(Debug, Default)]
pub(crate) struct Naive {
    pub(crate) messages: Vec<NaiveMessage>,
    /// The last tick issued.
    pub(crate) last: u64,
}

fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks).unwrap()
}

impl Naive {
    pub(crate) fn now(&self, clock: Timestamp) -> Timestamp {
        clock.max(at(self.last))
    }

    pub(crate) fn tick(&mut self, clock: Timestamp) -> Timestamp {
        self.last = (self.last + 1).max(clock.ticks());
        at(self.last)
    }

    pub(crate) fn put(&mut self, clock: Timestamp, text: &str, times: PutTimes, put: &PutMessage) {
        let inserted = self.tick(clock);
        assert_eq!(put.inserted, inserted);
        assert_eq!(put.expires, times.time_to_live().end_after(inserted));
        let next_visible = times.visibility().end_after(inserted);
        assert_eq!(put.receipt, PopReceipt::of_get(next_visible));
        assert!(self.messages.iter().all(|message| message.id != put.id));
        self.messages.push(NaiveMessage {
            id: put.id,
            expires: put.expires,
            dequeue_count: 0,
            text: text.to_owned(),
            receipt: put.receipt,
            void: Vec::new(),
        });
    }

    /// The first messages that are visible, in order.
    pub(crate) fn visible(&self, clock: Timestamp, max: usize) -> Vec<&NaiveMessage> {
        let now = self.now(clock);
        let mut visible: Vec<_> = self.messages.iter().collect();
        visible.retain(|message| message.receipt.next_visible <= now && message.expires > now);
        visible.sort_by_key(|message| (message.receipt.next_visible, message.id));
        visible.truncate(max);
        visible
    }

    pub(crate) fn got(
        &mut self,
        clock: Timestamp,
        max: usize,
        visibility: VisibilityTimeout,
        received: &[ReceivedMessage],
    ) {
        let expect = self.visible(clock, max).into_iter().cloned().collect::<Vec<_>>();
        let ids: Vec<_> = received.iter().map(|got| got.message.id).collect();
        assert_eq!(ids, expect.iter().map(|message| message.id).collect::<Vec<_>>());
        if received.is_empty() {
            return;
        }
        let next_visible = visibility.end_after(self.tick(clock));
        for (mut message, got) in expect.into_iter().zip(received) {
            assert_eq!(got.receipt, received[0].receipt, "messages of one get share a receipt");
            message.dequeue_count += 1;
            assert_eq!(got.message.dequeue_count, message.dequeue_count);
            assert_eq!(got.message.text.as_str(), message.text);
            assert_eq!(got.message.expires, message.expires);
            self.replace(message, next_visible, got.receipt);
        }
    }

    /// Gives a message a new receipt, at about the expected time.
    pub(crate) fn replace(
        &mut self,
        mut message: NaiveMessage,
        next_visible: Timestamp,
        receipt: PopReceipt,
    ) {
        let late = receipt.next_visible.ticks() - next_visible.ticks();
        assert!(late < 64, "{late} ticks late");
        message.void.push(message.receipt);
        let was = |void: &PopReceipt| void.next_visible == receipt.next_visible;
        assert!(!message.void.iter().any(was), "a void receipt was given again");
        message.receipt = receipt;
        let place = self.messages.iter_mut().find(|m| m.id == message.id).unwrap();
        *place = message;
    }

    /// The message that an id and a receipt name.
    pub(crate) fn held(
        &self,
        clock: Timestamp,
        id: MessageId,
        receipt: PopReceipt,
    ) -> Option<&NaiveMessage> {
        let now = self.now(clock);
        let is_held = |message: &&NaiveMessage| {
            message.id == id
                && message.receipt.next_visible == receipt.next_visible
                && message.expires > now
        };
        self.messages.iter().find(is_held)
    }

    pub(crate) fn remove(&mut self, id: MessageId) {
        self.messages.retain(|message| message.id != id);
    }

    /// The lowest and the highest allowed count: messages count until their hundredth of a second is over.
    pub(crate) fn counts(&self, clock: Timestamp) -> std::ops::RangeInclusive<u64> {
        let now = self.now(clock);
        let live = self.messages.iter().filter(|message| message.expires > now).count();
        let most = self.messages.iter();
        let most = most.filter(|m| m.expires.ticks() / 100_000 >= now.ticks() / 100_000).count();
        live as u64..=most as u64
    }
}
