//! The flags that make the server behave as the service does now and then, for tests of clients.

use clap::Args;
use lazuli_server::SimulateOptions;
use serde::Deserialize;
use std::num::{NonZeroU32, NonZeroU64};

/// Behaviours of the service that clients must bear; see docs/configuration.md.
#[derive(Args, Clone, Copy, Debug, Default, Deserialize)]
#[command(next_help_heading = "Tests of clients")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SimulateArguments {
    /// End pages of queries early, some of them empty, at places that SEED decides
    #[arg(long, value_name = "SEED", env = "LAZULI_EARLY_PAGES")]
    pub(crate) early_pages: Option<u64>,

    /// Refuse to create a table for so long after it was deleted; the service takes about 40
    #[arg(long, value_name = "SECONDS", env = "LAZULI_TABLE_DELETION_SECONDS")]
    pub(crate) table_deletion_seconds: Option<NonZeroU64>,

    /// Refuse filters with more comparisons; the service documents 15
    #[arg(long, value_name = "N", env = "LAZULI_FILTER_COMPARISONS_MAX")]
    pub(crate) filter_comparisons_max: Option<NonZeroU32>,

    /// Answer `ServerBusy` to more requests of one account in a second; the service documents 20000
    #[arg(long, value_name = "N", env = "LAZULI_ACCOUNT_RATE_MAX")]
    pub(crate) account_rate_max: Option<NonZeroU32>,

    /// Answer `ServerBusy` to more operations on entities of one partition in a second; the service
    /// documents 2000
    #[arg(long, value_name = "N", env = "LAZULI_PARTITION_RATE_MAX")]
    pub(crate) partition_rate_max: Option<NonZeroU32>,
}

impl SimulateArguments {
    /// What is said here wins over what `file` says.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            early_pages: self.early_pages.or(file.early_pages),
            table_deletion_seconds: self.table_deletion_seconds.or(file.table_deletion_seconds),
            filter_comparisons_max: self.filter_comparisons_max.or(file.filter_comparisons_max),
            account_rate_max: self.account_rate_max.or(file.account_rate_max),
            partition_rate_max: self.partition_rate_max.or(file.partition_rate_max),
        }
    }

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
                "THE TROUBLES OF THE SERVICE ARE SIMULATED; use this only to test a client"
            );
        }
        options
    }
}
