//! Checks whether the responses of a queue are consistent.
//!
//! Each message is checked separately, with all calls that concern it: some order of these calls
//! must explain every response ([`crate::checker`]). That covers the promises about it:
//!
//! - After an acknowledged put it exists until a call deletes it (acknowledged or of unknown
//!   outcome), the queue is cleared or deleted, or it expires.
//! - No one else gets it while another client's receipt is valid, by the clock.
//! - Only its last receipt changes it; a void receipt is refused.
//! - Its dequeue count grows by one with each get, and no peek changes anything.
//! - A get returns nothing, and a peek with room for more omits it, only if it is not visible.
//!
//! The queue itself is checked in the same way: its existence, metadata and policies. The rest
//! checks counts, and that no id or receipt occurs twice.

use super::history::{Call, Mark, Request, Response, SECOND, Ticks};
use super::model::{Catalog, OneMessage};
use crate::checker::{Verdict, search};
use crate::record::Report;
use std::collections::{BTreeMap, BTreeSet};

/// How a queue delivers and counts messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// One process writes: counts are exact. A get may miss messages that another get is about to take.
    OneWriter,
    /// Counts may be a second old, and wrong by what was put within it: counted twice, or removed
    /// without having been counted.
    ManyWriters,
}

/// Checks a history that begins without a queue. A failure shows all of it.
pub fn check(promise: Promise, history: &[Call]) -> Result<Report, String> {
    judge(promise, history).map_err(|failure| {
        let mut calls: Vec<&Call> = history.iter().collect();
        calls.sort_by_key(|call| call.invoked);
        let calls: Vec<String> = calls.into_iter().map(ToString::to_string).collect();
        format!("{failure}\nin the history\n{}", calls.join("\n"))
    })
}

fn judge(promise: Promise, history: &[Call]) -> Result<Report, String> {
    let count = |of: fn(&Response) -> bool| history.iter().filter(|c| of(&c.response)).count();
    let mut report = Report {
        calls: history.len(),
        unknown: count(|response| *response == Response::Unknown),
        refused: count(|response| {
            matches!(response, Response::NotDone | Response::MessageNotFound)
        }),
        ..Report::default()
    };
    let mut note = |what: &str, verdict| match verdict {
        Verdict::Linearizable => Ok(()),
        Verdict::Undecided => {
            report.undecided = 1;
            Ok(())
        }
        Verdict::Violation(violation) => Err(format!("{what}: {violation}")),
    };
    note("the queue", search(Catalog::default(), of_catalog(history)))?;
    for mark in marks(history) {
        check_identity(history, mark)?;
        note(&format!("message {mark}"), search(OneMessage::new(mark), of_message(history, mark)))?;
    }
    for call in history {
        check_count(promise, history, call)?;
    }
    Ok(report)
}

fn marks(history: &[Call]) -> BTreeSet<Mark> {
    let named = history.iter().filter_map(|call| call.request.mark());
    let shown = history.iter().flat_map(|call| match &call.response {
        Response::Messages(shown) => shown.iter().map(|shown| shown.mark).collect(),
        _ => Vec::new(),
    });
    named.chain(shown).collect()
}

/// Whether a response needs an explanation: calls that certainly did nothing, and reads without a
/// response, do not.
fn counts(call: &Call) -> bool {
    match call.response {
        Response::NotDone => false,
        Response::Unknown => call.request.writes(),
        _ => true,
    }
}

fn of_catalog(history: &[Call]) -> Vec<Call> {
    let is_own = |call: &&Call| match (&call.request, &call.response) {
        (
            Request::CreateQueue { .. }
            | Request::DeleteQueue
            | Request::SetMetadata(_)
            | Request::SetAcl(_),
            _,
        ) => true,
        // Whether it was done changes nothing here.
        (_, response) => *response != Response::Unknown,
    };
    history.iter().filter(|call| counts(call)).filter(is_own).cloned().collect()
}

/// The calls that concern a message or its queue.
fn of_message(history: &[Call], mark: Mark) -> Vec<Call> {
    let gets: Vec<&Call> =
        history.iter().filter(|call| matches!(call.request, Request::Get { .. })).collect();
    let is_met =
        |call: &Call| gets.iter().any(|get| get.invoked != call.invoked && get.overlaps(call));
    let concerns = |call: &&Call| match (&call.request, &call.response) {
        (_, Response::QueueNotFound) => false,
        (Request::CreateQueue { .. }, response) => {
            matches!(response, Response::Created | Response::Unknown)
        }
        (Request::DeleteQueue | Request::Clear, _) => true,
        (Request::Get { .. }, Response::Messages(shown)) => {
            let shows = shown.iter().any(|shown| shown.mark == mark);
            // Messages that another get is about to take are not available to this one.
            shows || shown.is_empty() && !is_met(call)
        }
        (Request::Get { .. }, _) => true,
        (Request::Peek { max }, Response::Messages(shown)) => {
            shown.len() < *max || shown.iter().any(|shown| shown.mark == mark)
        }
        (request, _) => request.mark() == Some(mark),
    };
    history.iter().filter(|call| counts(call)).filter(concerns).cloned().collect()
}

/// A message has one id, and each receipt occurs only once.
fn check_identity(history: &[Call], mark: Mark) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut receipts = BTreeMap::new();
    for call in history {
        let mut given = Vec::new();
        match (&call.request, &call.response) {
            (Request::Put { mark: put, .. }, Response::Put { id, receipt }) if *put == mark => {
                ids.insert(*id);
                given.push(*receipt);
            }
            (Request::Update { held, .. }, Response::Updated(receipt)) if held.mark == mark => {
                given.push(*receipt);
            }
            (_, Response::Messages(messages)) => {
                for shown in messages.iter().filter(|shown| shown.mark == mark) {
                    ids.insert(shown.id);
                    given.extend(shown.receipt);
                }
            }
            _ => {}
        }
        for receipt in given {
            if let Some(first) = receipts.insert(receipt.next_visible, call) {
                return Err(format!("a receipt of message {mark} came twice:\n{first}\n{call}"));
            }
        }
    }
    match ids.len() {
        0 | 1 => Ok(()),
        _ => Err(format!("message {mark} has several ids: {ids:?}")),
    }
}

/// Whether the queue can have had the returned count.
fn check_count(promise: Promise, history: &[Call], call: &Call) -> Result<(), String> {
    let Response::Metadata { count, .. } = call.response else { return Ok(()) };
    let (mut least, mut most, mut uncounted) = (0_u64, 0, 0);
    for mark in marks(history) {
        let bounds = Bounds { promise, history, call, mark };
        least += u64::from(bounds.is_surely_counted());
        most += u64::from(bounds.may_be_counted()) + u64::from(bounds.may_be_counted_twice());
        uncounted += u64::from(bounds.may_be_removed_uncounted());
    }
    let least = least.saturating_sub(uncounted);
    match (least..=most).contains(&count) {
        true => Ok(()),
        false => Err(format!("the queue had {least} to {most} messages, not {count}: {call}")),
    }
}

/// Whether one message is part of one count.
struct Bounds<'h> {
    promise: Promise,
    history: &'h [Call],
    call: &'h Call,
    mark: Mark,
}

impl Bounds<'_> {
    /// It was put before, and nothing that could have removed it had started.
    fn is_surely_counted(&self) -> bool {
        let Some(put) = self.put() else { return false };
        let Response::Put { receipt, .. } = put.response else { return false };
        let Request::Put { delay, time_to_live, .. } = put.request else { return false };
        let inserted = receipt.next_visible.ticks() - Ticks::from(delay) * SECOND;
        let is_expired = time_to_live.is_some_and(|seconds| {
            inserted + Ticks::from(seconds) * SECOND <= self.call.span.most + SECOND
        });
        let mut removals = self.removals();
        self.is_before(put)
            && !is_expired
            && !removals.any(|removal| removal.invoked < self.call.answered)
    }

    /// It may have been put before, and nothing that certainly removed it had finished.
    fn may_be_counted(&self) -> bool {
        let Some(put) = self.put() else { return false };
        // A put is counted before it is done, and no longer once it has failed.
        let has_failed = matches!(put.response, Response::NotDone | Response::QueueNotFound);
        if has_failed && !put.overlaps(self.call) {
            return false;
        }
        let is_expired = match put.request {
            Request::Put { time_to_live: Some(seconds), .. } => {
                let expires = put.span.most + Ticks::from(seconds) * SECOND + SECOND / 100;
                expires / SECOND + self.age() / SECOND < self.call.span.least / SECOND
            }
            _ => false,
        };
        // If its outcome is unknown, it may have happened after a removal.
        let is_after = |removal: &&Call| match removal.request {
            Request::Delete(_) => true,
            _ => put.response != Response::Unknown && put.answered < removal.invoked,
        };
        let mut removals =
            self.removals().filter(|r| r.response == Response::Done).filter(is_after);
        put.invoked < self.call.answered
            && !is_expired
            && !removals.any(|removal| self.is_before(removal))
    }

    /// With many writers, a process adds its put to a count that may already include it, or adds a
    /// put that fails.
    fn may_be_counted_twice(&self) -> bool {
        let is_new = |put: &Call| put.invoked < self.call.answered && !self.is_before(put);
        self.promise == Promise::ManyWriters && self.put().is_some_and(is_new)
    }

    /// With many writers, a process subtracts its removal from a count that did not yet include the message.
    fn may_be_removed_uncounted(&self) -> bool {
        let mut removals = self.removals();
        self.may_be_counted_twice() && removals.any(|removal| removal.invoked < self.call.answered)
    }

    fn put(&self) -> Option<&Call> {
        let is_put =
            |call: &&Call| matches!(call.request, Request::Put { mark, .. } if mark == self.mark);
        self.history.iter().find(is_put)
    }

    /// The calls that removed the message, or may have.
    fn removals(&self) -> impl Iterator<Item = &Call> {
        let may_have = |call: &&Call| matches!(call.response, Response::Done | Response::Unknown);
        let put_at = self.put().map_or(0, |put| put.invoked);
        let removes = move |call: &&Call| match call.request {
            Request::Delete(held) => held.mark == self.mark,
            Request::Clear | Request::DeleteQueue => {
                call.response == Response::Unknown || call.answered > put_at
            }
            _ => false,
        };
        self.history.iter().filter(may_have).filter(removes)
    }

    /// Whether a call had finished when the count was taken.
    fn is_before(&self, other: &Call) -> bool {
        other.answered < self.call.invoked
            && (self.age() == 0 || other.span.most + self.age() < self.call.span.least)
    }

    /// The maximum age of a count, with some margin.
    const fn age(&self) -> Ticks {
        match self.promise {
            Promise::OneWriter => 0,
            Promise::ManyWriters => SECOND + SECOND / 100,
        }
    }
}

#[cfg(test)]
mod tests;
