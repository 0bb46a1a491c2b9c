//! Logs in blobs (P-14): delimited text in blobs whose names contain the time, in the format of Storage Analytics.
//!
//! ```no_run
//! # use lazuli_client::prelude::*;
//! # use lazuli_client::patterns::blob_log::{BlobLog, LogLine};
//! # async fn run(account: Account, from: Timestamp, to: Timestamp) -> Result<(), Error> {
//! let log = BlobLog::new(&account, "applogs", "queue")?;
//! log.write(["Error", "the disk is full"]);                       // buffers, and returns at once
//! log.write(["Info", "the disk has room"]).durable().await?;      // waits until it is stored
//! let mut lines = log.read(from..to);
//! while let Some(LogLine { at, fields, .. }) = lines.try_next().await? { println!("{at} {fields:?}"); }
//! # Ok(())
//! # }
//! ```
//!
//! A blob belongs to one hour and one writer. If the process dies, lines that are buffered and not yet stored are
//! lost: at most 30 s or 1 MiB while [`BlobLog::run`] runs.

mod buffer;
mod line;
mod name;
#[cfg(test)]
mod orders;
mod reader;
mod writer;

pub use buffer::{BlobLog, BlobLogWriter, Buffered};
pub use line::LogLine;
pub use reader::LogReader;
