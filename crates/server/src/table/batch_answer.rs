//! The response to a batch: the replies to its operations as the parts of one multipart body.

use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use lazuli_wire::multipart::BatchWriter;

/// Expected size of a response part without its body and location.
pub(crate) const PART_BYTES_EXPECTED: usize = 512;
/// The reply to one operation of a batch.
pub(crate) struct Answered<'a> {
    pub(crate) reply: Reply,
    /// Repeated by its part, even if it failed (T-6.49).
    pub(crate) content_id: Option<&'a str>,
}

/// Writes the replies as the parts of one multipart response (T-6.25 to T-6.35).
pub(crate) fn reply(
    context: &RequestContext<'_>,
    answers: &[Answered<'_>],
    change_set: bool,
) -> Reply {
    // The request id is a fresh GUID too, and links the response to the log.
    let id = context.id.as_str();
    let part_bytes = |answer: &Answered<'_>| {
        let location = answer.reply.location.as_ref().map_or(0, String::len);
        PART_BYTES_EXPECTED + 2 * location + answer.reply.body.len()
    };
    let mut body =
        Vec::with_capacity(PART_BYTES_EXPECTED + answers.iter().map(part_bytes).sum::<usize>());
    let mut writer = match change_set {
        true => BatchWriter::answer_change_set(&mut body, id, id),
        false => BatchWriter::answer_query(&mut body, id),
    };
    let content_type = writer.content_type();
    let mut etag = Vec::with_capacity(64);
    for Answered { reply, content_id } in answers {
        etag.clear();
        reply.etag.iter().for_each(|tag| tag.write(&mut etag));
        writer.response(reply.status, part_headers(reply, *content_id, &etag), &reply.body);
    }
    writer.finish();
    let failure = answers.iter().find_map(|answer| answer.reply.failure);
    Reply { content_type: Some(content_type.into()), failure, body, ..Reply::odata(202) }
}

/// The headers of a part, in the recorded order, which differs with and without a body. An empty
/// `etag` is left out.
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
