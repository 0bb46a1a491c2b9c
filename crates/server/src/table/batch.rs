//! Entity group transactions: parts in, one commit, parts out.

use crate::auth::permit::Principal;
use crate::http::answer_memory::AnswerMemory;
use crate::http::error::{ApiError, ApiResult, Stage};
use crate::http::profile;
use crate::http::reply::Reply;
use crate::http::request::{CallHeaders, ErrorForm, Preference, RequestContext};
use crate::http::request_headers::TUNNEL;
use crate::http::respond::error_reply;
use crate::table::handlers::{self as table, Call};
use crate::table::operation::Operation;
use crate::table::route::{self, Verb};
use lazuli_model::{AccountName, EntityError, TableName, Timestamp};
use lazuli_table::{Batch, BatchFailure, Mutation, TableError, TableService};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::media;
use lazuli_wire::multipart::{self, BatchBody, BatchWriter, Part};
use lazuli_wire::uri::{self, Query, ResourcePath, Target};

/// Room for what a part of an answer has beside its body and its location.
const PART_BYTES_EXPECTED: usize = 512;
/// Room for what is taken over from the body of a batch: an inserted entity is echoed with
/// annotations, and keys stand in several addresses, escaped.
const ANSWER_TO_BODY_EXPECTED: usize = 4;

/// Runs a batch: one change set, or one query.
pub(crate) async fn handle(
    service: &TableService,
    answers: &AnswerMemory,
    context: &RequestContext,
    call: &Call<'_>,
    principal: &Principal,
) -> ApiResult<Reply> {
    let malformed = || ApiError::invalid_input(message::INPUT_NOT_VALID);
    let content_type = call.headers.content_type.unwrap_or_default();
    let boundary = multipart::boundary(content_type).ok_or_else(malformed)?;
    match multipart::parse_batch(call.body, boundary).map_err(|_| malformed())? {
        BatchBody::ChangeSet(parts) => {
            let bytes =
                ANSWER_TO_BODY_EXPECTED * call.body.len() + PART_BYTES_EXPECTED * parts.len();
            answers.hold(bytes, answer_changes(service, context, call, &parts, principal)).await
        }
        BatchBody::Query(part) => {
            answers.hold_page(answer_query(service, context, call, &part, principal)).await
        }
    }
}

async fn answer_changes(
    service: &TableService,
    context: &RequestContext,
    call: &Call<'_>,
    parts: &[Part<'_>],
    principal: &Principal,
) -> ApiResult<Reply> {
    let mut heads = Vec::with_capacity(parts.len());
    for part in parts {
        heads.push(PartHead::new(context, call, part, heads.last()));
    }
    let content_ids = heads.iter().map(|head| head.headers.content_id);
    let answers = match change(service, context, parts, &heads, principal).await {
        Ok(replies) => replies.into_iter().zip(content_ids).collect(),
        // A batch that was not even tried is refused whole.
        Err(fault) if fault.error.code == ErrorCode::ServerBusy => return Err(fault.error),
        Err(fault) => {
            let content_id = heads.get(fault.index).and_then(|head| head.headers.content_id);
            vec![(fault.reply(context, &heads), content_id)]
        }
    };
    Ok(multipart_reply(context, &answers, true))
}

async fn answer_query(
    service: &TableService,
    context: &RequestContext,
    call: &Call<'_>,
    part: &Part<'_>,
    principal: &Principal,
) -> ApiResult<Reply> {
    let head = PartHead::new(context, call, part, None);
    let reply = match query(service, context, part, &head, principal).await {
        Ok(reply) => reply,
        // A query that fails names its index even though it is alone (T-6.55).
        Err(error) => head.error_reply(context, &error, Some(0)),
    };
    Ok(multipart_reply(context, &[(reply, head.headers.content_id)], false))
}

/// What a part says beside its method, target and body.
struct PartHead<'a> {
    headers: PartHeaders<'a>,
    query: Query<'a>,
    path: &'a str,
    takes_prefer: bool,
}

/// The headers of the request in a part.
#[derive(Clone, Copy)]
struct PartHeaders<'a> {
    all: multipart::Headers<'a>,
    of_call: CallHeaders<'a>,
    /// Echoed when it stands among the headers of the inner request (T-6.14).
    content_id: Option<&'a str>,
    /// Whether there is an `X-HTTP-Method`.
    is_tunnelled: bool,
}

impl<'a> PartHeaders<'a> {
    fn new(context: &RequestContext, batch: &Call<'a>, all: multipart::Headers<'a>) -> Self {
        let (mut of_call, mut content_id, mut is_tunnelled) = (CallHeaders::default(), None, false);
        for (name, value) in all.iter() {
            of_call.add(name, value);
            if name.eq_ignore_ascii_case("content-id") {
                content_id.get_or_insert(value);
            }
            is_tunnelled |= name.eq_ignore_ascii_case(TUNNEL);
        }
        of_call = of_call.known_at(context.version);
        of_call.accept = of_call.accept.or(batch.headers.accept);
        Self { all, of_call, content_id, is_tunnelled }
    }
}

impl<'a> PartHead<'a> {
    /// Headers that are those of the part before, as they mostly are, are not read again.
    fn new(
        context: &RequestContext,
        batch: &Call<'a>,
        part: &'a Part<'a>,
        before: Option<&Self>,
    ) -> Self {
        let target = Target::parse(part.target);
        let repeated = before.map(|before| before.headers).filter(|h| h.all == part.headers);
        Self {
            headers: repeated.unwrap_or_else(|| PartHeaders::new(context, batch, part.headers)),
            // A query that cannot be read at all is none.
            query: Query::parse_lenient(target.query.unwrap_or_default()).unwrap_or_default(),
            path: target.path,
            takes_prefer: part.method == "POST",
        }
    }

    fn call<'c>(&'c self, operation: &'c Operation, part: &'c Part<'c>) -> Call<'c> {
        Call { operation, headers: self.headers.of_call, query: &self.query, body: part.body }
    }

    fn error_reply(
        &self,
        context: &RequestContext,
        error: &ApiError,
        index: Option<usize>,
    ) -> Reply {
        let accepted = media::negotiate(self.headers.of_call.accept, self.query.get("$format"));
        let form = ErrorForm::of(accepted, false);
        let applies = self.takes_prefer && error.stage != Stage::Parsing;
        let preference = self.headers.of_call.preference().filter(|_| applies);
        let preference_applied = preference.map(Preference::text);
        Reply { preference_applied, ..error_reply(error, form, index, context.trailer()) }
    }
}

/// The first operation that failed, and why.
struct Fault {
    index: usize,
    error: ApiError,
}

impl Fault {
    /// In a change set of one operation a fault found at execution has no index (T-6.39, T-6.40).
    fn reply(&self, context: &RequestContext, heads: &[PartHead<'_>]) -> Reply {
        let lone_at_execution = heads.len() == 1 && self.error.stage == Stage::Execution;
        let index = (!lone_at_execution).then_some(self.index);
        match heads.get(self.index) {
            Some(head) => head.error_reply(context, &self.error, index),
            None => error_reply(&self.error, ErrorForm::Xml, index, context.trailer()),
        }
    }
}

impl From<BatchFailure> for Fault {
    fn from(failure: BatchFailure) -> Self {
        Self { index: failure.index, error: failure.error.into() }
    }
}

/// Decodes every operation, applies all of them or none, and answers each.
async fn change(
    service: &TableService,
    context: &RequestContext,
    parts: &[Part<'_>],
    heads: &[PartHead<'_>],
    principal: &Principal,
) -> Result<Vec<Reply>, Fault> {
    if parts.is_empty() {
        // The service has nothing to say about nothing, and says so (recorded: an empty batch of
        // an old client is answered 202 with an empty change set).
        return Ok(Vec::new());
    }
    let mut operations = Vec::with_capacity(parts.len());
    let mut fault = None;
    for (index, (part, head)) in parts.iter().zip(heads).enumerate() {
        match resolve(context, part, head) {
            Ok(operation) => operations.push(operation),
            Err(error) => {
                fault = Some(Fault { index, error });
                break;
            }
        }
    }
    let mut mutations = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        let (Some(part), Some(head)) = (parts.get(index), heads.get(index)) else { break };
        let call = head.call(operation, part);
        match decode(context, &call, principal) {
            Ok((table, mutation)) => mutations.push((table, mutation)),
            Err(error) => {
                let error = table::blame(service, context, operation, error).await;
                fault = Some(Fault { index, error });
                break;
            }
        }
    }
    // An earlier operation that breaks a rule of the batch is told before a later one that is bad
    // in itself.
    let batch = match (assemble(context, mutations), fault) {
        (Err(broken), Some(fault)) if fault.index == 0 || broken.index >= fault.index => {
            return Err(fault);
        }
        (Err(broken), _) => return Err(broken),
        (Ok(_), Some(fault)) => return Err(fault),
        (Ok(batch), None) => batch,
    };
    if let Some(first) = batch.mutations().first() {
        let admitted = table::admit(context, batch.table(), first.key(), parts.len());
        admitted.map_err(|error| Fault { index: 0, error })?;
    }
    let (batch, timestamp) = transact(service, context, batch).await?;
    let answer = |(index, mutation)| {
        let failed = |error| Fault { index, error };
        let missing = || failed(ErrorCode::InternalError.into());
        let operation: &Operation = operations.get(index).ok_or_else(missing)?;
        let (part, head) = parts.get(index).zip(heads.get(index)).ok_or_else(missing)?;
        let call = head.call(operation, part);
        table::mutation_reply(context, &call, batch.table(), mutation, timestamp).map_err(failed)
    };
    batch.mutations().iter().enumerate().map(answer).collect()
}

/// Makes a batch; one across partitions only where that is let pass (TR-69).
fn assemble<'a>(
    context: &RequestContext,
    operations: Vec<(&TableName, Mutation<'a>)>,
) -> Result<Batch<'a>, Fault> {
    let tolerance = &context.tolerance;
    if tolerance.is_lenient()
        && let Err(BatchFailure { index, error: error @ TableError::DifferentPartition }) =
            Batch::check(&operations)
    {
        let fault = profile::Fault::SeveralPartitions;
        let tolerated = tolerance.tolerate(fault, error.into(), || Some(()));
        tolerated.map_err(|error| Fault { index, error })?;
        return Ok(Batch::across_partitions(operations)?);
    }
    Ok(Batch::new(operations)?)
}

/// Applies a batch. That a merge makes an entity too wide is found out where it is stored (TR-29).
async fn transact<'a>(
    service: &TableService,
    context: &RequestContext,
    batch: Batch<'a>,
) -> Result<(Batch<'a>, Timestamp), Fault> {
    let account = &context.account.name;
    match service.transact(account, &batch).await {
        Err(BatchFailure { index, error: TableError::Entity(error) })
            if context.tolerance.is_lenient() && error == EntityError::TooManyProperties =>
        {
            let tolerated = context.tolerance.tolerate_properties(error);
            tolerated.map_err(|error| Fault { index, error })?;
            let batch = batch.relaxed();
            let timestamp = service.transact(account, &batch).await?;
            Ok((batch, timestamp))
        }
        outcome => Ok((batch, outcome?)),
    }
}

/// The permission of each operation is its own; its key is known once it is decoded.
fn decode<'a>(
    context: &RequestContext,
    call: &Call<'a>,
    principal: &Principal,
) -> ApiResult<(&'a TableName, Mutation<'a>)> {
    principal.permit(call)?;
    let (table, mutation) = table::decode_mutation(context, call)?;
    principal.permit_key(mutation.key())?;
    Ok((table, mutation))
}

async fn query(
    service: &TableService,
    context: &RequestContext,
    part: &Part<'_>,
    head: &PartHead<'_>,
    principal: &Principal,
) -> ApiResult<Reply> {
    let operation = resolve(context, part, head)?;
    let call = head.call(&operation, part);
    match operation {
        Operation::GetEntity { .. } | Operation::QueryEntities { .. } => {
            table::handle(service, context, &call, principal).await
        }
        _ => Err(ErrorCode::NotImplemented.into()),
    }
}

/// Names the operation of a part, through the router that lone requests pass.
fn resolve(context: &RequestContext, part: &Part<'_>, head: &PartHead<'_>) -> ApiResult<Operation> {
    let account = &context.account.name;
    let mut verb = Verb::parse(part.method);
    if head.headers.is_tunnelled {
        let tunnels = part.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(TUNNEL));
        verb = verb.tunnelled(tunnels.map(|(_, value)| value))?;
    }
    let path = uri::percent_decode_lenient(without_account(head.path, account, context.path_style));
    let operation = route::resolve(verb, ResourcePath::parse(&path), &head.query, account);
    operation.map_err(ApiError::while_parsing)
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

/// Writes the replies as the parts of one multipart answer (T-6.25 to T-6.35). Each comes with the
/// Content-ID that its part repeats (T-6.49).
fn multipart_reply(
    context: &RequestContext,
    answers: &[(Reply, Option<&str>)],
    change_set: bool,
) -> Reply {
    // The id of the request is as fresh a GUID as any, and ties the answer to the log.
    let id = context.id.as_str();
    let part_bytes = |(reply, _): &(Reply, Option<&str>)| {
        let location = reply.location.as_ref().map_or(0, String::len);
        PART_BYTES_EXPECTED + 2 * location + reply.body.len()
    };
    let mut body =
        Vec::with_capacity(PART_BYTES_EXPECTED + answers.iter().map(part_bytes).sum::<usize>());
    let mut writer = match change_set {
        true => BatchWriter::answer_change_set(&mut body, id, id),
        false => BatchWriter::answer_query(&mut body, id),
    };
    let content_type = writer.content_type();
    let mut etag = Vec::with_capacity(64);
    for (reply, content_id) in answers {
        etag.clear();
        reply.etag.iter().for_each(|tag| tag.write(&mut etag));
        writer.response(reply.status, part_headers(reply, *content_id, &etag), &reply.body);
    }
    writer.finish();
    let failure = answers.iter().find_map(|(reply, _)| reply.failure);
    Reply { content_type: Some(content_type.into()), failure, body, ..Reply::odata(202) }
}

/// The headers of a part, in the recorded order, which is not the same with and without a body. An
/// empty `etag` is none.
fn part_headers<'r>(
    reply: &'r Reply,
    content_id: Option<&'r str>,
    etag: &'r [u8],
) -> impl Iterator<Item = (&'r str, &'r [u8])> {
    let header = |name: &'r str, text: &'r str| (name, text.as_bytes());
    let version = Some(header("DataServiceVersion", reply.data_service_version.text()));
    let content_type = reply.content_type.as_deref().map(|text| header("Content-Type", text));
    let content_id = content_id.map(|id| header("Content-ID", id));
    let sniffing = Some(header("X-Content-Type-Options", "nosniff"));
    let uncached = reply.no_cache.then_some(header("Cache-Control", "no-cache"));
    let preference = reply.preference_applied.map(|text| header("Preference-Applied", text));
    let location = reply.location.as_deref().map(|uri| header("Location", uri));
    let id = reply.location.as_deref().map(|uri| header("DataServiceId", uri));
    let etag = (!etag.is_empty()).then_some(("ETag", etag));
    let order = match (reply.is_error(), reply.body.is_empty()) {
        (true, _) => {
            [content_id, sniffing, uncached, preference, version, content_type, None, None]
        }
        (false, false) => {
            [version, content_type, content_id, sniffing, uncached, preference, location, etag]
        }
        (false, true) => [content_id, sniffing, uncached, preference, version, location, id, etag],
    };
    order.into_iter().flatten()
}
