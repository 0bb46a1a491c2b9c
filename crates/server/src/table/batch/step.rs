//! One part of a batch: parsed once, and routed like a single request.

use super::queue_target::{self, QueueTarget};
use crate::error::{ApiError, ApiResult, Stage};
use crate::headers::{CallHeaders, TUNNEL};
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::operation::Verb;
use crate::table::batch_answer::Answered;
use crate::table::call::Call;
use crate::table::error_reply::{ErrorForm, error_reply};
use crate::table::operation::{Operation, Resource};
use crate::table::request::Preference;
use crate::table::route::{self, Marks};
use lazuli_model::AccountName;
use lazuli_wire::media;
use lazuli_wire::multipart::{self, Part};
use lazuli_wire::uri::{self, Query, ResourcePath, Target};

/// One operation of a batch, parsed once.
pub(super) struct Step<'a> {
    pub(super) part: &'a Part<'a>,
    pub(super) headers: PartHeaders<'a>,
    pub(super) query: Query<'a>,
    /// The request, unless its request line or headers name no operation.
    pub(super) request: Option<(Operation, Resource)>,
    /// The queue that a message goes to, in a transaction that may contain messages.
    pub(super) queue: Option<&'a str>,
}

/// The headers of the request in a part.
#[derive(Clone, Copy)]
pub(super) struct PartHeaders<'a> {
    all: multipart::Headers<'a>,
    of_call: CallHeaders<'a>,
    /// Echoed if it is among the headers of the inner request (T-6.14).
    content_id: Option<&'a str>,
    /// Whether there is an `X-HTTP-Method`.
    is_tunnelled: bool,
}

impl<'a> PartHeaders<'a> {
    fn new(context: &RequestContext<'_>, batch: &Call<'a>, all: multipart::Headers<'a>) -> Self {
        let (mut of_call, mut content_id, mut is_tunnelled) = (CallHeaders::default(), None, false);
        for (name, value) in all.iter() {
            of_call.add(name, value);
            if name.eq_ignore_ascii_case("content-id") {
                content_id.get_or_insert(value);
            }
            is_tunnelled |= name.eq_ignore_ascii_case(TUNNEL);
        }
        of_call = of_call.known_at(context.version).within(&batch.headers);
        Self { all, of_call, content_id, is_tunnelled }
    }
}

impl<'a> Step<'a> {
    /// Parses a part, and finds its operation through the same router as single requests. Headers
    /// that repeat those of the previous part, as most do, are not parsed again.
    pub(super) fn read(
        context: &RequestContext<'_>,
        batch: &Call<'a>,
        part: &'a Part<'a>,
        before: Option<&Self>,
    ) -> (Self, ApiResult<()>) {
        let target = Target::parse(part.target);
        let repeated = before.map(|before| before.headers).filter(|h| h.all == part.headers);
        let headers = repeated.unwrap_or_else(|| PartHeaders::new(context, batch, part.headers));
        // An unreadable query string is ignored.
        let query = Query::parse_lenient(target.query.unwrap_or_default()).unwrap_or_default();
        let takes_messages = batch.asked.is_some_and(|asked| asked.any_transaction);
        let addressed = match takes_messages {
            true => queue_target::read(part.target, &context.account.name, context.path_style),
            false => QueueTarget::None,
        };
        let (queue, request, outcome) = match addressed {
            QueueTarget::Messages(queue) => (Some(queue), None, Ok(())),
            QueueTarget::OfOtherAccount => {
                let text = "A transaction puts messages into queues of its own account.";
                (None, None, Err(ApiError::invalid_input(text)))
            }
            QueueTarget::None => match resolve(context, part, &headers, target.path, &query) {
                Ok(request) => (None, Some(request), Ok(())),
                Err(error) => (None, None, Err(error)),
            },
        };
        (Self { part, headers, query, request, queue }, outcome)
    }

    pub(super) fn call<'c>(&'c self, operation: Operation, resource: &'c Resource) -> Call<'c> {
        let (headers, query, body) = (self.headers.of_call, &self.query, self.part.body);
        Call { operation, resource, headers, query, body, asked: None, snapshot: None }
    }

    pub(super) fn error_reply(
        &self,
        context: &RequestContext<'_>,
        error: &ApiError,
        index: Option<usize>,
    ) -> Reply {
        let accepted = media::negotiate(self.headers.of_call.accept, self.query.get("$format"));
        let form = ErrorForm::of(accepted, Some(context.version));
        let preference = self.preference().filter(|_| error.stage != Stage::Parsing);
        let preference_applied = preference.map(Preference::text);
        Reply { preference_applied, ..error_reply(error, form, index, context.trailer()) }
    }

    /// The preference that an error repeats (T-6.48).
    fn preference(&self) -> Option<Preference> {
        let (operation, _) = self.request.as_ref()?;
        self.headers.of_call.preference(operation.facts().answer)
    }

    /// The reply with what its part repeats of the request: its Content-ID, and a version that the
    /// client supports (T-2.20).
    pub(super) fn answered(&self, mut reply: Reply) -> Answered<'a> {
        if let Some(max) = self.headers.of_call.max_data_service_version {
            reply.data_service_version = reply.data_service_version.min(max);
        }
        Answered { reply, content_id: self.headers.content_id }
    }
}

fn resolve(
    context: &RequestContext<'_>,
    part: &Part<'_>,
    headers: &PartHeaders<'_>,
    path: &str,
    query: &Query<'_>,
) -> ApiResult<(Operation, Resource)> {
    let account = &context.account.name;
    let mut verb = Verb::parse(part.method);
    if headers.is_tunnelled {
        let tunnels = part.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(TUNNEL));
        verb = verb.tunnelled(tunnels.map(|(_, value)| value))?;
    }
    let path = uri::percent_decode_lenient(without_account(path, account, context.path_style));
    let has_if_match = headers.of_call.if_match.is_some();
    // Routes that extensions add cannot be parts.
    let marks = Marks { has_if_match, extensions: false };
    route::resolve(verb, ResourcePath::parse(&path), query, account, marks)
}

/// Inner URIs repeat the account segment in path style, as often as the client does, and have none
/// in host style or when they are relative (T-6.6, T-6.7).
fn without_account<'a>(path: &'a str, account: &AccountName, path_style: bool) -> &'a str {
    let (segment, rest) = uri::split_account(path);
    match uri::split_location(segment) {
        (name, location) if path_style && name == account.as_str() => {
            uri::without_repeated_account(rest, name, location)
        }
        _ => path,
    }
}
