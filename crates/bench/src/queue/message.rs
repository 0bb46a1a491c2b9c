//! Messages: bodies to put, responses, and deletions.

use crate::entity::push_text;
use crate::request::{Plain, Signer, encoded};
use lazuli_testkit::seed::Seeded;
use memchr::memmem;
use std::sync::Arc;

/// Bytes of each text: stored in the message record, like texts up to 512 bytes in Lazuli.
pub(crate) const TEXT_BYTES: usize = 400;

/// The body of Put Message; `number` determines the text.
pub(super) fn body(number: usize) -> String {
    let mut out = String::from("<QueueMessage><MessageText>");
    push_text(&mut out, &mut Seeded::new(number as u64), TEXT_BYTES);
    out.push_str("</MessageText></QueueMessage>");
    out
}

/// The one message of a response. Peek returns no receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    id: &'a str,
    receipt: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// `None` unless there is exactly one message, with a text as long as the texts that are put.
    pub(crate) fn parse(answer: &'a [u8]) -> Option<Self> {
        let (id, rest) = element(answer, "<MessageId>")?;
        let (text, rest) = element(rest, "<MessageText>")?;
        let is_alone = memmem::find(rest, b"<MessageId>").is_none();
        let receipt = element(answer, "<PopReceipt>").map(|(receipt, _)| receipt);
        (is_alone && text.len() == TEXT_BYTES).then_some(Self { id, receipt })
    }
}

/// The text of the first element that begins with `tag`, and what follows.
fn element<'a>(xml: &'a [u8], tag: &str) -> Option<(&'a str, &'a [u8])> {
    let start = memmem::find(xml, tag.as_bytes())? + tag.len();
    let rest = xml.get(start..)?;
    let (text, rest) = rest.split_at_checked(memchr::memchr(b'<', rest)?)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Deletes the messages of one queue.
pub(crate) struct Consumer {
    signer: Arc<Signer>,
    queue: String,
}

impl Consumer {
    pub(super) fn new(signer: Arc<Signer>, queue: &str) -> Self {
        Self { signer, queue: queue.to_owned() }
    }

    /// The request that deletes `message`.
    pub(crate) fn deletion(&self, message: &Message<'_>) -> Vec<u8> {
        let Self { signer, queue } = self;
        let receipt = encoded(message.receipt.unwrap_or_default());
        let target = format!("/{queue}/messages/{}?popreceipt={receipt}", message.id);
        signer.sign(&Plain::queue("DELETE", &target, "")).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> String {
        format!(
            "<QueueMessagesList><QueueMessage><MessageId>1-2</MessageId>\
             <PopReceipt>Ag=</PopReceipt><MessageText>{text}</MessageText></QueueMessage>"
        )
    }

    #[test]
    fn a_message_has_an_id_a_receipt_and_a_whole_text() {
        let good = answer(&"x".repeat(TEXT_BYTES));
        let expected = Message { id: "1-2", receipt: Some("Ag=") };
        assert_eq!(Message::parse(good.as_bytes()), Some(expected));
        assert_eq!(Message::parse(answer("x").as_bytes()), None);
        assert_eq!(Message::parse((good.clone() + &good).as_bytes()), None);
        assert_eq!(Message::parse(b"<QueueMessagesList />"), None);
    }

    #[test]
    fn texts_differ_and_have_their_length() {
        assert_ne!(body(1), body(2));
        let frame = "<QueueMessage><MessageText></MessageText></QueueMessage>".len();
        assert_eq!(body(7).len(), frame + TEXT_BYTES);
    }
}
