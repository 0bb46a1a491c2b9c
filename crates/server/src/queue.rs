//! The Queue service over HTTP: its operations, their routes and their handlers.
//!
//! The front runs [`api::QueueApi`]; the other modules are its parts.

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
