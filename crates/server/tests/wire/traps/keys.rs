//! Keys, names, URLs.

use crate::harness::{ACCOUNT, Lazuli, OTHER, Op, Request, encode, multipart};

const QUERY_SYNTAX: &str = "Bad Request - Error in query syntax.";

/// Writes an entity with this row key in every way there is, and reads it back.
#[track_caller]
fn check_round_trip(row: &str) {
    let lazuli = Lazuli::with_orders();
    let json = format!("\"{}\"", row.replace('\\', "\\\\").replace('"', "\\\""));
    let body = format!(r#"{{"PartitionKey":"p","RowKey":{json},"A":1}}"#);
    lazuli.insert("Orders", &body).expect(201);
    lazuli.write("MERGE", row, Some("*"), r#"{"B":2}"#).expect(204);
    assert_eq!(lazuli.stored(row), r#""A":1,"B":2"#, "{row}");
    lazuli.write("PUT", row, Some("*"), r#"{"C":3}"#).expect(204);
    assert_eq!(lazuli.stored(row), r#""C":3"#, "{row}");
    let filter = format!("RowKey eq '{}'", row.replace('\'', "''"));
    assert_eq!(lazuli.rows(&filter), row);
    lazuli.write("DELETE", row, Some("*"), "").expect(204);
    lazuli.write("PUT", row, None, r#"{"D":4}"#).expect(204);
    let target = format!("Orders(PartitionKey='p',RowKey='{}')", encode(&row.replace('\'', "''")));
    let delete = Op::new("DELETE", &target, "").with("If-Match", "*");
    lazuli.batch(&[delete]).expect(&[204]);
    assert_eq!(lazuli.rows(""), "", "{row}");
}

/// TR-45: characters that keys may not hold were accepted (T-3.15, T-3.17).
#[test]
fn keys_hold_no_forbidden_character() {
    let lazuli = Lazuli::with_orders();
    let forbidden = [
        ("/", "/"),
        (r"\\", r"\"),
        ("#", "#"),
        ("?", "?"),
        (r"\t", "\t"),
        (r"\n", "\n"),
        (r"\u0000", "\0"),
        (r"\u001f", "\u{1f}"),
        (r"\u007f", "\u{7f}"),
        (r"\u009f", "\u{9f}"),
    ];
    for (escaped, character) in forbidden {
        let message = format!("The 'RowKey' parameter of value 'a{character}b' is out of range.");
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"a{escaped}b"}}"#);
        lazuli.insert("Orders", &body).expect_error(400, "OutOfRangeInput", &message);
        let message = message.replace("RowKey", "PartitionKey");
        let body = format!(r#"{{"PartitionKey":"a{escaped}b","RowKey":"r"}}"#);
        lazuli.insert("Orders", &body).expect_error(400, "OutOfRangeInput", &message);
    }
}

/// TR-46: a comma in a row key was refused (T-3.16).
#[test]
fn keys_may_hold_any_other_character() {
    for row in ["a,b", ":@", "+,$", "=& ", "table@storage.com0", "~!*()", "\"", " ", "é", "😀"] {
        check_round_trip(row);
    }
}

/// TR-47: a percent sign in a key broke delete and batch (T-1.23).
#[test]
fn a_path_is_decoded_once() {
    for row in ["100%", "%20", "%2520", "%27", "a%2Fb"] {
        check_round_trip(row);
    }
}

/// TR-48: an apostrophe in a key broke get and merge (T-1.21).
#[test]
fn a_quote_in_a_key_is_doubled() {
    for row in ["'", "''", "o'clock", "A'aaa\"_bbbb2", "partition1-ô- -'-\"-%20-%27-pk"] {
        check_round_trip(row);
    }
    // Raw quotes and encoded ones are the same (T-1.20).
    let lazuli = Lazuli::with_rows(&[("o'clock", "")]);
    lazuli.get("/Orders(PartitionKey='p',RowKey='o''clock')").expect(200);
    lazuli.get("/Orders(PartitionKey=%27p%27,RowKey=%27o%27%27clock%27)").expect(200);
}

/// TR-49: a key with a slash, as base64 has it, was an internal error (T-1.27).
#[test]
fn a_forbidden_character_in_the_key_of_a_url_is_an_error_in_its_syntax() {
    let lazuli = Lazuli::with_orders();
    for character in ["/", "%2F", "%5C", "%23", "%3F"] {
        for method in ["GET", "PUT", "MERGE", "DELETE"] {
            let target = format!("/Orders(PartitionKey='p',RowKey='a{character}b')");
            let request = Request::new(method, &target).with("If-Match", "*").json("{}");
            lazuli.send(&request).expect_error(400, "InvalidInput", QUERY_SYNTAX);
        }
    }
}

/// TR-50: a raw percent sign in the URI of a part was an internal error (T-6.9).
#[test]
fn uris_in_a_batch_are_decoded_leniently() {
    let lazuli = Lazuli::with_orders();
    let raw = Op::on("PUT", "100% sure", r#"{"A":1}"#);
    lazuli.batch(&[raw]).expect(&[204]);
    assert_eq!(lazuli.stored("100% sure"), r#""A":1"#);
}

/// TR-51: an entity with empty keys could not be deleted (T-1.25).
#[test]
fn empty_keys_are_keys() {
    let lazuli = Lazuli::with_orders();
    let target = "/Orders(PartitionKey='',RowKey='')";
    lazuli.insert("Orders", r#"{"PartitionKey":"","RowKey":"","A":1}"#).expect(201);
    lazuli.get(target).expect(200);
    let merge = Request::new("MERGE", target).with("If-Match", "*").json(r#"{"B":2}"#);
    lazuli.send(&merge).expect(204);
    lazuli.send(&Request::new("DELETE", target).with("If-Match", "*")).expect(204);
    assert_eq!(lazuli.get(target).status, 404);
}

/// TR-52: names that begin another name were mistaken for it (T-3.2).
#[test]
fn names_match_whole() {
    let lazuli = Lazuli::empty();
    for name in ["abcd", "abc", "xabc"] {
        lazuli.create_table(name).expect(201);
    }
    lazuli.insert("abcd", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(201);
    lazuli.send(&Request::new("DELETE", "/Tables('abc')")).expect(204);
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "abcd xabc");
    assert_eq!(lazuli.get("/abcd()").expect(200).row_keys(), "r");
}

/// TR-53: a name was taken twice in different case (T-5.18).
#[test]
fn names_are_unique_without_regard_to_case() {
    let lazuli = Lazuli::empty();
    lazuli.create_table("table").expect(201);
    let message = "The table specified already exists.";
    lazuli.create_table("TABLE").expect_error(409, "TableAlreadyExists", message);
    lazuli.get("/TABLE()").expect(200);
    lazuli.get("/Tables('tAbLe')").expect(200);
}

/// TR-54: a bad name was answered without a code, in the form of another service (T-3.5, T-3.6, T-7.1).
#[test]
fn a_bad_table_name_is_told_with_its_code() {
    let lazuli = Lazuli::empty();
    let characters = "The specifed resource name contains invalid characters.";
    let length = "The specified resource name length is not within the permissible limits.";
    for name in ["my_table", "1abc", "a-b-c", "tábla"] {
        lazuli.create_table(name).expect_error(400, "InvalidResourceName", characters);
        let query = lazuli.get(&format!("/{}()", encode(name)));
        query.expect_error(400, "InvalidResourceName", characters);
    }
    let long = "a".repeat(64);
    for name in ["aa", "a_", &long] {
        lazuli.create_table(name).expect_error(400, "OutOfRangeInput", length);
        lazuli.get(&format!("/{name}()")).expect_error(400, "OutOfRangeInput", length);
    }
}

/// TR-55: other account names than the usual broke the parsing of paths (T-1.2).
#[test]
fn every_configured_account_has_tables_of_its_own() {
    let lazuli = Lazuli::with_orders();
    let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Mine"}"#).at_other(0);
    let created = lazuli.send(&create).expect(201);
    let base = format!("http://{}/{OTHER}", lazuli.address);
    created.expect_header("location", Some(&format!("{base}/Tables('Mine')")));
    // Either key signs (A-1.2).
    let list = lazuli.send(&Request::new("GET", "/Tables").at_other(1)).expect(200);
    assert_eq!(list.items("TableName"), "Mine");
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "Orders");
    // No one's account (A-1.7).
    let head = "GET /nobody/Tables HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n";
    assert_eq!(lazuli.send_raw(head.as_bytes()).status, 404);
}

/// TR-56: the secondary location of host style failed to authenticate (A-2.9).
#[test]
fn hosts_name_account_and_location() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for suffix in ["table.localhost", "table.localhost:10002", "table.core.windows.net"] {
        for location in ["", "-secondary"] {
            let host = format!("{ACCOUNT}{location}.{suffix}");
            let page = lazuli.send(&Request::new("GET", "/Orders()").at_host(&host)).expect(200);
            assert_eq!(page.row_keys(), "r");
            assert!(page.text().contains(&format!("http://{host}/$metadata#Orders")));
        }
    }
}

/// TR-57: keys in emitted URIs were not encoded (T-1.28, T-1.29).
#[test]
fn keys_in_emitted_uris_are_encoded() {
    let lazuli = Lazuli::with_orders();
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let pairs = [
        (":@", "%3A%40"),
        ("+,$", "%2B%2C%24"),
        ("=& ", "%3D%26%20"),
        ("table@storage.com0", "table%40storage.com0"),
        ("partition1-ô- -'-\\\"-%20-%27-pk", "partition1-%C3%B4-%20-''-%22-%2520-%2527-pk"),
        ("-_.~", "-_.~"),
    ];
    for (key, encoded) in pairs {
        let body = format!(r#"{{"PartitionKey":"{key}","RowKey":"r"}}"#);
        let insert = Request::new("POST", "/Orders").json(&body);
        let inserted = lazuli.send(&insert.accept("application/json;odata=fullmetadata"));
        let link = format!("Orders(PartitionKey='{encoded}',RowKey='r')");
        let inserted = inserted.expect(201);
        let json = inserted.json();
        inserted.expect_header("location", Some(&format!("{base}/{link}")));
        assert_eq!(json.get("odata.id").and_then(|id| id.text()), Some(&*format!("{base}/{link}")));
        assert_eq!(json.get("odata.editLink").and_then(|id| id.text()), Some(&*link));
    }
    // In a batch as well.
    let part = format!(
        "POST {base}/Orders HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\n\
         Content-Type: application/json\r\n\r\n{{\"PartitionKey\":\"a b'\",\"RowKey\":\"r\"}}"
    );
    let batch = Request::new("POST", "/$batch");
    let batch = batch.body("multipart/mixed; boundary=batch_a1", &multipart(&[part]));
    let answer = lazuli.send(&batch).expect(202);
    let location = format!("Location: {base}/Orders(PartitionKey='a%20b''',RowKey='r')\r\n");
    assert!(answer.text().contains(&location), "{}", answer.text());
}
