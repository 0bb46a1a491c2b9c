//! Queues, as far as the patterns need them (C-17.1 to C-17.3).
//!
//! ```no_run
//! # use lazuli_client::prelude::*;
//! # use std::time::Duration;
//! # async fn run(account: Account) -> Result<(), Error> {
//! let orders = account.queues().create_if_missing("orders").await?;
//! orders.send("one more").delay(Duration::from_secs(5)).await?;
//! for message in orders.receive(32).visibility(Duration::from_secs(60)).await? {
//!     println!("{}", String::from_utf8_lossy(&message.body));
//!     orders.delete(&message.receipt).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod message;
mod queues;
mod verbs;

pub use message::{Message, MessageEncoding, PeekedMessage, Receipt, SentMessage};
pub use queues::Queues;
pub(crate) use verbs::MessagePart;
pub use verbs::{Receive, SendMessage, UpdateMessage};

use crate::account::Account;
use crate::call::{Answer, Call, header};
use crate::error::{Error, ErrorKind};
use crate::rest::{self, Parameters};
use crate::write::{Deleted, Proof};
use bytes::Bytes;
use http::{HeaderName, Method, StatusCode};
use lazuli_model::limits::MESSAGES_PER_GET_MAX;
use lazuli_model::{Metadata, QueueName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::xml;

const APPROXIMATE_COUNT: HeaderName = HeaderName::from_static("x-ms-approximate-messages-count");

/// A queue. Cheap to clone.
///
/// ```no_run
/// use lazuli_client::prelude::*;
/// use lazuli_client::queue::MessageEncoding;
/// use std::time::Duration;
///
/// # async fn run(account: Account) -> Result<(), Error> {
/// let second = Duration::from_secs(1);
/// // Messages that other programs read as they are, without base64.
/// let events = account.queues().create_if_missing("events").await?.plain_text();
/// events.set_metadata([("owner", "checkout")]).await?;
/// println!("{:?}", events.metadata().await?);
/// events.send("paid").time_to_live(60 * second).timeout(5 * second).await?;
/// events.send("shipped").never_expires().await?;
///
/// println!("{} messages", events.approximate_count().await?);
/// for message in events.peek(32).await? {
///     assert_eq!(message.encoding, MessageEncoding::Text);
///     println!("{} received {} times", message.id, message.dequeue_count);
/// }
/// for message in events.receive(1).visibility(30 * second).await? {
///     // It takes longer than expected: the message gets a new receipt.
///     let receipt = events.update(&message.receipt).visibility(300 * second).await?;
///     events.delete(&receipt).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    account: Account,
    name: QueueName,
    encoding: MessageEncoding,
}

impl Queue {
    fn new(account: Account, name: QueueName) -> Self {
        Self { account, name, encoding: MessageEncoding::Base64 }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The account that the queue belongs to.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The same queue, with message bodies as plain text instead of base64.
    #[must_use]
    pub fn plain_text(mut self) -> Self {
        self.encoding = MessageEncoding::Text;
        self
    }

    /// Sends a message. If the answer is lost and the request is retried, the message may be sent twice: consumers
    /// must tolerate that (C-13).
    pub fn send(&self, body: impl Into<Bytes>) -> SendMessage {
        SendMessage::new(self, Ok(body.into()))
    }

    /// Sends a value as JSON; otherwise like [`Queue::send`].
    pub fn send_json<T: serde::Serialize + ?Sized>(&self, value: &T) -> SendMessage {
        let body = serde_json::to_vec(value).map(Bytes::from);
        SendMessage::new(self, body.map_err(message::not_json))
    }

    /// Receives up to `count` messages, at most 32, and hides them from other consumers: for 30 s, unless
    /// [`Receive::visibility`] says otherwise. If the answer is lost, the messages stay hidden for that time.
    pub fn receive(&self, count: usize) -> Receive {
        Receive::new(self, count)
    }

    /// Peeks at up to `count` messages, at most 32, without receiving them.
    pub async fn peek(&self, count: usize) -> Result<Vec<PeekedMessage>, Error> {
        let count = check_count(count).map_err(|error| self.place("peek", error))?;
        let query = Parameters::new().and("peekonly", "true").and("numofmessages", &count);
        let answer = self.exchange(self.messages_call("peek", Method::GET, query)).await?;
        let messages = self.read_messages("peek", &answer)?;
        Ok(messages.into_iter().map(|m| PeekedMessage::from_answer(m, self.encoding)).collect())
    }

    /// Changes when a message becomes visible again, its body, or both. Fails with [`ErrorKind::ReceiptLost`] if
    /// another consumer has received the message since.
    pub fn update(&self, receipt: &Receipt) -> UpdateMessage {
        UpdateMessage::new(self, receipt)
    }

    /// Deletes a message. Fails with [`ErrorKind::ReceiptLost`] if another consumer has received it since, or it is
    /// gone.
    pub async fn delete(&self, receipt: &Receipt) -> Result<Deleted, Error> {
        let query = Parameters::new().and("popreceipt", &receipt.pop_receipt);
        let call = self.message_call("delete message", Method::DELETE, receipt, query);
        let answer = self.account.exchange(&call).await;
        let answer = answer.map_err(|error| self.place("delete message", error))?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(Deleted::Now(Proof::Answered)),
            // This receipt has become invalid: the message is gone, or another consumer has it.
            StatusCode::NOT_FOUND if answer.is_after_lost => Ok(Deleted::Now(Proof::State)),
            _ => Err(self.receipt_error(answer, "delete message")),
        }
    }

    /// Deletes all messages.
    pub async fn clear(&self) -> Result<(), Error> {
        let call = self.messages_call("clear", Method::DELETE, Parameters::new());
        self.exchange(call).await.map(drop)
    }

    /// The number of messages, including hidden ones; never too low, but possibly too high.
    pub async fn approximate_count(&self) -> Result<u64, Error> {
        let answer = self.metadata_answer("approximate_count").await?;
        let count = header(&answer.headers, &APPROXIMATE_COUNT).and_then(|text| text.parse().ok());
        count.ok_or_else(|| {
            self.place("approximate_count", Error::protocol("the answer has no count"))
        })
    }

    /// The queue's metadata.
    pub async fn metadata(&self) -> Result<Metadata, Error> {
        let answer = self.metadata_answer("metadata").await?;
        Ok(rest::read_metadata(&answer.headers))
    }

    /// Replaces the queue's metadata.
    pub async fn set_metadata<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), Error> {
        let place = |error| self.place("set_metadata", error);
        let metadata = rest::metadata(pairs).map_err(place)?;
        let query = Parameters::new().and("comp", "metadata");
        let mut call = self.call("set_metadata", Method::PUT, "", query);
        rest::write_metadata(&mut call.headers, &metadata).map_err(place)?;
        self.exchange(call).await.map(drop)
    }

    async fn metadata_answer(&self, operation: &'static str) -> Result<Answer, Error> {
        let query = Parameters::new().and("comp", "metadata");
        self.exchange(self.call(operation, Method::GET, "", query)).await
    }

    /// A call whose path is appended to the queue's.
    fn call(&self, operation: &'static str, method: Method, path: &str, query: Parameters) -> Call {
        let path = format!("/{}{path}", self.name);
        rest::call(StorageService::Queue, operation, method, path, query)
    }

    fn messages_call(&self, operation: &'static str, method: Method, query: Parameters) -> Call {
        let call = self.call(operation, method, "/messages", query);
        Call { answer_bytes_max: rest::LIST_BYTES_MAX, ..call }
    }

    fn message_call(
        &self,
        operation: &'static str,
        method: Method,
        receipt: &Receipt,
        query: Parameters,
    ) -> Call {
        let mut path = b"/messages/".to_vec();
        lazuli_wire::uri::percent_encode(&mut path, &receipt.id);
        self.call(operation, method, &String::from_utf8_lossy(&path), query)
    }

    /// Sends a call; an error answer is an error.
    async fn exchange(&self, call: Call) -> Result<Answer, Error> {
        let answer = self.account.exchange(&call).await;
        let answer = answer.map_err(|error| self.place(call.operation, error))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.place(call.operation, answer.into_error(call.operation)))
    }

    fn read_messages(
        &self,
        operation: &'static str,
        answer: &Answer,
    ) -> Result<Vec<xml::AnsweredMessage>, Error> {
        xml::read_messages(&answer.body)
            .map_err(|fault| self.place(operation, Error::protocol(fault)))
    }

    /// The error of an operation that takes a receipt (C-17.3).
    fn receipt_error(&self, answer: Answer, operation: &'static str) -> Error {
        let error = self.place(operation, answer.into_error(operation));
        match error.code() {
            Some("MessageNotFound" | "PopReceiptMismatch") => {
                error.with_kind(ErrorKind::ReceiptLost)
            }
            _ => error,
        }
    }

    fn place(&self, operation: &'static str, error: Error) -> Error {
        error.at(operation, Some(self.name.as_str()), None)
    }
}

/// Checks the number of messages that a request asks for, and returns it as text.
fn check_count(count: usize) -> Result<String, Error> {
    match count {
        1..=MESSAGES_PER_GET_MAX => Ok(count.to_string()),
        _ => Err(Error::config(format!("1 to {MESSAGES_PER_GET_MAX} messages, not {count}"))),
    }
}
