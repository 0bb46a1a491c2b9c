//! Messages: received, peeked at and sent.

use crate::error::{Error, ErrorKind};
use crate::rest::too_large;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazuli_model::Timestamp;
use lazuli_model::limits::MESSAGE_TEXT_BYTES_MAX;
use lazuli_wire::xml::{self, AnsweredMessage};

/// How the body of a message is encoded as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageEncoding {
    /// Base64, as the hosted functions and the older clients expect. At most 48 KiB of body.
    Base64,
    /// Unchanged. The body must be UTF-8 without characters that XML cannot represent.
    Text,
}

/// Proof that a message was received: valid until the message is updated or received again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The message's id.
    pub id: String,
    /// The service's opaque text.
    pub pop_receipt: String,
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The service's id of the message.
    pub id: String,
    /// For updating and deleting it.
    pub receipt: Receipt,
    /// How often it was received, including this time.
    pub dequeue_count: u32,
    /// When it was sent.
    pub inserted: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
    /// When it becomes visible to others again.
    pub next_visible: Timestamp,
    /// The body.
    pub body: Bytes,
    /// The encoding of `body`: [`MessageEncoding::Text`] if the queue's messages are base64 but this one is not; its
    /// body is then the text unchanged.
    pub encoding: MessageEncoding,
}

impl Message {
    /// The body, parsed as JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(not_json)
    }

    pub(super) fn from_answer(
        message: AnsweredMessage,
        encoding: MessageEncoding,
    ) -> Result<Self, Error> {
        let (Some(pop_receipt), Some(next_visible)) = (message.pop_receipt, message.next_visible)
        else {
            return Err(Error::protocol("a message has no receipt"));
        };
        let (body, encoding) = decode(message.text, encoding);
        Ok(Self {
            receipt: Receipt { id: message.id.clone(), pop_receipt },
            id: message.id,
            dequeue_count: message.dequeue_count,
            inserted: message.inserted,
            expires: message.expires,
            next_visible,
            body,
            encoding,
        })
    }
}

/// A message that was peeked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeekedMessage {
    /// The service's id of the message.
    pub id: String,
    /// How often it was received.
    pub dequeue_count: u32,
    /// When it was sent.
    pub inserted: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
    /// The body.
    pub body: Bytes,
    /// As in [`Message`].
    pub encoding: MessageEncoding,
}

impl PeekedMessage {
    /// The body, parsed as JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(not_json)
    }

    pub(super) fn from_answer(message: AnsweredMessage, encoding: MessageEncoding) -> Self {
        let (body, encoding) = decode(message.text, encoding);
        Self {
            id: message.id,
            dequeue_count: message.dequeue_count,
            inserted: message.inserted,
            expires: message.expires,
            body,
            encoding,
        }
    }
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentMessage {
    /// The service's id of the message.
    pub id: String,
    /// For updating and deleting it, until a consumer receives it.
    pub receipt: Receipt,
    /// When it was sent, by the service's clock.
    pub inserted: Timestamp,
    /// When it expires.
    pub expires: Timestamp,
    /// When it becomes visible.
    pub next_visible: Timestamp,
}

impl SentMessage {
    /// Parses the answer to a put.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Error> {
        let message = xml::read_messages(body).map_err(Error::protocol)?.pop();
        let message = message.ok_or_else(|| Error::protocol("the answer has no message"))?;
        Self::from_answer(message)
    }

    fn from_answer(message: AnsweredMessage) -> Result<Self, Error> {
        let Message { id, receipt, inserted, expires, next_visible, .. } =
            Message::from_answer(message, MessageEncoding::Text)?;
        Ok(Self { id, receipt, inserted, expires, next_visible })
    }
}

/// The request body for a message (C-17.2).
pub(super) fn encode(body: &[u8], encoding: MessageEncoding) -> Result<Bytes, Error> {
    let not_text = || Error::new(ErrorKind::Body("is not text that XML can hold".into()));
    let text = match encoding {
        MessageEncoding::Base64 => STANDARD.encode(body),
        MessageEncoding::Text => match std::str::from_utf8(body) {
            Ok(text) if xml::is_storable(text) => text.to_owned(),
            _ => return Err(not_text()),
        },
    };
    if text.len() > MESSAGE_TEXT_BYTES_MAX {
        return Err(too_large(text.len() as u64, MESSAGE_TEXT_BYTES_MAX as u64));
    }
    let mut out = Vec::with_capacity(text.len() + 64);
    xml::write_message_text(&mut out, &text);
    Ok(out.into())
}

/// A text that is not base64 does not make the message unreadable: an error would leave the messages received with
/// it hidden.
fn decode(text: String, encoding: MessageEncoding) -> (Bytes, MessageEncoding) {
    let decoded = match encoding {
        MessageEncoding::Base64 => STANDARD.decode(&text).ok(),
        MessageEncoding::Text => None,
    };
    match decoded {
        Some(body) => (body.into(), MessageEncoding::Base64),
        None => (text.into(), MessageEncoding::Text),
    }
}

pub(super) fn not_json(error: serde_json::Error) -> Error {
    let kind = ErrorKind::Body(format!("is not the JSON of its type: {error}"));
    Error::new(kind).with(|context| context.source = Some(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_64_kib_of_text_at_most() {
        // C-17.2.
        let fits = vec![0_u8; MESSAGE_TEXT_BYTES_MAX / 4 * 3];
        assert!(encode(&fits, MessageEncoding::Base64).is_ok());
        let over = vec![0_u8; MESSAGE_TEXT_BYTES_MAX / 4 * 3 + 1];
        let error = encode(&over, MessageEncoding::Base64).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::TooLarge { bytes: 65_540, bytes_max: 65_536 });
        let text = "x".repeat(MESSAGE_TEXT_BYTES_MAX);
        assert!(encode(text.as_bytes(), MessageEncoding::Text).is_ok());
        assert!(encode(b"\x01", MessageEncoding::Text).is_err());
        assert!(encode(b"\xFF", MessageEncoding::Text).is_err());
    }

    #[test]
    fn a_text_that_is_not_base64_is_kept_as_it_stands() {
        let read = |text: &str, encoding| decode(text.to_owned(), encoding);
        let base64 = (Bytes::from_static(b"hi"), MessageEncoding::Base64);
        assert_eq!(read("aGk=", MessageEncoding::Base64), base64);
        let text = (Bytes::from_static(b"{\"a\":1}"), MessageEncoding::Text);
        assert_eq!(read("{\"a\":1}", MessageEncoding::Base64), text);
        assert_eq!(read("aGk=", MessageEncoding::Text).0, "aGk=");
    }
}
