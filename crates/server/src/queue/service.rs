//! How the front runs the Queue service: routes, handlers, error replies.

use crate::auth::accounts::Accounts;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::analytics::Counts;
use crate::http::front::Front;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::{FrontOptions, Shared};
use crate::operation::{Answer, Facts, ServiceName};
use crate::queue::api::{QueueApi, QueueOptions};
use crate::queue::operation::{Operation, PREFLIGHT, Resource};
use crate::queue::{error_reply, handlers, route};
use http::HeaderValue;
use lazuli_model::{AccountName, Clock, ServiceProperties};
use lazuli_queue::QueueService;
use lazuli_table::TableService;
use lazuli_wire::sas::QueueGrant;
use lazuli_wire::uri::split_account;
use std::sync::Arc;

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

    fn last_properties(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        self.analytics.last_properties(account)
    }

    fn counts(&self) -> &Counts {
        self.analytics.counts()
    }
}
