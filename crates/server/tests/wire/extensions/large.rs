//! The largest transactions on tables with everything that is derived from a write (X-1.4).

use super::asking;
use crate::harness::{BatchAnswer, Lazuli, Op};

/// Maximum operations of a transaction.
const OPERATIONS: usize = 100;
/// Text of each entity in the largest body: together with its overhead it fills 4 MiB.
const TEXT: usize = 41_000;
/// Text of one property, at most 64 KiB of UTF-16.
const PROPERTY: usize = 32_000;
/// The number of such properties in an entity of almost 1 MiB, where text counts twice.
const PROPERTIES: usize = 15;

/// A table with the most indexes, a feed with both images, and expiry.
fn table() -> Lazuli {
    let lazuli = Lazuli::with_orders();
    let index = |n: usize| format!(r#"{{"name":"by{n}x","on":["T","P{n}"],"unique":true}}"#);
    let indexes = (0..16).map(index).collect::<Vec<_>>().join(",");
    let set = |comp: &str, body: &str| {
        lazuli.send(&asking("PUT", &format!("/Orders?comp=lazuli-{comp}")).json(body))
    };
    set("indexes", &format!(r#"{{"indexes":[{indexes}]}}"#)).expect(202);
    set("feed", r#"{"images":"both","retention_hours":24}"#).expect(200);
    set("ttl", r#"{"seconds":86400}"#).expect(200);
    lazuli.build().unwrap();
    lazuli
}

fn path(row: usize) -> String {
    format!("/Orders(PartitionKey='p',RowKey='{row:03}')")
}

/// All rows, each with the properties of all indexes and a long text.
fn full(mark: char) -> Vec<Op> {
    let row = |row: usize| {
        let numbers = (0..16).map(|n| format!(",\"P{n}\":{row}")).collect::<String>();
        let text = String::from(mark).repeat(TEXT);
        let (head, tail) = text.split_at(PROPERTY);
        let body = format!("{{\"T\":\"{head}\",\"U\":\"{tail}\"{numbers}}}");
        Op::new("PUT", &path(row), &body)
    };
    (0..OPERATIONS).map(row).collect()
}

fn changes(lazuli: &Lazuli) -> usize {
    let page = lazuli.ask("/Orders?comp=lazuli-changes").expect(200);
    page.text().matches("\"operation\"").count()
}

#[track_caller]
fn verify(lazuli: &Lazuli) {
    let page = lazuli.ask("/Orders?comp=lazuli-verify").expect(200);
    assert!(page.text().contains("\"found\":[]"), "{}", page.text());
}

/// X-1.4.
#[test]
fn the_largest_transaction_fits_with_all_that_is_derived() {
    let lazuli = table();
    lazuli.batch(&full('a')).expect(&[204; OPERATIONS]);
    // Now every entity has an old image too, and every index entry moves.
    lazuli.batch(&full('b')).expect(&[204; OPERATIONS]);
    verify(&lazuli);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), OPERATIONS.to_string());
}

/// Merges that rewrite much more than they contain.
fn merges(count: usize) -> Vec<Op> {
    let merge = |row: usize| Op::new("MERGE", &path(row), r#"{"N":1}"#).with("If-Match", "*");
    (0..count).map(merge).collect()
}

fn with_large_entities(count: usize) -> Lazuli {
    let lazuli = table();
    let text = "x".repeat(PROPERTY);
    let properties: Vec<_> = (0..PROPERTIES).map(|n| format!("\"L{n}\":\"{text}\"")).collect();
    let body = format!("{{{}}}", properties.join(","));
    for row in 0..count {
        lazuli.send(&asking("PUT", &path(row)).json(&body)).expect(204);
    }
    lazuli
}

/// X-1.4: what a merge rewrites and records counts, not what it contains.
#[test]
fn merges_into_large_entities_fit_or_are_refused_whole() {
    let lazuli = with_large_entities(OPERATIONS);
    lazuli.batch(&merges(50)).expect(&[204; 50]);
    verify(&lazuli);
    let before = changes(&lazuli);
    let answer: BatchAnswer = lazuli.batch(&merges(OPERATIONS));
    let text = answer.outer.text();
    assert!(text.contains("HTTP/1.1 400 ") && text.contains("InvalidInput"), "{text}");
    assert!(text.contains("fewer operations"), "{text}");
    assert_eq!(changes(&lazuli), before);
    verify(&lazuli);
}
