//! Error responses of the Table service: OData JSON, OData XML or plain XML.

use crate::error::{ApiError, Stage};
use crate::headers::{CallHeaders, DataServiceVersion};
use crate::http::reply::Reply;
use crate::http::service::Failed;
use crate::http::trailer::Trailer;
use crate::table::request::Preference;
use lazuli_wire::error_body::{self, Shape};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{self, Accepted, AtomForm, Format, MetadataLevel};
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::borrow::Cow;

/// The response to a failed request. Old versions send the code header only if nothing else names
/// the code: in the response to a HEAD, which has no body (T-2.60, T-7.8).
pub(crate) fn of_request(failed: &Failed<'_>) -> Reply {
    let (reply, context) = (written(failed), failed.context);
    let version = context.version.as_ref();
    let has_header = version.is_none_or(|version| version.parsed.has_error_code_header());
    let error_code = reply.error_code.filter(|_| has_header || context.is_head);
    Reply { error_code, ..reply }
}

fn written(failed: &Failed<'_>) -> Reply {
    let Failed { error, request, headers, context } = *failed;
    let query = Query::parse(request.uri.query().unwrap_or_default()).unwrap_or_default();
    let comp = query.get("comp");
    // Resources of extensions are JSON, for clients that request extensions.
    let is_extension =
        context.asks_extensions && comp.is_some_and(|comp| comp.starts_with("lazuli-"));
    let accepted = media::negotiate(headers.accept, query.get("$format"));
    let accepted = match accepted {
        Accepted::Any | Accepted::Absent if is_extension => Accepted::Json(MetadataLevel::Minimal),
        accepted => accepted,
    };
    let is_xml = !is_extension && (comp.is_some() || query.contains("restype"));
    let is_preflight = request.method == http::Method::OPTIONS;
    let is_unread = error.code == ErrorCode::RequestBodyTooLarge;
    let is_stranger = context.is_addressed && !context.is_authenticated;
    let is_unaddressed = error.stage == Stage::Addressing;
    if is_preflight || is_unread || is_stranger || is_unaddressed {
        let reply = early_reply(error, accepted, is_xml, context.trailer());
        return match accepted {
            Accepted::Json(level) if is_extension => {
                Reply { content_type: Some(Format::Json(level).content_type().into()), ..reply }
            }
            _ => reply,
        };
    }
    let form = match context.version {
        None if error.code == ErrorCode::InvalidHeaderValue => ErrorForm::MarkedXml,
        _ if is_xml => ErrorForm::PrefixedXml,
        _ => ErrorForm::of(accepted, context.version.as_ref().map(|version| version.parsed)),
    };
    let reply = error_reply(error, form, None, context.trailer());
    // The response to a HEAD has no body to name the error (T-7.8).
    let error_code = reply.error_code.or(context.is_head.then(|| error.code.name()));
    Reply { preference_applied: preference_applied(failed), error_code, ..reply }
}

/// The preference in force, which errors repeat once the request was parsed (T-2.55).
fn preference_applied(failed: &Failed<'_>) -> Option<&'static str> {
    let Failed { error, headers, context, .. } = failed;
    context.received.filter(|_| error.stage != Stage::Parsing)?;
    let headers = CallHeaders::of_request(headers).known_at(context.version.as_ref()?.parsed);
    headers.preference(context.operation?.answer).map(Preference::text)
}

/// Another part of the live service handles failed authentication, with its own headers (T-7.3). It
/// also handles refused preflights, paths that name nothing, and bodies that are too large: the
/// tests of the official Java client expect the message of the latter in the status line.
fn early_reply(error: &ApiError, accepted: Accepted, is_xml: bool, trailer: Trailer) -> Reply {
    let shape = match accepted {
        Accepted::Json(_) if !is_xml => Shape::Json,
        _ => Shape::PrefixedXml,
    };
    let mut body = Vec::with_capacity(512);
    trailer.write(&mut body, shape, error, error.message());
    Reply {
        status: error.code.status(),
        reason: Some(error.message().to_owned()),
        content_type: Some(shape.content_type().into()),
        error_code: Some(error.code.name()),
        more: trailer.detail(error),
        failure: Some(error.failure()),
        body,
        ..Reply::default()
    }
}

/// The format of an error body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `{"odata.error":…}` with the negotiated content type (T-7.2).
    Json(MetadataLevel),
    /// `<error …>`: an OData operation for which no JSON was negotiated (T-7.4a), in Atom's form.
    Xml(AtomForm),
    /// `<m:error …>`: the ACL and service operations.
    PrefixedXml,
    /// `<error …>`, indented and with a byte-order mark: an unknown version (T-7.4a).
    MarkedXml,
}

impl ErrorForm {
    /// The format that the client of an OData operation accepts in `version`.
    pub(crate) fn of(accepted: Accepted, version: Option<ApiVersion>) -> Self {
        match accepted {
            Accepted::Json(level) => Self::Json(level),
            _ => Self::Xml(version.map_or(AtomForm::Compact, ApiVersion::atom_form)),
        }
    }
}

/// An error in one of the three forms of the OData and XML operations. In a batch the message
/// begins with the index of the failed operation (T-6.38).
pub(crate) fn error_reply(
    error: &ApiError,
    form: ErrorForm,
    index: Option<usize>,
    trailer: Trailer,
) -> Reply {
    let text = match index {
        Some(index) => Cow::Owned(error_body::with_index(index, error.message())),
        None => Cow::Borrowed(error.message()),
    };
    let status = error.code.status();
    let mut body = Vec::with_capacity(512);
    let reply = match form {
        ErrorForm::Json(level) => {
            trailer.write(&mut body, Shape::Json, error, &text);
            let content_type = Format::Json(level).content_type();
            Reply::odata_body(status, content_type, DataServiceVersion::V3, body)
        }
        ErrorForm::Xml(form) => {
            let shape = match form {
                AtomForm::Compact => Shape::CompactXml,
                AtomForm::Indented => Shape::IndentedXml,
            };
            trailer.write(&mut body, shape, error, &text);
            Reply::odata_body(status, shape.content_type(), DataServiceVersion::V1, body)
        }
        ErrorForm::PrefixedXml => {
            trailer.write(&mut body, Shape::PrefixedXml, error, &text);
            let (error_code, reason) = (Some(error.code.name()), Some(text.into_owned()));
            Reply { error_code, reason, ..Reply::xml(status, body) }
        }
        ErrorForm::MarkedXml => {
            trailer.write(&mut body, Shape::MarkedXml, error, &text);
            Reply::xml(status, body)
        }
    };
    let no_cache = reply.no_cache && error.stage != Stage::Parsing;
    Reply { no_cache, more: trailer.detail(error), failure: Some(error.failure()), ..reply }
}
