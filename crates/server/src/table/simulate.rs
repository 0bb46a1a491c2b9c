//! Reproduces occasional behaviour of the service on demand, to test clients.
//!
//! Pages that end early, tables that are being deleted, the documented filter limit, and
//! throttling: each is off unless the operator enables it. Nothing here is stored.

use crate::error::{ApiError, ApiResult};
use crate::http::deletions::Deletions;
use lazuli_model::{AccountName, Filter, TableName, Timestamp};
use lazuli_table::TableError;
use lazuli_wire::error_code::{ErrorCode, message};
use std::collections::HashMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which of these behaviours are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulateOptions {
    /// Pages end early, and some are empty, at places chosen by this seed (T-4.53).
    pub early_pages: Option<u64>,
    /// A deleted table cannot be recreated for this many seconds (T-3.7).
    pub table_deletion_seconds: Option<NonZeroU64>,
    /// Filters with more comparisons are refused; the reference says 15 (T-4.26).
    pub filter_comparisons_max: Option<NonZeroU32>,
    /// More requests per second from one account are refused (T-11.3).
    pub account_rate_max: Option<NonZeroU32>,
    /// More entity operations per second on one partition are refused (T-11.3).
    pub partition_rate_max: Option<NonZeroU32>,
}

/// Maximum rows that an early page examines.
const EARLY_ROWS_MAX: u64 = 8;

/// The enabled behaviours and their state.
#[derive(Debug, Default)]
pub(crate) struct Simulator {
    options: SimulateOptions,
    pages: AtomicU64,
    deletions: Deletions,
    second: Mutex<Second>,
}

/// The requests of one second.
#[derive(Debug, Default)]
struct Second {
    began: u64,
    accounts: HashMap<AccountName, u32>,
    partitions: HashMap<(AccountName, Box<str>, Box<str>), u32>,
}

impl Simulator {
    pub(crate) fn new(options: SimulateOptions) -> Self {
        let deletions = Deletions::new(options.table_deletion_seconds);
        Self { options, deletions, ..Self::default() }
    }

    /// The rows that the next page may examine.
    ///
    /// Of two successive pages, at most one examines none, so a client that follows the tokens
    /// reaches the end.
    pub(crate) fn page_rows(&self) -> u64 {
        let Some(seed) = self.options.early_pages else { return u64::MAX };
        let page = self.pages.fetch_add(1, Ordering::Relaxed);
        match scramble(seed.wrapping_add(page)) % 4 {
            0 if page.is_multiple_of(2) => 0,
            0 | 1 => 1 + scramble(seed ^ page) % EARLY_ROWS_MAX,
            _ => u64::MAX,
        }
    }

    pub(crate) fn check_filter(&self, filter: &Filter) -> ApiResult<()> {
        match self.options.filter_comparisons_max {
            Some(max) if filter.comparisons() > max.get() as usize => {
                Err(ApiError::invalid_input(message::INPUT_NOT_VALID))
            }
            _ => Ok(()),
        }
    }

    /// Records that a table was deleted.
    pub(crate) fn table_deleted(&self, account: &AccountName, table: &TableName, now: Timestamp) {
        self.deletions.add(account, table.lower(), now);
    }

    /// Refuses to create a table that is being deleted.
    pub(crate) fn check_deleted(
        &self,
        account: &AccountName,
        table: &TableName,
        now: Timestamp,
    ) -> ApiResult<()> {
        match self.deletions.contains(account, table.lower(), now) {
            true => Err(TableError::TableBeingDeleted.into()),
            false => Ok(()),
        }
    }

    /// Counts a request, and refuses it above the limit.
    pub(crate) fn admit(&self, account: &AccountName, now: Timestamp) -> ApiResult<()> {
        let Some(max) = self.options.account_rate_max else { return Ok(()) };
        let mut second = self.second(now);
        let count = second.accounts.entry(account.clone()).or_default();
        match count.checked_add(1).filter(|count| *count <= max.get()) {
            Some(more) => {
                *count = more;
                Ok(())
            }
            None => Err(ApiError::with_text(ErrorCode::ServerBusy, message::OVER_ACCOUNT_LIMIT)),
        }
    }

    /// Counts entity operations on a partition, and refuses them above the limit. A transaction
    /// counts once per operation (T-11.2).
    pub(crate) fn admit_to_partition(
        &self,
        account: &AccountName,
        table: &TableName,
        partition: &str,
        operations: usize,
        now: Timestamp,
    ) -> ApiResult<()> {
        let Some(max) = self.options.partition_rate_max else { return Ok(()) };
        let mut second = self.second(now);
        let key = (account.clone(), table.lower().into(), partition.into());
        let count = second.partitions.entry(key).or_default();
        let more = u32::try_from(operations).ok().and_then(|more| count.checked_add(more));
        // One transaction always fits, or it would never succeed.
        match more.filter(|more| *more <= max.get() || *count == 0) {
            Some(more) => {
                *count = more;
                Ok(())
            }
            None => Err(ErrorCode::ServerBusy.into()),
        }
    }

    /// The counts of the current second; earlier ones are dropped.
    fn second(&self, now: Timestamp) -> std::sync::MutexGuard<'_, Second> {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if second.began != now.unix_seconds() {
            *second = Second { began: now.unix_seconds(), ..Second::default() };
        }
        second
    }
}

/// SplitMix64: turns consecutive numbers into pseudo-random ones.
const fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_in_a_row_are_never_both_without_rows() {
        for seed in 0..100 {
            let options = SimulateOptions { early_pages: Some(seed), ..Default::default() };
            let simulator = Simulator::new(options);
            let pages: Vec<u64> = (0..64).map(|_| simulator.page_rows()).collect();
            assert!(pages.windows(2).all(|pair| pair[0] > 0 || pair[1] > 0), "{seed}: {pages:?}");
            assert!(pages.contains(&0) && pages.contains(&u64::MAX), "{seed}: {pages:?}");
        }
    }

    #[test]
    fn a_seed_decides_where_pages_end() {
        let pages = |seed| {
            let options = SimulateOptions { early_pages: Some(seed), ..Default::default() };
            let simulator = Simulator::new(options);
            (0..16).map(|_| simulator.page_rows()).collect::<Vec<_>>()
        };
        assert_eq!(pages(7), pages(7));
        assert_ne!(pages(7), pages(8));
    }
}
