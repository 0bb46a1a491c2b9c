//! Every bound of the server, driven to its limit. A request beyond it gets `ServerBusy` and
//! `Retry-After`, nothing of it is done, and all other requests are served as before.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod bounds;
mod queues;
mod server;
mod slow;
