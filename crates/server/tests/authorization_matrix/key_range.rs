//! Tokens for a range of a table's entities.

use crate::Verdict;
use crate::credential::{Credential, covers, table_sas, table_token};
use crate::operation::{FORBIDDEN, LACKING, Operation, Outcome};
use crate::server::{ACCOUNT, Server, Style, VERSION};
use crate::service::Service;
use crate::tables::{all, change, change_set};
use lazuli_wire::sas::TableSas;

/// First and last partition and row key.
type Range = [Option<&'static str>; 4];

fn ranged([spk, srk, epk, erk]: Range, permissions: &'static str) -> TableSas<'static> {
    TableSas {
        permissions,
        start_partition_key: spk,
        start_row_key: srk,
        end_partition_key: epk,
        end_row_key: erk,
        ..table_sas()
    }
}

/// The operations use the entities `m`, `5` and `m`, `6`.
#[test]
fn entities_outside_the_range_are_out_of_reach() {
    let inside: [Range; 6] = [
        [Some("m"), None, Some("m"), None],
        [Some("m"), Some("5"), Some("m"), Some("6")],
        [Some("a"), None, None, None],
        [None, None, Some("z"), None],
        [Some("a"), Some("9"), Some("z"), Some("0")],
        [None, None, Some("m"), Some("6")],
    ];
    let outside: [Range; 6] = [
        [Some("n"), None, None, None],
        [None, None, Some("l"), None],
        [Some("m"), Some("7"), Some("m"), None],
        [Some("m"), None, Some("m"), Some("4")],
        [Some("z"), None, Some("a"), None],
        [Some("M"), None, Some("M"), None],
    ];
    let server = Server::start(Service::Table);
    let mut verdict = Verdict::default();
    for (ranges, reach) in [(inside, true), (outside, false)] {
        for range in ranges {
            for letters in ["raud", "r", "d"] {
                let token = table_token(&ranged(range, letters));
                let name = format!("{letters} for {range:?}");
                verdict.row(&server, &token, &name, |operation| judge(operation, letters, reach));
            }
        }
    }
}

/// Permissions are checked before keys (A-10.4).
fn judge(operation: &Operation, letters: &str, reach: bool) -> Outcome {
    match operation.service_sas {
        Some(needed) if !covers(letters, needed) => {
            // Of two operations, the first is checked completely, including its keys, before the second.
            match operation.service_sas {
                Some("ad") if letters.contains('a') && !reach => FORBIDDEN,
                _ => LACKING,
            }
        }
        Some(_) if operation.of_whole_table => FORBIDDEN,
        Some(_) if operation.names_entity && !reach => FORBIDDEN,
        Some(_) => Outcome::Done,
        None => FORBIDDEN,
    }
}

#[test]
fn a_row_key_without_its_partition_key_is_refused() {
    let server = Server::start(Service::Table);
    let mut verdict = Verdict::default();
    for range in [[None, Some("5"), None, None], [None, None, None, Some("6")]] {
        let token = table_token(&ranged(range, "raud"));
        let failed = crate::operation::FAILED;
        verdict.row(&server, &token, &format!("{range:?}"), |_| failed);
    }
}

const GRID: [&str; 3] = ["a", "m", "z"];

/// A server whose table holds three partitions of three rows.
fn grid() -> Server {
    let server = Server::start(Service::Table);
    server.delete("Orders", "m", "5");
    for partition in GRID {
        for row in GRID {
            server.insert("Orders", partition, row);
        }
    }
    server
}

/// The keys that a query shows, such as `am mz`.
fn shown(server: &Server, token: &Credential, query: &'static str) -> String {
    let operation = all().into_iter().find(|o| o.name == "Query Entities").unwrap();
    let operation = Operation { query, ..operation };
    let answer = server.send(&operation, token, Style::Path, VERSION);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let keys = answer.body.split("\"PartitionKey\":\"").skip(1).map(|rest| {
        let (_, row) = rest.split_once("\"RowKey\":\"").unwrap();
        format!("{}{}", &rest[..1], &row[..1])
    });
    keys.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_query_shows_what_lies_in_the_range_and_no_more() {
    let server = grid();
    let check = |range: Range, query, expected: &str| {
        let token = table_token(&ranged(range, "r"));
        assert_eq!(shown(&server, &token, query), expected, "{range:?} {query}");
    };
    check([None; 4], "", "aa am az ma mm mz za zm zz");
    check([Some("m"), None, Some("m"), None], "", "ma mm mz");
    check([Some("a"), Some("m"), Some("z"), Some("a")], "", "am az ma mm mz za");
    check([Some("b"), None, Some("c"), None], "", "");
    check([None, None, Some("a"), Some("a")], "", "aa");
    // Neither a filter nor a continuation reaches beyond the range.
    let middle = [Some("m"), Some("m"), Some("m"), Some("m")];
    check(middle, "", "mm");
    check(middle, "$filter=PartitionKey%20eq%20'a'", "");
    check(middle, "$filter=PartitionKey%20eq%20'a'%20or%20RowKey%20eq%20'm'", "mm");
    check(middle, "$filter=not%20(PartitionKey%20eq%20'm')", "");
    check(middle, "NextPartitionKey=1!4!YQ--", "mm");
    check(middle, "NextPartitionKey=1!4!bQ--&NextRowKey=1!4!YQ--", "mm");
    check(middle, "NextPartitionKey=1!4!eg--", "");
    check(middle, "NextPartitionKey=1!4!eg--&NextRowKey=1!4!YQ--", "");
    check(middle, "$top=1", "mm");
}

/// A page that ends with the range names no entity beyond it.
#[test]
fn a_continuation_tells_nothing_of_what_lies_outside() {
    let server = grid();
    let token = table_token(&ranged([Some("a"), None, Some("a"), None], "r"));
    let operation = all().into_iter().find(|o| o.name == "Query Entities").unwrap();
    let operation = Operation { query: "$top=3", ..operation };
    let answer = server.send(&operation, &token, Style::Path, VERSION);
    assert!(!answer.head.to_ascii_lowercase().contains("x-ms-continuation"), "{}", answer.head);
}

/// The bounds are compared in the service's key order, by UTF-16 code units: U+FF5E comes after
/// U+1F600, whose first unit is a surrogate.
#[test]
fn bounds_are_in_key_order() {
    let server = Server::start(Service::Table);
    server.insert("Orders", "\u{1F600}", "r");
    server.insert("Orders", "\u{FF5E}", "r");
    let range = [Some("\u{1F600}"), None, Some("\u{1F600}"), None];
    let token = table_token(&ranged(range, "r"));
    let read = |path| {
        let operation = all().into_iter().find(|o| o.name == "Query Entity").unwrap();
        server.send(&Operation { path, ..operation }, &token, Style::Path, VERSION).status
    };
    assert_eq!(read("/Orders(PartitionKey='%F0%9F%98%80',RowKey='r')"), 200);
    assert_eq!(read("/Orders(PartitionKey='%EF%BD%9E',RowKey='r')"), 403);
    let above = table_token(&ranged([Some("\u{1F601}"), None, None, None], "r"));
    assert_eq!(shown(&server, &above, "$select=PartitionKey,RowKey").chars().count(), 2);
}

/// A-12.6: one operation outside the range fails the transaction whole.
#[test]
fn one_operation_outside_the_range_stops_a_transaction() {
    let server = grid();
    let token = table_token(&ranged([Some("m"), Some("m"), Some("m"), None], "raud"));
    let at = |row: &str| {
        let path = format!("/{ACCOUNT}/Orders(PartitionKey='m',RowKey='{row}')");
        change("DELETE", &path, "If-Match: *\r\n", "")
    };
    let operation = all().into_iter().find(|o| o.name == "a transaction that deletes").unwrap();
    let send = |parts: &[&str]| {
        let operation = Operation { body: change_set(parts), ..operation.clone() };
        let answer = server.send(&operation, &token, Style::Path, VERSION);
        let (status, code) = answer.verdict(&operation);
        (status, code.to_owned(), answer.body)
    };
    let (status, code, body) = send(&[&at("m"), &at("z"), &at("a")]);
    assert_eq!((status, code.as_str()), (403, "AuthorizationFailure"), "{body}");
    assert!(body.contains("\"value\":\"2:This request is not authorized"), "{body}");
    let all_there = table_token(&table_sas());
    assert_eq!(shown(&server, &all_there, "$filter=PartitionKey%20eq%20'm'"), "ma mm mz");
    assert_eq!(send(&[&at("m"), &at("z")]).0, 204);
    assert_eq!(shown(&server, &all_there, "$filter=PartitionKey%20eq%20'm'"), "ma");
}

/// An operation on another table inside a transaction, or one whose inner URL names another account.
#[test]
fn the_parts_of_a_transaction_are_held_to_the_token() {
    let server = Server::start(Service::Table);
    let operation = all().into_iter().find(|o| o.name == "a transaction that deletes").unwrap();
    for path in [
        format!("/{ACCOUNT}/Other(PartitionKey='m',RowKey='5')"),
        format!("http://elsewhere/{ACCOUNT}/Other(PartitionKey='m',RowKey='5')"),
        "/Other(PartitionKey='m',RowKey='5')".to_owned(),
        "Other(PartitionKey='m',RowKey='5')".to_owned(),
    ] {
        let body = change_set(&[&change("DELETE", &path, "If-Match: *\r\n", "")]);
        let operation = Operation { body, ..operation.clone() };
        let found = server.attempt(&operation, &table_token(&table_sas()), FORBIDDEN);
        assert!(found.is_ok(), "{path}: {found:?}");
    }
}

/// The protocol signs an empty bound and an absent one alike (A-4.16), so the holder of a token that
/// ends with the empty row key can drop that parameter and reach the rest of the partition. To grant
/// a single row, issuers must bound it on both sides with non-empty keys. This asserts today's
/// behaviour, which the live service shares.
#[test]
fn an_empty_bound_can_be_dropped_by_its_holder() {
    let server = grid();
    let Credential::Token(token) =
        table_token(&ranged([Some("m"), None, Some("m"), Some("")], "r"))
    else {
        unreachable!()
    };
    assert_eq!(shown(&server, &Credential::Token(token.clone()), ""), "");
    let dropped = token.replace("&erk=", "");
    assert_eq!(shown(&server, &Credential::Token(dropped), ""), "ma mm mz");
}
