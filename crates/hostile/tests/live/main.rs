//! A live server under attack: it neither panics nor stops serving others.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod attacks;
mod continuations;
mod queues;
mod server;
