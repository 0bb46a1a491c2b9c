//! How the front runs the Table service: routes, handlers, error replies.

use crate::auth::accounts::Accounts;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::headers::CallHeaders;
use crate::http::analytics::Counts;
use crate::http::extensions::Used;
use crate::http::front::Front;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::{FrontOptions, Shared};
use crate::operation::{Answer, Facts, ServiceName};
use crate::table::api::{TableApi, TableOptions};
use crate::table::asked::{Asked, SNAPSHOT, SnapshotAsked};
use crate::table::call::Call;
use crate::table::operation::{Operation, PREFLIGHT, Resource};
use crate::table::route::{self, Marks};
use crate::table::{batch, changes, error_reply, handlers, settings, table_settings};
use http::HeaderValue;
use lazuli_model::{AccountName, Clock, ServiceProperties};
use lazuli_table::{Snapshot, TableService};
use lazuli_wire::sas::TableGrant;
use lazuli_wire::uri::ResourcePath;
use std::sync::Arc;
use std::time::Duration;

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
        let marks = Marks { has_if_match, extensions: request.extensions };
        route::resolve(request.verb, path, request.query, request.account, marks)
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
        let asked = match context.extensions {
            true => Some(Asked::read(request.headers)?),
            false => None,
        };
        if let Some(asked) = &asked {
            asked.check(request.operation)?;
        }
        let wanted = asked.as_ref().and_then(|asked| asked.snapshot.as_ref());
        let snapshot = match wanted {
            None => None,
            Some(wanted) => Some(open_snapshot(self, context, wanted).await?),
        };
        let call = Call {
            operation: request.operation,
            resource: request.resource,
            headers: CallHeaders::of_request(request.headers).known_at(context.version),
            query: request.query,
            body: request.body,
            asked: asked.as_ref(),
            snapshot: snapshot.as_deref(),
        };
        let outcome = match request.operation.facts().answer {
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
            // It reads entities like a page of a query.
            Answer::Json if request.query.get("comp") == Some("lazuli-verify") => {
                let run = table_settings::handle(self, context, &call, principal);
                Box::pin(shared.answers.hold_page(run)).await
            }
            Answer::Json => Box::pin(table_settings::handle(self, context, &call, principal)).await,
            Answer::Changes => {
                Box::pin(changes::handle(self, &shared.answers, context, &call, principal)).await
            }
        };
        match (wanted, snapshot) {
            (Some(wanted), Some(snapshot)) => {
                name_snapshot(self, context, wanted, snapshot, outcome)
            }
            _ => outcome,
        }
    }

    fn patience(query: Option<&str>) -> Duration {
        changes::patience(query)
    }

    fn stop_waiting(&self) {
        self.waiters.stop();
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

    fn last_properties(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        self.analytics.last_properties(account)
    }

    fn counts(&self) -> &Counts {
        self.analytics.counts()
    }
}

async fn open_snapshot(
    api: &TableApi,
    context: &RequestContext<'_>,
    wanted: &SnapshotAsked,
) -> ApiResult<Arc<Snapshot>> {
    match wanted {
        SnapshotAsked::New => {
            api.snapshots.admit(context.now)?;
            Ok(Arc::new(api.tables.snapshot().await?))
        }
        SnapshotAsked::Named { name, .. } => {
            api.snapshots.find(name, &context.account.name, context.now)
        }
    }
}

/// Keeps a new snapshot if its first request succeeded, ends one that is no longer wanted, and
/// names it in the reply.
fn name_snapshot(
    api: &TableApi,
    context: &RequestContext<'_>,
    wanted: &SnapshotAsked,
    snapshot: Arc<Snapshot>,
    outcome: ApiResult<Reply>,
) -> ApiResult<Reply> {
    let name = match wanted {
        SnapshotAsked::New if outcome.is_ok() => {
            let name = context.id.as_str();
            api.snapshots.keep(name, &context.account.name, snapshot, context.now)?;
            name
        }
        SnapshotAsked::New => return outcome,
        SnapshotAsked::Named { name, ends } => {
            if *ends {
                api.snapshots.end(name);
            }
            name
        }
    };
    let mut reply = outcome?;
    reply.more.push((SNAPSHOT, name.to_owned()));
    Used::also(&mut reply, "snapshot");
    Ok(reply)
}
