//! What all operations of a request share.

use crate::auth::accounts::Account;
use crate::error::{ApiResult, invalid_parameter};
use crate::http::profile::Tolerance;
use crate::http::target::Base;
use crate::http::trailer::Trailer;
use crate::request_id::RequestId;
use lazuli_model::Timestamp;
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_wire::uri::{Location, Query};
use lazuli_wire::version::ApiVersion;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What all operations of a request share.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) id: RequestId,
    pub(crate) now: Timestamp,
    pub(crate) account: Arc<Account>,
    pub(crate) location: Location,
    pub(crate) version: ApiVersion,
    pub(crate) base: Base<'a>,
    /// Whether the account is the first segment of the path instead of a label of the host.
    pub(crate) path_style: bool,
    /// Whether responses say why a credential was refused.
    pub(crate) explain: bool,
    pub(crate) tolerance: Tolerance,
    /// Whether it requests extensions.
    pub(crate) extensions: bool,
    /// The address of the client.
    pub(crate) client: IpAddr,
}

impl RequestContext<'_> {
    pub(crate) fn trailer(&self) -> Trailer {
        Trailer { id: self.id, now: self.now, explain: self.explain }
    }
}

/// How long an operation may take according to `timeout`, in seconds; `None` for the default limit
/// of a request, 30 seconds (T-1.37, T-1.38).
pub(crate) fn operation_time(query: &Query<'_>) -> ApiResult<Option<Duration>> {
    let longest = Duration::from_millis(REQUEST_MS_MAX);
    match query.get("timeout") {
        None | Some("") => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(0) => Ok(None),
            Ok(seconds) => Ok(Some(Duration::from_secs(seconds)).filter(|time| *time < longest)),
            Err(_) => Err(invalid_parameter("timeout", text, "")),
        },
    }
}
