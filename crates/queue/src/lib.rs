//! The queue service: queues, messages and delivery.
//!
//! A typed interface: no HTTP, no XML, no status. [`QueueService`] turns each verb into reads and
//! one conditional commit of the engine; `lazuli-layout` defines the stored bytes.
//!
//! # Invariants
//!
//! - A message is stored under one key: the tick at which it becomes visible, and its id. Get,
//!   update and delete commit on the condition that the value of this key is unchanged. So two
//!   consumers never get one message within its visibility timeout, whatever the in-memory state.
//! - The catalog record guards every commit to its queue. A put that races with the deletion or
//!   clearing of its queue happens before it or finds it gone.
//! - Delete Queue and Clear Messages are one small commit, whatever the size.
//! - A sole writer remembers where the first message can be, and skips each deleted message at most
//!   once: see `dispenser.rs`. With other writers this memory is a hint: see `spread.rs`.

mod bounds;
mod count;
mod counting;
mod deliver;
mod dispense;
mod dispenser;
mod error;
mod expire;
mod joined;
mod list;
mod messages;
mod meter;
mod open;
mod queues;
mod service;
mod spread;

pub use bounds::QueueBounds;
pub use error::QueueError;
pub use joined::{NewMessage, PutFailure};
pub use lazuli_engine::Reclaimed;
pub use list::{ListEnd, ListQueues, QueueItem};
pub use messages::{PeekedMessage, PutMessage, ReceivedMessage, UpdatedMessage};
pub use queues::{Created, QueueInfo};
pub use service::{QueueService, Random};
