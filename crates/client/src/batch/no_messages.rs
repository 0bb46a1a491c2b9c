//! Replaces messages in a build without queues.

use crate::account::Account;
use crate::error::Error;
use bytes::Bytes;

/// A message that cannot exist.
#[derive(Debug)]
pub(crate) enum SendMessage {}

impl SendMessage {
    pub(crate) fn account(&self) -> &Account {
        match *self {}
    }

    pub(crate) fn into_part(self) -> Result<MessagePart, Error> {
        match self {}
    }
}

/// Has the fields of a message's part, and is never constructed.
#[derive(Clone, Debug)]
pub(crate) struct MessagePart {
    pub(crate) queue: String,
    pub(crate) target: String,
    pub(crate) body: Bytes,
}

/// A message that was never sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentMessage {}

impl SentMessage {
    pub(crate) fn read(_body: &[u8]) -> Result<Self, Error> {
        Err(Error::protocol("a message without queues"))
    }
}
