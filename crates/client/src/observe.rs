//! Observing a running account: spans, counters, hooks (C-18).

use crate::account::Account;
use crate::call::{Answer, Call};
use crate::error::ErrorKind;
use crate::filter::Filter;
use crate::meter::Meter;
use crate::transport::Sent;
use http::{StatusCode, Uri};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::error_body::ErrorText;
use lazuli_wire::odata::filter::print_shape;
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;
use tracing::field::Empty;

/// What spans show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observe {
    pub(crate) keys: bool,
}

impl Observe {
    /// Shows keys and the values in filters. They are hidden by default, because they often identify people.
    #[must_use]
    pub fn keys(self) -> Self {
        Self { keys: true }
    }

    /// A filter as spans show it.
    pub(crate) fn filter(self, filter: &Filter) -> String {
        if self.keys { filter.to_string() } else { print_shape(&filter.0) }
    }
}

/// One request and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The operation, such as `insert`.
    pub operation: &'static str,
    /// The table, if the operation concerns one.
    pub table: Option<&'a str>,
    /// 1 for the first request of the operation.
    pub number: u32,
    /// The status of the response; `None` if none came.
    pub status: Option<StatusCode>,
    /// Whether the service may have seen a request that got no response.
    pub sent: Sent,
    /// How long it took.
    pub took: Duration,
    /// Size of the request body.
    pub sent_bytes: usize,
    /// Size of the response body.
    pub received_bytes: usize,
    /// The client's id of the operation, the same for all its requests.
    pub client_request_id: &'a str,
}

/// A function that sees every attempt.
pub(crate) type Hook = Arc<dyn Fn(&Attempt<'_>) + Send + Sync>;

/// What is recorded about a call in addition to what it sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// The table, if the path does not name it.
    pub(crate) table: Option<String>,
    /// The number of operations in a batch.
    pub(crate) operations: usize,
    /// The class of a query's plan.
    pub(crate) query_class: Option<&'static str>,
    /// The filter; its values are removed unless they may be shown.
    pub(crate) filter: Option<String>,
    /// The status of a refusal that is not a failure, such as 404 for a read (C-18.3).
    pub(crate) expected: Option<StatusCode>,
    /// For the advisor: entities that are read or written.
    #[cfg(feature = "patterns")]
    pub(crate) subjects: crate::patterns::advisor::Subjects,
    /// For the advisor: the filter of a query.
    #[cfg(feature = "patterns")]
    pub(crate) facts: Option<crate::patterns::advisor::FilterFacts>,
    /// Whether executing it twice has the same effect as once (C-13.5).
    pub(crate) is_idempotent: bool,
}

impl Account {
    /// The counters of this account, by table and verb (C-18.4).
    pub fn meter(&self) -> Meter {
        self.0.counters.read()
    }

    /// Calls `hook` after each request of this account (C-18.5). It must not block.
    pub fn on_attempt(&self, hook: impl Fn(&Attempt<'_>) + Send + Sync + 'static) {
        let hook: Hook = Arc::new(hook);
        self.0.hooks.rcu(|hooks| {
            let mut hooks = Vec::clone(hooks);
            hooks.push(hook.clone());
            hooks
        });
    }

    /// Counts an attempt and calls the hooks.
    pub(crate) fn observe_attempt(&self, call: &Call, attempt: &Attempt<'_>) {
        let answer = attempt.status.map(|status| (status, attempt.received_bytes));
        let is_lost = answer.is_none() && attempt.sent == Sent::Maybe;
        self.0.counters.count(call.table().unwrap_or_default(), call.operation, |counts| {
            counts.attempt(attempt.sent_bytes, answer);
            counts.lost_answers += u64::from(is_lost);
        });
        for hook in self.0.hooks.load().iter() {
            hook(attempt);
        }
    }

    /// Counts a page of entities.
    pub(crate) fn observe_page(&self, call: &Call, answer: &Answer, entities: usize) {
        answer.span.record("lazuli.pages", 1);
        answer.span.record("lazuli.entities", entities);
        self.0.counters.count(call.table().unwrap_or_default(), call.operation, |counts| {
            counts.pages += 1;
            counts.entities += entities as u64;
        });
    }

    /// Counts the end of an operation.
    pub(crate) fn observe_end(&self, call: &Call, is_failure: bool) {
        self.0.counters.count(call.table().unwrap_or_default(), call.operation, |counts| {
            counts.operations += 1;
            counts.failures += u64::from(is_failure);
        });
    }

    /// The span of an operation (C-18.1).
    pub(crate) fn operation_span(&self, call: &Call, client_request_id: &str) -> Span {
        let span = tracing::info_span!(
            "operation",
            db.system.name = system_name(call.service),
            db.operation.name = call.operation,
            db.collection.name = Empty,
            db.operation.batch.size = Empty,
            db.query.text = Empty,
            server.address = Empty,
            server.port = Empty,
            http.response.status_code = Empty,
            error.type = Empty,
            az.client_request_id = client_request_id,
            az.service_request_id = Empty,
            lazuli.query_class = Empty,
            lazuli.attempts = Empty,
            lazuli.pages = Empty,
            lazuli.entities = Empty,
            lazuli.path = Empty,
        );
        if span.is_disabled() {
            return span;
        }
        let endpoint = self.0.endpoint(call.service).map(|endpoint| &*endpoint.primary);
        if let Some(uri) = endpoint.and_then(|endpoint| endpoint.parse::<Uri>().ok()) {
            span.record("server.address", uri.host().unwrap_or_default());
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            span.record("server.port", uri.port_u16().unwrap_or(default));
        }
        if let Some(table) = call.table() {
            span.record("db.collection.name", table);
        }
        if call.about.operations > 0 {
            span.record("db.operation.batch.size", call.about.operations);
        }
        if let Some(filter) = &call.about.filter {
            span.record("db.query.text", &**filter);
        }
        if let Some(class) = call.about.query_class {
            span.record("lazuli.query_class", class);
        }
        if self.0.observe.keys {
            span.record("lazuli.path", &*call.path);
        }
        span
    }
}

/// Records in the span of an operation how it ended; returns whether it failed.
pub(crate) fn record_answer(span: &Span, call: &Call, answer: &Answer) -> bool {
    span.record("http.response.status_code", answer.status.as_u16());
    span.record("lazuli.attempts", answer.attempts);
    if let Some(id) = answer.service_request_id() {
        span.record("az.service_request_id", id);
    }
    if answer.status.is_success() {
        return false;
    }
    let code = answer.error_code();
    // A missing table is a failure even for an operation that may find nothing.
    let is_failure = call.about.expected != Some(answer.status) || code == "TableNotFound";
    if is_failure && !span.is_disabled() {
        span.record("error.type", &*code);
    }
    is_failure
}

/// Records in the span of an operation that no answer came.
pub(crate) fn record_failure(span: &Span, attempts: u32, kind: &ErrorKind) {
    span.record("lazuli.attempts", attempts);
    span.record("error.type", kind.name());
}

fn system_name(service: StorageService) -> &'static str {
    match service {
        StorageService::Table => "azure.tables",
        StorageService::Queue => "azure.queues",
        StorageService::Blob => "azure.blobs",
    }
}

impl Call {
    /// The table concerned: given, or taken from the path.
    pub(crate) fn table(&self) -> Option<&str> {
        if self.service != StorageService::Table {
            return None;
        }
        if let Some(table) = &self.about.table {
            return Some(table);
        }
        let path = self.path.strip_prefix('/')?;
        if let Some(name) = path.strip_prefix("Tables('") {
            return name.strip_suffix("')");
        }
        let name = path.split_once('(').map_or(path, |(name, _)| name);
        (!name.is_empty() && !name.starts_with('$') && name != "Tables").then_some(name)
    }
}

impl Answer {
    /// The service's error code, from the header or the body; empty if neither has one.
    pub(crate) fn error_code(&self) -> String {
        let from_header = crate::call::header(&self.headers, &crate::call::X_MS_ERROR_CODE);
        match from_header.filter(|code| !code.is_empty()) {
            Some(code) => code.to_owned(),
            None => ErrorText::read(&self.body).unwrap_or_default().code,
        }
    }

    fn service_request_id(&self) -> Option<&str> {
        crate::call::header(&self.headers, &crate::call::X_MS_REQUEST_ID)
    }
}
