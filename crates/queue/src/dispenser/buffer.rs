//! Messages in memory, and the memory that all queues share for them.

use super::Stored;
use crate::bounds::QueueBounds;
use lazuli_layout::Position;
use lazuli_layout::queue::StoredText;
use lazuli_model::Timestamp;
use lazuli_model::limits::MESSAGES_PER_GET_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory of a message in addition to its text and void receipts; map nodes are at worst half empty.
const ENTRY_BYTES: usize = 2 * size_of::<(Position, Stored)>();

/// The memory for buffered messages of all queues together.
#[derive(Debug, Default)]
pub(crate) struct BufferMemory {
    pub(crate) bounds: QueueBounds,
    bytes: AtomicUsize,
}

impl BufferMemory {
    pub(crate) fn new(bounds: QueueBounds) -> Self {
        Self { bounds, bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The messages of one queue that a scan found and no request took.
pub(super) struct Buffer {
    messages: BTreeMap<Position, Stored>,
    memory: Arc<BufferMemory>,
}

impl Buffer {
    pub(super) fn new(memory: Arc<BufferMemory>) -> Self {
        Self { messages: BTreeMap::new(), memory }
    }

    pub(super) fn first(&self) -> Option<Position> {
        self.messages.keys().next().copied()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are more messages than may stay; the rest is left to the next scan. Enough for
    /// one request always stays.
    pub(super) fn is_too_full(&self) -> bool {
        let QueueBounds { ready_bytes_max, ready_messages_max, .. } = self.memory.bounds;
        let is_out_of_memory = self.memory.bytes() > ready_bytes_max;
        let max = if is_out_of_memory { 0 } else { ready_messages_max };
        self.messages.len() > max.max(MESSAGES_PER_GET_MAX)
    }

    pub(super) fn insert(&mut self, position: Position, stored: Stored) {
        self.memory.bytes.fetch_add(weight(&stored), Ordering::Relaxed);
        if let Some(replaced) = self.messages.insert(position, stored) {
            self.gone(&replaced);
        }
    }

    pub(super) fn remove(&mut self, position: &Position) {
        if let Some(stored) = self.messages.remove(position) {
            self.gone(&stored);
        }
    }

    pub(super) fn clear(&mut self) {
        while self.pop_last().is_some() {}
    }

    pub(super) fn pop_last(&mut self) -> Option<Position> {
        let (position, stored) = self.messages.pop_last()?;
        self.gone(&stored);
        Some(position)
    }

    /// Takes the first message if it is visible at `now`.
    pub(super) fn pop_visible(&mut self, now: Timestamp) -> Option<(Position, Stored)> {
        let first = self.messages.first_entry().filter(|first| first.key().next_visible <= now)?;
        let (position, stored) = first.remove_entry();
        self.gone(&stored);
        Some((position, stored))
    }

    fn gone(&self, stored: &Stored) {
        self.memory.bytes.fetch_sub(weight(stored), Ordering::Relaxed);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.clear();
    }
}

fn weight(stored: &Stored) -> usize {
    let text = match &stored.record.text {
        StoredText::Inline(text) => text.as_str().len(),
        StoredText::Apart => 0,
    };
    ENTRY_BYTES + text + stored.record.voided.len() * size_of::<Timestamp>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::Revision;
    use lazuli_layout::queue::MessageRecord;
    use lazuli_model::{MessageId, MessageText};

    fn at(seconds: u64) -> Position {
        let next_visible = Timestamp::from_unix_seconds(seconds);
        Position { next_visible, id: MessageId::new(next_visible, 1) }
    }

    fn stored() -> Stored {
        let record = MessageRecord {
            inserted: Timestamp::MIN,
            expires: Timestamp::MAX,
            dequeue_count: 0,
            voided: Vec::new(),
            text: StoredText::Inline(MessageText::default()),
        };
        Stored { record, revision: Revision(1) }
    }

    /// O-7.1.
    #[test]
    fn a_queue_keeps_one_requests_worth_when_memory_is_short() {
        let ready_bytes_max = 100 * weight(&stored());
        let bounds = QueueBounds { ready_bytes_max, ..QueueBounds::default() };
        let memory = Arc::new(BufferMemory::new(bounds));
        let mut first = Buffer::new(memory.clone());
        (0..90).for_each(|place| first.insert(at(place), stored()));
        assert!(!first.is_too_full());
        let mut second = Buffer::new(memory.clone());
        (0..40).for_each(|place| second.insert(at(place), stored()));
        assert!(second.is_too_full(), "both together take more than there is");
        while second.is_too_full() {
            second.pop_last();
        }
        assert_eq!(second.len(), MESSAGES_PER_GET_MAX);
        assert_eq!(second.first(), Some(at(0)), "the first messages stay");
        drop(first);
        second.insert(at(0), stored());
        second.remove(&at(1));
        assert!(second.pop_visible(Timestamp::MIN).is_none());
        assert!(second.pop_visible(at(0).next_visible).is_some());
        drop(second);
        assert_eq!(memory.bytes(), 0, "all of it is given back");
    }
}
