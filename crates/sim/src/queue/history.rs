//! The requests of a queue's clients and the responses, with their order and clock.

use crate::checker::Timed;
use lazuli_model::{MessageId, PopReceipt};
use std::fmt;

/// The client's name of a message, unique per put.
pub type Mark = u32;

/// Ticks of the clock, 100 ns each.
pub type Ticks = u64;

pub const SECOND: Ticks = 10_000_000;

/// A message as named in a request: id and receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub mark: Mark,
    pub id: MessageId,
    pub receipt: PopReceipt,
}

/// A request. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    CreateQueue { metadata: u32 },
    DeleteQueue,
    GetMetadata,
    SetMetadata(u32),
    GetAcl,
    SetAcl(u32),
    Clear,
    Put { mark: Mark, text: Text, delay: u32, time_to_live: Option<u32> },
    Get { max: usize, visibility: u32 },
    Peek { max: usize },
    Update { held: Held, visibility: u32, text: Option<Text> },
    Delete(Held),
}

/// The text of a message: a unique number, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text {
    pub number: u32,
    pub is_long: bool,
}

impl Request {
    /// Whether its outcome changes what others see.
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::GetMetadata | Self::GetAcl | Self::Peek { .. })
    }

    /// The one message that it names.
    pub const fn mark(&self) -> Option<Mark> {
        match self {
            Self::Put { mark, .. } => Some(*mark),
            Self::Update { held, .. } | Self::Delete(held) => Some(held.mark),
            _ => None,
        }
    }
}

/// A message as a get or a peek returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub mark: Mark,
    pub id: MessageId,
    pub text: Text,
    pub dequeue_count: u32,
    /// In whole seconds, as in the response.
    pub expires: Ticks,
    /// A peek returns none.
    pub receipt: Option<PopReceipt>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The queue was created.
    Created,
    /// The queue existed with the same metadata.
    AlreadyThere,
    QueueAlreadyExists,
    QueueNotFound,
    /// An acknowledged change without a result.
    Done,
    Metadata {
        metadata: u32,
        count: u64,
    },
    /// The number in the stored policy; zero without one.
    Acl(u32),
    Put {
        id: MessageId,
        receipt: PopReceipt,
    },
    Messages(Vec<Shown>),
    Updated(PopReceipt),
    MessageNotFound,
    /// An update that would make the message visible only after its expiry.
    PastExpiry,
    /// The service was busy: nothing was done.
    NotDone,
    /// It may have been done, or may be done later.
    Unknown,
}

/// The servers' clocks during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The earliest time during the call.
    pub least: Ticks,
    /// The latest time until the call ended: queues remember the latest time that they issued.
    pub most: Ticks,
}

/// A request, its response, and the order of both among all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub client: usize,
    pub request: Request,
    pub response: Response,
    /// Numbers that order all invocations and responses, as in histories of tables.
    pub invoked: u64,
    pub answered: u64,
    pub span: Span,
    /// Nothing has happened in the minute before, by the clock, and nothing else is in flight.
    pub is_quiet: bool,
}

impl Call {
    /// Whether two calls overlap.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.invoked < other.answered && other.invoked < self.answered
    }
}

impl Timed for Call {
    fn invoked(&self) -> u64 {
        self.invoked
    }

    fn answered(&self) -> Option<u64> {
        (self.response != Response::Unknown).then_some(self.answered)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, request, response, invoked, answered, span, .. } = self;
        let Span { least, most } = span;
        write!(
            f,
            "[{invoked}..{answered}, {least}..{most}] client {client}: {request:?} -> {response:?}"
        )
    }
}
