//! The queue into which one client puts messages together with entities. They stay in it.

use lazuli_testkit::acknowledged::{Name, Step};
use lazuli_testkit::queue::PEEK_MAX;

#[derive(Debug)]
pub(super) struct Outbox {
    queue: String,
    is_created: bool,
    sent: usize,
    is_over: bool,
}

impl Outbox {
    pub(super) fn new(client: usize) -> Self {
        let queue = format!("client{client}-outbox");
        Self { queue, is_created: false, sent: 0, is_over: false }
    }

    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// Whether the queue is full, or nobody knows whether it was created.
    pub(super) fn is_over(&self) -> bool {
        self.is_over || self.sent == PEEK_MAX
    }

    /// The name of the queue, which is asked for.
    pub(super) fn create(&mut self) -> String {
        self.is_created = true;
        self.queue.clone()
    }

    /// The mark of the next message; none before the queue was asked for.
    pub(super) fn next_mark(&mut self) -> Option<String> {
        self.sent += usize::from(self.is_created);
        self.is_created.then(|| self.sent.to_string())
    }

    /// Nothing that `step` names is touched any more.
    pub(super) fn freeze(&mut self, step: &Step) {
        self.is_over |= step.contains_key(&Name::queue(&self.queue));
    }
}
