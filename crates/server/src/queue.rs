//! The Queue service over HTTP: its operations, their routes and their handlers.
//!
//! [`api::QueueApi`] is what the front runs; the rest of the folder is what it is made of.

pub(crate) mod api;
pub(crate) mod credentials;
mod error;
mod error_reply;
mod explain;
mod handlers;
mod messages;
mod operation;
mod parameters;
mod route;
