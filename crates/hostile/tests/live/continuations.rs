//! Forged continuation tokens: the server refuses them, or continues within the requested table,
//! never in another.

use crate::server::Server;
use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::seed::Seeded;
use lazuli_wire::continuation::{encode, encode_table};
use lazuli_wire::uri::percent_encode;

/// Three tables, created in sequence, so that their entities are adjacent in the store.
fn three_tables() -> (Server, Connection) {
    let server = Server::start();
    let mut connection = server.connect();
    for table in ["Before", "Middle", "After"] {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        let create = Request::new("POST", "/Tables").json(&body);
        assert_eq!(connection.send(&create).unwrap().status, 201);
        for key in ["", "a", "m", "\u{FFFD}"] {
            let body = format!(r#"{{"PartitionKey":"{key}","RowKey":"{key}","of":"{table}"}}"#);
            let insert =
                Request::new("POST", &format!("/{table}")).json(&body).status(&mut connection);
            assert_eq!(insert, 201);
        }
    }
    (server, connection)
}

trait Status {
    fn status(&self, connection: &mut Connection) -> u16;
}

impl Status for Request<'_> {
    fn status(&self, connection: &mut Connection) -> u16 {
        connection.send(self).unwrap().status
    }
}

/// Texts that a key could not hold, and some that look like the store's own bytes.
const TEXTS: [&str; 16] = [
    "",
    "a",
    "m",
    "zz",
    "\0",
    "\u{1}",
    "\u{1}\u{1}",
    "\0\0\0\0\0\0\0\u{2}",
    "Le\0\0\0\0\0\0\0\u{3}a\0a",
    "\u{7f}",
    "\u{FFFF}",
    "\u{10FFFF}",
    "/\\#?",
    "'",
    "\n",
    "😀",
];

fn escaped(text: &str) -> String {
    let mut out = Vec::new();
    percent_encode(&mut out, text);
    String::from_utf8(out).unwrap()
}

/// Requests a page of `Middle` from there on; every entity in the response must be from `Middle`.
fn check(connection: &mut Connection, query: &str) -> u16 {
    let path = format!("/Middle()?{query}");
    let answer = connection.send(&Request::new("GET", &path)).unwrap();
    let body = answer.text();
    assert!([200, 400].contains(&answer.status), "{query}: {} {body}", answer.status);
    assert!(
        !body.contains("\"of\":\"Before\"") && !body.contains("\"of\":\"After\""),
        "{query}: {body}"
    );
    answer.status
}

#[test]
fn a_forged_key_stays_within_its_table() {
    let (server, mut connection) = three_tables();
    let long = "x".repeat(4000);
    let mut done = 0;
    for partition in TEXTS.iter().copied().chain([long.as_str()]) {
        for row in TEXTS {
            let token = |text: &str| encode(text.as_bytes());
            let query = format!("NextPartitionKey={}&NextRowKey={}", token(partition), token(row));
            done += u32::from(check(&mut connection, &query) == 200);
            check(&mut connection, &format!("NextPartitionKey={}", token(partition)));
            check(&mut connection, &format!("NextRowKey={}", token(row)));
        }
    }
    assert!(done > 100, "{done}");
    server.assert_sound();
}

#[test]
fn a_damaged_token_is_refused() {
    let (server, mut connection) = three_tables();
    let mut random = Seeded::new(1);
    let mut refused = 0;
    for _ in 0..300 {
        let mut token = encode(b"m").into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(token.len());
            token[at] = b' ' + random.below(95) as u8;
        }
        let token = escaped(&String::from_utf8(token).unwrap());
        refused += u32::from(check(&mut connection, &format!("NextPartitionKey={token}")) == 400);
    }
    assert!(refused > 200, "{refused}");
    for token in ["", "1!0!", "2!4!bQ--", "1!9!bQ--", "1!4!_w--"] {
        let query = format!("NextPartitionKey={token}&NextRowKey=1!4!bQ--");
        let status = check(&mut connection, &query);
        assert!(status == 400 || token == "1!0!", "{token}: {status}");
    }
    server.assert_sound();
}

/// A list of tables shows the account's own tables only, wherever it continues.
#[test]
fn a_forged_place_in_the_list_of_tables_shows_no_other() {
    let (server, mut connection) = three_tables();
    let now = lazuli_model::Timestamp::UNIX_EPOCH;
    for text in TEXTS {
        for token in [encode_table(text, now), encode(text.as_bytes()), escaped(text)] {
            let path = format!("/Tables?NextTableName={token}");
            let answer = connection.send(&Request::new("GET", &path)).unwrap();
            assert!([200, 400].contains(&answer.status), "{path}: {}", answer.status);
            let names = answer.text().matches("TableName\":").count();
            assert!(names <= 3, "{}", answer.text());
        }
    }
    server.assert_sound();
}
