//! [`QueueBounds`].

/// How much a [`QueueService`](crate::QueueService) keeps in memory (O-7.1). Fewer cost more reads, never a
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Bytes of the messages that are kept ready for delivery, all queues together. One request's
    /// worth of each queue stays in any case.
    pub ready_bytes_max: usize,
    /// Messages of one queue that are kept ready for delivery.
    pub ready_messages_max: usize,
    /// Queues whose records are cached; beyond it the cache is cleared.
    pub known_queues_max: usize,
    /// Queues whose first messages and count are remembered. Beyond it, idle ones are forgotten, the
    /// least recently used first.
    pub active_queues_max: usize,
    /// Messages of one queue that a commit of unknown outcome may have written. With more, the next
    /// scan begins at the oldest.
    pub doubts_max: usize,
    /// Changes of one queue while its messages are counted. With more, the count is not kept, and
    /// the next request counts again.
    pub count_changes_max: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self {
            ready_bytes_max: 64 * 1024 * 1024,
            ready_messages_max: 1024,
            known_queues_max: 4096,
            active_queues_max: 1024,
            doubts_max: 4096,
            count_changes_max: 1 << 20,
        }
    }
}
