//! The reference model of a queue with at most one message: one state, one call at a time.
//!
//! Values that are not known exactly are ranges. After a get of unknown outcome, no response shows
//! when the message becomes visible again.

use super::history::{Call, Mark, Request, Response, SECOND, Shown, Span, Text, Ticks};
use crate::checker::Model;
use lazuli_model::{PopReceipt, Timestamp};

/// How far the time of a queue may be ahead of the clock: each issued tick adds one.
const AHEAD_MAX: Ticks = SECOND / 100;

/// The queue, and one message that is put into it at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OneMessage {
    mark: Mark,
    exists: bool,
    message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    NotPut,
    Live(Live),
    /// Deleted, or cleared, or gone with its queue.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Live {
    text: Text,
    dequeue_count: u32,
    visible: Visible,
    /// The earliest and the latest possible expiry.
    expires: (Ticks, Ticks),
}

/// When a message becomes visible, which is its receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Visible {
    At(Ticks),
    /// No client has the receipt.
    Between(Ticks, Ticks),
}

impl Visible {
    const fn earliest(self) -> Ticks {
        match self {
            Self::At(at) | Self::Between(at, _) => at,
        }
    }

    const fn latest(self) -> Ticks {
        match self {
            Self::At(at) | Self::Between(_, at) => at,
        }
    }

    fn is(self, receipt: PopReceipt) -> bool {
        self == Self::At(receipt.next_visible.ticks())
    }

    /// The state `seconds` after a call, if the returned receipt fits.
    fn after(span: Span, seconds: u32, receipt: Option<PopReceipt>) -> Option<Self> {
        let delay = Ticks::from(seconds) * SECOND;
        let (from, to) = (span.least + delay, span.latest() + delay);
        match receipt.map(|receipt| receipt.next_visible.ticks()) {
            None => Some(Self::Between(from, to)),
            Some(at) => (from..=to).contains(&at).then_some(Self::At(at)),
        }
    }
}

impl Span {
    /// The latest possible time of the queue.
    const fn latest(self) -> Ticks {
        self.most + AHEAD_MAX
    }
}

impl Live {
    /// Whether a call can have found it expired.
    const fn may_be_expired(&self, span: Span) -> bool {
        self.expires.0 <= span.latest()
    }

    const fn may_be_there(&self, span: Span) -> bool {
        self.expires.1 > span.least
    }

    /// Whether every read must have returned it.
    fn must_be_shown(&self, call: &Call) -> bool {
        let is_told = matches!(self.visible, Visible::At(_)) || call.is_quiet;
        is_told && self.visible.latest() <= call.span.least && !self.may_be_expired(call.span)
    }

    /// Whether a get or a peek can have returned it this way.
    fn can_be_shown(&self, shown: &Shown, dequeue_count: u32, span: Span) -> bool {
        let expires = (self.expires.0 / SECOND, self.expires.1 / SECOND);
        shown.dequeue_count == dequeue_count
            && shown.text == self.text
            && (expires.0..=expires.1).contains(&(shown.expires / SECOND))
            && self.visible.earliest() <= span.latest()
            && self.may_be_there(span)
    }
}

impl OneMessage {
    /// Before the queue exists.
    pub(super) const fn new(mark: Mark) -> Self {
        Self { mark, exists: false, message: Message::NotPut }
    }

    fn with(&self, message: Message) -> Option<Self> {
        Some(Self { message, ..self.clone() })
    }

    fn emptied(&self, exists: bool) -> Option<Self> {
        let message = match self.message {
            Message::NotPut => Message::NotPut,
            Message::Live(_) | Message::Gone => Message::Gone,
        };
        self.exists.then_some(Self { mark: self.mark, exists, message })
    }

    fn put(&self, call: &Call) -> Option<Self> {
        let Request::Put { text, delay, time_to_live, .. } = call.request else { return None };
        let receipt = match call.response {
            Response::Put { receipt, .. } => Some(receipt),
            Response::Unknown => None,
            _ => return None,
        };
        let visible = Visible::after(call.span, delay, receipt)?;
        let expires = |visible: Ticks| match time_to_live {
            None => Timestamp::MAX.ticks(),
            Some(seconds) => visible - Ticks::from(delay) * SECOND + Ticks::from(seconds) * SECOND,
        };
        let expires = (expires(visible.earliest()), expires(visible.latest()));
        if !self.exists || self.message != Message::NotPut {
            return None;
        }
        self.with(Message::Live(Live { text, dequeue_count: 0, visible, expires }))
    }

    fn shown<'c>(&self, shown: &'c [Shown]) -> Option<&'c Shown> {
        shown.iter().find(|shown| shown.mark == self.mark)
    }

    fn got(&self, call: &Call, visibility: u32) -> Option<Self> {
        match (&call.response, &self.message) {
            (Response::Unknown, Message::Live(live)) => {
                let is_visible = live.visible.earliest() <= call.span.latest();
                let visible = Visible::after(call.span, visibility, None)?;
                let dequeue_count = live.dequeue_count + 1;
                let moved = Live { visible, dequeue_count, ..*live };
                let can_be = is_visible && live.may_be_there(call.span);
                if can_be { self.with(Message::Live(moved)) } else { None }
            }
            (Response::Messages(messages), message) => match (self.shown(messages), message) {
                (Some(shown), Message::Live(live)) => {
                    let dequeue_count = live.dequeue_count + 1;
                    let visible = Visible::after(call.span, visibility, shown.receipt)?;
                    let moved = Live { visible, dequeue_count, ..*live };
                    let can_be = live.can_be_shown(shown, dequeue_count, call.span);
                    if can_be { self.with(Message::Live(moved)) } else { None }
                }
                (Some(_), _) => None,
                // A non-empty response may contain fewer messages than exist.
                (None, _) => self.not_shown(call, messages.is_empty()),
            },
            _ => None,
        }
    }

    fn peeked(&self, call: &Call, max: usize) -> Option<Self> {
        let Response::Messages(messages) = &call.response else { return None };
        match (self.shown(messages), &self.message) {
            (Some(shown), Message::Live(live)) => {
                let can_be = live.can_be_shown(shown, live.dequeue_count, call.span);
                can_be.then(|| self.clone())
            }
            (Some(_), _) => None,
            (None, _) => self.not_shown(call, messages.len() < max),
        }
    }

    /// A call with room for more did not return the message.
    fn not_shown(&self, call: &Call, had_room: bool) -> Option<Self> {
        match &self.message {
            Message::Live(live) if had_room && live.must_be_shown(call) => None,
            _ => Some(self.clone()),
        }
    }

    /// The effect of a receipt on the message: `change` returns the new state.
    fn with_receipt(
        &self,
        call: &Call,
        receipt: PopReceipt,
        change: impl FnOnce(&Live) -> Option<Message>,
    ) -> Option<Self> {
        let held = match &self.message {
            Message::Live(live) if live.visible.is(receipt) => Some(live),
            _ => None,
        };
        if !self.exists {
            return None;
        }
        match (&call.response, held) {
            (Response::MessageNotFound, Some(live)) => {
                live.may_be_expired(call.span).then(|| self.clone())
            }
            (Response::MessageNotFound, None) => Some(self.clone()),
            (_, Some(live)) if live.may_be_there(call.span) => self.with(change(live)?),
            _ => None,
        }
    }

    fn updated(&self, call: &Call) -> Option<Self> {
        let Request::Update { held, visibility, text } = call.request else { return None };
        self.with_receipt(call, held.receipt, |live| {
            let receipt = match call.response {
                Response::Updated(receipt) => Some(receipt),
                Response::Unknown => None,
                Response::PastExpiry => {
                    let latest = call.span.latest() + Ticks::from(visibility) * SECOND;
                    return (latest > live.expires.0).then_some(Message::Live(*live));
                }
                _ => return None,
            };
            let visible = Visible::after(call.span, visibility, receipt)?;
            let counts = receipt.is_none_or(|r| r.dequeue_count == Some(live.dequeue_count));
            let text = text.unwrap_or(live.text);
            counts.then_some(Message::Live(Live { visible, text, ..*live }))
        })
    }

    fn deleted(&self, call: &Call, receipt: PopReceipt) -> Option<Self> {
        self.with_receipt(call, receipt, |_| match call.response {
            Response::Done | Response::Unknown => Some(Message::Gone),
            _ => None,
        })
    }
}

impl Model for OneMessage {
    type Call = Call;

    fn after(&self, _: usize, call: &Call) -> Option<Self> {
        match call.request {
            Request::CreateQueue { .. } => {
                (!self.exists).then(|| Self { exists: true, ..self.clone() })
            }
            Request::DeleteQueue => self.emptied(false),
            Request::Clear => self.emptied(true),
            Request::Put { .. } => self.put(call),
            Request::Get { visibility, .. } => self.got(call, visibility),
            Request::Peek { max } => self.peeked(call, max),
            Request::Update { .. } => self.updated(call),
            Request::Delete(held) => self.deleted(call, held.receipt),
            Request::GetMetadata
            | Request::SetMetadata(_)
            | Request::GetAcl
            | Request::SetAcl(_) => None,
        }
    }

    fn only_reads(&self, call: &Call) -> bool {
        match (&call.request, &call.response) {
            (Request::Peek { .. }, _) | (_, Response::MessageNotFound | Response::PastExpiry) => {
                true
            }
            (Request::Get { .. }, Response::Messages(messages)) => self.shown(messages).is_none(),
            _ => false,
        }
    }
}

/// The queue without its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Catalog {
    exists: bool,
    metadata: u32,
    acl: u32,
}

impl Model for Catalog {
    type Call = Call;

    fn after(&self, _: usize, call: &Call) -> Option<Self> {
        let unchanged = |holds: bool| holds.then(|| self.clone());
        match (&call.request, &call.response) {
            (_, Response::QueueNotFound) => unchanged(!self.exists),
            (Request::CreateQueue { metadata }, response) => match response {
                Response::Created | Response::Unknown => {
                    let created = Self { exists: true, metadata: *metadata, acl: 0 };
                    (!self.exists).then_some(created)
                }
                Response::AlreadyThere => unchanged(self.exists && self.metadata == *metadata),
                Response::QueueAlreadyExists => {
                    unchanged(self.exists && self.metadata != *metadata)
                }
                _ => None,
            },
            _ if !self.exists => None,
            (Request::DeleteQueue, Response::Done | Response::Unknown) => Some(Self::default()),
            (Request::SetMetadata(metadata), Response::Done | Response::Unknown) => {
                Some(Self { metadata: *metadata, ..self.clone() })
            }
            (Request::SetAcl(acl), Response::Done | Response::Unknown) => {
                Some(Self { acl: *acl, ..self.clone() })
            }
            (Request::GetMetadata, Response::Metadata { metadata, .. }) => {
                unchanged(self.metadata == *metadata)
            }
            (Request::GetAcl, Response::Acl(acl)) => unchanged(self.acl == *acl),
            _ => unchanged(true),
        }
    }

    fn only_reads(&self, call: &Call) -> bool {
        let changes = match call.request {
            Request::CreateQueue { .. } => [Response::Created, Response::Unknown],
            Request::DeleteQueue | Request::SetMetadata(_) | Request::SetAcl(_) => {
                [Response::Done, Response::Unknown]
            }
            _ => return true,
        };
        !changes.contains(&call.response)
    }
}
