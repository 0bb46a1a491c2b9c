//! Histories of one queue: the requests of clients, the responses, how a queue should respond, and
//! the checker that compares the two.
//!
//! Clients give each message that they put a number, its *mark*, which every text of the message
//! contains. So a response shows which message it returns, even if the response to the put was lost.

pub mod checker;
pub mod client;
pub mod history;
pub mod http;
mod model;
pub mod record;
