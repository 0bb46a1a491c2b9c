//! Send, receive, update: the operations with options.

use super::message::{self, Message, Receipt, SentMessage};
use super::{Queue, check_count};
use crate::BoxFuture;
use crate::account::Account;
use crate::call::{CallOptions, header};
use crate::error::Error;
use crate::rest::{self, Parameters};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::{PutTimes, QueueName, TimeToLive, VisibilityTimeout};
use lazuli_wire::connection_string::StorageService;
use std::future::IntoFuture;
use std::time::Duration;

const POP_RECEIPT: HeaderName = HeaderName::from_static("x-ms-popreceipt");
const NEXT_VISIBLE: HeaderName = HeaderName::from_static("x-ms-time-next-visible");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// Whole seconds, the unit of the service, rounded up.
fn seconds(duration: Duration) -> i64 {
    let whole = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// A message that a transaction sends to a queue.
#[derive(Clone, Debug)]
pub(crate) struct MessagePart {
    pub(crate) queue: QueueName,
    /// The full address that the message is posted to.
    pub(crate) target: String,
    /// The request body, in the queue service's XML.
    pub(crate) body: Bytes,
}

/// A message that has not been sent yet.
#[derive(Debug)]
#[must_use = "nothing is sent before `.await`"]
pub struct SendMessage {
    queue: Queue,
    body: Result<Bytes, Error>,
    delay: Duration,
    time_to_live: Option<TimeToLive>,
    options: CallOptions,
}

impl SendMessage {
    pub(super) fn new(queue: &Queue, body: Result<Bytes, Error>) -> Self {
        let body = body.and_then(|body| message::encode(&body, queue.encoding));
        let (queue, options) = (queue.clone(), CallOptions::default());
        Self { queue, body, delay: Duration::ZERO, time_to_live: None, options }
    }

    /// Hides the message at first, for up to 7 days, in whole seconds.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// How long the message lives, in whole seconds; 7 days by default.
    pub fn time_to_live(self, life: Duration) -> Self {
        // The service accepts one second or more.
        let life = TimeToLive::parse(seconds(life).max(1));
        Self { time_to_live: life, ..self }
    }

    /// The message never expires.
    pub fn never_expires(self) -> Self {
        Self { time_to_live: Some(TimeToLive::Never), ..self }
    }

    /// Limits the time of the operation with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// The message as a part of a transaction: the queue, and the content of the part.
    pub(crate) fn into_part(self) -> Result<MessagePart, Error> {
        let queue = &self.queue;
        let query = self.query().map_err(|error| queue.place("send", error))?;
        let endpoint = queue.account.0.endpoint(StorageService::Queue);
        let endpoint = endpoint.ok_or_else(|| {
            queue.place("send", Error::config("the account has no queue endpoint"))
        })?;
        let call = queue.messages_call("send", Method::POST, query);
        let mut target = format!("{}{}", endpoint.primary, call.path);
        if !call.query.is_empty() {
            target = format!("{target}?{}", call.query);
        }
        let body = self.body.map_err(|error| queue.place("send", error))?;
        let queue = queue.name.clone();
        Ok(MessagePart { queue, target, body })
    }

    /// The account of the queue.
    pub(crate) fn account(&self) -> &Account {
        &self.queue.account
    }

    /// The parameters of the request.
    fn query(&self) -> Result<Parameters, Error> {
        let delay = VisibilityTimeout::of_put_or_update(seconds(self.delay))
            .ok_or_else(|| Error::config("a message is hidden for at most 7 days"))?;
        let life = self.time_to_live.unwrap_or_default();
        PutTimes::new(delay, life).map_err(|error| Error::config(error.to_string()))?;
        let life = self.time_to_live.map(|life| match life {
            TimeToLive::Seconds(seconds) => seconds.to_string(),
            TimeToLive::Never => "-1".to_owned(),
        });
        let delay = (delay.seconds() > 0).then(|| delay.seconds().to_string());
        Ok(Parameters::new()
            .and_if("visibilitytimeout", delay.as_deref())
            .and_if("messagettl", life.as_deref()))
    }

    async fn run(self) -> Result<SentMessage, Error> {
        let query = self.query().map_err(|error| self.queue.place("send", error))?;
        let queue = self.queue;
        let place = |error| queue.place("send", error);
        let body = self.body.map_err(place)?;
        let mut call = queue.messages_call("send", Method::POST, query);
        call.headers.insert(CONTENT_TYPE, XML);
        call.body = body;
        call.options = self.options;
        let answer = queue.exchange(call).await?;
        SentMessage::read(&answer.body).map_err(place)
    }
}

impl IntoFuture for SendMessage {
    type Output = Result<SentMessage, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A receive that has not been sent yet.
#[must_use = "nothing is sent before `.await`"]
pub struct Receive {
    queue: Queue,
    count: usize,
    visibility: Option<Duration>,
    options: CallOptions,
}

impl Receive {
    pub(super) fn new(queue: &Queue, count: usize) -> Self {
        Self { queue: queue.clone(), count, visibility: None, options: CallOptions::default() }
    }

    /// How long the messages are hidden from others: 1 s to 7 days, in whole seconds; 30 s by default.
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility: Some(visibility), ..self }
    }

    /// Limits the time of the operation with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<Vec<Message>, Error> {
        let queue = self.queue;
        let place = |error| queue.place("receive", error);
        let count = check_count(self.count).map_err(place)?;
        let visibility = self.visibility.map(|visibility| {
            let timeout = VisibilityTimeout::of_get(seconds(visibility));
            timeout.ok_or_else(|| place(Error::config("messages are hidden for 1 s to 7 days")))
        });
        let visibility = visibility.transpose()?.map(|timeout| timeout.seconds().to_string());
        let query = Parameters::new()
            .and("numofmessages", &count)
            .and_if("visibilitytimeout", visibility.as_deref());
        // It counts as a read: if the answer is lost, its messages become visible again by themselves.
        let mut call = queue.messages_call("receive", Method::GET, query);
        call.options = self.options;
        let answer = queue.exchange(call).await?;
        let messages = queue.read_messages("receive", &answer)?.into_iter();
        messages.map(|m| Message::from_answer(m, queue.encoding).map_err(place)).collect()
    }
}

impl IntoFuture for Receive {
    type Output = Result<Vec<Message>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// An update of a received message. Its receipt is void afterwards: use the new one.
#[must_use = "nothing is sent before `.await`"]
pub struct UpdateMessage {
    queue: Queue,
    receipt: Receipt,
    visibility: Duration,
    body: Option<Result<Bytes, Error>>,
    options: CallOptions,
}

impl UpdateMessage {
    pub(super) fn new(queue: &Queue, receipt: &Receipt) -> Self {
        Self {
            queue: queue.clone(),
            receipt: receipt.clone(),
            visibility: Duration::ZERO,
            body: None,
            options: CallOptions::default(),
        }
    }

    /// How long the message is hidden from now on, up to 7 days; by default it becomes visible at once.
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility, ..self }
    }

    /// Replaces the body.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        let body = message::encode(&body.into(), self.queue.encoding);
        Self { body: Some(body), ..self }
    }

    /// Limits the time of the operation with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<Receipt, Error> {
        let queue = self.queue;
        let place = |error| queue.place("update message", error);
        let visibility = VisibilityTimeout::of_put_or_update(seconds(self.visibility))
            .ok_or_else(|| place(Error::config("a message is hidden for at most 7 days")))?;
        let query = Parameters::new()
            .and("popreceipt", &self.receipt.pop_receipt)
            .and("visibilitytimeout", &visibility.seconds().to_string());
        let mut call = queue.message_call("update message", Method::PUT, &self.receipt, query);
        if let Some(body) = self.body {
            call.headers.insert(CONTENT_TYPE, XML);
            call.body = body.map_err(place)?;
        }
        call.options = self.options;
        let answer = queue.account.exchange(&call).await.map_err(place)?;
        if answer.status != StatusCode::NO_CONTENT {
            return Err(queue.receipt_error(answer, "update message"));
        }
        let pop_receipt = header(&answer.headers, &POP_RECEIPT).map(str::to_owned);
        let is_timed = rest::time(&answer.headers, &NEXT_VISIBLE).is_some();
        match pop_receipt {
            Some(pop_receipt) if is_timed => Ok(Receipt { id: self.receipt.id, pop_receipt }),
            _ => Err(place(Error::protocol("the answer has no receipt"))),
        }
    }
}

impl IntoFuture for UpdateMessage {
    type Output = Result<Receipt, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
