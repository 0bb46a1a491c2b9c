//! Options that reproduce occasional behaviour of Azure, to test clients.

use clap::Args;
use lazuli_server::SimulateOptions;
use std::num::{NonZeroU32, NonZeroU64};

/// Behaviour of Azure that clients must handle; see docs/configuration.md.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Testing clients")]
pub(crate) struct SimulateArguments {
    /// End query pages early, some of them empty, at places chosen by SEED
    #[arg(long, value_name = "SEED")]
    pub(crate) early_pages: Option<u64>,

    /// Refuse to recreate a table for this long after its deletion; Azure takes about 40
    #[arg(long, value_name = "SECONDS")]
    pub(crate) table_deletion_seconds: Option<NonZeroU64>,

    /// Refuse to recreate a queue for this long after its deletion; Azure takes 30 or more
    #[arg(long, value_name = "SECONDS")]
    pub(crate) queue_deletion_seconds: Option<NonZeroU64>,

    /// Refuse filters with more than N comparisons; Azure documents 15
    #[arg(long, value_name = "N")]
    pub(crate) filter_comparisons_max: Option<NonZeroU32>,

    /// Return `ServerBusy` for requests of one account beyond N per second; Azure documents 20000
    #[arg(long, value_name = "N")]
    pub(crate) account_rate_max: Option<NonZeroU32>,

    /// Return `ServerBusy` for entity operations on one partition beyond N per second; Azure
    /// documents 2000
    #[arg(long, value_name = "N")]
    pub(crate) partition_rate_max: Option<NonZeroU32>,
}

impl SimulateArguments {
    pub(crate) fn options(self) -> SimulateOptions {
        let options = SimulateOptions {
            early_pages: self.early_pages,
            table_deletion_seconds: self.table_deletion_seconds,
            filter_comparisons_max: self.filter_comparisons_max,
            account_rate_max: self.account_rate_max,
            partition_rate_max: self.partition_rate_max,
        };
        if options != SimulateOptions::default() {
            tracing::warn!(?options, "SIMULATING AZURE FAILURES; use this only to test a client");
        }
        options
    }

    /// The time for which the name of a deleted queue cannot be used.
    pub(crate) fn queue_deletion(self) -> Option<NonZeroU64> {
        let seconds = self.queue_deletion_seconds;
        if let Some(queue_deletion_seconds) = seconds {
            tracing::warn!(
                queue_deletion_seconds,
                "SIMULATING AZURE FAILURES; use this only to test a client"
            );
        }
        seconds
    }
}
