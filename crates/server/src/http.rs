//! What all services share: listener, TLS, limits, bodies, responses, ids, deadlines, CORS,
//! analytics.
//!
//! [`front::Front`] runs one service through the trait [`service::Service`].

pub(crate) mod access_log;
pub(crate) mod analytics;
pub(crate) mod answer_memory;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod deletions;
pub(crate) mod disk_guard;
pub(crate) mod extensions;
pub(crate) mod front;
pub(crate) mod guarded;
pub(crate) mod header_case;
pub(crate) mod listen;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod peer;
pub(crate) mod profile;
pub(crate) mod properties;
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod respond;
pub(crate) mod service;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod stall;
pub(crate) mod target;
pub(crate) mod tls;
pub(crate) mod trailer;
pub(crate) mod unread;
pub(crate) mod version;
