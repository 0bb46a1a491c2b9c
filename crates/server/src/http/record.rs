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
    pub(crate) request: &'a Parts,
    pub(crate) peer: Peer,
    pub(crate) status: u16,
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
            request,
            peer,
            status: reply.status,
            failure: reply.failure,
            bytes_out: if context.is_head { 0 } else { reply.body.len() as u64 },
            work: reply.work,
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
            outcome: self.outcome(),
            elapsed: self.elapsed(),
            account: self.context.target.as_ref().map(|(account, _)| &**account),
            bytes_in: self.context.bytes_in,
            bytes_out: self.bytes_out,
            failure: self.failure,
            work: self.work,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.failure.map(|failure| failure.code) {
            None => Outcome::Ok,
            Some(ErrorCode::ServerBusy) => Outcome::Throttled,
            Some(code) if code.status() >= 500 => Outcome::ServerError,
            Some(_) => Outcome::ClientError,
        }
    }
}
