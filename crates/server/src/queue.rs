//! The Queue service over HTTP: its operations, their routes and their handlers.
//!
//! The front runs [`api::QueueApi`], as `service` says; the other modules are its parts.

pub(crate) mod api;
pub(crate) mod credentials;
mod error;
mod error_reply;
mod explain;
mod handlers;
pub(crate) mod messages;
mod operation;
pub(crate) mod parameters;
mod route;
mod service;
mod token;
