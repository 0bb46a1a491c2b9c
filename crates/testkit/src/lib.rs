//! What the tests share: the engine suite, histories of tables with indexes and feeds, layers on engines,
//! seeds, a server on a free port (the real binary, or one in the test process), Azurite for comparison, a
//! signing client, the lost-write checker, a proxy that breaks connections, an issuer of bearer tokens, the
//! resource use of processes, and the stores that engines run on.

#[cfg(feature = "acknowledged")]
pub mod acknowledged;
#[cfg(feature = "server")]
pub mod azurite;
pub mod engine_suite;
#[cfg(feature = "acknowledged")]
pub mod expiry;
#[cfg(feature = "tables")]
pub mod expiry_histories;
#[cfg(feature = "tables")]
pub mod feed_histories;
#[cfg(feature = "acknowledged")]
pub mod feeds;
#[cfg(feature = "server")]
pub mod held_store;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "tables")]
pub mod index_histories;
#[cfg(feature = "acknowledged")]
pub mod indexes;
#[cfg(feature = "issuer")]
pub mod issuer;
pub mod layer;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "tables")]
pub mod message_histories;
#[cfg(feature = "tables")]
mod moved_clock;
#[cfg(feature = "acknowledged")]
pub mod outbox;
pub mod processes;
#[cfg(feature = "acknowledged")]
pub mod queue;
pub mod seed;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "stores")]
pub mod stores;
#[cfg(feature = "acknowledged")]
pub mod table;
pub mod wire_cut;
