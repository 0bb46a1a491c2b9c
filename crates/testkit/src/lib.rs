//! What the tests share: the engine suite, seeds, a server on a free port, and a client that signs.

pub mod engine_suite;
#[cfg(feature = "server")]
pub mod http;
pub mod seed;
#[cfg(feature = "server")]
pub mod server;
