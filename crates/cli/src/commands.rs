//! The commands, one module per noun. Each reads its arguments, calls the client, and prints.

pub(crate) mod advise;
pub(crate) mod blobs;
pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod entities;
pub(crate) mod explain;
pub(crate) mod feed;
pub(crate) mod index;
pub(crate) mod queues;
pub(crate) mod rebuild;
pub(crate) mod sas;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod ttl;
pub(crate) mod verify;
