//! The Queue service under attack: it refuses in XML with a request id, and then continues to work.

use crate::server::Server;
use lazuli_hostile::http::{ATTACKS, Witness, idle_connections};
use lazuli_testkit::http::{Connection, Request, Response};
use lazuli_testkit::seed::Seeded;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// A server with a queue, `orders`.
fn with_orders() -> (Server, Connection) {
    let server = Server::start_queues();
    let mut connection = server.connect();
    assert_eq!(connection.send(&Request::new("PUT", "/orders")).unwrap().status, 201);
    (server, connection)
}

/// An ordinary client: it puts a message, gets it and deletes it.
fn work(connection: &mut Connection, round: usize) {
    let text = format!("<QueueMessage><MessageText>round {round}</MessageText></QueueMessage>");
    let put = Request::new("POST", "/orders/messages").xml(text.as_bytes());
    assert_eq!(connection.send(&put).unwrap().status, 201);
    let got = connection.send(&Request::new("GET", "/orders/messages")).unwrap().text();
    assert!(got.contains(&format!("<MessageText>round {round}</MessageText>")), "{got}");
    let element = |name: &str| {
        let (_, rest) = got.split_once(&format!("<{name}>")).unwrap();
        rest.split_once("</").unwrap().0.to_owned()
    };
    let receipt = element("PopReceipt").replace('+', "%2B").replace('=', "%3D");
    let path = format!("/orders/messages/{}?popreceipt={receipt}", element("MessageId"));
    assert_eq!(connection.send(&Request::new("DELETE", &path)).unwrap().status, 204);
}

/// A refusal as the service words it (Q-2.3, Q-2.10, Q-8.1, TQ-11); returns its code.
#[track_caller]
fn refused(answer: &Response, what: &str) -> String {
    let text = answer.text();
    assert!((400..500).contains(&answer.status), "{what}: {} {text}", answer.status);
    assert_eq!(answer.header("content-type"), Some("application/xml"), "{what}: {text}");
    assert_eq!(answer.header("x-ms-request-id").map(str::len), Some(36), "{what}: {text}");
    let begin = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>";
    let code = text.strip_prefix(begin).and_then(|rest| rest.split_once('<'));
    let (code, _) = code.unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(text.ends_with("</Error>"), "{what}: {text}");
    assert_eq!(answer.header("x-ms-error-code"), Some(code), "{what}");
    code.to_owned()
}

#[test]
fn others_are_served_throughout_every_attack() {
    let server = Server::start_queues();
    let mut witness = Witness::of_queues(server.address).unwrap();
    let idle = idle_connections(server.address, 100);
    assert_eq!(idle.len(), 100);
    let mut random = Seeded::new(2);
    for attack in ATTACKS {
        attack.run(server.address, &mut random).unwrap();
        witness.work().unwrap();
        server.assert_sound();
    }
}

fn message(text: &str) -> Vec<u8> {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>").into_bytes()
}

/// Bodies that no parser should follow: names are repeated so often that a parser that expands,
/// recurses or copies would never return.
fn hostile_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let laughs: String = (1..20)
        .map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10)))
        .collect();
    let laughs = format!("<!DOCTYPE q [<!ENTITY e0 \"ha\">{laughs}]>");
    let outside = "<!DOCTYPE q [<!ENTITY e SYSTEM \"file:///etc/hostname\">]>";
    let attributes: String = (0..5_000).map(|n| format!(" a{n}='1'")).collect();
    vec![
        ("nothing that is XML", b"not xml".to_vec()),
        ("half a document", b"<QueueMessage><MessageText>a".to_vec()),
        ("crossed elements", b"<QueueMessage><MessageText></QueueMessage></MessageText>".to_vec()),
        ("another root", b"<Message><MessageText>a</MessageText></Message>".to_vec()),
        ("two roots", [message("a"), message("b")].concat()),
        ("a control character", message("\u{1}")),
        ("a character reference to one", message("&#1;")),
        ("an entity of nobody", message("&nobody;")),
        ("entities that expand", [laughs.into_bytes(), message("&e19;")].concat()),
        ("an entity from outside", [outside.as_bytes(), &message("&e;")].concat()),
        ("a document type", [b"<!DOCTYPE q>".to_vec(), message("a")].concat()),
        ("bytes that are no text", message("a").into_iter().chain([0xFF, 0xFE]).collect()),
        ("UTF-16", "<QueueMessage/>".encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ("CDATA without an end", b"<QueueMessage><MessageText><![CDATA[a".to_vec()),
        ("a comment without an end", b"<QueueMessage><!-- <MessageText>".to_vec()),
        ("deep nesting", "<a>".repeat(20_000).into_bytes()),
        ("many attributes", format!("<QueueMessage{attributes}").into_bytes()),
    ]
}

/// Q-6.17a, TQ-31, TQ-32, Q-10.5.
#[test]
fn hostile_documents_are_refused_wherever_a_document_is_read() {
    let (server, mut connection) = with_orders();
    let policies = ("PUT", "/orders?comp=acl");
    let properties = ("PUT", "/?restype=service&comp=properties");
    let put = ("POST", "/orders/messages");
    let missing = ("POST", "/missing/messages");
    for (round, (what, body)) in hostile_bodies().iter().enumerate() {
        for (method, path) in [put, missing, policies, properties] {
            let what = format!("{what} to {path}");
            let answer = connection.send(&Request::new(method, path).xml(body)).unwrap();
            assert_eq!(refused(&answer, &what), "InvalidXmlDocument", "{what}");
        }
        work(&mut connection, round);
    }
    server.assert_sound();
}

/// Elements may nest inside a text as deep as the body allows: only the text counts (Q-6.17b).
#[test]
fn deep_markup_inside_a_text_does_no_harm() {
    let (server, mut connection) = with_orders();
    for depth in [100, 8_000] {
        let body = message(&format!("{}x{}", "<a>".repeat(depth), "</a>".repeat(depth)));
        let answer = connection.send(&Request::new("POST", "/orders/messages").xml(&body)).unwrap();
        match answer.status {
            201 => {
                let peek = Request::new("GET", "/orders/messages?peekonly=true");
                let seen = connection.send(&peek).unwrap().text();
                assert!(seen.contains("<MessageText>x</MessageText>"), "{seen}");
            }
            _ => assert_eq!(refused(&answer, "deep markup"), "InvalidXmlDocument"),
        }
    }
    server.assert_sound();
}

/// TQ-44, and the bound on any body.
#[test]
fn texts_and_bodies_that_are_too_large_are_refused() {
    let (server, mut connection) = with_orders();
    for length in [65_537, 70_000, 1 << 20] {
        let body = message(&"a".repeat(length));
        let answer = connection.send(&Request::new("POST", "/orders/messages").xml(&body)).unwrap();
        assert_eq!(refused(&answer, "a long text"), "RequestBodyTooLarge");
        assert_eq!(answer.status, 413);
        assert!(answer.text().contains("<MaxLimit>65536</MaxLimit>"), "{}", answer.text());
    }
    // More than any body may have: the response may come before the body is read, and then the
    // connection is closed.
    for length in [5 << 20, 1 << 30] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = format!(
            "POST /devstoreaccount1/orders/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\
             \r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(&[b' '; 100_000]);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    work(&mut connection, 0);
    server.assert_sound();
}

/// invalid paths and parameters.
#[test]
fn hostile_urls_are_refused() {
    let (server, mut connection) = with_orders();
    let long = "a".repeat(4_000);
    let flood = "x=y&".repeat(2_000);
    let paths = [
        "/%".to_owned(),
        "/%G0/messages".to_owned(),
        "/%FF/messages".to_owned(),
        "/or%00ders/messages".to_owned(),
        "/or%2Fders/messages".to_owned(),
        "/%2E%2E/%2E%2E/messages".to_owned(),
        "/orders%0D%0Ax:y/messages".to_owned(),
        "/orders/messages/a/b/c".to_owned(),
        "/orders//messages".to_owned(),
        "//orders/messages".to_owned(),
        format!("/{long}/messages"),
        format!("/orders/{long}"),
        "/orders/messages?numofmessages=99999999999999999999".to_owned(),
        "/orders/messages?numofmessages=%00".to_owned(),
        "/orders/messages?numofmessages=-".to_owned(),
        "/orders/messages?numofmessages=1.5".to_owned(),
        "/orders/messages?visibilitytimeout=-1".to_owned(),
        "/orders/messages?visibilitytimeout=0x10".to_owned(),
        "/orders?comp=%0A".to_owned(),
        "/?comp=list&maxresults=0".to_owned(),
        "/?comp=list&maxresults=%31%2e%35".to_owned(),
        "/?comp=list&include=%3C%2FError%3E".to_owned(),
        format!("/or_ders/messages?{flood}"),
    ];
    for (round, path) in paths.iter().enumerate() {
        let answer = connection.send(&Request::new("GET", path)).unwrap();
        refused(&answer, path);
        work(&mut connection, round);
    }
    for receipt in ["", "%00", "x", "AgAAAAMAAAAAAAAATo9G3YHt2AE%3DRandom", &long] {
        let path = format!("/missing/messages/x?visibilitytimeout=0&popreceipt={receipt}");
        let answer = connection.send(&Request::new("PUT", &path)).unwrap();
        let code = refused(&answer, &path);
        let expected = match receipt {
            "" => "MissingRequiredQueryParameter",
            _ => "InvalidQueryParameterValue",
        };
        assert_eq!(code, expected, "{path}");
    }
    server.assert_sound();
}

/// What a listing repeats of its request stays text, and a marker does not reach another account.
#[test]
fn markers_and_prefixes_stay_text() {
    let (server, mut connection) = with_orders();
    for text in [
        "",
        "%00",
        "%3C%2FMarker%3E%3Cx%3E",
        "%FF",
        "/other/orders",
        "/devstoreaccount1/",
        "/devstoreaccount1/orders%00",
        "%F0%9F%98%80",
        "zzz",
    ] {
        for name in ["marker", "prefix"] {
            let path = format!("/?comp=list&{name}={text}");
            let answer = connection.send(&Request::new("GET", &path)).unwrap();
            let body = answer.text();
            match answer.status {
                200 => {
                    assert!(body.ends_with("</EnumerationResults>"), "{path}: {body}");
                    assert!(!body.contains("<x>") && !body.contains('\0'), "{path}: {body}");
                    let names = body.matches("<Name>").count();
                    assert_eq!(names, body.matches("<Name>orders</Name>").count(), "{body}");
                }
                _ => drop(refused(&answer, &path)),
            }
        }
    }
    server.assert_sound();
}

/// TQ-15, TQ-16: metadata as clients should not send it.
#[test]
fn hostile_metadata_is_refused() {
    let (server, mut connection) = with_orders();
    let large = "v".repeat(9_000);
    let many: Vec<_> = (0..90).map(|n| (format!("x-ms-meta-a{n}"), "v".repeat(100))).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("x-ms-meta-invalid-meta", "1")], "InvalidMetadata"),
        (&[("x-ms-meta-12345", "1")], "InvalidMetadata"),
        (&[("x-ms-meta-", "test")], "EmptyMetadataKey"),
        (&[("x-ms-meta-a", "1"), ("x-ms-meta-A", "2")], "InvalidMetadata"),
        (&[("x-ms-meta-a", &large)], "MetadataTooLarge"),
        (&many, "MetadataTooLarge"),
    ];
    for (round, (headers, expected)) in cases.into_iter().enumerate() {
        for path in ["/orders?comp=metadata", "/fresh"] {
            let set = Request::new("PUT", path).headers(headers);
            let answer = connection.send(&set).unwrap();
            assert_eq!(refused(&answer, path), expected, "{headers:?}");
        }
        work(&mut connection, round);
    }
    server.assert_sound();
}
