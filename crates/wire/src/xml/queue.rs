//! The documents of the Queue service: lists of messages and of queues.

use super::write::{leaf, node, write_document, write_text};
use crate::pop_receipt;
use crate::version::ApiVersion;
use lazuli_model::{MessageId, Metadata, PopReceipt, Timestamp};

/// A message in a list.
#[derive(Clone, Copy, Debug)]
pub struct ListedMessage<'a> {
    pub id: MessageId,
    pub inserted: Timestamp,
    pub expires: Timestamp,
    /// Contains the time at which the message becomes visible.
    pub receipt: PopReceipt,
    pub dequeue_count: u32,
    pub text: &'a str,
}

/// Which elements of a message a list contains, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageForm {
    /// The response to Put Message.
    Put,
    /// The response to Get Messages.
    Got,
    /// The response to Get Messages before 2016-05-31.
    GotBefore2016,
    /// The response to Peek Messages.
    Peeked,
}

impl MessageForm {
    /// The form of Get Messages in a version.
    pub fn of_get(version: ApiVersion) -> Self {
        if version.has_put_message_body() { Self::Got } else { Self::GotBefore2016 }
    }
}

/// Appends a list of messages; one without any is an empty element.
pub fn write_messages<'a>(
    out: &mut Vec<u8>,
    form: MessageForm,
    messages: impl IntoIterator<Item = ListedMessage<'a>>,
) {
    write_list(out, "QueueMessagesList", messages, |out, message| {
        node(out, "QueueMessage", |out| write_message(out, form, &message));
    });
}

/// One page of List Queues. Parameters that the request omits or leaves empty are empty here
///
#[derive(Clone, Copy, Debug)]
pub struct QueueListing<'a> {
    /// The URI of the account, ending in a slash.
    pub endpoint: &'a str,
    pub version: ApiVersion,
    pub prefix: &'a str,
    pub marker: &'a str,
    pub max_results: &'a str,
    /// Where the next page begins; empty on the last one.
    pub next_marker: &'a str,
}

/// Appends a page of queues; each with its metadata, if requested.
pub fn write_queues<'a>(
    out: &mut Vec<u8>,
    listing: &QueueListing<'_>,
    queues: impl IntoIterator<Item = (&'a str, Option<&'a Metadata>)>,
) {
    let has_endpoint = listing.version.has_service_endpoint();
    let attribute = if has_endpoint { "ServiceEndpoint" } else { "AccountName" };
    write_document(out, |out| {
        out.extend([b"<EnumerationResults ", attribute.as_bytes(), b"=\""].concat());
        write_text(out, listing.endpoint);
        out.extend_from_slice(b"\">");
        for (name, text) in [
            ("Prefix", listing.prefix),
            ("Marker", listing.marker),
            ("MaxResults", listing.max_results),
        ] {
            if !text.is_empty() {
                leaf(out, name, text);
            }
        }
        write_children(out, "Queues", queues, |out, (name, metadata)| {
            node(out, "Queue", |out| {
                leaf(out, "Name", name);
                if !has_endpoint {
                    leaf(out, "Url", &[listing.endpoint, name].concat());
                }
                if let Some(metadata) = metadata {
                    write_metadata(out, metadata);
                }
            });
        });
        leaf(out, "NextMarker", listing.next_marker);
        out.extend_from_slice(b"</EnumerationResults>");
    });
}

fn write_message(out: &mut Vec<u8>, form: MessageForm, message: &ListedMessage<'_>) {
    leaf(out, "MessageId", &message.id.to_string());
    leaf(out, "InsertionTime", &message.inserted.rfc1123());
    leaf(out, "ExpirationTime", &message.expires.rfc1123());
    let count = |out: &mut _| leaf(out, "DequeueCount", &message.dequeue_count.to_string());
    let receipt = |out: &mut _| {
        leaf(out, "PopReceipt", &pop_receipt::to_text(message.receipt));
        leaf(out, "TimeNextVisible", &message.receipt.next_visible.rfc1123());
    };
    match form {
        MessageForm::Put => return receipt(out),
        MessageForm::Got => {
            receipt(out);
            count(out);
        }
        MessageForm::GotBefore2016 => {
            count(out);
            receipt(out);
        }
        MessageForm::Peeked => count(out),
    }
    leaf(out, "MessageText", message.text);
}

fn write_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    write_children(out, "Metadata", metadata.iter(), |out, (name, value)| leaf(out, name, value));
}

fn write_list<T>(
    out: &mut Vec<u8>,
    name: &str,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    write_document(out, |out| write_children(out, name, items, write));
}

/// An element with one child for each item; without any it is written `<Name />`.
fn write_children<T>(
    out: &mut Vec<u8>,
    name: &str,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return leaf(out, name, "");
    }
    node(out, name, |out| items.for_each(|item| write(out, item)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>";

    fn time(text: &str) -> Timestamp {
        Timestamp::parse_rfc1123(text).unwrap()
    }

    fn listed(id: &str, inserted: &str, expires: &str, receipt: &str) -> ListedMessage<'static> {
        ListedMessage {
            id: MessageId::parse(id).unwrap(),
            inserted: time(inserted),
            expires: time(expires),
            receipt: pop_receipt::parse(receipt).unwrap(),
            dequeue_count: 1,
            text: "message2",
        }
    }

    /// The message of queue.md 6.1.
    fn put() -> ListedMessage<'static> {
        listed(
            "ccd5714a-4793-4ecf-967b-e0789715a8a3",
            "Mon, 31 Oct 2022 23:38:22 GMT",
            "Mon, 07 Nov 2022 23:38:22 GMT",
            "AgAAAAMAAAAAAAAATo9G3YHt2AE=",
        )
    }

    /// The message of queue.md 6.3.
    fn got() -> ListedMessage<'static> {
        listed(
            "16655ea2-b85e-4655-9ad3-c86adfa47687",
            "Thu, 27 Oct 2022 22:04:56 GMT",
            "Thu, 03 Nov 2022 22:04:56 GMT",
            "AgAAAAMAAAAAAAAAz0CDOFDq2AE=",
        )
    }

    #[track_caller]
    fn check(form: MessageForm, messages: &[ListedMessage<'_>], expect: &str) {
        let mut out = Vec::new();
        write_messages(&mut out, form, messages.iter().copied());
        assert_eq!(String::from_utf8(out).unwrap(), format!("{HEAD}{expect}"));
    }

    const GOT: &str = "<QueueMessagesList><QueueMessage>\
        <MessageId>16655ea2-b85e-4655-9ad3-c86adfa47687</MessageId>\
        <InsertionTime>Thu, 27 Oct 2022 22:04:56 GMT</InsertionTime>\
        <ExpirationTime>Thu, 03 Nov 2022 22:04:56 GMT</ExpirationTime>";
    const RECEIPT: &str = "<PopReceipt>AgAAAAMAAAAAAAAAz0CDOFDq2AE=</PopReceipt>\
        <TimeNextVisible>Thu, 27 Oct 2022 22:05:27 GMT</TimeNextVisible>";
    const COUNT: &str = "<DequeueCount>1</DequeueCount>";
    const END: &str = "<MessageText>message2</MessageText></QueueMessage></QueueMessagesList>";

    /// and QV-6: five elements, neither text nor count.
    #[test]
    fn a_message_that_was_put_shows_its_receipt_and_not_its_text() {
        check(
            MessageForm::Put,
            &[put()],
            "<QueueMessagesList><QueueMessage>\
             <MessageId>ccd5714a-4793-4ecf-967b-e0789715a8a3</MessageId>\
             <InsertionTime>Mon, 31 Oct 2022 23:38:22 GMT</InsertionTime>\
             <ExpirationTime>Mon, 07 Nov 2022 23:38:22 GMT</ExpirationTime>\
             <PopReceipt>AgAAAAMAAAAAAAAATo9G3YHt2AE=</PopReceipt>\
             <TimeNextVisible>Mon, 31 Oct 2022 23:38:22 GMT</TimeNextVisible>\
             </QueueMessage></QueueMessagesList>",
        );
    }

    /// TQ-10.
    #[test]
    fn the_count_stands_before_the_receipt_until_2016() {
        check(MessageForm::Got, &[got()], &[GOT, RECEIPT, COUNT, END].concat());
        check(MessageForm::GotBefore2016, &[got()], &[GOT, COUNT, RECEIPT, END].concat());
        let of = |text| MessageForm::of_get(ApiVersion::parse(text).unwrap());
        assert_eq!(of("2015-07-08"), MessageForm::GotBefore2016);
        assert_eq!(of("2016-05-31"), MessageForm::Got);
    }

    ///
    #[test]
    fn a_message_that_is_peeked_shows_no_receipt() {
        check(MessageForm::Peeked, &[got()], &[GOT, COUNT, END].concat());
    }

    /// TQ-3.
    #[test]
    fn texts_are_escaped_and_empty_elements_keep_their_space() {
        check(MessageForm::Got, &[], "<QueueMessagesList />");
        let text = |text| {
            let mut out = Vec::new();
            write_messages(&mut out, MessageForm::Peeked, [ListedMessage { text, ..got() }]);
            let out = String::from_utf8(out).unwrap();
            out.split_once("</DequeueCount>")
                .unwrap()
                .1
                .split_once("</QueueMessage>")
                .unwrap()
                .0
                .to_owned()
        };
        assert_eq!(text(""), "<MessageText />");
        assert_eq!(
            text("a<b>&'\"é🦀\r\n "),
            "<MessageText>a&lt;b&gt;&amp;'\"é🦀&#xD;\n </MessageText>"
        );
    }

    const LISTING: QueueListing<'_> = QueueListing {
        endpoint: "https://acct1.queue.core.windows.net/",
        version: ApiVersion::NEWEST,
        prefix: "",
        marker: "",
        max_results: "",
        next_marker: "",
    };

    #[track_caller]
    fn check_list(listing: QueueListing<'_>, queues: &[(&str, Option<&Metadata>)], expect: &str) {
        let mut out = Vec::new();
        write_queues(&mut out, &listing, queues.iter().copied());
        let expect = format!("{HEAD}<EnumerationResults {expect}</EnumerationResults>");
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    /// The examples of queue.md 5.
    #[test]
    fn a_listing_repeats_what_was_asked_for() {
        let listing = QueueListing {
            prefix: "listqueue",
            max_results: "1",
            next_marker: "/acct1/listqueue1dcba29e4",
            ..LISTING
        };
        check_list(
            listing,
            &[("listqueue0dcba29e4", None)],
            "ServiceEndpoint=\"https://acct1.queue.core.windows.net/\"><Prefix>listqueue</Prefix>\
             <MaxResults>1</MaxResults><Queues><Queue><Name>listqueue0dcba29e4</Name></Queue>\
             </Queues><NextMarker>/acct1/listqueue1dcba29e4</NextMarker>",
        );
        let metadata = Metadata::parse([("val1", "test"), ("val2", "a<b")]).unwrap();
        let none = Metadata::default();
        check_list(
            QueueListing { marker: "q1", ..LISTING },
            &[("q1", Some(&metadata)), ("q2", Some(&none))],
            "ServiceEndpoint=\"https://acct1.queue.core.windows.net/\"><Marker>q1</Marker><Queues>\
             <Queue><Name>q1</Name><Metadata><val1>test</val1><val2>a&lt;b</val2></Metadata></Queue>\
             <Queue><Name>q2</Name><Metadata /></Queue></Queues><NextMarker />",
        );
    }

    /// TQ-17, TQ-18.
    #[test]
    fn a_listing_without_parameters_or_queues_is_short() {
        let expect =
            "ServiceEndpoint=\"https://acct1.queue.core.windows.net/\"><Queues /><NextMarker />";
        check_list(LISTING, &[], expect);
    }

    ///
    #[test]
    fn old_listings_name_the_account_and_the_url_of_each_queue() {
        let version = ApiVersion::parse("2012-02-12").unwrap();
        check_list(
            QueueListing { version, ..LISTING },
            &[("q1", None)],
            "AccountName=\"https://acct1.queue.core.windows.net/\"><Queues><Queue><Name>q1</Name>\
             <Url>https://acct1.queue.core.windows.net/q1</Url></Queue></Queues><NextMarker />",
        );
    }
}
