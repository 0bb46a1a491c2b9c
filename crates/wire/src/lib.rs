//! The Azure Table and Queue protocols as pure functions, for server and client alike.
//!
//! Converts between bytes and typed values: URLs and key predicates, OData text, batch bodies, XML
//! documents, error bodies, strings to sign, shared access signatures. No sockets, no async, no
//! clock, no randomness: these come as arguments. No input causes a panic, and everything a client
//! sends is bounded before it is stored.

mod base64;
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
