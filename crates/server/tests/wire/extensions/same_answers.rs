//! A plain client cannot tell whether a table has indexes (X-0.3): it gets the same entities, byte
//! for byte, in the same number of pages, while indexes are declared, built, dropped and redeclared
//! between any two pages of a query.

use super::asking;
use crate::harness::{Lazuli, Response, encode};

const INDEXES: &str = "/Orders?comp=lazuli-indexes";

/// The content of each row: every type, missing properties, text whose order differs between UTF-8
/// and UTF-16, text longer than an index entry holds.
fn rows() -> Vec<(String, String, String)> {
    let long = "x".repeat(300);
    let values = [
        r#""A":1,"B":"a""#.to_owned(),
        r#""A":1.0,"B":"b","C":true"#.to_owned(),
        r#""A":"9007199254740993","A@odata.type":"Edm.Int64","B":"a""#.to_owned(),
        r#""A":9007199254740992.0,"B":"\ue000""#.to_owned(),
        r#""A":"1","B":"\ud83e\udd80""#.to_owned(),
        format!(r#""A":"{long}","B":"a""#),
        format!(r#""A":"{long}y","B":"a","C":false"#),
        r#""A":false,"B":2"#.to_owned(),
        r#""A":"2026-01-01T00:00:00Z","A@odata.type":"Edm.DateTime","B":"a""#.to_owned(),
        r#""A":"NaN","A@odata.type":"Edm.Double","B":"a""#.to_owned(),
        r#""A":"c9da6455-213d-42c9-9a79-3e9149a57833","A@odata.type":"Edm.Guid","B":"b""#
            .to_owned(),
        r#""A":"AAE=","A@odata.type":"Edm.Binary","B":"b""#.to_owned(),
        r#""A":2"#.to_owned(),
        r#""B":"a","C":true"#.to_owned(),
        r#""A":"","B":"""#.to_owned(),
    ];
    let partitions = ["p", "q", "\u{e000}", "\u{1f980}"];
    let row = |(number, partition): (usize, &str)| {
        let value = |row: usize| {
            let value = values[(row + number) % values.len()].clone();
            (partition.to_owned(), format!("{row:02}"), value)
        };
        (0..values.len() + 3).map(value).collect::<Vec<_>>()
    };
    partitions.into_iter().enumerate().flat_map(row).collect()
}

const FILTERS: &[&str] = &[
    "A eq 1",
    "A eq 1L and B eq 'a'",
    "A eq 9007199254740993L",
    "A eq 9007199254740992.0",
    "A ge 1 and A lt 3",
    "A lt ''",
    "A gt ''",
    "A ne 1",
    "not (A eq 1)",
    "A eq 1 or B eq 'a'",
    "A eq 1 or A eq 2 or A eq false",
    "(A eq 1 or A eq 2) and B eq 'a'",
    "(A eq 1 or A eq '1') and (B eq 'b' or B eq 'a' or B eq '🦀')",
    "A eq 1 and B ge 'a' and B lt 'c'",
    "B gt '🦀'",
    "B ge '\u{e000}'",
    "B lt '\u{e000}' and A ge 0",
    "A ge 'xxxxxxxx' and B eq 'a'",
    "A eq datetime'2026-01-01T00:00:00Z'",
    "A eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
    "A eq X'0001' and B eq 'b'",
    "C eq true and B eq 'a'",
    "C and A eq 1",
    "not C and B eq 'a'",
    "PartitionKey eq 'p' and A eq 1",
    "(PartitionKey eq 'p' or PartitionKey eq '\u{e000}') and (A eq 1 or A eq 2)",
    "PartitionKey ge 'q' and B eq 'a'",
    "PartitionKey eq 'p' and RowKey ge '05' and B eq 'a'",
    "B eq 'a' and RowKey ge '07'",
    "B eq 'a' and Timestamp gt datetime'2001-01-01T00:00:00Z'",
    "A eq 1 and A eq 2",
    "B eq 'nothing'",
];

/// Consecutive sets of indexes.
const SETS: &[&str] = &[
    "[]",
    r#"[{"name":"byA","on":["A"]},{"name":"byB","on":["B"]}]"#,
    r#"[{"name":"byA","on":["A","B"]},{"name":"byC","on":["C"]}]"#,
    r#"[{"name":"inPartition","on":["PartitionKey","A"]},{"name":"byBA","on":["B","A"]}]"#,
    r#"[{"name":"byA","on":["A"]},{"name":"inPartition","on":["PartitionKey","B","A"]}]"#,
];

/// A query of a plain client, and the pages it has seen.
struct Walk {
    target: String,
    next: Option<String>,
    pages: Vec<String>,
    is_over: bool,
}

impl Walk {
    fn new(filter: &str, options: &str) -> Self {
        let target = format!("/Orders()?$filter={}{options}", encode(filter));
        Self { target, next: None, pages: Vec::new(), is_over: false }
    }

    fn step(&mut self, lazuli: &Lazuli) {
        let next = self.next.take().unwrap_or_default();
        let page = lazuli.get(&format!("{}{next}", self.target)).expect(200);
        assert_eq!(page.header("x-lazuli-used"), None);
        self.pages.push(page.text().to_owned());
        self.next = continuation(&page);
        self.is_over = self.next.is_none();
    }
}

fn continuation(page: &Response) -> Option<String> {
    let partition = page.header("x-ms-continuation-nextpartitionkey")?;
    let row = page.header("x-ms-continuation-nextrowkey");
    let row = row.map(|row| format!("&NextRowKey={}", encode(row))).unwrap_or_default();
    Some(format!("&NextPartitionKey={}{row}", encode(partition)))
}

fn walks() -> Vec<Walk> {
    let mut walks = Vec::new();
    for filter in FILTERS {
        for options in ["&$top=2", "&$top=7&$select=RowKey,B", ""] {
            walks.push(Walk::new(filter, options));
        }
    }
    walks
}

/// All pages; the last may be empty, and is then not counted.
fn all(lazuli: &Lazuli, mut between: impl FnMut(usize)) -> Vec<(String, Vec<String>)> {
    let mut walks = walks();
    for turn in 0.. {
        let mut open = walks.iter_mut().filter(|walk| !walk.is_over).peekable();
        if open.peek().is_none() {
            break;
        }
        open.for_each(|walk| walk.step(lazuli));
        between(turn);
    }
    let is_empty = |page: &String| page.ends_with(r#""value":[]}"#);
    let seen = |mut walk: Walk| {
        if walk.pages.len() > 1 && walk.pages.last().is_some_and(is_empty) {
            walk.pages.pop();
        }
        (walk.target, walk.pages)
    };
    walks.into_iter().map(seen).collect()
}

#[test]
fn a_plain_client_cannot_tell_whether_there_are_indexes() {
    let lazuli = Lazuli::with_orders();
    for (partition, row, values) in rows() {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}",{values}}}"#);
        lazuli.insert("Orders", &body).expect(201);
    }
    let declare = |set: &str| {
        lazuli.send(&asking("PUT", INDEXES).json(&format!(r#"{{"indexes":{set}}}"#))).expect(202);
    };
    let plain = all(&lazuli, |_| ());
    assert!(plain.iter().any(|(_, pages)| pages.len() > 10));
    for set in &SETS[1..] {
        declare(set);
        assert_eq!(all(&lazuli, |_| ()), plain, "while {set} is built");
        lazuli.build().unwrap();
        assert_eq!(all(&lazuli, |_| ()), plain, "{set}");
    }
    // Between any two pages: declared, then ready, then replaced by others.
    for begin in [0, 3, 6] {
        let changed = all(&lazuli, |turn| match (turn + begin) % 2 {
            0 => declare(SETS[(turn + begin) / 2 % SETS.len()]),
            _ => lazuli.build().unwrap(),
        });
        assert_eq!(changed, plain, "begun at {begin}");
    }
}
