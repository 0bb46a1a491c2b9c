//! The Table service over HTTP: its operations, their routes and their handlers.
//!
//! The front runs [`api::TableApi`]; the other modules are its parts.

pub(crate) mod api;
mod batch;
mod batch_answer;
pub(crate) mod credentials;
mod encode;
mod error;
mod error_reply;
mod explain;
mod faults;
mod handlers;
mod mutations;
mod operation;
mod request;
mod route;
mod settings;
pub(crate) mod simulate;
