//! The Table service over HTTP: its operations, their routes and their handlers.
//!
//! The front runs [`api::TableApi`], as `service` says; the other modules are its parts.

pub(crate) mod advice;
pub(crate) mod api;
mod asked;
pub(crate) mod auto_index;
mod batch;
mod batch_answer;
mod call;
mod changes;
mod counting;
pub(crate) mod credentials;
mod encode;
mod error;
mod error_reply;
mod explain;
mod faults;
mod feed_settings;
mod handlers;
mod index_settings;
mod index_upkeep;
mod mutations;
mod operation;
mod plan_json;
pub(crate) mod prices;
mod queries;
pub(crate) mod query_log;
mod query_options;
mod request;
mod route;
mod selections;
mod service;
mod settings;
pub(crate) mod simulate;
pub(crate) mod snapshots;
mod table_settings;
mod ttl_settings;
mod waiters;
