//! Handlers for messages: put, get, peek, clear, update, delete.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::Routed;
use crate::http::settings::document;
use crate::queue::api::QueueApi;
use crate::queue::error::unsupported_verb;
use crate::queue::operation::Operation;
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

/// An id that no message has.
const NO_MESSAGE: MessageId = MessageId::from_bytes([0; 16]);

/// Runs an operation on the messages of a queue.
pub(crate) async fn of_queue(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    operation: Operation,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let (account, version) = (&context.account.name, context.version);
    match operation {
        Operation::PutMessage => {
            let times = put_times(request.query, version)?;
            let text = read_text(request.body, version)?;
            let put = api.queues.put_message(account, queue, &text, times).await?;
            Ok(put_reply(&put, version))
        }
        Operation::GetMessage | Operation::GetMessages => {
            let max = number_of_messages(request.query)?;
            let visibility = visibility_of_get(request.query, version)?;
            let got = api.queues.get_messages(account, queue, max, visibility).await?;
            let got = got.iter().map(|got| listed(&got.message, got.receipt));
            Ok(document(|out| xml::write_messages(out, MessageForm::of_get(version), got)))
        }
        Operation::PeekMessage | Operation::PeekMessages => {
            let max = number_of_messages(request.query)?;
            let peeked = api.queues.peek_messages(account, queue, max).await?;
            // A peek returns no receipt.
            let none = PopReceipt::of_get(Timestamp::UNIX_EPOCH);
            let peeked = peeked.iter().map(|message| listed(message, none));
            Ok(document(|out| xml::write_messages(out, MessageForm::Peeked, peeked)))
        }
        Operation::ClearMessages => {
            api.queues.clear_messages(account, queue).await?;
            Ok(Reply::xml(204, Vec::new()))
        }
        _ => Err(unsupported_verb()),
    }
}

/// Runs an operation on one message.
pub(crate) async fn of_message(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    operation: Operation,
    queue: &QueueName,
    id: Option<MessageId>,
) -> ApiResult<Reply> {
    let account = &context.account.name;
    let receipt = pop_receipt(request.query)?;
    // An id in another format is looked up too: the response depends on whether the queue exists
    //
    let id = id.unwrap_or(NO_MESSAGE);
    match operation {
        Operation::UpdateMessage => {
            let visibility = visibility_of_update(request.query)?;
            // Without a body the text is unchanged.
            let text = match request.body {
                [] => None,
                body => Some(read_text(body, context.version)?),
            };
            let held = (id, receipt);
            let update = api.queues.update_message(account, queue, held, visibility, text.as_ref());
            let receipt = update.await.map_err(|error| update_error(error, visibility))?.receipt;
            let more = vec![
                ("x-ms-popreceipt", pop_receipt::to_text(receipt)),
                ("x-ms-time-next-visible", receipt.next_visible.rfc1123()),
            ];
            Ok(Reply { more, ..Reply::xml(204, Vec::new()) })
        }
        Operation::DeleteMessage => {
            api.queues.delete_message(account, queue, id, receipt).await?;
            Ok(Reply::xml(204, Vec::new()))
        }
        _ => Err(unsupported_verb()),
    }
}

/// in the words of Put Message, which refuses the same.
fn update_error(error: QueueError, visibility: VisibilityTimeout) -> ApiError {
    match error {
        QueueError::VisibilityPastExpiry => {
            visibility_too_long(visibility, &VisibilityNotBelowTimeToLive.to_string())
        }
        other => other.into(),
    }
}

/// The text in the body of a request.
fn read_text(body: &[u8], version: ApiVersion) -> ApiResult<MessageText> {
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
fn put_reply(put: &PutMessage, version: ApiVersion) -> Reply {
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
