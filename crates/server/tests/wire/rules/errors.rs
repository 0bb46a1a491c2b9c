//! Section 7: errors.

use crate::harness::{Lazuli, Request, order};

/// T-7.1, T-7.2: the whole body, the same at every level.
#[test]
fn a_json_error_to_the_byte() {
    let lazuli = Lazuli::with_orders();
    for level in ["nometadata", "minimalmetadata", "fullmetadata"] {
        let accept = format!("application/json;odata={level}");
        let answer = lazuli.send(&Request::new("GET", &order("r")).accept(&accept)).expect(404);
        let id = answer.header("x-ms-request-id").unwrap();
        let expect = format!(
            r#"{{"odata.error":{{"code":"ResourceNotFound","message":{{"lang":"en-US","value":"The specified resource does not exist.\nRequestId:{id}\nTime:2024-07-31T18:30:00.0000000Z"}}}}}}"#
        );
        assert_eq!(answer.text(), expect);
        let content_type = format!("{accept};streaming=true;charset=utf-8");
        answer.expect_header("content-type", Some(&content_type));
    }
}

/// T-7.4a (i): compact, without a byte order mark or an error code header.
#[test]
fn an_xml_error_of_an_entity_to_the_byte() {
    let lazuli = Lazuli::with_orders();
    let delete = Request::new("DELETE", &order("r")).with("If-Match", "*").without("Accept");
    let answer = lazuli.send(&delete).expect(404);
    let id = answer.header("x-ms-request-id").unwrap();
    let expect = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><error \
         xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
         <code>ResourceNotFound</code><message xml:lang=\"en-US\">The specified resource does not \
         exist.\nRequestId:{id}\nTime:2024-07-31T18:30:00.0000000Z</message></error>"
    );
    assert_eq!(answer.text(), expect);
    let answer = answer.expect_header("content-type", Some("application/xml;charset=utf-8"));
    answer.expect_header("x-ms-error-code", None);
}

/// T-7.3, T-7.5, T-2.60.
#[test]
fn failed_authentication_has_headers_of_its_own() {
    let lazuli = Lazuli::with_orders();
    let forged =
        Request::new("GET", "/Tables").with("Authorization", "SharedKey devstoreaccount1:AA");
    for (accept, content_type) in [
        ("application/json;odata=fullmetadata", "application/json"),
        ("application/xml", "application/xml"),
    ] {
        let answer = lazuli.send(&forged.clone().accept(accept)).expect(403);
        let answer = answer.expect_header("content-type", Some(content_type));
        let answer = answer.expect_header("x-ms-error-code", Some("AuthenticationFailed"));
        let answer = answer.expect_header("cache-control", None);
        assert!(answer.header("content-length").is_some());
    }
}

/// As the tests of the .NET and Java clients assert: `HttpStatusMessage` of a bad document, and the
/// message of a `StorageException` for a body too large.
#[test]
fn errors_that_are_no_odata_have_their_message_in_the_status_line() {
    let lazuli = Lazuli::with_orders();
    let reason = |request: &Request| lazuli.send(request).reason;
    let forged =
        Request::new("GET", "/Tables").with("Authorization", "SharedKey devstoreaccount1:AA");
    assert!(reason(&forged).starts_with("Server failed to authenticate the request. Make sure"));
    let document = Request::new("PUT", "/?restype=service&comp=properties");
    let document = document.body("application/xml", "<no");
    assert_eq!(reason(&document), "XML specified is not syntactically valid.");
    let large = Request::new("POST", "/Orders").json(&"x".repeat(4 * 1024 * 1024 + 1));
    let message = "The request body is too large and exceeds the maximum permissible limit.";
    let refused = lazuli.send(&large).expect_error(413, "RequestBodyTooLarge", message);
    assert_eq!(refused.reason, message);
    refused.expect_header("x-ms-error-code", Some("RequestBodyTooLarge"));
    assert_eq!(reason(&Request::new("GET", &order("r"))), "Not Found");
    assert_eq!(reason(&Request::new("GET", "/Tables")), "OK");
}

/// T-7.8, 1.2: access policies support HEAD, and its errors have no body.
#[test]
fn head_has_no_body() {
    let lazuli = Lazuli::with_orders();
    let head = |target: &str| lazuli.send(&Request::new("HEAD", target).accept("application/xml"));
    let found = head("/Orders?comp=acl").expect(200);
    assert!(found.body.is_empty());
    found.expect_header("content-type", Some("application/xml"));
    let missing = head("/Nosuch?comp=acl").expect(404);
    assert!(missing.body.is_empty());
    assert!(missing.header("x-ms-error-code").is_some());
    // Where HEAD is not supported, the header must still name the error.
    for target in ["/Tables", "/Orders()", "/Orders(PartitionKey='p',RowKey='r')"] {
        let refused = lazuli.send(&Request::new("HEAD", target)).expect(405);
        refused.expect_header("x-ms-error-code", Some("MethodNotAllowed"));
    }
}

/// T-7.1: a message that quotes the request is escaped like any other text.
#[test]
fn messages_are_escaped() {
    let lazuli = Lazuli::with_orders();
    let answer = lazuli.get("/Orders()?$filter=%22%C3%A9%3C%26");
    let message = "Syntax error: character '\"' is not valid at position 0 in '\"é<&'.";
    answer.expect_error(400, "InvalidInput", message);
    let xml =
        Request::new("GET", "/Orders()?$filter=%3C%26").version("2012-02-12").without("Accept");
    let answer = lazuli.send(&xml).expect(400);
    assert!(answer.text().contains("in '&lt;&amp;'."), "{}", answer.text());
}

/// A refusal before the body is read must not break the connection while the client still sends.
#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let lazuli = Lazuli::with_orders();
    let large = format!(r#"{{"S":"{}"}}"#, "x".repeat(3 * 1024 * 1024));
    let forged = Request::new("POST", "/Orders")
        .json(&large)
        .with("Authorization", "SharedKey devstoreaccount1:AA");
    let misnamed = Request::new("POST", "/my_table").json(&large);
    for _ in 0..3 {
        assert_eq!(lazuli.send(&forged).status, 403);
        assert_eq!(lazuli.send(&misnamed).status, 400);
    }
}

/// Old .NET clients send `Expect: 100-continue` before a body.
#[test]
fn a_client_that_asks_first_is_refused_before_it_sends() {
    let lazuli = Lazuli::with_orders();
    let now = lazuli_model::Clock::now(&*lazuli.clock);
    let ask = |request: Request| {
        let request = request.with("Content-Type", "application/json");
        let request = request.with("Expect", "100-continue").with("Content-Length", "1000000");
        lazuli.send_raw(&request.bytes("localhost", now)).status
    };
    assert_eq!(ask(Request::new("POST", "/Orders")), 100);
    assert_eq!(ask(Request::new("POST", "/Orders").unsigned()), 403);
    assert_eq!(ask(Request::new("POST", "/my_table")), 400);
}

/// A head that arrived at once was refused at about 100,000 bytes, not at 64 KiB.
#[test]
fn a_head_is_bounded_to_the_byte() {
    let lazuli = Lazuli::empty();
    let start = "GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ";
    let status = |bytes: usize| {
        let head = format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4));
        lazuli.send_raw(head.as_bytes()).status
    };
    assert_eq!(status(64 * 1024), 403);
    assert_eq!(status(64 * 1024 + 1), 431);
    assert_eq!(status(80 * 1024), 431);
}

/// The response to an unreadable request also has a body and an id, which the log contains.
#[test]
fn a_request_that_cannot_be_read_is_answered_with_an_id() {
    let lazuli = Lazuli::empty();
    let host = "Host: 127.0.0.1\r\n";
    let lengths = "Content-Length: 3\r\nContent-Length: 4\r\n";
    let many = "X-More: 1\r\n".repeat(200);
    let (input, header) = (
        ("InvalidInput", "One of the request inputs is not valid."),
        (
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format.",
        ),
    );
    for (head, status, (code, message)) in [
        (format!("POST /Tables HTTP/1.1\r\n{host}{lengths}\r\nabc"), 400, input),
        (format!("GET /Tables?$filter=a b HTTP/1.1\r\n{host}\r\n"), 400, input),
        (format!("G@T /Tables HTTP/1.1\r\n{host}\r\n"), 400, input),
        (format!("GET /Tables HTTP/1.1\r\n{host}{many}\r\n"), 431, header),
    ] {
        let answer = lazuli.send_raw(head.as_bytes());
        assert_eq!(answer.header("x-ms-request-id").map(str::len), Some(36), "{status}");
        let answer = answer.expect_header("connection", Some("close"));
        assert!(answer.header("date").is_some_and(|date| date.ends_with(" GMT")));
        assert!(
            answer.header("content-type").is_some_and(|text| text.starts_with("application/xml"))
        );
        answer.expect_xml_error(status, code, message);
    }
    // The first of two requests on a connection was valid.
    lazuli.get("/Tables").expect(200);
}
