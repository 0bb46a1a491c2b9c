//! The outcome of a request: built once when its response is ready, read by metrics, the access log
//! and analytics.

use crate::error::Failure;
use crate::http::meter::{Measured, Outcome};
use crate::http::peer::Peer;
use crate::http::reply::{Reply, Work};
use crate::http::respond::ResponseContext;
use http::request::Parts;
use lazuli_model::Timestamp;
use lazuli_wire::error_code::ErrorCode;
use std::time::Duration;

/// A finished request.
pub(crate) struct Record<'a> {
    pub(crate) context: &'a ResponseContext,
    /// `None` if its head could not be read.
    pub(crate) request: Option<&'a Parts>,
    pub(crate) peer: Peer,
    pub(crate) outcome: Outcome,
    /// `None` if it was cut before its response.
    pub(crate) status: Option<u16>,
    /// Why it failed; a failed batch has the same status as a successful one.
    pub(crate) failure: Option<Failure>,
    /// Bytes of the response body.
    pub(crate) bytes_out: u64,
    /// The work done.
    pub(crate) work: Work,
    /// When the response was ready.
    pub(crate) ended: Timestamp,
}

impl<'a> Record<'a> {
    pub(crate) fn new(
        context: &'a ResponseContext,
        request: &'a Parts,
        peer: Peer,
        reply: &Reply,
        ended: Timestamp,
    ) -> Self {
        Self {
            context,
            request: Some(request),
            peer,
            outcome: outcome(reply.failure),
            status: Some(reply.status),
            failure: reply.failure,
            bytes_out: if context.is_head { 0 } else { reply.body.len() as u64 },
            work: reply.work,
            ended,
        }
    }

    /// A request that was cut: its connection broke, or the server stopped.
    pub(crate) fn cut(
        context: &'a ResponseContext,
        request: &'a Parts,
        peer: Peer,
        ended: Timestamp,
    ) -> Self {
        Self {
            context,
            request: Some(request),
            peer,
            outcome: Outcome::Cut,
            status: None,
            failure: None,
            bytes_out: 0,
            work: Work::default(),
            ended,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let ticks = self.ended.ticks().saturating_sub(self.context.now.ticks());
        Duration::from_nanos(ticks.saturating_mul(100))
    }

    /// What metrics count of it.
    pub(crate) fn measured(&self) -> Measured<'_> {
        Measured {
            slot: self.context.flight.slot,
            outcome: self.outcome,
            elapsed: self.elapsed(),
            account: self.context.target.as_ref().map(|(account, _)| &**account),
            bytes_in: self.context.bytes_in,
            bytes_out: self.bytes_out,
            failure: self.failure,
            work: self.work,
        }
    }
}

fn outcome(failure: Option<Failure>) -> Outcome {
    match failure.map(|failure| failure.code) {
        None => Outcome::Ok,
        Some(ErrorCode::ServerBusy) => Outcome::Throttled,
        Some(code) if code.status() >= 500 => Outcome::ServerError,
        Some(_) => Outcome::ClientError,
    }
}
