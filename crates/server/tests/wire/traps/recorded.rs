//! Behaviours that no tracker reports, seen only in recorded traffic.

use crate::harness::{Lazuli, Op, Request, Response, encode, order};

fn xml(lazuli: &Lazuli, method: &str, target: &str, body: &str) -> Response {
    let request = Request::new(method, target).accept("application/xml");
    lazuli.send(&if method == "PUT" { request.body("application/xml", body) } else { request })
}

/// TR-100: JSON errors carry no `x-ms-error-code` (T-2.60).
#[test]
fn json_errors_are_named_in_the_body_alone() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let errors = [
        lazuli.get(&order("none")).expect(404),
        lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(409),
        lazuli.write("PUT", "r", Some("W/\"x\""), "{}").expect(412),
        lazuli.get("/Orders()?$filter=x%20y").expect(400),
    ];
    for error in errors {
        error.expect_header("x-ms-error-code", None);
    }
}

/// TR-101: successful XML begins with a byte order mark, errors do not (T-9.1, T-7.4).
#[test]
fn xml_begins_with_a_byte_order_mark() {
    let lazuli = Lazuli::with_orders();
    let mark = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><";
    for target in ["/Orders?comp=acl", "/?restype=service&comp=properties"] {
        assert!(xml(&lazuli, "GET", target, "").expect(200).text().starts_with(mark));
        let error = xml(&lazuli, "PUT", target, "<").expect(400);
        assert!(error.text().starts_with(&mark['\u{FEFF}'.len_utf8()..]));
    }
}

/// TR-102: the times of access policies are returned with seven digits (T-9.18).
#[test]
fn times_of_policies_have_seven_digits() {
    let lazuli = Lazuli::with_orders();
    let policy = |start: &str, expiry: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy><Start>{start}\
             </Start><Expiry>{expiry}</Expiry><Permission>r</Permission></AccessPolicy>\
             </SignedIdentifier></SignedIdentifiers>"
        )
    };
    let given = policy("2021-06-08T02:05:09Z", "2021-06-08T03:10:09.5Z");
    xml(&lazuli, "PUT", "/Orders?comp=acl", &given).expect(204);
    let kept = xml(&lazuli, "GET", "/Orders?comp=acl", "").expect(200);
    let expect = policy("2021-06-08T02:05:09.0000000Z", "2021-06-08T03:10:09.5000000Z");
    assert!(kept.text().ends_with(&expect), "{}", kept.text());
}

/// TR-103: a missing table has two answers (T-1.12).
#[test]
fn a_missing_table_is_a_resource_or_a_table() {
    let lazuli = Lazuli::empty();
    let resource = "The specified resource does not exist.";
    let table = "The table specified does not exist.";
    let delete = lazuli.send(&Request::new("DELETE", "/Tables('Nosuch')"));
    delete.expect_error(404, "ResourceNotFound", resource);
    lazuli.get("/Tables('Nosuch')").expect_error(404, "ResourceNotFound", resource);
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    lazuli.insert("Nosuch", entity).expect_error(404, "TableNotFound", table);
    lazuli.get("/Nosuch()").expect_error(404, "TableNotFound", table);
    lazuli.get(&order("r")).expect_error(404, "TableNotFound", table);
    for (method, if_match) in [
        ("PUT", None),
        ("PUT", Some("*")),
        ("MERGE", None),
        ("MERGE", Some("*")),
        ("DELETE", Some("*")),
    ] {
        lazuli.write(method, "r", if_match, "{}").expect_error(404, "TableNotFound", table);
    }
}

/// TR-104: for a bearer token access policies do not exist, whatever its role (A-8.9).
#[test]
fn access_policies_do_not_exist_for_a_bearer_token() {
    let (lazuli, issuer) = Lazuli::trusting();
    lazuli.create_table("Orders").expect(201);
    let bearer = issuer.contributor(&lazuli);
    let send = |method: &str, target: &str| {
        let request = Request::new(method, target).version("2020-12-06").payload("");
        lazuli.send(&request.with("Authorization", &bearer))
    };
    send("GET", "/Orders()").expect(200);
    let message = "The specified resource does not exist.";
    for method in ["GET", "PUT"] {
        let answer = send(method, "/Orders?comp=acl");
        answer.expect_xml_error(404, "ResourceNotFound", message);
    }
}

/// TR-105: an insert keeps the order of properties, an update puts them in order (T-2.34).
#[test]
fn an_update_puts_properties_in_ordinal_order() {
    let lazuli = Lazuli::with_rows(&[("r", r#""b":1,"a":2,"B":3"#)]);
    assert_eq!(lazuli.stored("r"), r#""b":1,"a":2,"B":3"#);
    lazuli.write("PUT", "r", None, r#"{"b":1,"a":2,"B":3}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""B":3,"a":2,"b":1"#);
    lazuli.write("MERGE", "r", None, r#"{"A":0}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":0,"B":3,"a":2,"b":1"#);
}

/// TR-106: text outside ASCII is escaped (T-2.35).
#[test]
fn text_outside_ascii_is_escaped() {
    let lazuli = Lazuli::with_rows(&[("r", r#""S":"é€😀ꀕ""#)]);
    assert_eq!(lazuli.stored("r"), r#""S":"\u00e9\u20ac\ud83d\ude00\ua015""#);
}

/// TR-107: `POST /{table}/Tables` is an insert (T-1.15).
#[test]
fn a_table_below_a_table_is_an_insert() {
    let lazuli = Lazuli::with_orders();
    let message = "The values are not specified for all properties in the entity.";
    let create = lazuli.insert("Orders/Tables", r#"{"TableName":"Other"}"#);
    create.expect_error(400, "PropertiesNeedValue", message);
    // A missing table is reported first: clients use this to test whether their URL is right.
    let create = lazuli.insert("Missing/Tables", r#"{"TableName":"Missing"}"#);
    create.expect_error(404, "TableNotFound", "The table specified does not exist.");
}

/// TR-108: a nonsense filter on tables once returned 500; ours says what is wrong (T-4.75).
#[test]
fn a_nonsense_filter_on_tables_is_invalid_input() {
    let lazuli = Lazuli::empty();
    let message = "Syntax error at position 7 in 'aaa bbb ccc'.";
    let answer = lazuli.get(&format!("/Tables?$filter={}", encode("aaa bbb ccc")));
    answer.expect_error(400, "InvalidInput", message);
}

/// TR-109: setting the service's properties answers 202, setting access policies 204 (2.8).
#[test]
fn settings_are_accepted_and_policies_are_set() {
    let lazuli = Lazuli::with_orders();
    let properties = xml(
        &lazuli,
        "PUT",
        "/?restype=service&comp=properties",
        "<StorageServiceProperties><Cors /></StorageServiceProperties>",
    );
    assert!(properties.expect(202).body.is_empty());
    let policies = xml(&lazuli, "PUT", "/Orders?comp=acl", "<SignedIdentifiers />");
    assert!(policies.expect(204).body.is_empty());
}

/// TR-110: DataServiceVersion appears only inside batches (T-2.19, T-2.20).
#[test]
fn the_data_service_version_is_told_inside_batches_alone() {
    let lazuli = Lazuli::with_rows(&[("a", ""), ("b", ""), ("c", "")]);
    lazuli.get("/Orders()").expect(200).expect_header("dataserviceversion", None);
    let operations = [
        Op::insert("new"),
        Op::insert("quiet").with("Prefer", "return-no-content"),
        Op::on("PUT", "a", "{}").with("If-Match", "*"),
        Op::on("MERGE", "b", "{}").with("If-Match", "*"),
        Op::on("DELETE", "c", "").with("If-Match", "*"),
    ];
    let answer = lazuli.batch(&operations).expect(&[201, 204, 204, 204, 204]);
    answer.outer.clone().expect_header("dataserviceversion", None);
    let versions: Vec<_> =
        answer.parts.iter().map(|part| part.header("dataserviceversion").unwrap()).collect();
    assert_eq!(versions, ["3.0;", "3.0;", "1.0;", "1.0;", "1.0;"]);
    let read = lazuli.batch_query("Orders(PartitionKey='p',RowKey='a')").expect(&[200]);
    assert_eq!(read.parts[0].header("dataserviceversion"), Some("3.0;"));
}
