//! The Queue service, as the front runs it.

use crate::analytics::Analytics;
use crate::auth::accounts::Accounts;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::analytics::Counts;
use crate::http::deletions::Deletions;
use crate::http::front::Front;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::{FrontOptions, Shared};
use crate::operation::{Answer, Facts, ServiceName};
use crate::queue::operation::{Operation, PREFLIGHT, Resource};
use crate::queue::{error_reply, handlers, route};
use http::HeaderValue;
use lazuli_model::metrics::MeteredService;
use lazuli_model::{AccountName, Clock, ServiceProperties};
use lazuli_queue::QueueService;
use lazuli_table::TableService;
use lazuli_wire::sas::QueueGrant;
use lazuli_wire::uri::split_account;
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
    host_suffixes: Vec<String>,
    analytics: Arc<Analytics>,
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

impl Front<QueueApi> {
    /// A front of the Queue service only, with default options.
    pub fn of_queues(
        queues: QueueService,
        tables: TableService,
        accounts: Arc<Accounts>,
        clock: Arc<dyn Clock>,
        options: FrontOptions,
    ) -> Self {
        let shared = Arc::new(Shared::new(accounts, clock, options));
        let api = QueueApi::new(&shared, queues, tables, QueueOptions::default());
        Self::new(shared, api)
    }
}

impl Service for QueueApi {
    type Operation = Operation;

    const NAME: ServiceName = ServiceName::Queue;
    const SERVER: HeaderValue =
        HeaderValue::from_static("Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0");
    const PREFLIGHT: &'static Facts = &PREFLIGHT;
    const HAS_METADATA: bool = true;

    fn host_suffixes(&self) -> &[String] {
        &self.host_suffixes
    }

    fn resource_name(path: &str) -> Option<&str> {
        Some(split_account(path).0).filter(|name| !name.is_empty())
    }

    fn route(&self, request: &Unrouted<'_>) -> ApiResult<(Operation, Resource)> {
        route::resolve(request.verb, request.path, request.query)
    }

    async fn handle(
        &self,
        shared: &Shared,
        context: &RequestContext<'_>,
        request: &Routed<'_, Self>,
        principal: &Principal<QueueGrant>,
    ) -> ApiResult<Reply> {
        let run = handlers::handle(self, context, request, principal);
        let reply = match request.operation.facts().answer {
            Answer::Page => shared.answers.hold_page(run).await?,
            _ => run.await?,
        };
        // Only responses to reads.
        Ok(Reply { no_cache: reply.status == 200, ..reply })
    }

    fn error_reply(&self, failed: &Failed<'_>) -> Reply {
        error_reply::of_request(failed)
    }

    async fn properties(&self, account: &AccountName) -> ApiResult<Arc<ServiceProperties>> {
        self.analytics.properties(account).await
    }

    fn counts(&self) -> &Counts {
        self.analytics.counts()
    }
}
