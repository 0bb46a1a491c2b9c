//! The Table service, as the front runs it.

use crate::analytics::Analytics;
use crate::auth::accounts::Accounts;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::headers::CallHeaders;
use crate::http::analytics::Counts;
use crate::http::front::Front;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::{FrontOptions, Shared};
use crate::operation::{Answer, Facts, ServiceName};
use crate::table::error_reply;
use crate::table::handlers::{self, Call};
use crate::table::operation::{Operation, PREFLIGHT, Resource};
use crate::table::simulate::{SimulateOptions, Simulator};
use crate::table::{batch, route, settings};
use http::HeaderValue;
use lazuli_model::metrics::MeteredService;
use lazuli_model::{AccountName, Clock, ServiceProperties};
use lazuli_table::TableService;
use lazuli_wire::sas::TableGrant;
use lazuli_wire::uri::ResourcePath;
use std::sync::Arc;

/// Options of the Table service, in addition to those that all services share.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Names under which the account is the first label of the host, such as `table.localhost`.
    pub host_suffixes: Vec<String>,
    pub simulate: SimulateOptions,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            host_suffixes: vec!["table.localhost".to_owned(), "table.core.windows.net".to_owned()],
            simulate: SimulateOptions::default(),
        }
    }
}

/// The Table service over HTTP.
pub struct TableApi {
    pub(crate) tables: TableService,
    host_suffixes: Vec<String>,
    analytics: Arc<Analytics>,
    /// Simulated failures; most servers have none.
    simulator: Option<Simulator>,
    user_delegation: bool,
}

impl TableApi {
    pub fn new(shared: &Shared, tables: TableService, options: TableOptions) -> Self {
        let TableOptions { host_suffixes, simulate } = options;
        let source = tables.clone();
        let read = move |account: AccountName| {
            let source = source.clone();
            async move { Ok(source.service_properties(&account).await?) }
        };
        let analytics = Analytics::new(shared, tables.clone(), MeteredService::Table, read);
        let simulates = simulate != SimulateOptions::default();
        Self {
            analytics: Arc::new(analytics),
            tables,
            host_suffixes,
            simulator: simulates.then(|| Simulator::new(simulate)),
            user_delegation: shared.options.auth.user_delegation,
        }
    }

    /// The counted requests, and the tables that store the counts.
    pub fn analytics(&self) -> Arc<Analytics> {
        self.analytics.clone()
    }

    /// Whether user delegation keys are issued, and tokens signed with them accepted.
    pub(crate) fn gives_delegation_keys(&self) -> bool {
        self.user_delegation
    }

    /// Asks the simulator, if there is one, whether to continue.
    pub(crate) fn simulate(
        &self,
        check: impl FnOnce(&Simulator) -> ApiResult<()>,
    ) -> ApiResult<()> {
        self.simulator.as_ref().map_or(Ok(()), check)
    }

    /// The number of entities or tables that a page may examine.
    pub(crate) fn page_rows(&self) -> u64 {
        self.simulator.as_ref().map_or(u64::MAX, Simulator::page_rows)
    }

    /// Makes changed properties effective.
    pub(crate) async fn apply_changed_properties(&self, account: &AccountName) -> ApiResult<()> {
        self.analytics.apply_changed_properties(account).await
    }
}

impl Front<TableApi> {
    /// A front of the Table service only, with default options.
    pub fn of_tables(
        tables: TableService,
        accounts: Arc<Accounts>,
        clock: Arc<dyn Clock>,
        options: FrontOptions,
    ) -> Self {
        let shared = Arc::new(Shared::new(accounts, clock, options));
        let api = TableApi::new(&shared, tables, TableOptions::default());
        Self::new(shared, api)
    }
}

impl Service for TableApi {
    type Operation = Operation;

    const NAME: ServiceName = ServiceName::Table;
    /// Tools recognise the service by the first word (T-2.58).
    const SERVER: HeaderValue = HeaderValue::from_static(concat!(
        "Windows-Azure-Table/1.0 Lazuli/",
        env!("CARGO_PKG_VERSION")
    ));
    const PREFLIGHT: &'static Facts = &PREFLIGHT;

    fn host_suffixes(&self) -> &[String] {
        &self.host_suffixes
    }

    fn route(&self, request: &Unrouted<'_>) -> ApiResult<(Operation, Resource)> {
        let path = ResourcePath::parse(request.path);
        let has_if_match = request.headers.if_match.is_some();
        route::resolve(request.verb, path, request.query, request.account, has_if_match)
    }

    /// Rare or slow operations box their future, so that the future of a point read stays small.
    async fn handle(
        &self,
        shared: &Shared,
        context: &RequestContext<'_>,
        request: &Routed<'_, Self>,
        principal: &Principal<TableGrant>,
    ) -> ApiResult<Reply> {
        self.simulate(|simulator| simulator.admit(&context.account.name, context.now))?;
        let call = Call {
            operation: request.operation,
            resource: request.resource,
            headers: CallHeaders::of_request(request.headers).known_at(context.version),
            query: request.query,
            body: request.body,
        };
        match request.operation.facts().answer {
            Answer::Negotiated | Answer::Preferred | Answer::NoContent => {
                handlers::handle(self, context, &call, principal).await
            }
            Answer::Page => {
                let run = handlers::handle(self, context, &call, principal);
                Box::pin(shared.answers.hold_page(run)).await
            }
            Answer::Parts => {
                Box::pin(batch::handle(self, &shared.answers, context, &call, principal)).await
            }
            Answer::Xml => Box::pin(settings::handle(self, context, &call, principal)).await,
        }
    }

    fn error_reply(&self, failed: &Failed<'_>) -> Reply {
        error_reply::of_request(failed)
    }

    /// The table, also if it is named in `Tables('name')`.
    fn resource_name(path: &str) -> Option<&str> {
        let path = path.trim_start_matches('/');
        let name = match path.strip_prefix("Tables('") {
            Some(rest) => rest.split('\'').next(),
            None => path.split(['(', '/']).next(),
        };
        name.filter(|name| !name.is_empty())
    }

    async fn properties(&self, account: &AccountName) -> ApiResult<Arc<ServiceProperties>> {
        self.analytics.properties(account).await
    }

    fn counts(&self) -> &Counts {
        self.analytics.counts()
    }
}
