//! Sections 2.1 to 2.4, 2.7 and 2.8: headers, versions, negotiation.

use crate::harness::{Lazuli, Request, order};
use lazuli_server::{FrontOptions, VersionCheck};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;
const NOT_SUPPORTED: &str = "None of the provided media types are supported";
const NO_ATOM: &str = "Atom format is not supported.";
const NO_JSON: &str = "JSON format is not supported.";

fn content_type(level: &str) -> String {
    format!("application/json;odata={level};streaming=true;charset=utf-8")
}

/// T-2.1, T-2.3.
#[test]
fn header_names_have_no_case_and_content_types_may_have_parameters() {
    let lazuli = Lazuli::with_orders();
    for (row, content_type) in [
        ("a", "application/json"),
        ("b", "application/json;odata=nometadata"),
        ("c", "application/json; odata=fullmetadata; charset=utf-8"),
        ("d", "Application/JSON;charset=UTF-8"),
    ] {
        let body = ENTITY.replace("\"r\"", &format!("\"{row}\""));
        let insert = Request::new("POST", "/Orders").body(content_type, &body);
        lazuli.send(&insert.without("Accept").with("aCCEPT", "application/json")).expect(201);
    }
}

/// T-2.2.
#[test]
fn the_clients_request_id_is_echoed() {
    let lazuli = Lazuli::with_orders();
    let header = "x-ms-client-request-id";
    let ask = |id: &str| lazuli.send(&Request::new("GET", "/Tables").with(header, id)).expect(200);
    ask("mine-42 !").expect_header(header, Some("mine-42 !"));
    let long = "x".repeat(1024);
    ask(&long).expect_header(header, Some(&long));
    ask(&format!("{long}x")).expect_header(header, None);
    // Errors too, of any kind.
    let denied = Request::new("GET", "/Tables").with(header, "id").unsigned();
    lazuli.send(&denied).expect(403).expect_header(header, Some("id"));
}

/// T-2.4 (the cause is unverified).
#[test]
fn a_body_needs_a_content_type() {
    let lazuli = Lazuli::with_orders();
    let insert = Request::new("POST", "/Orders").json(ENTITY);
    let bare = lazuli.send(&insert.clone().without("Content-Type"));
    bare.expect_error(415, "MediaTypeNotSupported", NOT_SUPPORTED);
    let text = lazuli.send(&insert.with("Content-Type", "text/plain"));
    text.expect_error(415, "MediaTypeNotSupported", NOT_SUPPORTED);
}

/// T-2.5.
#[test]
fn a_body_needs_a_length() {
    let lazuli = Lazuli::with_orders();
    let insert = Request::new("POST", "/Orders").with("Content-Type", "application/json");
    let message = "The Content-Length header was not specified.";
    lazuli.send(&insert).expect_error(411, "MissingContentLengthHeader", message);
    // Chunks have their own lengths.
    let now = lazuli_model::Clock::now(&*lazuli.clock);
    let mut chunked = insert.with("Transfer-Encoding", "chunked").bytes("localhost", now);
    chunked.extend(format!("{:x}\r\n{ENTITY}\r\n0\r\n\r\n", ENTITY.len()).bytes());
    lazuli.send_raw(&chunked).expect(201);
}

/// T-2.6, T-2.7.
#[test]
fn every_published_version_is_served() {
    let lazuli = Lazuli::with_orders();
    for version in lazuli_wire::version::ApiVersion::known().map(|version| version.to_string()) {
        let delete = Request::new("DELETE", "/Tables('Nosuch')").version(&version);
        lazuli.send(&delete).expect(404).expect_header("x-ms-version", Some(&version));
    }
}

/// T-2.8, T-2.9: which versions are refused is the operator's choice.
#[test]
fn unknown_versions_are_served_or_refused_as_configured() {
    let ask = |version_check: VersionCheck, version: &str| {
        let lazuli =
            Lazuli::with_options(FrontOptions { version_check, ..FrontOptions::default() });
        lazuli.send(&Request::new("GET", "/Tables").version(version))
    };
    let message = "The value for one of the HTTP headers is not in the correct format.";
    for (check, version) in [
        (VersionCheck::WellFormed, "12.0.0b1"),
        (VersionCheck::WellFormed, "2019-13-45"),
        (VersionCheck::WellFormed, "2019-02-31"),
        (VersionCheck::Strict, "2099-01-01"),
        (VersionCheck::Strict, "2019-02-03"),
    ] {
        let refused = ask(check, version);
        // Recorded form: indented, with a byte order mark, and no error code header (T-7.4a).
        assert!(refused.text().starts_with("\u{FEFF}<?xml"), "{}", refused.text());
        let refused = refused.expect_header("x-ms-error-code", None);
        refused.expect_xml_error(400, "InvalidHeaderValue", message);
    }
    for (check, version) in [
        (VersionCheck::WellFormed, "2099-01-01"),
        (VersionCheck::WellFormed, "2019-02-03"),
        (VersionCheck::Strict, "2019-02-02"),
        (VersionCheck::Skip, "12.0.0b1"),
    ] {
        ask(check, version).expect(200).expect_header("x-ms-version", Some(version));
    }
}

/// T-2.10: a request without a version has one of 2009 (the exact default is unverified).
#[test]
fn a_request_without_a_version_is_an_old_one() {
    let lazuli = Lazuli::with_orders();
    let request = Request::new("GET", "/Tables").without("x-ms-version");
    let refused = lazuli.send(&request).expect_header("x-ms-version", Some("2009-09-19"));
    refused.expect_error(415, "JsonFormatNotSupported", NO_JSON);
    let atom = lazuli.send(&request.without("Accept")).expect(200);
    assert!(atom.text().contains("<feed"), "{}", atom.text());
}

/// T-2.12 to T-2.14.
#[test]
fn versions_decide_between_atom_and_json() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let read = |version: &str, accept: &str| {
        lazuli.send(&Request::new("GET", &order("r")).version(version).accept(accept))
    };
    let (atom, json) = ("application/atom+xml", "application/json;odata=nometadata");
    for version in ["2009-09-19", "2011-08-18", "2012-02-12"] {
        assert!(read(version, atom).expect(200).text().contains("<entry"));
        read(version, json).expect_error(415, "JsonFormatNotSupported", NO_JSON);
    }
    for version in ["2013-08-15", "2015-07-08"] {
        assert!(read(version, atom).expect(200).text().contains("<entry"));
        read(version, json).expect(200);
    }
    for version in ["2015-12-11", "2019-02-02"] {
        read(version, atom).expect_xml_error(415, "AtomFormatNotSupported", NO_ATOM);
        read(version, json).expect(200);
        let body = "<entry />";
        let insert = Request::new("POST", "/Orders").version(version).body(atom, body);
        lazuli.send(&insert).expect_error(415, "AtomFormatNotSupported", NO_ATOM);
    }
}

/// T-2.14a.
#[test]
fn an_answer_without_a_body_needs_no_format() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for accept in ["", "application/atom+xml", "text/plain", "*/*"] {
        let request = |method: &str, row: &str| {
            let request = Request::new(method, &order(row)).json("{}");
            let request = request.with("If-Match", "*").without("Accept");
            if accept.is_empty() { request } else { request.accept(accept) }
        };
        lazuli.send(&request("PUT", "r")).expect(204);
        lazuli.send(&request("MERGE", "r")).expect(204);
        let message = "The specified resource does not exist.";
        for method in ["PUT", "MERGE", "DELETE"] {
            let missing = lazuli.send(&request(method, "missing"));
            let missing =
                missing.expect_header("content-type", Some("application/xml;charset=utf-8"));
            missing.expect_xml_error(404, "ResourceNotFound", message);
        }
        let quiet = Request::new("POST", "/Orders")
            .json(&format!(r#"{{"PartitionKey":"quiet","RowKey":"{}"}}"#, accept.len()))
            .with("Prefer", "return-no-content")
            .accept(if accept.is_empty() { "application/atom+xml" } else { accept });
        lazuli.send(&quiet).expect(204);
    }
}

/// T-2.16 to T-2.18.
#[test]
fn data_service_versions_are_taken_in_every_spelling() {
    let lazuli = Lazuli::with_orders();
    for version in ["1.0", "2.0", "3.0", "3.0;", "3.0;NetFx", "1.0;NetFx"] {
        let request = Request::new("GET", "/Orders()?$select=A")
            .with("DataServiceVersion", version)
            .with("MaxDataServiceVersion", version);
        lazuli.send(&request).expect(200).expect_header("dataserviceversion", None);
    }
    lazuli.send(&Request::new("GET", "/Orders()").without("DataServiceVersion")).expect(200);
}

/// T-2.21, T-2.22, T-2.25 (unverified), T-2.26 (unverified).
#[test]
fn accept_decides_the_metadata_level() {
    let lazuli = Lazuli::with_orders();
    let read = |accept: &str| lazuli.send(&Request::new("GET", "/Orders()").accept(accept));
    for (accept, level) in [
        ("application/json", "minimalmetadata"),
        ("application/json; odata=nometadata", "nometadata"),
        ("application/json;odata=fullmetadata;streaming=true", "fullmetadata"),
        ("*/*", "minimalmetadata"),
        ("text/html, application/json;odata=nometadata", "nometadata"),
        (
            "application/json;odata=nometadata;q=0.5,application/json;odata=fullmetadata",
            "fullmetadata",
        ),
        ("application/json;odata=nometadata,application/json;odata=fullmetadata", "nometadata"),
    ] {
        let level = content_type(level);
        read(accept).expect(200).expect_header("content-type", Some(&level));
    }
    read("text/html").expect_xml_error(415, "MediaTypeNotSupported", NOT_SUPPORTED);
    let verbose = read("application/json;odata=verbose");
    let message = "JSON verbose format is not supported.";
    verbose.expect_xml_error(415, "JsonVerboseFormatNotSupported", message);
}

/// T-2.23, T-2.24.
#[test]
fn format_overrides_accept_on_every_operation() {
    let lazuli = Lazuli::empty();
    let full = content_type("fullmetadata");
    let format = "$format=application/json;odata=fullmetadata";
    let create =
        Request::new("POST", &format!("/Tables?{format}")).json(r#"{"TableName":"Orders"}"#);
    lazuli.send(&create).expect(201).expect_header("content-type", Some(&full));
    // Errors have this format as well.
    lazuli.send(&create).expect(409).expect_header("content-type", Some(&full));
    let insert = Request::new("POST", &format!("/Orders?{format}")).json(ENTITY);
    let entity = lazuli.send(&insert.without("Accept")).expect(201);
    assert!(entity.expect_header("content-type", Some(&full)).text().contains("odata.editLink"));
    let short = lazuli.get("/Orders()?$format=json").expect(200);
    short.expect_header("content-type", Some(&content_type("minimalmetadata")));
}

/// T-2.49, T-2.56, T-2.58, T-2.59, and the table of 2.8.
#[test]
fn every_answer_has_its_headers() {
    let lazuli = Lazuli::empty();
    let send = |method: &str, target: &str, body: &str| {
        let request = Request::new(method, target).with("If-Match", "*");
        let request = if matches!(method, "POST") { request.without("If-Match") } else { request };
        let request =
            if target.starts_with("/Tables") { request.without("If-Match") } else { request };
        lazuli.send(&if body.is_empty() { request } else { request.json(body) })
    };
    let key = order("r");
    let answers = [
        (send("POST", "/Tables", r#"{"TableName":"Orders"}"#), 201, "content-type location"),
        (send("GET", "/Tables", ""), 200, "content-type"),
        (send("POST", "/Orders", ENTITY), 201, "content-type etag location"),
        (send("GET", &key, ""), 200, "content-type etag"),
        (send("GET", "/Orders()", ""), 200, "content-type"),
        (send("PUT", &key, "{}"), 204, "etag content-length-0"),
        (send("MERGE", &key, "{}"), 204, "etag content-length-0"),
        (send("DELETE", &key, ""), 204, "content-length-0"),
        (send("DELETE", "/Tables('Orders')", ""), 204, "content-length-0"),
    ];
    for (answer, status, headers) in answers {
        let answer = answer.expect(status);
        for name in ["content-type", "etag", "location"] {
            assert_eq!(answer.header(name).is_some(), headers.contains(name), "{name} {headers}");
        }
        assert_eq!(answer.header("content-length") == Some("0"), headers.contains("length-0"));
        let answer = answer.expect_header("cache-control", Some("no-cache"));
        let answer = answer.expect_header("x-content-type-options", Some("nosniff"));
        let answer = answer.expect_header("content-location", None);
        assert_eq!(answer.header("x-ms-request-id").map(str::len), Some(36));
        assert!(answer.header("date").is_some_and(|date| date.ends_with(" GMT")));
        assert!(answer.header("server").unwrap().starts_with("Windows-Azure-Table/1.0 "));
    }
    // The XML resources are not marked (T-2.59).
    let properties = Request::new("GET", "/?restype=service&comp=properties");
    let answer = lazuli.send(&properties.accept("application/xml")).expect(200);
    let answer = answer.expect_header("cache-control", None);
    let answer = answer.expect_header("x-content-type-options", None);
    answer.expect_header("content-type", Some("application/xml"));
}

/// T-2.51, T-2.55, T-2.57 (unverified).
#[test]
fn an_unknown_preference_is_ignored() {
    let lazuli = Lazuli::with_orders();
    let insert = Request::new("POST", "/Orders").json(ENTITY).with("Prefer", "respond-async");
    lazuli.send(&insert).expect(201).expect_header("preference-applied", None);
    let put = Request::new("PUT", &order("r")).json("{}").with("Prefer", "return-content");
    let answer = lazuli.send(&put).expect(204).expect_header("preference-applied", None);
    assert!(answer.body.is_empty());
}

/// Requests that are not quite HTTP/1.1: no Host, or nonsense in it.
#[test]
fn a_request_without_a_host_is_told_so() {
    let lazuli = Lazuli::empty();
    let head = "GET /devstoreaccount1/Tables HTTP/1.1\r\nAccept: application/json\r\n\r\n";
    let message = "The required host information is not present in the request. You must send a \
         non-empty Host header or include the absolute URI in the request line.";
    let answer = lazuli.send_raw(head.as_bytes());
    answer.expect_error(400, "HostInformationNotPresent", message);
}
