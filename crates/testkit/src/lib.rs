//! What the tests share: the engine suite, layers on engines, seeds, a server on a free port (the real binary, or one
//! in the test process), Azurite beside it, a signing client, the lost-write checker, and an issuer of bearer tokens.

#[cfg(feature = "acknowledged")]
pub mod acknowledged;
#[cfg(feature = "server")]
pub mod azurite;
pub mod engine_suite;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "issuer")]
pub mod issuer;
pub mod layer;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "acknowledged")]
pub mod queue;
pub mod seed;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "acknowledged")]
pub mod table;
