//! Histories of one queue: what clients ask and get, what a queue should answer, and the checker that
//! compares the two.
//!
//! Clients name each message that they put by a number, its *mark*, which every text of the message
//! carries. So an answer says which message it shows, also where the answer to the put was lost.

pub mod checker;
pub mod client;
pub mod history;
pub mod http;
mod model;
pub mod record;
