//! The commands, one module per noun. Each reads its arguments, calls the client, and prints.

pub(crate) mod blobs;
pub(crate) mod completions;
pub(crate) mod entities;
pub(crate) mod queues;
pub(crate) mod sas;
pub(crate) mod tables;
