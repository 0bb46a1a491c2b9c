//! One operation: its attempts, and how it fails (C-13).

mod request;

use crate::account::Account;
use crate::credential::{Kind, Secret};
use crate::error::{Error, ErrorAnswer, ErrorKind};
pub(crate) use crate::observe::About;
use crate::observe::{Attempt, record_answer, record_failure};
pub(crate) use crate::options::CallOptions;
use crate::retry::{Failed, Price};
use crate::transport::{Sent, TransportError};
use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{CONTENT_LENGTH, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::error_body::ErrorText;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing::{Instrument, Span};

pub(crate) const X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");
pub(crate) const X_MS_VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const X_MS_CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
pub(crate) const X_MS_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
pub(crate) const X_MS_ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");

/// The service refuses requests from clocks that differ by more.
pub(crate) const SKEW_SECONDS_MAX: u64 = 15 * 60;

/// What an operation sends, the same for all its attempts.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) service: StorageService,
    /// The verb, for errors and spans.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    /// Follows the endpoint: begins with a slash, percent-encoded.
    pub(crate) path: String,
    /// Percent-encoded, without a question mark.
    pub(crate) query: String,
    /// In addition to those that all requests to the service have.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether it changes nothing.
    pub(crate) is_read: bool,
    /// Whether it is not retried once it may have been carried out: a second execution would do harm.
    pub(crate) is_once: bool,
    pub(crate) answer_bytes_max: usize,
    pub(crate) options: CallOptions,
    pub(crate) about: About,
}

/// The last answer to a call, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether an earlier attempt may have been carried out.
    pub(crate) is_after_lost: bool,
    pub(crate) attempts: u32,
    pub(crate) client_request_id: String,
    /// The text that was signed, in debug builds (C-14.5).
    signed: Option<String>,
    /// The span of the operation, open while the answer is read.
    pub(crate) span: Span,
}

/// An attempt without an answer.
struct Failure {
    sent: Sent,
    kind: ErrorKind,
    source: Option<crate::BoxError>,
}

impl Account {
    /// Sends `call` until an answer comes that another attempt would not change.
    pub(crate) async fn exchange(&self, call: &Call) -> Result<Answer, Error> {
        let client_request_id = self.0.env.guid().to_string();
        let span = self.operation_span(call, &client_request_id);
        self.check_grant(call)?;
        let mut state = State::default();
        let result =
            self.attempts(call, &client_request_id, &mut state).instrument(span.clone()).await;
        let is_failure = match &result {
            Ok(answer) => {
                #[cfg(feature = "patterns")]
                self.advise(call, answer);
                record_answer(&span, call, answer)
            }
            Err(error) => {
                record_failure(&span, state.attempts, error.kind());
                true
            }
        };
        self.observe_end(call, is_failure);
        result.map(|answer| Answer { span, ..answer })
    }

    async fn attempts(
        &self,
        call: &Call,
        client_request_id: &str,
        state: &mut State,
    ) -> Result<Answer, Error> {
        let inner = &*self.0;
        let env = &inner.env;
        let total = call.options.timeout.unwrap_or_else(|| inner.timeouts.total_max());
        let deadline = env.elapsed().saturating_add(total);
        loop {
            state.attempts += 1;
            if let Some(throttle) = &call.options.throttle {
                throttle.wait(env, deadline).await;
            }
            let began = env.elapsed();
            let left = deadline.saturating_sub(began);
            let span = tracing::debug_span!(
                "attempt",
                lazuli.attempt = state.attempts,
                http.response.status_code = tracing::field::Empty
            );
            let attempt = self.attempt(call, client_request_id, state, left);
            let outcome = attempt.instrument(span.clone()).await?;
            if let Ok(answer) = &outcome {
                span.record("http.response.status_code", answer.status.as_u16());
            }
            let took = env.elapsed().saturating_sub(began);
            self.observe_attempt(call, &seen(call, client_request_id, state, &outcome, took));
            let next = match &outcome {
                Ok(answer) => self.judge(answer, state),
                Err(failure) => Verdict::Again {
                    pause: None,
                    may_be_done: failure.sent == Sent::Maybe,
                    price: match failure.kind {
                        ErrorKind::Timeout => Price::Timeout,
                        _ => Price::Ordinary,
                    },
                },
            };
            let (pause, price) = match next {
                Verdict::Final => {
                    inner.budget.earn();
                    // The last outcome was an answer.
                    let answer = outcome.map_err(|_| Error::protocol("no answer"))?;
                    return Ok(state.finish(answer, client_request_id));
                }
                Verdict::AtOnce => continue,
                Verdict::Again { pause, may_be_done, price } => {
                    state.is_lost |= may_be_done && !call.is_read;
                    if state.is_lost && call.is_once {
                        return Err(state.give_up(call, outcome, client_request_id));
                    }
                    let failed = failed(state.attempts, &outcome, pause);
                    if let Some(throttle) = &call.options.throttle
                        && is_throttled(&outcome)
                    {
                        let pause = inner.retry.backoff(&failed, env);
                        throttle.slow_down(env.elapsed(), pause);
                        if env.elapsed().saturating_add(pause) < deadline {
                            continue;
                        }
                        return Err(state.give_up(call, outcome, client_request_id));
                    }
                    (inner.retry.pause_after(&failed, env), price)
                }
            };
            let pause = pause.filter(|pause| env.elapsed().saturating_add(*pause) < deadline);
            let Some(pause) = pause else {
                return Err(state.give_up(call, outcome, client_request_id));
            };
            if !inner.budget.take(price) {
                let error = state.give_up(call, outcome, client_request_id);
                return Err(error.with(|context| {
                    context.hint = Some("the account's retry budget is used up".into());
                }));
            }
            tracing::debug!(
                operation = call.operation,
                attempt = state.attempts,
                pause_ms = pause.as_millis() as u64,
                "the request is sent again"
            );
            env.sleep(pause).await;
        }
    }

    /// Sends once. The outer error is the client's own: retrying would not help.
    async fn attempt(
        &self,
        call: &Call,
        client_request_id: &str,
        state: &mut State,
        left: Duration,
    ) -> Result<Result<Answer, Failure>, Error> {
        let inner = &*self.0;
        let timeout = left.min(inner.timeouts.attempt_max());
        let late = |sent| Ok(Err(Failure { sent, kind: ErrorKind::Timeout, source: None }));
        if timeout.is_zero() {
            return late(Sent::No);
        }
        // What comes before the request may take its time: others are under way, the credential is fetched.
        let ready = async {
            let began = inner.env.elapsed();
            // The semaphore is never closed.
            let place = inner.places.acquire().await;
            let left = timeout.saturating_sub(inner.env.elapsed().saturating_sub(began));
            let request = self.request(call, client_request_id, state, left).await;
            request.map(|request| (request, place))
        };
        let ((request, _place), timer) = match select(pin!(ready), inner.env.timer(timeout)).await {
            Either::Left((ready, timer)) => (ready?, timer),
            Either::Right(_) => return late(Sent::No),
        };
        let exchange = async {
            let answer = inner.transport.send(request).await?;
            let (head, body) = answer.into_parts();
            if let Some(bytes) = too_many_bytes(call, &head) {
                let bytes_max = call.answer_bytes_max as u64;
                return Ok(Err(Error::new(ErrorKind::TooLarge { bytes, bytes_max })));
            }
            let body = body.read(call.answer_bytes_max).await;
            let body = body.map_err(|source| TransportError { sent: Sent::Maybe, source })?;
            Ok(Ok(Answer {
                status: head.status,
                headers: head.headers,
                body,
                is_after_lost: false,
                attempts: 0,
                client_request_id: String::new(),
                signed: None,
                span: Span::none(),
            }))
        };
        match select(pin!(exchange), timer).await {
            Either::Left((Ok(answer), _)) => Ok(Ok(answer?)),
            Either::Left((Err(error), _)) => {
                let TransportError { sent, source }: TransportError = error;
                Ok(Err(Failure { sent, kind: ErrorKind::Transport, source: Some(source) }))
            }
            Either::Right(_) => late(Sent::Maybe),
        }
    }

    /// Whether an answer calls for another attempt (C-13.2).
    fn judge(&self, answer: &Answer, state: &mut State) -> Verdict {
        let code = || header(&answer.headers, &X_MS_ERROR_CODE).unwrap_or_default();
        match answer.status.as_u16() {
            403 if !state.is_skew_set && self.set_skew(answer, state.signed_at) => {
                state.is_skew_set = true;
                Verdict::AtOnce
            }
            401 | 403 if !state.is_renewed && self.is_renewable(answer) => {
                state.is_renewed = true;
                Verdict::AtOnce
            }
            408 | 429 => self.again(answer, false),
            500 if matches!(code(), "" | "InternalError" | "OperationTimedOut") => {
                self.again(answer, true)
            }
            502..=504 => self.again(answer, true),
            _ => Verdict::Final,
        }
    }

    fn again(&self, answer: &Answer, may_be_done: bool) -> Verdict {
        let pause = header(&answer.headers, &RETRY_AFTER).and_then(|text| {
            let seconds = text.parse().ok().or_else(|| {
                let until = Timestamp::parse_rfc1123(text)?;
                Some(until.millis_since(self.signed_time()).div_ceil(1000))
            })?;
            Some(Duration::from_secs(seconds))
        });
        Verdict::Again { pause, may_be_done, price: Price::Ordinary }
    }

    /// Whether the credential was refused and its source may have a newer one (C-2.8).
    fn is_renewable(&self, answer: &Answer) -> bool {
        match self.0.credential.load().0 {
            Kind::Token(_) => answer.status == StatusCode::UNAUTHORIZED,
            Kind::SasFrom(_) => answer.error_code() == "AuthenticationFailed",
            _ => false,
        }
    }

    /// Takes over the service's clock if the request was signed with a time too far from it; false if it
    /// was not.
    fn set_skew(&self, answer: &Answer, signed_at: Option<Timestamp>) -> bool {
        let theirs = header(&answer.headers, &DATE).and_then(Timestamp::parse_rfc1123);
        let (Some(theirs), Some(signed_at)) = (theirs, signed_at) else { return false };
        let theirs = theirs.unix_seconds();
        // What is known of the clock may be wrong by now: ours was set right meanwhile, for one.
        let is_far = signed_at.unix_seconds().abs_diff(theirs) > SKEW_SECONDS_MAX;
        if is_far {
            let ours = self.0.env.now().unix_seconds();
            let skew = i64::try_from(theirs).unwrap_or(0) - i64::try_from(ours).unwrap_or(0);
            self.0.skew_seconds.store(skew, Ordering::Relaxed);
        }
        is_far
    }
}

fn is_throttled(outcome: &Result<Answer, Failure>) -> bool {
    outcome.as_ref().is_ok_and(|answer| matches!(answer.status.as_u16(), 429 | 503))
}

/// An attempt as hooks see it.
fn seen<'a>(
    call: &'a Call,
    client_request_id: &'a str,
    state: &State,
    outcome: &Result<Answer, Failure>,
    took: Duration,
) -> Attempt<'a> {
    Attempt {
        operation: call.operation,
        table: call.table(),
        number: state.attempts,
        status: outcome.as_ref().ok().map(|answer| answer.status),
        sent: outcome.as_ref().err().map_or(Sent::Maybe, |failure| failure.sent),
        took,
        sent_bytes: call.body.len(),
        received_bytes: outcome.as_ref().map_or(0, |answer| answer.body.len()),
        client_request_id,
    }
}

/// An attempt as a retry policy sees it.
fn failed(
    attempts: u32,
    outcome: &Result<Answer, Failure>,
    retry_after: Option<Duration>,
) -> Failed {
    Failed {
        attempts,
        status: outcome.as_ref().ok().map(|answer| answer.status),
        sent: outcome.as_ref().err().map_or(Sent::Maybe, |failure| failure.sent),
        retry_after,
    }
}

/// State carried from one attempt to the next.
#[derive(Default)]
struct State {
    attempts: u32,
    /// Whether an attempt may have been carried out.
    is_lost: bool,
    is_skew_set: bool,
    /// The time that was signed last.
    signed_at: Option<Timestamp>,
    /// Whether the credential was fetched once more after it was refused.
    is_renewed: bool,
    /// The last token or signature sent, if it came from a source.
    secret: Option<Secret>,
    /// The last text that was signed, in debug builds.
    signed: Option<String>,
}

impl State {
    fn finish(&mut self, answer: Answer, client_request_id: &str) -> Answer {
        Answer {
            // This answer is about the last attempt; earlier ones may have been carried out.
            is_after_lost: self.is_lost,
            attempts: self.attempts,
            client_request_id: client_request_id.to_owned(),
            signed: self.signed.take(),
            ..answer
        }
    }

    /// The error of a call whose attempts are used up.
    fn give_up(
        &mut self,
        call: &Call,
        outcome: Result<Answer, Failure>,
        client_request_id: &str,
    ) -> Error {
        let error = match outcome {
            Ok(answer) => self.finish(answer, client_request_id).into_error(call.operation),
            Err(failure) => {
                Error::new(failure.kind).at(call.operation, None, None).with(|context| {
                    context.source = failure.source;
                    context.attempts = self.attempts;
                    context.client_request_id = Some(client_request_id.to_owned());
                })
            }
        };
        if !self.is_lost {
            return error;
        }
        let is_idempotent = call.about.is_idempotent;
        error
            .with_kind(ErrorKind::OutcomeUnknown)
            .with(|context| context.is_idempotent = is_idempotent)
    }
}

enum Verdict {
    Final,
    AtOnce,
    Again { pause: Option<Duration>, may_be_done: bool, price: Price },
}

impl Answer {
    /// Turns this answer into an error.
    pub(crate) fn into_error(self, operation: &'static str) -> Error {
        let text = ErrorText::read(&self.body).unwrap_or_default();
        let from_header = |name: &HeaderName| header(&self.headers, name).map(str::to_owned);
        let code = from_header(&X_MS_ERROR_CODE).filter(|code| !code.is_empty());
        let answer = ErrorAnswer {
            status: self.status,
            code: if text.code.is_empty() { code.unwrap_or_default() } else { text.code },
            message: text.message,
            request_id: from_header(&X_MS_REQUEST_ID).or(text.request_id),
            details: text.details,
        };
        let signed = self.signed.filter(|_| answer.status == StatusCode::FORBIDDEN);
        let is_of_stranger = answer.status == StatusCode::NOT_FOUND && answer.code.is_empty();
        let hint =
            is_of_stranger.then_some("a storage service names a code: is the endpoint right?");
        Error::new(kind_of(answer.status, &answer.code)).at(operation, None, None).with(|context| {
            context.answer = Some(answer);
            context.attempts = self.attempts;
            context.client_request_id = Some(self.client_request_id);
            context.may_have_been_applied = self.is_after_lost;
            context.signed = signed;
            context.hint = hint.map(Into::into);
        })
    }
}

/// The kind of an error answer.
pub(crate) fn kind_of(status: StatusCode, code: &str) -> ErrorKind {
    match status.as_u16() {
        401 | 403 => ErrorKind::Forbidden { reason: code.to_owned() },
        404 if code == "TableNotFound" => ErrorKind::TableNotFound,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        409 if code.ends_with("AlreadyExists") => ErrorKind::Conflict,
        412 => ErrorKind::PreconditionFailed,
        429 | 503 => ErrorKind::Throttled,
        500 | 504 if code == "OperationTimedOut" => ErrorKind::Timeout,
        _ => ErrorKind::Service,
    }
}

/// The length of an answer that is larger than the call allows. It is not read, and not retried.
fn too_many_bytes(call: &Call, head: &http::response::Parts) -> Option<u64> {
    // An answer to HEAD states a length but has no body.
    let has_body = call.method != Method::HEAD && head.status.is_success();
    let bytes = header(&head.headers, &CONTENT_LENGTH).and_then(|text| text.parse().ok())?;
    (has_body && bytes > call.answer_bytes_max as u64).then_some(bytes)
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// A header value; an error if the text has characters that headers cannot have.
pub(crate) fn text_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::config("a header's value has a character it may not have"))
}

#[cfg(test)]
mod tests;
