//! [`QueueBounds`].

/// How much a [`QueueService`](crate::QueueService) keeps in memory (O-7.1). Lower bounds cost more reads,
/// never a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Maximum bytes of messages kept ready for delivery, all queues together. Each queue may always keep
    /// enough for one request.
    pub ready_bytes_max: usize,
    /// Maximum messages of one queue that are kept ready for delivery.
    pub ready_messages_max: usize,
    /// Maximum queues whose records are cached; beyond it the cache is cleared.
    pub known_queues_max: usize,
    /// Maximum queues whose first messages and count are remembered. Beyond it, idle ones are forgotten,
    /// least recently used first.
    pub active_queues_max: usize,
    /// Maximum messages of one queue that commits of unknown outcome may have written. With more, the next
    /// scan begins at the oldest.
    pub doubts_max: usize,
    /// Maximum changes of one queue while its messages are counted. With more, the count is not kept, and
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
