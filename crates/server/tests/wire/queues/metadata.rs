//! Metadata of queues, over a connection: only this test shows the case of header names.

use super::harness::{Ask, Queues};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends requests over one connection and returns the responses, each up to its empty body or to the end.
fn exchange(queues: Queues, requests: &[Ask]) -> Vec<String> {
    let texts: Vec<String> = requests.iter().map(|ask| queues.head_of(ask)).collect();
    queues.listen(|address| {
        let mut stream = TcpStream::connect(address).unwrap();
        texts
            .iter()
            .map(|text| {
                stream.write_all(text.as_bytes()).unwrap();
                read_answer(&mut stream)
            })
            .collect()
    })
}

fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// names keep the case of their creation, in headers and in listings: a
/// creation that spells them differently is the same.
#[test]
fn names_keep_the_case_of_their_creation() {
    let create = |color: &str| {
        Ask::new("PUT", "/orders").with(color, "Red").with("X-MS-META-lastName", "x-ms-meta-Color")
    };
    let answers = exchange(
        Queues::new(),
        &[
            create("x-ms-meta-Color"),
            Ask::new("GET", "/orders?comp=metadata"),
            create("x-ms-meta-COLOR"),
            Ask::new("HEAD", "/orders?comp=metadata"),
            Ask::new("GET", "/?comp=list&include=metadata"),
        ],
    );
    assert!(answers[0].starts_with("HTTP/1.1 201 ") && answers[2].starts_with("HTTP/1.1 204 "));
    for answer in [&answers[1], &answers[3]] {
        assert!(answer.contains("\r\nx-ms-meta-Color: Red\r\n"), "{answer}");
        assert!(answer.contains("\r\nx-ms-meta-lastName: x-ms-meta-Color\r\n"), "{answer}");
    }
    let listed = "<Metadata><Color>Red</Color><lastName>x-ms-meta-Color</lastName></Metadata>";
    assert!(answers[4].contains(listed), "{}", answers[4]);
}

/// T-9.28: an entry with a star exposes the metadata of the response.
#[test]
fn metadata_is_exposed_to_browsers() {
    let queues = Queues::new();
    let rule = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a</AllowedOrigins>\
                <AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders>x-ms-meta-c*\
                </ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>\
                </StorageServiceProperties>";
    queues.send(&Ask::new("PUT", "/?restype=service&comp=properties").body(rule)).expect(202);
    let create = Ask::new("PUT", "/orders").with("x-ms-meta-color", "1").with("x-ms-meta-a", "2");
    queues.send(&create).expect(201);
    let get = Ask::new("GET", "/orders?comp=metadata").with("origin", "http://a");
    let exposed = queues.send(&get).expect(200);
    assert_eq!(exposed.header("access-control-expose-headers"), Some("x-ms-meta-color"));
}
