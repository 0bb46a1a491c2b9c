//! Handlers for messages: put, get, peek, update, delete.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::Routed;
use crate::http::settings::document;
use crate::queue::api::QueueApi;
use crate::queue::parameters::{
    number_of_messages, pop_receipt, put_times, visibility_of_get, visibility_of_update,
    visibility_too_long,
};
use lazuli_model::limits::{MESSAGE_TEXT_BYTES_MAX, MESSAGE_TEXT_BYTES_MAX_2009};
use lazuli_model::{
    MessageId, MessageText, PopReceipt, QueueName, Timestamp, VisibilityNotBelowTimeToLive,
    VisibilityTimeout,
};
use lazuli_queue::{PeekedMessage, PutMessage, QueueError};
use lazuli_wire::pop_receipt;
use lazuli_wire::version::ApiVersion;
use lazuli_wire::xml::{self, ListedMessage, MessageForm};

/// An id that belongs to no message.
const NO_MESSAGE: MessageId = MessageId::from_bytes([0; 16]);

pub(crate) async fn put(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let version = context.version;
    let times = put_times(request.query, version)?;
    let text = read_text(request.body, version)?;
    let put = api.queues.put_message(&context.account.name, queue, &text, times).await?;
    Ok(put_reply(&put, version))
}

pub(crate) async fn get(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let max = number_of_messages(request.query)?;
    let visibility = visibility_of_get(request.query, context.version)?;
    let got = api.queues.get_messages(&context.account.name, queue, max, visibility).await?;
    let got = got.iter().map(|got| listed(&got.message, got.receipt));
    Ok(document(|out| xml::write_messages(out, MessageForm::of_get(context.version), got)))
}

pub(crate) async fn peek(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let max = number_of_messages(request.query)?;
    let peeked = api.queues.peek_messages(&context.account.name, queue, max).await?;
    // A peek returns no receipt.
    let none = PopReceipt::of_get(Timestamp::UNIX_EPOCH);
    let peeked = peeked.iter().map(|message| listed(message, none));
    Ok(document(|out| xml::write_messages(out, MessageForm::Peeked, peeked)))
}

/// An id in another format is looked up too: the response depends on whether the queue exists
///
pub(crate) async fn update(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
    id: Option<MessageId>,
) -> ApiResult<Reply> {
    let held = (id.unwrap_or(NO_MESSAGE), pop_receipt(request.query)?);
    let visibility = visibility_of_update(request.query)?;
    // Without a body the text is unchanged.
    let text = match request.body {
        [] => None,
        body => Some(read_text(body, context.version)?),
    };
    let account = &context.account.name;
    let update = api.queues.update_message(account, queue, held, visibility, text.as_ref());
    let receipt = update.await.map_err(|error| update_error(error, visibility))?.receipt;
    let more = vec![
        ("x-ms-popreceipt", pop_receipt::to_text(receipt)),
        ("x-ms-time-next-visible", receipt.next_visible.rfc1123()),
    ];
    Ok(Reply { more, ..Reply::xml(204, Vec::new()) })
}

/// The id is looked up as in an update.
pub(crate) async fn delete(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
    id: Option<MessageId>,
) -> ApiResult<Reply> {
    let (id, receipt) = (id.unwrap_or(NO_MESSAGE), pop_receipt(request.query)?);
    api.queues.delete_message(&context.account.name, queue, id, receipt).await?;
    Ok(Reply::xml(204, Vec::new()))
}

/// with the error text of Put Message, which refuses the same.
fn update_error(error: QueueError, visibility: VisibilityTimeout) -> ApiError {
    match error {
        QueueError::VisibilityPastExpiry => {
            visibility_too_long(visibility, &VisibilityNotBelowTimeToLive.to_string())
        }
        other => other.into(),
    }
}

/// The text in the body of a request.
pub(crate) fn read_text(body: &[u8], version: ApiVersion) -> ApiResult<MessageText> {
    Ok(MessageText::within(text_bytes_max(version), xml::read_message_text(body)?)?)
}

/// The length of a text.
pub(crate) fn text_bytes_max(version: ApiVersion) -> usize {
    match version.has_large_messages() {
        true => MESSAGE_TEXT_BYTES_MAX,
        false => MESSAGE_TEXT_BYTES_MAX_2009,
    }
}

/// Old versions return no body (Q-2.16, TQ-9).
pub(crate) fn put_reply(put: &PutMessage, version: ApiVersion) -> Reply {
    if !version.has_put_message_body() {
        return Reply::xml(201, Vec::new());
    }
    let listed = ListedMessage {
        id: put.id,
        inserted: put.inserted,
        expires: put.expires,
        receipt: put.receipt,
        dequeue_count: 0,
        text: "",
    };
    let reply = document(|out| xml::write_messages(out, MessageForm::Put, [listed]));
    Reply { status: 201, ..reply }
}

fn listed(message: &PeekedMessage, receipt: PopReceipt) -> ListedMessage<'_> {
    ListedMessage {
        id: message.id,
        inserted: message.inserted,
        expires: message.expires,
        receipt,
        dequeue_count: message.dequeue_count,
        text: message.text.as_str(),
    }
}
