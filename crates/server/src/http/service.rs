//! What the front asks of a service: the one contract that a folder such as `table` implements.
//!
//! The front reads a request top to bottom and asks the service at each step: where its hosts are,
//! which operation this is, what its properties are, what the answer is, how an error looks. All else
//! (limits, ids, deadlines, bodies, CORS, authentication, counting) it does itself.

use crate::auth::credentials::{Credentials, Grant};
use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::headers::RequestHeaders;
use crate::http::analytics::Counts;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::respond::ResponseContext;
use crate::http::shared::Shared;
use crate::operation::{Facts, ServiceName, Verb};
use http::HeaderValue;
use http::request::Parts;
use lazuli_model::{AccountName, ServiceProperties};
use lazuli_wire::uri::Query;
use std::sync::Arc;

/// A storage service over HTTP.
pub(crate) trait Service: Credentials + Send + Sync + 'static {
    /// Its operations, each with its row.
    type Operation: Operation;

    /// What metrics and logs call it.
    const NAME: ServiceName;

    /// What the `Server` header of an answer says. Tools recognise the service by the first word.
    const SERVER: HeaderValue;

    /// The row of OPTIONS requests, which the front answers itself.
    const PREFLIGHT: &'static Facts;

    /// Names under which the account is the first label of the host, such as `table.localhost`.
    fn host_suffixes(&self) -> &[String];

    /// Names the operation of a request and what it addresses.
    fn route(&self, request: &Unrouted<'_>) -> ApiResult<(Self::Operation, Resource<Self>)>;

    /// Runs an operation that the caller may do; one that answers in parts, if they may do its parts.
    fn handle(
        &self,
        shared: &Shared,
        context: &RequestContext<'_>,
        request: &Routed<'_, Self>,
        principal: &Principal<Self::Grant>,
    ) -> impl Future<Output = ApiResult<Reply>> + Send;

    /// The answer to a request that failed.
    fn error_reply(&self, failed: &Failed<'_>) -> Reply;

    /// The table, queue or container that a path after the account names, for the log.
    fn resource_name(path: &str) -> Option<&str>;

    /// The settings of an account: CORS rules, analytics.
    fn properties(
        &self,
        account: &AccountName,
    ) -> impl Future<Output = ApiResult<Arc<ServiceProperties>>> + Send;

    /// Where its answered requests are counted.
    fn counts(&self) -> &Counts;
}

/// What a request of a service addresses.
pub(crate) type Resource<S> = <<S as Credentials>::Grant as Grant>::Resource;

/// An operation of a service.
pub(crate) trait Operation: Copy + Send + Sync + 'static {
    /// Every operation, in the order of [`index`](Self::index).
    fn all() -> &'static [Self];

    fn index(self) -> usize;

    fn facts(self) -> &'static Facts;
}

/// A request whose operation is not known yet.
pub(crate) struct Unrouted<'a> {
    pub(crate) verb: Verb,
    /// What follows the account, decoded.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query<'a>,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) account: &'a AccountName,
}

/// A request whose operation is known, with its body.
pub(crate) struct Routed<'a, S: Service + ?Sized> {
    pub(crate) operation: S::Operation,
    pub(crate) resource: &'a Resource<S>,
    pub(crate) query: &'a Query<'a>,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) body: &'a [u8],
}

/// A request that failed, and what is known of it.
pub(crate) struct Failed<'a> {
    pub(crate) error: &'a ApiError,
    pub(crate) request: &'a Parts,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) context: &'a ResponseContext,
}
