//! The queue service: queues, their messages, and who gets them.
//!
//! Typed in, typed out: no HTTP, no XML, no status. [`QueueService`] turns each verb into reads and
//! one conditional commit of the engine; `lazuli-layout` says what the stored bytes look like.
//!
//! # What must hold
//!
//! - A message lies under one key: the tick at which it becomes visible, and its id. Whoever gets,
//!   updates or deletes it commits on the condition that this key still holds what was read. So two
//!   consumers never get one message within its visibility, whatever this process believes.
//! - Every commit under a queue is guarded by its catalog record. A put that races the deletion or the
//!   clearing of its queue happens before it or finds it gone.
//! - Delete Queue and Clear Messages are one small commit, whatever the queue holds.
//! - Where this process alone writes, it remembers where the first message can be, and each deleted
//!   message is passed over at most once: see `dispenser.rs`. Where others write too, what it remembers
//!   is a hint: see `spread.rs`.

mod count;
mod counting;
mod deliver;
mod dispense;
mod dispenser;
mod error;
mod expire;
mod list;
mod messages;
mod meter;
mod open;
mod queues;
mod service;
mod spread;

pub use error::QueueError;
pub use lazuli_engine::Reclaimed;
pub use list::{ListEnd, ListQueues, QueueItem};
pub use messages::{PeekedMessage, PutMessage, ReceivedMessage, UpdatedMessage};
pub use queues::{Created, QueueInfo};
pub use service::{QueueService, Random};
