//! The commands of the binary against the binary as a server: what they print, where, and how they end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod azurite;
mod connection;
mod entities;
mod examples;
mod feeds;
mod harness;
mod indexes;
mod interruption;
mod queues;
mod sas;
mod table_indexes;
mod tables;
mod transactions;
