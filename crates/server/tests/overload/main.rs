//! Every bound of the server, driven to its limit. A request beyond a bound gets `ServerBusy` and
//! `Retry-After`, it has no effect, and all other requests are served as before.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod bounds;
mod queues;
mod server;
mod slow;
