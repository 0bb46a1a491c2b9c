//! Section 5: mutations.

use crate::harness::{Lazuli, Request, order};

const NOT_FOUND: &str = "The specified resource does not exist.";
const NOT_SATISFIED: &str = "The update condition specified in the request was not satisfied.";

/// 5.1, T-5.1 to T-5.6: each method under each condition, on an existing entity and a missing one.
#[test]
fn the_matrix_of_conditions() {
    let foreign = "W/\"foreign\"";
    let stale = "W/\"datetime'2001-01-01T00%3A00%3A00Z'\"";
    for (method, if_match, present, missing) in [
        ("PUT", None, 204, 204),
        ("PUT", Some("*"), 204, 404),
        ("PUT", Some(foreign), 412, 412),
        ("PUT", Some(stale), 412, 404),
        ("PUT", Some("etag"), 400, 400),
        ("MERGE", None, 204, 204),
        ("MERGE", Some("*"), 204, 404),
        ("MERGE", Some(foreign), 412, 412),
        ("MERGE", Some(stale), 412, 404),
        ("MERGE", Some("\"etag\""), 400, 400),
        ("PATCH", None, 204, 204),
        ("PATCH", Some("*"), 204, 404),
        ("PATCH", Some(stale), 412, 404),
        ("DELETE", None, 400, 400),
        ("DELETE", Some("*"), 204, 404),
        ("DELETE", Some(foreign), 412, 412),
        ("DELETE", Some(stale), 412, 404),
        ("DELETE", Some("W/x"), 400, 400),
    ] {
        let lazuli = Lazuli::with_rows(&[("r", r#""A":1"#)]);
        let outcome = (
            lazuli.write(method, "r", if_match, r#"{"B":2}"#).status,
            lazuli.write(method, "missing", if_match, r#"{"B":2}"#).status,
        );
        assert_eq!(outcome, (present, missing), "{method} {if_match:?}");
        if present >= 400 {
            assert_eq!(lazuli.stored("r"), r#""A":1"#, "{method} {if_match:?}");
        }
    }
}

/// T-5.3, T-5.4 (unverified), T-5.44: the current etag lets every write through, once.
#[test]
fn the_current_etag_matches_once() {
    for method in ["PUT", "MERGE", "DELETE"] {
        let lazuli = Lazuli::with_rows(&[("r", "")]);
        let etag = lazuli.get(&order("r")).expect(200).header("etag").unwrap().to_owned();
        lazuli.write(method, "r", Some(&etag), "{}").expect(204);
        let again = lazuli.write(method, "r", Some(&etag), "{}");
        match method {
            "DELETE" => again.expect_error(404, "ResourceNotFound", NOT_FOUND),
            _ => again.expect_error(412, "UpdateConditionNotSatisfied", NOT_SATISFIED),
        };
    }
}

/// T-5.6: two headers are two etags, and an unreadable one is not ignored.
#[test]
fn a_condition_is_one_that_can_be_read() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let put = Request::new("PUT", &order("r")).json("{}");
    let twice = put.clone().also("If-Match", "*").also("If-Match", "*");
    for request in [twice, put.with("If-Match", "W/\"é\"")] {
        let answer = lazuli.send(&request).expect(400);
        assert!(answer.text().contains("Please make sure only one etag value is specified"));
    }
}

/// T-5.8 to T-5.11.
#[test]
fn if_none_match_is_for_nobody() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let send = |method: &str, target: &str, both: bool| {
        let request = Request::new(method, target).json("{}").with("If-None-Match", "*");
        lazuli.send(&if both { request.with("If-Match", "*") } else { request })
    };
    let put = "If-None-Match HTTP header cannot be specified for PUT operations.";
    send("PUT", &order("r"), false).expect_error(400, "InvalidInput", put);
    let delete = "If-None-Match HTTP header cannot be specified for DELETE operations.";
    send("DELETE", &order("r"), false).expect_error(400, "InvalidInput", delete);
    let both = "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. \
         Please specify either one of the headers or none of them.";
    send("PUT", &order("r"), true).expect_error(400, "InvalidInput", both);
    let table = "If-Match or If-None-Match headers cannot be specified if the target type does not \
         have etag properties defined.";
    send("DELETE", "/Tables('Orders')", false).expect_error(400, "InvalidInput", table);
}

/// T-5.12 (unverified, a tolerance).
#[test]
fn an_insert_ignores_if_match() {
    let lazuli = Lazuli::with_orders();
    let insert = Request::new("POST", "/Orders").json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
    lazuli.send(&insert.with("If-Match", "*")).expect(201);
}

/// T-5.13 to T-5.17 (verbs other than MERGE are unverified).
#[test]
fn verbs_can_be_tunnelled_through_post() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1"#)]);
    let tunnel = |verb: &str| {
        Request::new("POST", &order("r")).with("X-HTTP-Method", verb).with("If-Match", "*")
    };
    lazuli.send(&tunnel("MERGE").json(r#"{"B":2}"#)).expect(204);
    lazuli.send(&tunnel("PATCH").json(r#"{"C":3}"#)).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":1,"B":2,"C":3"#);
    lazuli.send(&tunnel("PUT").json(r#"{"D":4}"#)).expect(204);
    assert_eq!(lazuli.stored("r"), r#""D":4"#);
    lazuli.send(&tunnel("DELETE").json("")).expect(204);
    assert_eq!(lazuli.rows(""), "");
    let message = "The request uses X-HTTP-Method with an HTTP verb other than POST.";
    let put = Request::new("PUT", &order("r")).json("{}").with("X-HTTP-Method", "MERGE");
    lazuli.send(&put).expect_error(400, "XMethodNotUsingPost", message);
    let message = "The specified X-HTTP-Method is invalid.";
    let unknown = lazuli.send(&tunnel("FETCH").json("{}"));
    unknown.expect_error(400, "XMethodIncorrectValue", message);
    let message = "More than one X-HTTP-Method is specified.";
    let twice = tunnel("MERGE").also("X-HTTP-Method", "MERGE").json("{}");
    lazuli.send(&twice).expect_error(400, "XMethodIncorrectCount", message);
}

/// T-5.19, T-5.20 (unverified).
#[test]
fn a_table_needs_a_name_and_nothing_else() {
    let lazuli = Lazuli::empty();
    let create = |body: &str| lazuli.send(&Request::new("POST", "/Tables").json(body));
    let message = "The values are not specified for all properties in the entity.";
    for body in ["{}", r#"{"Name":"Orders"}"#, r#"{"TableName":null}"#] {
        create(body).expect_error(400, "PropertiesNeedValue", message);
    }
    create(r#"{"odata.type":"x","TableName":"Orders","Extra":1}"#).expect(201);
}

/// T-5.24: policies are dropped with the table.
#[test]
fn nothing_of_a_deleted_table_remains() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let acl = |method: &str| Request::new(method, "/Orders?comp=acl").accept("application/xml");
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier>\
         </SignedIdentifiers>";
    lazuli.send(&acl("PUT").body("application/xml", policies)).expect(204);
    lazuli.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    lazuli.create_table("Orders").expect(201);
    assert!(lazuli.send(&acl("GET")).expect(200).text().ends_with("<SignedIdentifiers />"));
    assert_eq!(lazuli.rows(""), "");
}

/// T-5.33, T-5.34.
#[test]
fn an_insert_answers_with_what_a_read_shows() {
    let lazuli = Lazuli::with_orders();
    let body = r#"{"PartitionKey":"p","RowKey":"r","B":1,"A":"x","N":null}"#;
    let inserted = lazuli.insert("Orders", body).expect(201);
    assert_eq!(inserted.body, lazuli.get(&order("r")).expect(200).body);
}

/// T-5.35, T-5.36.
#[test]
fn replace_drops_and_merge_keeps() {
    let lazuli = Lazuli::with_rows(&[("r", r#""a":39,"b":2"#)]);
    lazuli.write("MERGE", "r", Some("*"), r#"{"a":"abc","c":3}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""a":"abc","b":2,"c":3"#);
    lazuli.write("PUT", "r", Some("*"), r#"{"d":4}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""d":4"#);
}

/// T-5.37, T-5.42 (unverified).
#[test]
fn an_empty_merge_refreshes_the_timestamp() {
    let lazuli = Lazuli::with_rows(&[("r", r#""a":1"#)]);
    let before = lazuli.get(&order("r")).expect(200).header("etag").unwrap().to_owned();
    let merged = lazuli.write("MERGE", "r", None, "{}").expect(204);
    assert_ne!(merged.header("etag"), Some(&*before));
    assert!(merged.body.is_empty());
    assert_eq!(lazuli.stored("r"), r#""a":1"#);
}

/// T-5.45.
#[test]
fn a_delete_ignores_its_body() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let delete = Request::new("DELETE", &order("r")).with("If-Match", "*").json("{ not json");
    lazuli.send(&delete).expect(204);
}
