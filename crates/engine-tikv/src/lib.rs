//! The engine on a TiKV cluster, which any number of processes share.
//!
//! The cluster is an ordered map of versions with optimistic transactions; its placement driver is
//! the clock. The engine reads at one of its timestamps, computes the writes itself, and commits on
//! the condition that nothing it relied on has changed. `engine.rs` implements the contract,
//! `commit.rs` turns a commit into a transaction, and `cluster.rs`, `read.rs`, `transaction.rs` and
//! `locks.rs` speak the protocol.
//!
//! We use our own, minimal client: [decision 012](../../../docs/decisions/012-tikv-client.md) says why.
//!
//! Invariants:
//! - Only guards are read without a timestamp, that is, at [`Timestamp::LATEST`](timestamp::Timestamp::LATEST).
//! - Async commit is never used, so a transaction's outcome is what its primary key says.
//! - The answer to a prewrite or a commit counts as lost until proven otherwise: nothing is reported
//!   before the primary key has been checked.

mod address;
mod chores;
mod cluster;
mod commit;
mod driver;
mod engine;
mod grpc;
mod locks;
mod oracle;
mod patience;
mod proto;
mod read;
mod region;
mod shared_read;
mod start;
mod timestamp;
mod tls;
mod transaction;
mod value;
mod view;

pub use address::{TikvAddress, TikvAddressError};
pub use engine::{TikvEngine, TikvOptions};
pub use start::{FORMAT_VERSION, OpenError, Opened};
