//! What the front needs from a service: the contract that a folder such as `table` implements.
//!
//! The front processes a request from top to bottom and calls the service at each step: its hosts,
//! the operation, its properties, the reply, the format of an error. Everything else (limits, ids,
//! deadlines, bodies, CORS, authentication, counting) it does itself.

use crate::auth::credentials::{Credentials, Grant};
use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::headers::RequestHeaders;
use crate::http::analytics::Counts;
use crate::http::header_case::Spellings;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::respond::ResponseContext;
use crate::http::shared::Shared;
use crate::operation::{Facts, Operation, ServiceName, Verb};
use http::HeaderValue;
use http::request::Parts;
use lazuli_model::{AccountName, ServiceProperties};
use lazuli_wire::uri::Query;
use std::sync::Arc;
use std::time::Duration;

/// A storage service over HTTP.
pub(crate) trait Service: Credentials + Send + Sync + 'static {
    /// Its operations, each with its row.
    type Operation: Operation;

    /// Its name in metrics and logs.
    const NAME: ServiceName;

    /// The `Server` header. Tools recognise the service by the first word.
    const SERVER: HeaderValue;

    /// The row of OPTIONS requests, which the front handles itself.
    const PREFLIGHT: &'static Facts;

    /// Whether request header names are kept in the case in which they arrived, for metadata.
    const HAS_METADATA: bool = false;

    /// Names under which the account is the first label of the host, such as `table.localhost`.
    fn host_suffixes(&self) -> &[String];

    /// Determines the operation of a request and its resource.
    fn route(&self, request: &Unrouted<'_>) -> ApiResult<(Self::Operation, Resource<Self>)>;

    /// Runs an operation that the caller is permitted; a batch also checks the permission of its
    /// parts.
    fn handle(
        &self,
        shared: &Shared,
        context: &RequestContext<'_>,
        request: &Routed<'_, Self>,
        principal: &Principal<Self::Grant>,
    ) -> impl Future<Output = ApiResult<Reply>> + Send;

    /// How much longer than usual a request with this query may take, because it waits.
    fn patience(_query: Option<&str>) -> Duration {
        Duration::ZERO
    }

    /// Answers requests that wait for an event, because the server is stopping.
    fn stop_waiting(&self) {}

    /// The reply to a failed request.
    fn error_reply(&self, failed: &Failed<'_>) -> Reply;

    /// The table, queue or container that a path after the account names, for the log.
    fn resource_name(path: &str) -> Option<&str>;

    /// The settings of an account: CORS rules, analytics.
    fn properties(
        &self,
        account: &AccountName,
    ) -> impl Future<Output = ApiResult<Arc<ServiceProperties>>> + Send;

    /// The settings of an account as they were last read, without asking the store.
    fn last_properties(&self, _: &AccountName) -> Option<Arc<ServiceProperties>> {
        None
    }

    /// Where its finished requests are counted.
    fn counts(&self) -> &Counts;
}

/// What a request of a service addresses.
pub(crate) type Resource<S> = <<S as Credentials>::Grant as Grant>::Resource;

/// A request before routing.
pub(crate) struct Unrouted<'a> {
    pub(crate) verb: Verb,
    /// What follows the account, decoded.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query<'a>,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) account: &'a AccountName,
    /// Whether it requests extensions.
    pub(crate) extensions: bool,
}

/// A routed request, with its body.
pub(crate) struct Routed<'a, S: Service + ?Sized> {
    pub(crate) operation: S::Operation,
    pub(crate) resource: &'a Resource<S>,
    pub(crate) query: &'a Query<'a>,
    pub(crate) headers: &'a RequestHeaders<'a>,
    /// The case of metadata header names, which `headers` lacks.
    pub(crate) spellings: Option<&'a Spellings>,
    pub(crate) body: &'a [u8],
}

/// A failed request, and what is known about it.
pub(crate) struct Failed<'a> {
    pub(crate) error: &'a ApiError,
    pub(crate) request: &'a Parts,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) context: &'a ResponseContext,
}
