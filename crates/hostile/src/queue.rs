//! Targets of the Queue service: what its clients can send, and what a damaged disk can feed it.

use crate::Target;
use crate::forged;
use lazuli_layout::queue::{MessageRecord, QueueRecord, StoredText, decode_text, encode_text};
use lazuli_layout::{Position, key};
use lazuli_model::{
    AccessPolicies, AccountName, MessageId, MessageText, Metadata, PopReceipt, QueueName, Timestamp,
};
use lazuli_wire::sas::QueueToken;
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme};
use lazuli_wire::uri::{self, Query};
use lazuli_wire::version::ApiVersion;
use lazuli_wire::{pop_receipt, xml};

pub(crate) const QUEUE_XML: Target = Target {
    name: "queue_xml",
    run: document,
    words: &[
        "<QueueMessage>",
        "</QueueMessage>",
        "<MessageText>",
        "</MessageText>",
        "<MessageText/>",
        "<MessageText xml:space=\"preserve\">",
        "<a/>",
        "<SignedIdentifiers>",
        "</SignedIdentifiers>",
        "<SignedIdentifier>",
        "</SignedIdentifier>",
        "<Id>",
        "</Id>",
        "<AccessPolicy />",
        "<Permission>raup</Permission>",
        "<Start>2011-10-11</Start>",
        "<KeyInfo>",
        "</KeyInfo>",
        "<Expiry>2030-01-01T00:00:00Z</Expiry>",
        "<?xml version='1.0' encoding='utf-8'?>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]>",
        "&b;",
        "&amp;",
        "&#13;",
        "&#1;",
        "&#xFFFE;",
        "&#x1F600;",
        "\r\n",
        "\r",
        "\u{1}",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "\u{FEFF}",
    ],
};

/// A parsed text survives our response, and policies survive a round trip.
fn document(input: &[u8]) {
    let _ = xml::read_key_info(input);
    if let Ok(text) = xml::read_message_text(input) {
        let mut out = Vec::new();
        let message = xml::ListedMessage {
            id: MessageId::from_bytes([7; 16]),
            inserted: Timestamp::UNIX_EPOCH,
            expires: Timestamp::MAX,
            receipt: PopReceipt::of_get(Timestamp::UNIX_EPOCH),
            dequeue_count: 1,
            text: &text,
        };
        xml::write_messages(&mut out, xml::MessageForm::Peeked, [message]);
        let written = String::from_utf8_lossy(&out);
        let shown = written.split_once("<MessageText").and_then(|(_, rest)| rest.split_once("</Q"));
        let shown = shown.map(|(shown, _)| format!("<MessageText{shown}")).unwrap_or_default();
        let again =
            xml::read_message_text(format!("<QueueMessage>{shown}</QueueMessage>").as_bytes());
        assert_eq!(again.as_ref(), Ok(&text), "{shown}");
    }
    if let Ok(policies) = xml::read_queue_policies(input) {
        let mut out = Vec::new();
        xml::write_signed_identifiers(&mut out, &policies);
        assert_eq!(xml::read_queue_policies(&out).as_ref(), Ok(&policies));
        assert!(AccessPolicies::of_queue(policies.iter().cloned().collect()).is_ok());
    }
}

pub(crate) const QUEUE_URL: Target = Target {
    name: "queue_url",
    run: url,
    words: &[
        "/acct1",
        "/acct1-secondary",
        "/orders",
        "/messages",
        "/ccd5714a-4793-4ecf-967b-e0789715a8a3",
        "?comp=list",
        "?restype=service&comp=properties",
        "&comp=metadata",
        "&comp=acl",
        "&peekonly=true",
        "&numofmessages=32",
        "&visibilitytimeout=-1",
        "&messagettl=9223372036854775807",
        "&prefix=",
        "&marker=/acct1/orders",
        "&maxresults=5000",
        "&popreceipt=AgAAAAMAAAAAAAAATo9G3YHt2AE%3D",
        "&include=metadata",
        "%2F",
        "%00",
        "%",
        "%C3%A9",
        "%FF",
        "+",
        "--",
        "-",
        "\n",
        "x-ms-meta-a: 1",
        ":",
    ],
};

/// Names, ids and receipts have one spelling; what a listing repeats of the query stays text.
/// Metadata headers follow after a line feed.
fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (target, headers) = text.split_once('\n').unwrap_or((text, ""));
    let target = uri::Target::parse(target);
    let query = target.query.unwrap_or_default();
    let query = Query::parse(query).or_else(|_| Query::parse_lenient(query)).unwrap_or_default();
    let path = uri::percent_decode_lenient(target.path);
    for segment in path.split('/') {
        if let Ok(name) = QueueName::parse(segment) {
            assert_eq!(name.as_str(), segment);
            let Some(account) = AccountName::parse("acct1") else { continue };
            let found = key::queue::decode_catalog(&key::queue::catalog(&account, &name));
            assert!(found.is_ok_and(|found| found == name));
        }
        if let Some(id) = MessageId::parse(segment) {
            assert!(id.to_string().eq_ignore_ascii_case(segment), "{segment}");
        }
    }
    let value = |name| query.find(name).unwrap_or_default();
    receipt(value("popreceipt").as_bytes());
    let pairs = headers.lines().filter_map(|line| line.split_once(':'));
    let metadata = Metadata::parse(pairs).unwrap_or_default();
    list(value("prefix"), value("marker"), &metadata);
}

/// What a page of queues repeats of a request opens or closes no element.
fn list(prefix: &str, marker: &str, metadata: &Metadata) {
    let Some(version) = ApiVersion::parse("2021-02-12") else { return };
    let page = |prefix, marker, metadata: &Metadata| {
        let endpoint = "http://h/acct1/";
        let listing = xml::QueueListing {
            endpoint,
            version,
            prefix,
            marker,
            max_results: "",
            next_marker: marker,
        };
        let mut out = Vec::new();
        xml::write_queues(&mut out, &listing, [("orders", Some(metadata))]);
        out.iter().filter(|byte| matches!(byte, b'<' | b'>')).count()
    };
    let plain = |text: &'static str, given: &str| if given.is_empty() { "" } else { text };
    let names = metadata.iter().map(|(name, text)| (name, plain("x", text)));
    let same = Metadata::parse(names).unwrap_or_default();
    let expected = page(plain("x", prefix), plain("y", marker), &same);
    assert_eq!(page(prefix, marker, metadata), expected, "{prefix:?} {marker:?} {metadata:?}");
}

pub(crate) const RECEIPT: Target = Target {
    name: "receipt",
    run: receipt,
    words: &["AgAAAAMAAAAAAAAA", "AwAAAAMAAAAAAAAA", "To9G3YHt2AE=", "AQAAAA", "+", " ", "/", "="],
};

/// A receipt has one spelling, except for a plus sign that became a space, and for times beyond the
/// calendar, at which no message exists.
fn receipt(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(receipt) = pop_receipt::parse(text) else { return };
    if receipt.next_visible != Timestamp::MAX {
        assert_eq!(pop_receipt::to_text(receipt), text.replace(' ', "+"));
    }
    assert_eq!(PopReceipt::parse_bytes(&receipt.bytes()), Some(receipt));
}

pub(crate) const QUEUE_CREDENTIAL: Target = Target {
    name: "queue_credential",
    run: credential,
    words: &[
        "SharedKey a:",
        "SharedKeyLite a:",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "sv=2021-02-12",
        "sv=2014-02-14",
        "sv=2025-07-05",
        "&sp=raup",
        "&se=2030-01-01",
        "&st=2020-01-01T00:00Z",
        "&si=pol",
        "&sip=10.0.0.1-10.0.0.9",
        "&spr=https,http",
        "&ss=q",
        "&srt=sco",
        "&sks=q",
        "&skoid=x",
        "&skt=2020-01-01",
        "&ske=2030-01-01",
        "&skdutid=y",
        "&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
        "x-ms-meta-a-b:1\n",
        "x-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n",
        "content-length:0\n",
        "\n",
        " ",
        "%0A",
        "+",
        "=",
        "&",
    ],
};

/// No generated credential is accepted, whatever the headers and query around it.
fn credential(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(keys) = forged::keys() else { return };
    let Some(version) = ApiVersion::parse("2021-02-12") else { return };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let headers = rest.lines().filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name, value.as_bytes()));
    let request = CanonicalRequest::new("GET", headers, "a", first, rest, version);
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        assert!(!request.is_signed_by(&keys, scheme, rest), "forged");
    }
    if let Ok(Authorization::Signed { scheme, signature, .. }) = Authorization::parse(first) {
        assert!(!request.is_signed_by(&keys, scheme, signature), "forged");
    }
    let Ok(query) = Query::parse(first) else { return };
    let caller = forged::caller();
    match QueueToken::parse(&query) {
        Ok(Some(QueueToken::Service(sas))) => {
            assert!(sas.verify("a", rest, &keys).is_err(), "forged");
            let _ = sas.grant(rest, None, &caller).map(|grant| grant.permissions());
        }
        Ok(Some(QueueToken::Account(sas))) => {
            forged::account_token(&sas, &keys, 'q');
        }
        Ok(Some(QueueToken::UserDelegation(sas))) => {
            assert!(keys.iter().all(|key| sas.verify("a", rest, key).is_err()), "forged");
            let _ = sas.grant(rest, &caller);
        }
        Ok(None) | Err(_) => {}
    }
}

pub(crate) const QUEUE_RECORD: Target = Target {
    name: "queue_record",
    run: record,
    words: &[
        "Lm",
        "Ld",
        "Lq",
        "Lt",
        "\0",
        "\u{1}",
        "\u{1}\0",
        "\u{1}\u{1}",
        "\0\0\0\u{1}",
        "a",
        "é",
    ],
};

/// Keys and records that can be read are those that we would write.
fn record(input: &[u8]) {
    if let Ok((generation, position)) = key::queue::decode_message(input) {
        assert_eq!(key::queue::message(generation, position), input);
        assert!(position < position.next() || position.next_visible == Timestamp::MAX);
        let Position { id, next_visible } = position;
        assert_eq!(Position { next_visible, id: MessageId::from_bytes(id.bytes()) }, position);
    }
    if let Ok(generation) = key::queue::decode_reclaim(input) {
        assert_eq!(key::queue::reclaim(generation), input);
    }
    let _ = key::queue::decode_catalog(input);
    if let Ok(record) = MessageRecord::decode(input) {
        assert_eq!(record.encode(), input, "one spelling for each message");
        assert!(MessageRecord::decode_expires(input).is_ok_and(|at| at == record.expires));
        if let StoredText::Inline(text) = &record.text {
            stores(text);
        }
    }
    if let Ok(text) = decode_text(input) {
        stores(&text);
    }
    if let Ok(record) = QueueRecord::decode(input) {
        let again = QueueRecord::decode(&record.encode());
        assert!(again.is_ok_and(|again| again == record));
        let generation = QueueRecord::decode_generation(input);
        assert!(generation.is_ok_and(|generation| generation == record.generation));
    }
}

/// A storable text reads back unchanged, wherever it is stored.
fn stores(text: &MessageText) {
    assert!(decode_text(&encode_text(text)).is_ok_and(|again| again == *text));
}
