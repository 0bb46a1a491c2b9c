//! Metrics of messages.

use crate::messages::ReceivedMessage;
use crate::service::QueueService;
use lazuli_meter::{Counter, Family, PerLabel, Source, Value};

/// A message that was received this often is probably never deleted by its consumers.
const POISON_DEQUEUE_COUNT: u32 = 5;

lazuli_meter::label! {
    /// What happens to messages. Messages removed by Clear Messages or Delete Queue are not
    /// counted, because they are not read individually.
    pub(crate) enum Event {
        Put => "put",
        Received => "received",
        Deleted => "deleted",
        Expired => "expired",
        /// Received for the fifth time or more.
        Poison => "poison",
    }
}

#[derive(Default)]
pub(crate) struct MessageMeter(PerLabel<Event, Counter>);

impl MessageMeter {
    pub(crate) fn count(&self, event: Event, messages: usize) {
        self.0.of(event).add(messages as u64);
    }

    pub(crate) fn received(&self, messages: &[ReceivedMessage]) {
        self.count(Event::Received, messages.len());
        let is_poison = |got: &&ReceivedMessage| got.message.dequeue_count >= POISON_DEQUEUE_COUNT;
        self.count(Event::Poison, messages.iter().filter(is_poison).count());
    }
}

impl Source for QueueService {
    fn report(&self) -> Vec<Family> {
        let help = "What happened to messages";
        let memory = &self.dispensers.memory;
        let gauge = |bytes: usize| Value::Gauge(bytes as f64);
        let pool = |name, help, bytes: usize| {
            Family::new(name, help).with(vec![("pool", "messages".into())], &gauge(bytes))
        };
        vec![
            Family::by("lazuli_messages", help, "event", &self.meter.0),
            pool("lazuli_memory_bytes", "Memory in use", memory.bytes()),
            pool(
                "lazuli_memory_limit_bytes",
                "Memory that may be used",
                memory.bounds.ready_bytes_max,
            ),
        ]
    }
}
