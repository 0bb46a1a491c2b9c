//! Expiry over HTTP.

use super::asking;
use crate::harness::{Lazuli, Op, Response, order};

const TTL: &str = "/Orders?comp=lazuli-ttl";

impl Lazuli {
    fn set_ttl(&self, ttl: &str) -> Response {
        self.send(&asking("PUT", TTL).json(ttl))
    }
}

/// X-7.1.
#[test]
fn an_expiry_is_set_shown_and_removed() {
    let lazuli = Lazuli::with_orders();
    lazuli.ask(TTL).refused(404, "ResourceNotFound", "do not expire");
    for ttl in [r#"{"seconds":60}"#, r#"{"property":"ExpiresAt"}"#] {
        assert_eq!(lazuli.set_ttl(ttl).expect(200).text(), ttl);
        assert_eq!(lazuli.ask(TTL).expect(200).text(), ttl);
    }
    lazuli.send(&asking("DELETE", TTL)).expect(204);
    lazuli.send(&asking("DELETE", TTL)).expect(204);
    lazuli.ask(TTL).refused(404, "ResourceNotFound", "do not expire");
    let missing = asking("PUT", "/Missing?comp=lazuli-ttl").json(r#"{"seconds":1}"#);
    lazuli.send(&missing).refused(404, "TableNotFound", "");
}

/// X-7.1: bad input gets a clear 400, and nothing is half done.
#[test]
fn bad_expiries_are_refused() {
    let lazuli = Lazuli::with_orders();
    let long = format!(r#"{{"property":"{}"}}"#, "x".repeat(256));
    for (body, text) in [
        ("", "not valid"),
        ("{}", "either"),
        (r#"{"seconds":0}"#, "1 or more"),
        (r#"{"seconds":-1}"#, "not valid"),
        (r#"{"seconds":1.5}"#, "not valid"),
        (r#"{"seconds":"60"}"#, "not valid"),
        (r#"{"seconds":60,"property":"At"}"#, "not both"),
        (r#"{"property":""}"#, "''"),
        (r#"{"property":"Timestamp"}"#, "'Timestamp'"),
        (r#"{"property":"RowKey"}"#, "'RowKey'"),
        (r#"{"property":"odata.etag"}"#, "'odata.etag'"),
        (r#"{"seconds":60,"more":1}"#, "more"),
        (long.as_str(), "xxx"),
    ] {
        lazuli.set_ttl(body).refused(400, "InvalidInput", text);
    }
    lazuli.ask(TTL).refused(404, "ResourceNotFound", "");
}

/// X-7.2: gone for reads, queries, counts, conditions and inserts, for every client.
#[test]
fn an_expired_entity_is_gone_for_everybody() {
    let lazuli = Lazuli::with_rows(&[("1", r#""A":1"#)]);
    lazuli.set_ttl(r#"{"seconds":60}"#).expect(200);
    lazuli.get(&order("1")).expect(200);
    lazuli.clock.advance_seconds(61);
    lazuli.get(&order("1")).refused(404, "ResourceNotFound", "");
    assert_eq!(lazuli.rows("A eq 1"), "");
    assert_eq!(lazuli.ask("/Orders()/$count").expect(200).text(), "0");
    for method in ["PUT", "MERGE", "DELETE"] {
        let body = if method == "DELETE" { "" } else { "{}" };
        lazuli.write(method, "1", Some("*"), body).refused(404, "ResourceNotFound", "");
    }
    let merge = Op::new("MERGE", "Orders(PartitionKey='p',RowKey='1')", "{}").with("If-Match", "*");
    assert!(lazuli.batch(&[merge]).outer.text().contains("404"));
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1","B":2}"#).expect(201);
    assert_eq!(lazuli.stored("1"), r#""B":2"#);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#).expect(409);
}

/// X-7.3.
#[test]
fn the_feed_shows_what_expired() {
    let lazuli = Lazuli::with_orders();
    lazuli.set_ttl(r#"{"property":"At"}"#).expect(200);
    lazuli
        .send(&asking("PUT", "/Orders?comp=lazuli-feed").json(r#"{"images":"both"}"#))
        .expect(200);
    for row in ["1", "2"] {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","At":30}}"#);
        lazuli.insert("Orders", &body).expect(201);
    }
    lazuli.clock.advance_seconds(31);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1","At":"never"}"#).expect(201);
    lazuli.sweep();
    let text = lazuli.ask("/Orders?comp=lazuli-changes").expect(200).text().to_owned();
    let operations: Vec<&str> = text
        .split("\"operation\":\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(operations, ["insert", "insert", "expire", "insert", "expire"]);
    assert_eq!(lazuli.rows("PartitionKey eq 'p'"), "1");
}
