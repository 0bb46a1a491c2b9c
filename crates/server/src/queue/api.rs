//! The Queue service over HTTP: its options and its parts.

use crate::analytics::Analytics;
use crate::error::ApiResult;
use crate::http::deletions::Deletions;
use crate::http::shared::Shared;
use lazuli_model::AccountName;
use lazuli_model::metrics::MeteredService;
use lazuli_queue::QueueService;
use lazuli_table::TableService;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Options of the Queue service, in addition to those that all services share.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// Names under which the account is the first label of the host, such as `queue.localhost`.
    pub host_suffixes: Vec<String>,
    /// A deleted queue cannot be recreated for this many seconds.
    pub deletion_seconds: Option<NonZeroU64>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            host_suffixes: vec!["queue.localhost".to_owned(), "queue.core.windows.net".to_owned()],
            deletion_seconds: None,
        }
    }
}

/// The Queue service over HTTP.
pub struct QueueApi {
    pub(crate) queues: QueueService,
    pub(crate) deletions: Deletions,
    pub(super) host_suffixes: Vec<String>,
    pub(super) analytics: Arc<Analytics>,
    user_delegation: bool,
}

impl QueueApi {
    /// A service of these queues; `tables` stores its analytics counts.
    pub fn new(
        shared: &Shared,
        queues: QueueService,
        tables: TableService,
        options: QueueOptions,
    ) -> Self {
        let source = queues.clone();
        let read = move |account: AccountName| {
            let source = source.clone();
            async move { Ok(source.service_properties(&account).await?) }
        };
        Self {
            analytics: Arc::new(Analytics::new(shared, tables, MeteredService::Queue, read)),
            queues,
            deletions: Deletions::new(options.deletion_seconds),
            host_suffixes: options.host_suffixes,
            user_delegation: shared.options.auth.user_delegation,
        }
    }

    /// The counted requests, and the tables that store the counts.
    pub fn analytics(&self) -> Arc<Analytics> {
        self.analytics.clone()
    }

    /// Makes changed properties effective.
    pub(crate) async fn apply_changed_properties(&self, account: &AccountName) -> ApiResult<()> {
        self.analytics.apply_changed_properties(account).await
    }

    /// Whether the service issues user delegation keys, and accepts tokens signed with them
    ///
    pub(crate) fn gives_delegation_keys(&self) -> bool {
        self.user_delegation
    }
}
