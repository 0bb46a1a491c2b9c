//! The engine on a TiKV cluster, which any number of processes share.
//!
//! The cluster is an ordered map of versions with optimistic transactions; its placement driver is
//! the clock. The engine reads at one of its timestamps, computes here, and commits on the condition
//! that nothing it relied on has changed since. `engine.rs` fulfils the contract, `commit.rs` turns a
//! commit into a transaction, `cluster.rs`, `read.rs`, `transaction.rs` and `locks.rs` speak
//! the protocol.
//!
//! The client is our own and narrow: [decision 012](../../../docs/decisions/012-tikv-client.md) says why.
//!
//! Invariants:
//! - Guards alone are read without a timestamp, which is exactly [`Timestamp::LATEST`](timestamp::Timestamp::LATEST).
//! - Async commit is never used, so what became of a transaction is what its primary key says.
//! - The answer to a prewrite or a commit is lost until proven otherwise: nothing is reported before
//!   the primary key has been asked.

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
