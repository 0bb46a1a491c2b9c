//! Section 1: URLs.

use crate::harness::{ACCOUNT, Lazuli, Request, encode, order};

const INPUT_NOT_VALID: &str = "One of the request inputs is not valid.";

#[track_caller]
fn check_keys_refused(predicate: &str, message: &str) {
    let target = format!("/Orders({})", predicate.replace(' ', "%20"));
    Lazuli::with_orders().get(&target).expect_error(400, "InvalidInput", message);
}

/// T-1.3, T-1.4.
#[test]
fn the_secondary_serves_reads_alone() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for target in ["/Orders()", "/Tables", &order("r")] {
        let read = lazuli.send(&Request::new("GET", target).at_secondary()).expect(200);
        let base = format!("http://{}/{ACCOUNT}-secondary/$metadata", lazuli.address);
        assert!(read.text().contains(&base), "{}", read.text());
    }
    let message = "Write operations are not allowed.";
    for (method, target) in
        [("POST", "/Tables"), ("PUT", &*order("r")), ("DELETE", &*order("r")), ("POST", "/$batch")]
    {
        let write = Request::new(method, target).json("{}").with("If-Match", "*").at_secondary();
        lazuli.send(&write).expect_error(403, "InsufficientAccountPermissions", message);
    }
}

/// T-1.7 (unverified), T-1.8, T-1.9 (unverified).
#[test]
fn resources_have_more_than_one_spelling() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for query in ["?restype=service&comp=properties", "/?restype=service&comp=properties"] {
        lazuli.send(&Request::new("GET", query).accept("application/xml")).expect(200);
    }
    assert_eq!(lazuli.get("/Orders").expect(200).body, lazuli.get("/Orders()").expect(200).body);
    assert_eq!(lazuli.get("/Tables").expect(200).body, lazuli.get("/Tables()").expect(200).body);
}

/// T-1.10.
#[test]
fn one_table_can_be_asked_for() {
    let lazuli = Lazuli::with_orders();
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let expect =
        format!(r#"{{"odata.metadata":"{base}/$metadata#Tables/@Element","TableName":"Orders"}}"#);
    assert_eq!(lazuli.get("/Tables('Orders')").expect(200).text(), expect);
    // The name as it was created, whatever the case in the request (T-1.11).
    assert_eq!(lazuli.get("/Tables('oRDERS')").expect(200).text(), expect);
}

/// T-1.11: entities are described by the name of the URL (unverified).
#[test]
fn emitted_names_have_the_case_of_the_request() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let page = lazuli.get("/oRDERS()?$format=application/json;odata=fullmetadata").expect(200);
    assert!(page.text().contains("$metadata#oRDERS\""), "{}", page.text());
    assert!(page.text().contains(r#""odata.editLink":"oRDERS(PartitionKey='p',RowKey='r')""#));
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "Orders");
}

/// T-1.13, T-1.14.
#[test]
fn a_key_below_a_table_is_a_wrong_number_of_keys() {
    let lazuli = Lazuli::with_orders();
    let message = format!(
        "The number of keys specified in the URI does not match number of key properties for the \
         resource '{ACCOUNT}.Orders'."
    );
    let target = "Tables(PartitionKey='p',RowKey='r')";
    let nested = lazuli.get(&format!("/Orders/{target}"));
    nested.expect_error(400, "InvalidInput", &message).expect_header("cache-control", None);
    let missing = lazuli.get(&format!("/Nosuch/{target}"));
    missing.expect_error(404, "TableNotFound", "The table specified does not exist.");
}

/// T-1.16.
#[test]
fn service_properties_are_of_the_service_alone() {
    let lazuli = Lazuli::with_orders();
    let message = "Value for one of the query parameters specified in the request URI is invalid.";
    for method in ["GET", "PUT"] {
        let request = Request::new(method, "/Orders/?restype=service&comp=properties");
        let request = request.accept("application/xml").body("application/xml", "");
        lazuli.send(&request).expect_xml_error(400, "InvalidQueryParameterValue", message);
    }
}

/// T-1.17: a bad name is reported before anything else is checked.
#[test]
fn a_bad_table_name_is_told_for_every_operation() {
    let lazuli = Lazuli::empty();
    let message = "The specifed resource name contains invalid characters.";
    let key = "/my_table(PartitionKey='p',RowKey='r')";
    for (method, target) in [
        ("GET", "/my_table()"),
        ("POST", "/my_table"),
        ("GET", key),
        ("PUT", key),
        ("MERGE", key),
        ("DELETE", key),
        ("DELETE", "/Tables('my_table')"),
    ] {
        let request = Request::new(method, target).json("{}").with("If-Match", "*");
        let refused = lazuli.send(&request);
        // Recorded: with nosniff, without no-cache.
        let refused = refused.expect_header("x-content-type-options", Some("nosniff"));
        let refused = refused.expect_header("cache-control", None);
        refused.expect_error(400, "InvalidResourceName", message);
    }
    for method in ["GET", "PUT"] {
        let acl = Request::new(method, "/my_table?comp=acl").accept("application/xml");
        let refused = lazuli.send(&acl.body("application/xml", ""));
        refused.expect_xml_error(400, "InvalidResourceName", message);
    }
}

/// T-1.18.
#[test]
fn a_method_that_a_resource_lacks_is_not_allowed() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let message = "The requested method is not allowed on the specified resource.";
    let key = order("r");
    for (method, target) in [
        ("PUT", "/Tables"),
        ("DELETE", "/Tables"),
        ("PUT", "/Tables('Orders')"),
        ("PUT", "/Orders"),
        ("DELETE", "/Orders"),
        ("POST", &*key),
        ("GET", "/$batch"),
        ("TRACE", "/Orders"),
    ] {
        let request = Request::new(method, target).json("{}").with("If-Match", "*");
        lazuli.send(&request).expect_error(405, "MethodNotAllowed", message);
    }
}

/// T-1.20, T-1.24 (unverified).
#[test]
fn key_predicates_have_some_freedom() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let spellings = [
        "PartitionKey='p',RowKey='r'",
        "PartitionKey=%27p%27,RowKey=%27r%27",
        "RowKey='r',PartitionKey='p'",
        "PartitionKey='p',%20RowKey='r'",
        "PartitionKey%3D'p'%2CRowKey%3D'r'",
    ];
    for spelling in spellings {
        lazuli.get(&format!("/Orders({spelling})")).expect(200);
    }
}

/// T-1.22, T-1.23.
#[test]
fn a_plus_in_the_path_is_a_plus() {
    let lazuli = Lazuli::with_rows(&[("a+b", ""), ("a b", ""), ("%20", "")]);
    for (spelling, row) in [("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("%2520", "%20")] {
        let entity = lazuli.get(&format!("/Orders(PartitionKey='p',RowKey='{spelling}')"));
        assert_eq!(entity.expect(200).json().get("RowKey").unwrap().text(), Some(row));
    }
}

/// T-1.26, T-1.27, and the other messages of the same lexer.
#[test]
fn a_predicate_that_is_none_is_told_with_its_place() {
    check_keys_refused(
        "PartitionKey='p';RowKey='r'",
        "Syntax error: character ';' is not valid at position 16 in 'PartitionKey='p';RowKey='r''.",
    );
    check_keys_refused("PartitionKey='p',RowKey=", "Bad Request - Error in query syntax.");
    let message = format!(
        "The number of keys specified in the URI does not match number of key properties for the \
         resource '{ACCOUNT}.Orders'."
    );
    check_keys_refused("'p'", &message);
    check_keys_refused("PartitionKey='p'", &message);
}

/// T-1.32, T-1.34.
#[test]
fn a_plus_in_the_query_is_a_space() {
    let lazuli = Lazuli::with_rows(&[("a+b", ""), ("a b", "")]);
    let rows = |query: &str| lazuli.get(&format!("/Orders()?{query}")).expect(200).row_keys();
    assert_eq!(rows("$filter=RowKey+eq+'a+b'"), "a b");
    assert_eq!(rows("%24filter=RowKey%20eq%20'a%2Bb'"), "a+b");
}

/// T-1.33, T-1.35, T-1.36 (all unverified).
#[test]
fn unknown_options_are_refused_and_other_parameters_ignored() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    assert_eq!(lazuli.get("/Orders()?hello=world&$top=1").expect(200).row_keys(), "r");
    for option in ["$Filter=false", "$unknown=1", "$TOP=1"] {
        let refused = lazuli.get(&format!("/Orders()?{option}"));
        refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
    }
}

/// T-1.37, T-1.38 (unverified).
#[test]
fn a_timeout_is_a_number_however_large() {
    let lazuli = Lazuli::with_orders();
    for timeout in ["1", "30", "5000", "100000", "99999999999"] {
        lazuli.get(&format!("/Orders()?timeout={timeout}")).expect(200);
    }
    let message = "Value for one of the query parameters specified in the request URI is invalid.";
    for timeout in ["soon", "-1"] {
        let refused = lazuli.get(&format!("/Orders()?timeout={timeout}"));
        refused.expect_error(400, "InvalidQueryParameterValue", message);
    }
}

/// A path that cannot be decoded, and one without an account.
#[test]
fn a_url_that_cannot_be_read_is_refused() {
    let lazuli = Lazuli::with_orders();
    let message = "The url in the request could not be parsed.";
    for target in ["/Orders(PartitionKey='%zz',RowKey='r')", "/Orders()?$filter=%zz"] {
        lazuli.get(target).expect_error(400, "RequestUrlFailedToParse", message);
    }
    // Keys are read as UTF-8.
    let latin = lazuli.get("/Orders(PartitionKey='%E9',RowKey='r')");
    assert_eq!(latin.status, 400);
    let utf8 = lazuli.get(&format!("/Orders(PartitionKey='{}',RowKey='r')", encode("é")));
    assert_eq!(utf8.status, 404);
}

/// 1.2: the root has no resource of its own.
#[test]
fn the_root_alone_is_no_resource() {
    let lazuli = Lazuli::empty();
    let message = "The requested URI does not represent any resource on the server.";
    lazuli.get("/").expect_error(400, "InvalidUri", message);
    let message = "A query parameter that's mandatory for this request is not specified.";
    let request = Request::new("GET", "/?comp=properties").accept("application/xml");
    lazuli.send(&request).expect_xml_error(400, "MissingRequiredQueryParameter", message);
}
