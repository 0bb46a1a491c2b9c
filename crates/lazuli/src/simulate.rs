//! Options that make the server show the occasional behaviour of the cloud, for tests of clients.

use clap::Args;
use lazuli_server::SimulateOptions;
use std::num::{NonZeroU32, NonZeroU64};

/// Behaviour of the cloud that clients must cope with; see docs/configuration.md.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Tests of clients")]
pub(crate) struct SimulateArguments {
    /// End pages of queries early, some of them empty, at places that SEED determines
    #[arg(long, value_name = "SEED")]
    pub(crate) early_pages: Option<u64>,

    /// Refuse to create a table for this long after its deletion; the cloud takes about 40
    #[arg(long, value_name = "SECONDS")]
    pub(crate) table_deletion_seconds: Option<NonZeroU64>,

    /// Refuse filters with more than N comparisons; the cloud documents 15
    #[arg(long, value_name = "N")]
    pub(crate) filter_comparisons_max: Option<NonZeroU32>,

    /// Answer `ServerBusy` to requests of one account beyond N in a second; the cloud documents 20000
    #[arg(long, value_name = "N")]
    pub(crate) account_rate_max: Option<NonZeroU32>,

    /// Answer `ServerBusy` to operations on entities of one partition beyond N in a second; the cloud
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
            tracing::warn!(
                ?options,
                "FAILURES OF THE CLOUD ARE SIMULATED; use this only to test a client"
            );
        }
        options
    }
}
