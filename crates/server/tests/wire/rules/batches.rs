//! Section 6: entity group transactions.

use crate::harness::{ACCOUNT, Lazuli, OTHER, Op, Request, Response, multipart, order};

const INPUT_NOT_VALID: &str = "One of the request inputs is not valid.";

/// Sends a batch body unchanged.
fn send(lazuli: &Lazuli, content_type: &str, body: &str) -> Response {
    lazuli.send(&Request::new("POST", "/$batch").body(content_type, body))
}

fn insert_text(url: &str, row: &str) -> String {
    format!(
        "POST {url} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\r\n\
         {{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}"
    )
}

/// T-6.5: inner credentials are ignored, the outer ones are checked (T-6.50).
#[test]
fn authorization_is_of_the_whole_batch() {
    let lazuli = Lazuli::with_orders();
    let insert = Op::insert("r").with("Authorization", "SharedKey nobody:AAAA");
    lazuli.batch(&[insert]).expect(&[201]);
    let forged =
        Request::new("POST", "/$batch").with("Authorization", "SharedKey devstoreaccount1:AAAA");
    let refused = lazuli.send_batch(&forged, &[Op::insert("s")]).outer;
    assert_eq!(refused.status, 403);
    refused.expect_header("x-ms-error-code", Some("AuthenticationFailed"));
}

/// T-6.6, T-6.7 (unverified, a tolerance).
#[test]
fn inner_uris_have_many_forms() {
    let lazuli = Lazuli::with_orders();
    let host = lazuli.address;
    let urls = [
        format!("http://{host}/{ACCOUNT}/Orders"),
        format!("https://{ACCOUNT}.table.core.windows.net/Orders"),
        format!("/{ACCOUNT}/Orders"),
        // As the Python library writes it after trying the other location.
        format!("http://{host}/{ACCOUNT}/{ACCOUNT}-secondary/{ACCOUNT}/Orders"),
        "/Orders".to_owned(),
        "Orders".to_owned(),
    ];
    let parts: Vec<String> =
        urls.iter().enumerate().map(|(row, url)| insert_text(url, &row.to_string())).collect();
    send(&lazuli, "multipart/mixed; boundary=batch_a1", &multipart(&parts)).expect(202);
    assert_eq!(lazuli.rows(""), "0 1 2 3 4 5");
    // Another account's name does not name one of our tables.
    let foreign = insert_text(&format!("/{OTHER}/Orders"), "x");
    send(&lazuli, "multipart/mixed; boundary=batch_a1", &multipart(&[foreign]));
    assert_eq!(lazuli.rows(""), "0 1 2 3 4 5");
}

/// T-6.8.
#[test]
fn a_format_inside_selects_the_format_of_the_part() {
    let lazuli = Lazuli::with_orders();
    let format = "Orders?$format=application/json;odata=fullmetadata";
    let body = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let insert = || Op::new("POST", format, body);
    let full = Some("application/json;odata=fullmetadata;streaming=true;charset=utf-8");
    let answer = lazuli.batch(&[insert()]).expect(&[201]);
    assert_eq!(answer.parts[0].header("content-type"), full);
    assert!(answer.parts[0].body.contains("odata.editLink"));
    let again = lazuli.batch(&[insert()]).expect(&[409]);
    assert_eq!(again.parts[0].header("content-type"), full);
}

/// T-6.13, T-6.16 (unverified).
#[test]
fn parts_need_little_of_a_header() {
    let lazuli = Lazuli::with_rows(&[("old", "")]);
    let url = format!("http://{}/{ACCOUNT}/Orders", lazuli.address);
    let delete = format!(
        "DELETE {url}(PartitionKey='p',RowKey='old') HTTP/1.1\r\nIf-Match: *\r\n\r\n\r\n\r\n"
    );
    let body = multipart(&[insert_text(&url, "r"), delete]);
    let body = body.replace("Content-Transfer-Encoding: binary\r\n", "");
    send(&lazuli, "multipart/mixed;boundary=\"batch_a1\"", &body).expect(202);
    assert_eq!(lazuli.rows(""), "r");
}

/// T-6.19 (unverified), T-6.51, T-6.56.
#[test]
fn a_body_that_is_no_batch_is_refused_whole() {
    let lazuli = Lazuli::with_orders();
    let url = format!("http://{}/{ACCOUNT}/Orders", lazuli.address);
    let good = multipart(&[insert_text(&url, "r")]);
    let set = good.strip_suffix("--batch_a1--\r\n").unwrap();
    let two_sets = format!("{set}{good}");
    for (content_type, body) in [
        ("multipart/mixed", good.as_str()),
        ("application/json", &good),
        ("multipart/mixed; boundary=other", &good),
        ("multipart/mixed; boundary=batch_a1", "nonsense"),
        ("multipart/mixed; boundary=batch_a1", ""),
        ("multipart/mixed; boundary=batch_a1", &two_sets),
    ] {
        let refused = send(&lazuli, content_type, body);
        refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
    }
    assert_eq!(lazuli.rows(""), "");
}

/// T-6.30 to T-6.35.
#[test]
fn the_headers_of_parts_have_their_order() {
    let lazuli = Lazuli::with_rows(&[("a", ""), ("b", ""), ("c", "")]);
    let operations = [
        Op::insert("quiet").with("Prefer", "return-no-content"),
        Op::insert("loud").with("Prefer", "return-content"),
        Op::insert("plain").with("Content-ID", "3"),
        Op::on("PUT", "a", "{}").with("If-Match", "*").with("Content-ID", "4"),
        Op::on("MERGE", "b", "{}").with("If-Match", "*"),
        Op::on("DELETE", "c", "").with("If-Match", "*"),
    ];
    let answer = lazuli.batch(&operations).expect(&[204, 201, 201, 204, 204, 204]);
    let names: Vec<String> = answer.parts.iter().map(|part| part.header_names()).collect();
    let expect = [
        "X-Content-Type-Options Cache-Control Preference-Applied DataServiceVersion Location \
         DataServiceId ETag",
        "DataServiceVersion Content-Type X-Content-Type-Options Cache-Control Preference-Applied \
         Location ETag",
        "DataServiceVersion Content-Type Content-ID X-Content-Type-Options Cache-Control Location \
         ETag",
        "Content-ID X-Content-Type-Options Cache-Control DataServiceVersion ETag",
        "X-Content-Type-Options Cache-Control DataServiceVersion ETag",
        "X-Content-Type-Options Cache-Control DataServiceVersion",
    ];
    assert_eq!(names, expect);
    let minimal = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8";
    assert_eq!(answer.parts[1].header("content-type"), Some(minimal));
    assert!(answer.parts[1].body.starts_with(r#"{"odata.metadata":"#));
}

/// T-6.26, 2.8: the outer response.
#[test]
fn the_outer_answer_is_accepted() {
    let lazuli = Lazuli::with_orders();
    let answer = lazuli.batch(&[Op::insert("r")]).outer.expect(202);
    let answer = answer.expect_header("cache-control", Some("no-cache"));
    let answer = answer.expect_header("x-content-type-options", Some("nosniff"));
    answer.expect_header("x-ms-version", Some("2019-02-02"));
}

/// T-6.38, T-6.47: faults found before execution have their own status and the index.
#[test]
fn a_bad_operation_is_told_with_its_index() {
    let lazuli = Lazuli::with_orders();
    let bad = |body: &str| [Op::insert("a"), Op::new("POST", "Orders", body)];
    let message = "1:An error occurred while processing this request.";
    let typed = r#"{"PartitionKey":"p","RowKey":"r","B@odata.type":"Edm.Boolean","B":"x"}"#;
    lazuli.batch(&bad(typed)).expect_error(400, "InvalidInput", message);
    let message = "1:The values are not specified for all properties in the entity.";
    lazuli.batch(&bad("{}")).expect_error(400, "PropertiesNeedValue", message);
    let message = "0:Bad Request - Error in query syntax.";
    let slash = Op::new("PUT", "Orders(PartitionKey='p',RowKey='a/b')", "{}");
    lazuli.batch(&[slash]).expect_error(400, "InvalidInput", message);
    let message = "0:The requested method is not allowed on the specified resource.";
    let get = Op::new("GET", "Orders()", "");
    lazuli.batch(&[get]).expect_error(405, "MethodNotAllowed", message);
    assert_eq!(lazuli.rows(""), "");
}

/// T-6.48, T-6.49.
#[test]
fn a_failed_part_repeats_its_preference_and_its_content_id() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let first = Op::insert("first").with("Content-ID", "7");
    let insert = Op::insert("r").with("Prefer", "return-no-content").with("Content-ID", "8");
    let answer = lazuli.batch(&[first, insert]).expect(&[409]);
    let names = "Content-ID X-Content-Type-Options Cache-Control Preference-Applied \
         DataServiceVersion Content-Type";
    assert_eq!(answer.parts[0].header_names(), names);
    assert_eq!(answer.parts[0].header("content-id"), Some("8"));
    let etag = "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"";
    let stale = Op::on("PUT", "r", "{}").with("If-Match", etag).with("Content-ID", "9");
    let answer = lazuli.batch(&[stale]).expect(&[412]);
    let names = "Content-ID X-Content-Type-Options Cache-Control DataServiceVersion Content-Type";
    assert_eq!(answer.parts[0].header_names(), names);
    // None is invented if none was sent.
    let answer = lazuli.batch(&[Op::insert("r")]).expect(&[409]);
    assert_eq!(answer.parts[0].header("content-id"), None);
}

/// T-6.15.
#[test]
fn a_content_id_is_no_reference() {
    let lazuli = Lazuli::with_orders();
    let reference = Op::new("PUT", "$1", "{}");
    let insert = Op::insert("a").with("Content-ID", "1");
    let answer = lazuli.batch(&[insert, reference]);
    assert_eq!(answer.parts.len(), 1);
    assert!(answer.parts[0].status >= 400);
    assert_eq!(lazuli.rows(""), "");
}

/// T-6.52 to T-6.54 (a filter is unverified).
#[test]
fn a_query_in_a_batch_has_no_change_set_around_it() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1"#)]);
    let answer = lazuli.batch_query("Orders(PartitionKey='p',RowKey='r')").expect(&[200]);
    assert!(!answer.change_set);
    assert_eq!(answer.parts[0].body, lazuli.get(&order("r")).expect(200).text());
    let names = "DataServiceVersion Content-Type X-Content-Type-Options Cache-Control ETag";
    assert_eq!(answer.parts[0].header_names(), names);
    let page = lazuli.batch_query("Orders()?$filter=A%20eq%201").expect(&[200]);
    assert_eq!(page.parts[0].body, lazuli.get("/Orders()").expect(200).text());
}

/// T-6.20: a reader sees a transaction as a whole.
#[test]
fn deletes_and_inserts_of_one_partition_go_together() {
    let lazuli = Lazuli::with_rows(&[("001", ""), ("002", "")]);
    let operations = [
        Op::on("DELETE", "001", "").with("If-Match", "*"),
        Op::on("DELETE", "002", "").with("If-Match", "*"),
        Op::insert("003"),
    ];
    lazuli.batch(&operations).expect(&[204, 204, 201]);
    assert_eq!(lazuli.rows(""), "003");
}

/// T-6.49a: the service has read all operations before the first of them fails.
#[test]
fn a_change_set_that_fails_at_execution_repeats_the_last_content_id() {
    let lazuli = Lazuli::with_rows(&[("1", ""), ("2", "")]);
    let etag = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"";
    let stale = Op::on("PUT", "1", "{}").with("If-Match", etag).with("Content-ID", "1");
    let good = Op::on("PUT", "2", "{}").with("If-Match", "*").with("Content-ID", "2");
    let message = "0:The update condition specified in the request was not satisfied.";
    let answer = lazuli.batch(&[stale, good]);
    let answer = answer.expect_error(412, "UpdateConditionNotSatisfied", message);
    assert_eq!(answer.parts[0].header("content-id"), Some("2"));
    // If reading an operation fails, it is the last one read.
    let bad = Op::on("PUT", "1", "{").with("Content-ID", "1");
    let good = Op::on("PUT", "2", "{}").with("Content-ID", "2");
    let answer = lazuli.batch(&[bad, good]).expect(&[400]);
    assert_eq!(answer.parts[0].header("content-id"), Some("1"));
}
