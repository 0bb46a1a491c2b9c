//! What every service shares: listener, TLS, limits, bodies, answers, ids, deadlines, CORS.

pub(crate) mod analytics;
pub(crate) mod answer_memory;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod error;
pub(crate) mod front;
pub(crate) mod listen;
pub(crate) mod memory;
pub(crate) mod profile;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_headers;
pub(crate) mod request_id;
pub(crate) mod respond;
pub(crate) mod simulate;
pub(crate) mod stall;
pub(crate) mod target;
pub(crate) mod tls;
