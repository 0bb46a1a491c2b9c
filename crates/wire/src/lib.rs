//! The Azure Table and Queue protocols as pure functions, for server and client alike.
//!
//! Bytes in, typed values out, and back: URLs and key predicates, OData text, batch bodies, XML
//! documents, error bodies, strings to sign, shared access signatures. No sockets, no async, no
//! clock, no randomness: what a function needs it takes as an argument. Nothing here panics on any
//! input, and everything a client sends is bounded before it is kept.

pub mod connection_string;
pub mod continuation;
pub mod error_body;
pub mod error_code;
pub mod media;
pub mod multipart;
pub mod odata;
pub mod pop_receipt;
pub mod sas;
pub mod shared_key;
pub mod uri;
pub mod version;
mod words;
pub mod xml;
