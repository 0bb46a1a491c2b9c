//! Every bound of the server, driven to its limit. Who comes beyond it is answered `ServerBusy` and
//! told when to come again, nothing of what was refused is done, and all others are served as ever.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod bounds;
mod server;
mod slow;
