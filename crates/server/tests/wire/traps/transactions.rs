//! Entity group transactions.

use crate::harness::{ACCOUNT, Lazuli, Op, Request, multipart};

const NOT_FOUND: &str = "The specified resource does not exist.";
const EXISTS: &str = "The specified entity already exists.";
const VALUE_TOO_LARGE: &str = "The property value exceeds the maximum allowed size (64KB). If the \
     property value is a string, it is UTF-16 encoded and the maximum number of characters should \
     be 32K or less.";

/// Sends a batch body unchanged.
fn send(lazuli: &Lazuli, body: &str) -> crate::harness::Response {
    let request = Request::new("POST", "/$batch").body("multipart/mixed; boundary=batch_a1", body);
    lazuli.send(&request)
}

/// TR-67: a failed transaction was committed in part (T-6.20).
#[test]
fn a_failed_transaction_changes_nothing() {
    let lazuli = Lazuli::with_rows(&[("there", "")]);
    let answer = lazuli.batch(&[Op::insert("a"), Op::insert("b"), Op::insert("there")]);
    answer.expect_error(409, "EntityAlreadyExists", &format!("2:{EXISTS}"));
    assert_eq!(lazuli.rows(""), "there");
}

/// TR-68: an update was not rolled back (T-6.20).
#[test]
fn updates_merges_and_deletes_are_taken_back() {
    let rows = [("a", r#""A":1"#), ("b", r#""A":1"#), ("c", r#""A":1"#), ("there", "")];
    let lazuli = Lazuli::with_rows(&rows);
    let before = lazuli.get("/Orders()").expect(200);
    let operations = [
        Op::on("PUT", "a", r#"{"A":2}"#).with("If-Match", "*"),
        Op::on("MERGE", "b", r#"{"A":2}"#).with("If-Match", "*"),
        Op::on("DELETE", "c", "").with("If-Match", "*"),
        Op::insert("there"),
    ];
    lazuli.batch(&operations).expect_error(409, "EntityAlreadyExists", &format!("3:{EXISTS}"));
    assert_eq!(lazuli.get("/Orders()").expect(200).body, before.body);
}

/// TR-69: several partition keys were accepted (T-6.44).
#[test]
fn a_transaction_has_one_partition() {
    let lazuli = Lazuli::with_orders();
    let other = Op::new("POST", "Orders", r#"{"PartitionKey":"q","RowKey":"r"}"#);
    let code = "CommandsInBatchActOnDifferentPartitions";
    let text = "All commands in a batch must operate on same entity group.";
    let answer = lazuli.batch(&[Op::insert("a"), Op::insert("b"), other]);
    answer.expect_error(400, code, &format!("2:{text}"));
    // A second table gets the same error (T-6.45, unverified).
    lazuli.create_table("Others").expect(201);
    let other = Op::new("POST", "Others", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    lazuli.batch(&[Op::insert("a"), other]).expect_error(400, code, &format!("1:{text}"));
    assert_eq!(lazuli.rows(""), "");
}

/// TR-70: a row named twice was answered like one that exists (T-6.43).
#[test]
fn a_row_comes_once_in_a_transaction() {
    let lazuli = Lazuli::with_orders();
    let message = "2:The batch request contains multiple changes with same row key. An entity can \
         appear only once in a batch request.";
    let again = Op::on("DELETE", "a", "").with("If-Match", "*");
    let answer = lazuli.batch(&[Op::insert("a"), Op::insert("b"), again]);
    answer.expect_error(400, "InvalidDuplicateRow", message);
    assert_eq!(lazuli.rows(""), "");
}

/// TR-71: the message did not name the operation, or did where the service does not (T-6.38 to
/// T-6.40).
#[test]
fn the_message_names_the_operation_that_failed() {
    let lazuli = Lazuli::with_orders();
    let missing = || Op::on("DELETE", "x", "").with("If-Match", "*");
    let answer = lazuli.batch(&[Op::insert("a"), missing()]);
    answer.expect_error(404, "ResourceNotFound", &format!("1:{NOT_FOUND}"));
    // Alone, an error found at execution has no index; one found before has.
    lazuli.batch(&[missing()]).expect_error(404, "ResourceNotFound", NOT_FOUND);
    let malformed = Op::new("POST", "my_table", "{}");
    let message = "0:The specifed resource name contains invalid characters.";
    lazuli.batch(&[malformed]).expect_error(400, "InvalidResourceName", message);
}

/// TR-72: a failed operation failed the request, or broke the multipart (T-6.25).
#[test]
fn a_failed_operation_is_told_inside() {
    let lazuli = Lazuli::with_rows(&[("there", "")]);
    let answer = lazuli.batch(&[Op::insert("there"), Op::insert("new")]);
    assert!(answer.change_set);
    answer.expect_error(409, "EntityAlreadyExists", &format!("0:{EXISTS}"));
}

/// TR-73: a missing table broke the multipart (T-6.46).
#[test]
fn a_missing_table_is_told_inside() {
    let lazuli = Lazuli::empty();
    let message = "0:The table specified does not exist.";
    for count in 1..=2 {
        let inserts: Vec<Op> = (0..count).map(|row| Op::insert(&row.to_string())).collect();
        let answer = lazuli.batch(&inserts).expect_error(404, "TableNotFound", message);
        // Recorded: only this part has no Cache-Control.
        assert_eq!(answer.parts[0].header("cache-control"), None);
    }
}

/// TR-74: too many operations were answered with the first index (T-6.42).
#[test]
fn a_transaction_has_at_most_100_operations() {
    let inserts = |count: usize| -> Vec<Op> {
        (0..count).map(|row| Op::insert(&format!("{row:03}"))).collect()
    };
    let lazuli = Lazuli::with_orders();
    let message = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    for count in [101, 150] {
        lazuli.batch(&inserts(count)).expect_error(400, "InvalidInput", message);
        assert_eq!(lazuli.rows(""), "");
    }
    lazuli.batch(&inserts(100)).expect(&[201; 100]);
}

/// TR-75: a query in addition to changes was accepted (T-6.56).
#[test]
fn a_query_stands_alone_in_a_batch() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let part = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let url = format!("http://{}/{ACCOUNT}/Orders", lazuli.address);
    let get = format!("--batch_a1\r\n{part}GET {url}() HTTP/1.1\r\n\r\n\r\n");
    let insert = format!(
        "POST {url} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
         {{\"PartitionKey\":\"p\",\"RowKey\":\"new\"}}"
    );
    let changes = multipart(&[insert]);
    let not_valid = "One of the request inputs is not valid.";
    let both = format!("{get}{changes}");
    send(&lazuli, &both).expect_error(400, "InvalidInput", not_valid);
    let two = format!("{get}{get}--batch_a1--\r\n");
    send(&lazuli, &two).expect_error(400, "InvalidInput", not_valid);
    // Inside a change set, a GET is an operation that no change set allows.
    let inside = multipart(&[format!("GET {url}() HTTP/1.1\r\n\r\n")]);
    assert_ne!(send(&lazuli, &inside).status, 200);
    assert_eq!(lazuli.rows(""), "r");
}

/// TR-76: clients failed on wrong line ends around empty bodies (T-6.27, T-6.28).
#[test]
fn separators_are_exact() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let insert = Op::insert("new").with("Prefer", "return-no-content");
    let merge = Op::on("MERGE", "r", "{}").with("If-Match", "*");
    let answer = lazuli.batch(&[insert, merge]).expect(&[204, 204]);
    let content_type = answer.outer.header("content-type").unwrap();
    let batch = content_type.strip_prefix("multipart/mixed; boundary=").unwrap();
    let text = answer.outer.text();
    let (_, after) = text.split_once("boundary=").unwrap();
    let (set, _) = after.split_once('\r').unwrap();
    let uri = format!("http://{}/{ACCOUNT}/Orders(PartitionKey='p',RowKey='new')", lazuli.address);
    let etag = "ETag: W/\"datetime'2024-07-31T18%3A30%3A00.0000003Z'\"";
    let part = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n";
    let expect = format!(
        "--{batch}\r\nContent-Type: multipart/mixed; boundary={set}\r\n\r\n\
         --{set}\r\n{part}Preference-Applied: return-no-content\r\nDataServiceVersion: 3.0;\r\n\
         Location: {uri}\r\nDataServiceId: {uri}\r\n{etag}\r\n\r\n\r\n\
         --{set}\r\n{part}DataServiceVersion: 1.0;\r\n{etag}\r\n\r\n\r\n\
         --{set}--\r\n--{batch}--\r\n"
    );
    assert_eq!(text, expect);
}

/// TR-77: only the first entity of a batch was stored (T-6.29).
#[test]
fn every_operation_is_carried_out_and_answered_in_order() {
    let lazuli = Lazuli::with_rows(&[("old", r#""A":1"#), ("gone", "")]);
    let operations = [
        Op::insert("new"),
        Op::on("PUT", "put", r#"{"A":2}"#),
        Op::on("MERGE", "old", r#"{"B":3}"#).with("If-Match", "*"),
        Op::on("DELETE", "gone", "").with("If-Match", "*"),
    ];
    lazuli.batch(&operations).expect(&[201, 204, 204, 204]);
    assert_eq!(lazuli.rows(""), "new old put");
    assert_eq!(lazuli.stored("old"), r#""A":1,"B":3"#);
    assert_eq!(lazuli.stored("put"), r#""A":2"#);
}

/// TR-78: batches as old clients write them failed (T-6.11).
#[test]
fn batches_of_old_clients_work() {
    let lazuli = Lazuli::with_orders();
    // Bare line feeds, no space after a colon, a quoted boundary, stray blank lines, a Content-Length
    // on the change set, a preamble and an epilogue, relative and absolute paths.
    let mut body = String::from(
        "preamble\n\n--batch_a1\nContent-Type:multipart/mixed;boundary=\"changeset_c1\"\n\
         Content-Length: 12345\n\n\n",
    );
    for row in 0..60 {
        let target = match row % 3 {
            0 => "Orders".to_owned(),
            1 => format!("/{ACCOUNT}/Orders"),
            _ => "/Orders".to_owned(),
        };
        body.push_str(&format!(
            "--changeset_c1\nContent-Type:application/http\nContent-Transfer-Encoding:binary\n\n\
             POST {target} HTTP/1.1\ncontent-type:application/json\n\
             ACCEPT:application/json;odata=nometadata\nHost: http://wrong/\nContent-Length: 7\n\n\n\
             {{\"PartitionKey\":\"p\",\"RowKey\":\"{row:02}\"}}\n"
        ));
    }
    body.push_str("--changeset_c1--\n\n--batch_a1--\nepilogue");
    let answer = send(&lazuli, &body).expect(202);
    assert_eq!(answer.text().matches("HTTP/1.1 201 Created").count(), 60);
    let deletes: Vec<Op> = (0..60)
        .map(|row| Op::on("DELETE", &format!("{row:02}"), "").with("If-Match", "*"))
        .collect();
    lazuli.batch(&deletes).expect(&[204; 60]);
    assert_eq!(lazuli.rows(""), "");
}

/// TR-79: a large body and a large value got the same answer (T-6.4, T-5.30).
#[test]
fn a_large_body_and_a_large_value_are_told_apart() {
    let lazuli = Lazuli::with_orders();
    let insert = |row: usize, units: usize| {
        let text = "x".repeat(units);
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","S":"{text}"}}"#);
        Op::new("POST", "Orders", &body)
    };
    let large_value = [insert(0, 1), insert(1, 32 * 1024 + 1)];
    let message = format!("1:{VALUE_TOO_LARGE}");
    lazuli.batch(&large_value).expect_error(400, "PropertyValueTooLarge", &message);
    let large_body: Vec<Op> = (0..100).map(|row| insert(row, 42 * 1024)).collect();
    let message = "The request body is too large and exceeds the maximum permissible limit.";
    let answer = lazuli.batch(&large_body);
    answer.outer.expect_error(413, "RequestBodyTooLarge", message);
}

/// TR-80: Location repeated the query string (T-1.31).
#[test]
fn location_has_no_query() {
    let lazuli = Lazuli::with_orders();
    let body = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let insert = Op::new("POST", "Orders?$format=application/json;odata=nometadata", body);
    let answer = lazuli.batch(&[insert]).expect(&[201]);
    let uri = format!("http://{}/{ACCOUNT}/Orders(PartitionKey='p',RowKey='r')", lazuli.address);
    assert_eq!(answer.parts[0].header("location"), Some(&*uri));
    let body = body.replace("\"r\"", "\"s\"");
    let alone = Request::new("POST", "/Orders?timeout=10&$format=application/json").json(&body);
    let uri = uri.replace("'r'", "'s'");
    lazuli.send(&alone).expect(201).expect_header("location", Some(&uri));
}

/// TR-81: Content-IDs were invented (T-6.14).
#[test]
fn a_content_id_is_echoed_only_from_the_inner_headers() {
    let lazuli = Lazuli::with_orders();
    let insert = Op::insert("a").with("Prefer", "return-no-content");
    let given = Op::insert("b").with("Content-ID", "7");
    let answer = lazuli.batch(&[insert, given]).expect(&[204, 201]);
    assert_eq!(answer.parts[0].header("content-id"), None);
    assert_eq!(answer.parts[1].header("content-id"), Some("7"));
    // A Content-ID in the header of the MIME part is not echoed.
    let url = format!("http://{}/{ACCOUNT}/Orders", lazuli.address);
    let body = multipart(&[format!(
        "POST {url} HTTP/1.1\r\nAccept: application/json\r\nContent-Type: application/json\r\n\r\n\
         {{\"PartitionKey\":\"p\",\"RowKey\":\"c\"}}"
    )]);
    let body = body.replace("binary\r\n\r\n", "binary\r\nContent-ID: 9\r\n\r\n");
    let answer = send(&lazuli, &body).expect(202);
    assert!(!answer.text().contains("Content-ID"), "{}", answer.text());
}

/// TR-82: empty keys failed in batches (T-1.25).
#[test]
fn empty_keys_work_in_a_batch() {
    let lazuli = Lazuli::with_orders();
    let key = "Orders(PartitionKey='',RowKey='')";
    let insert = Op::new("POST", "Orders", r#"{"PartitionKey":"","RowKey":""}"#);
    lazuli.batch(&[insert]).expect(&[201]);
    lazuli.batch(&[Op::new("MERGE", key, r#"{"A":1}"#).with("If-Match", "*")]).expect(&[204]);
    lazuli.batch(&[Op::new("PUT", key, r#"{"A":1}"#)]).expect(&[204]);
    lazuli.batch(&[Op::new("DELETE", key, "").with("If-Match", "*")]).expect(&[204]);
    assert_eq!(lazuli.rows(""), "");
}
