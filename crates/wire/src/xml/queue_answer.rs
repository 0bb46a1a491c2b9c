//! What a client of the Queue service sends and reads: the text of a message, lists of messages and of
//! queues.

use super::fault::Fault;
use super::tree::Element;
use super::write::{node, write_text};
use super::{XmlError, XmlFault};
use lazuli_model::Timestamp;

/// Appends the body of Put Message and Update Message. Characters that XML does not allow are replaced:
/// the caller checks for them with [`is_storable`].
///
/// [`is_storable`]: crate::xml::is_storable
pub fn write_message_text(out: &mut Vec<u8>, text: &str) {
    node(out, "QueueMessage", |out| {
        node(out, "MessageText", |out| write_text(out, text));
    });
}

/// A message in a service's response. Which parts are present depends on the operation (Q-6.3, Q-6.20,
///
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredMessage {
    pub id: String,
    pub inserted: Timestamp,
    pub expires: Timestamp,
    /// Opaque: services differ in its form. Absent from a peek.
    pub pop_receipt: Option<String>,
    /// Absent from a peek.
    pub next_visible: Option<Timestamp>,
    /// Zero in the response to a put.
    pub dequeue_count: u32,
    /// Empty in the response to a put.
    pub text: String,
}

/// Reads the response to Put, Get and Peek Messages.
pub fn read_messages(document: &[u8]) -> Result<Vec<AnsweredMessage>, XmlFault> {
    let read = || {
        let root = Element::parse_answer(document, "QueueMessagesList")?;
        root.children.iter().map(read_message).collect::<Result<_, Fault>>()
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

fn read_message(element: &Element) -> Result<AnsweredMessage, Fault> {
    if !element.is("QueueMessage") {
        return Err(XmlError::UnexpectedNode.into());
    }
    let time =
        |element: &Element| Timestamp::parse_rfc1123(element.text()).ok_or(XmlError::InvalidValue);
    let count = element.child_text("DequeueCount").map(str::parse).transpose();
    Ok(AnsweredMessage {
        id: element.required("MessageId")?.text().to_owned(),
        inserted: time(element.required("InsertionTime")?)?,
        expires: time(element.required("ExpirationTime")?)?,
        pop_receipt: element.child_text("PopReceipt").map(str::to_owned),
        next_visible: element.child("TimeNextVisible").map(time).transpose()?,
        dequeue_count: count.map_err(|_| XmlError::InvalidValue)?.unwrap_or_default(),
        // White space belongs to the text.
        text: element.child("MessageText").map_or("", Element::raw_text).to_owned(),
    })
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredQueue {
    pub name: String,
    /// Empty unless it was requested.
    pub metadata: Vec<(String, String)>,
}

/// One page of List Queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePage {
    pub queues: Vec<AnsweredQueue>,
    /// Where the next page begins; `None` on the last one.
    pub next_marker: Option<String>,
}

/// Reads the response to List Queues.
pub fn read_queues(document: &[u8]) -> Result<QueuePage, XmlFault> {
    let read = || {
        let root = Element::parse_answer(document, "EnumerationResults")?;
        let read_queue = |queue: &Element| {
            let name = queue.required("Name")?.text().to_owned();
            Ok(AnsweredQueue { name, metadata: read_metadata(queue) })
        };
        let queues = root.required("Queues")?.children.iter().map(read_queue);
        Ok(QueuePage {
            queues: queues.collect::<Result<_, XmlError>>()?,
            next_marker: root.child_text("NextMarker").map(str::to_owned),
        })
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

/// The pairs of a child called `Metadata`, if there is one.
pub(super) fn read_metadata(element: &Element) -> Vec<(String, String)> {
    let pairs = element.child("Metadata").map_or(&[][..], |metadata| &metadata.children);
    pairs.iter().map(|pair| (pair.name().to_owned(), pair.text().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::ApiVersion;
    use crate::xml::{
        ListedMessage, MessageForm, QueueListing, read_message_text, write_messages, write_queues,
    };
    use crate::{pop_receipt, xml};
    use lazuli_model::{MessageId, Metadata};

    const RECEIPT: &str = "AgAAAAMAAAAAAAAAz0CDOFDq2AE=";

    fn listed(text: &str) -> ListedMessage<'_> {
        ListedMessage {
            id: MessageId::parse("16655ea2-b85e-4655-9ad3-c86adfa47687").unwrap(),
            inserted: Timestamp::from_unix_seconds(1_666_908_296),
            expires: Timestamp::from_unix_seconds(1_667_513_096),
            receipt: pop_receipt::parse(RECEIPT).unwrap(),
            dequeue_count: 3,
            text,
        }
    }

    fn read_back(form: MessageForm, text: &str) -> AnsweredMessage {
        let mut out = Vec::new();
        write_messages(&mut out, form, [listed(text)]);
        read_messages(&out).unwrap().remove(0)
    }

    #[test]
    fn what_the_server_writes_is_what_the_client_reads() {
        let text = " a<b>&\r\n é ";
        let got = read_back(MessageForm::Got, text);
        let expect = AnsweredMessage {
            id: "16655ea2-b85e-4655-9ad3-c86adfa47687".into(),
            inserted: listed("").inserted,
            expires: listed("").expires,
            pop_receipt: Some(RECEIPT.into()),
            next_visible: Timestamp::parse_rfc1123("Thu, 27 Oct 2022 22:05:27 GMT"),
            dequeue_count: 3,
            text: text.into(),
        };
        assert_eq!(got, expect);
        let peeked = AnsweredMessage { pop_receipt: None, next_visible: None, ..expect.clone() };
        assert_eq!(read_back(MessageForm::Peeked, text), peeked);
        let put = AnsweredMessage { dequeue_count: 0, text: String::new(), ..expect };
        assert_eq!(read_back(MessageForm::Put, text), put);
        let mut none = Vec::new();
        write_messages(&mut none, MessageForm::Got, []);
        assert_eq!(read_messages(&none), Ok(Vec::new()));
    }

    #[test]
    fn the_text_a_client_writes_is_what_the_server_reads() {
        let mut out = Vec::new();
        write_message_text(&mut out, " a<b>&\r\n é ");
        assert_eq!(read_message_text(&out).as_deref(), Ok(" a<b>&\r\n é "));
    }

    #[test]
    fn a_page_of_queues_is_read_with_its_metadata_and_marker() {
        let metadata = Metadata::parse([("val1", "a<b")]).unwrap();
        let listing = QueueListing {
            endpoint: "https://acct1.queue.core.windows.net/",
            version: ApiVersion::NEWEST,
            prefix: "",
            marker: "",
            max_results: "",
            next_marker: "/acct1/q3",
        };
        let mut out = Vec::new();
        write_queues(&mut out, &listing, [("q1", Some(&metadata)), ("q2", None)]);
        let page = read_queues(&out).unwrap();
        assert_eq!(page.next_marker.as_deref(), Some("/acct1/q3"));
        let queue = |name: &str, metadata| AnsweredQueue { name: name.into(), metadata };
        let expect = [queue("q1", vec![("val1".into(), "a<b".into())]), queue("q2", Vec::new())];
        assert_eq!(page.queues, expect);
    }

    #[test]
    fn documents_that_are_no_lists_are_refused() {
        assert_eq!(read_messages(b"<Other />").unwrap_err().error, XmlError::UnexpectedNode);
        let no_time = b"<QueueMessagesList><QueueMessage><MessageId>1</MessageId></QueueMessage>\
            </QueueMessagesList>";
        assert_eq!(read_messages(no_time).unwrap_err().error, XmlError::MissingNode);
        assert_eq!(read_queues(b"<Queues").unwrap_err().error, XmlError::Syntax);
        assert!(xml::is_storable("a\r\n\té🦀") && !xml::is_storable("a\u{1}"));
    }
}
