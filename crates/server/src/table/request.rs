//! The request head of the Table service: conditions, preferences, formats, options.

use crate::error::{ApiError, ApiResult};
use crate::headers::CallHeaders;
use crate::http::profile::Tolerance;
use crate::operation::Answer;
use crate::table::faults::Fault;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{Accepted, Format, MetadataLevel};
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;

impl CallHeaders<'_> {
    /// A part of a batch inherits missing headers from the whole request.
    pub(crate) fn within(self, batch: &Self) -> Self {
        Self {
            accept: self.accept.or(batch.accept),
            data_service_version: self.data_service_version.or(batch.data_service_version),
            max_data_service_version: self
                .max_data_service_version
                .or(batch.max_data_service_version),
            ..self
        }
    }

    /// The headers that `version` supports (the table of 2.2).
    pub(crate) fn known_at(self, version: ApiVersion) -> Self {
        Self { prefer: self.prefer.filter(|_| version.has_prefer()), ..self }
    }

    /// The client's preference, if an operation with this `answer` honours it (T-2.51 to T-2.54,
    /// T-2.57); unknown preferences are ignored.
    pub(crate) fn preference(&self, answer: Answer) -> Option<Preference> {
        let preference = match self.prefer?.trim() {
            "return-no-content" => Preference::NoContent,
            "return-content" => Preference::Content,
            _ => return None,
        };
        let is_heeded = match answer {
            Answer::Preferred => true,
            Answer::NoContent => preference == Preference::NoContent,
            Answer::Negotiated | Answer::Page | Answer::Parts | Answer::Xml => false,
            Answer::Json | Answer::Changes => false,
        };
        is_heeded.then_some(preference)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    NoContent,
    Content,
}

impl Preference {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::NoContent => "return-no-content",
            Self::Content => "return-content",
        }
    }
}

/// The format of a successful OData body (T-2.12 to T-2.14).
pub(crate) fn response_format(accepted: Accepted, version: ApiVersion) -> ApiResult<Format> {
    match accepted {
        Accepted::Json(level) if version.has_json() => Ok(Format::Json(level)),
        Accepted::Json(_) => Err(ErrorCode::JsonFormatNotSupported.into()),
        // `*/*` is Atom in versions that support Atom (2.4).
        Accepted::Any | Accepted::Atom | Accepted::Absent if version.has_atom() => {
            Ok(Format::Atom(version.atom_form()))
        }
        Accepted::Any => Ok(Format::Json(MetadataLevel::Minimal)),
        Accepted::Atom | Accepted::Absent => Err(ErrorCode::AtomFormatNotSupported.into()),
        Accepted::JsonVerbose => Err(ErrorCode::JsonVerboseFormatNotSupported.into()),
        Accepted::Unsupported => Err(ErrorCode::MediaTypeNotSupported.into()),
    }
}

const JSON: &str = "application/json";

/// The format of a request body, by its Content-Type (T-2.3, T-2.4).
pub(crate) fn body_format(
    content_type: Option<&str>,
    version: ApiVersion,
) -> ApiResult<BodyFormat> {
    let unsupported = || ApiError::from(ErrorCode::MediaTypeNotSupported);
    let media = match content_type.ok_or_else(unsupported)? {
        // Fast path for what nearly all clients send.
        JSON => JSON,
        text => text.split(';').next().unwrap_or_default().trim(),
    };
    if media.eq_ignore_ascii_case(JSON) {
        match version.has_json() {
            true => Ok(BodyFormat::Json),
            false => Err(ErrorCode::JsonFormatNotSupported.into()),
        }
    } else if media.eq_ignore_ascii_case("application/atom+xml") {
        match version.has_atom() {
            true => Ok(BodyFormat::Atom),
            false => Err(ErrorCode::AtomFormatNotSupported.into()),
        }
    } else {
        Err(unsupported())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Atom,
}

/// The query options that exist only as extensions.
pub(crate) const ORDER_AND_COUNT: &[&str] = &["$orderby", "$inlinecount"];

/// Refuses unknown OData options and those that the service does not support (T-1.36, T-4.46).
pub(crate) fn check_options(query: &Query<'_>, tolerance: &Tolerance) -> ApiResult<()> {
    check_options_but(&[], query, tolerance)
}

/// The same, except for options that the caller reads itself.
pub(crate) fn check_options_but(
    known: &[&str],
    query: &Query<'_>,
    tolerance: &Tolerance,
) -> ApiResult<()> {
    for (name, _) in query.iter() {
        let code = match name {
            name if known.contains(&name) => continue,
            "$filter" | "$select" | "$top" | "$format" => continue,
            "$orderby" | "$skip" | "$skiptoken" | "$expand" | "$inlinecount" => {
                ErrorCode::NotImplemented
            }
            other if other.starts_with('$') => ErrorCode::InvalidInput,
            _ => continue,
        };
        tolerance.tolerate(Fault::UnsupportedOption, code.into(), || Some(()))?;
    }
    Ok(())
}
