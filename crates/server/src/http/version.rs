//! The protocol version of a request.

use crate::error::ApiResult;
use crate::headers::RequestHeaders;
use http::HeaderValue;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;

/// Which values of `x-ms-version` are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionCheck {
    /// Any date, served as the nearest known version: clients ship new versions before servers do.
    #[default]
    WellFormed,
    /// Only the published ones, as in Azure (T-2.8).
    Strict,
    /// Any text at all.
    Skip,
}

/// The version of a request.
pub(crate) struct Version {
    pub(crate) parsed: ApiVersion,
    /// As sent: the response repeats it (T-2.7).
    pub(crate) text: HeaderValue,
}

impl Version {
    /// The version of a request: its header, else that of the shared access signature (T-2.10).
    pub(crate) fn of(
        headers: &RequestHeaders<'_>,
        query: &Query<'_>,
        check: VersionCheck,
    ) -> ApiResult<Self> {
        let text = match headers.version {
            Some(value) => Some(value.to_str().map_err(|_| ErrorCode::InvalidHeaderValue)?),
            None => query.get("api-version").or_else(|| query.get("sv")),
        };
        let Some(text) = text else {
            let parsed = ApiVersion::UNSTATED;
            let text = HeaderValue::try_from(parsed.to_string());
            let text = text.map_err(|_| ErrorCode::InternalError)?;
            return Ok(Self { parsed, text });
        };
        let parsed = ApiVersion::parse(text);
        let served = match check {
            VersionCheck::WellFormed => parsed,
            VersionCheck::Strict => parsed.filter(|version| version.is_known()),
            VersionCheck::Skip => parsed.or(Some(ApiVersion::NEWEST)),
        };
        let parsed = served.ok_or(ErrorCode::InvalidHeaderValue)?;
        let text = match headers.version {
            Some(value) => value.clone(),
            None => HeaderValue::try_from(text).map_err(|_| ErrorCode::InvalidHeaderValue)?,
        };
        Ok(Self { parsed, text })
    }
}
