//! Section 2.2: what the service supported at which version.

use crate::harness::{Lazuli, Request};

const INVALID: &str = "Value for one of the query parameters specified in the request URI is \
     invalid.";

#[track_caller]
fn check_begins_at(first: &str, before: &str, request: &Request, status: u16) {
    let lazuli = Lazuli::with_orders();
    lazuli.send(&request.clone().version(first)).expect(status);
    let refused = lazuli.send(&request.clone().version(before));
    refused.expect_xml_error(400, "InvalidQueryParameterValue", INVALID);
}

#[test]
fn table_acl_begins_with_2012_02_12() {
    let get = Request::new("GET", "/Orders?comp=acl").accept("application/xml");
    check_begins_at("2012-02-12", "2011-08-18", &get, 200);
    let put = Request::new("PUT", "/Orders?comp=acl").accept("application/xml");
    let put = put.body("application/xml", "<SignedIdentifiers />");
    check_begins_at("2012-02-12", "2009-09-19", &put, 204);
}

#[test]
fn service_stats_begin_with_2013_08_15() {
    let stats = Request::new("GET", "/?restype=service&comp=stats").at_secondary();
    check_begins_at("2013-08-15", "2012-02-12", &stats.accept("application/xml"), 200);
}

#[test]
fn prefer_begins_with_2013_08_15() {
    let lazuli = Lazuli::empty();
    let body = |name: &str| {
        format!(
            r#"<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices"
             xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"
             xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties>
             <d:TableName>{name}</d:TableName></m:properties></content></entry>"#
        )
    };
    let create = |name: &str, version: &str| {
        let request =
            Request::new("POST", "/Tables").version(version).accept("application/atom+xml");
        lazuli.send(
            &request.with("Prefer", "return-no-content").body("application/atom+xml", &body(name)),
        )
    };
    create("First", "2013-08-15").expect(204);
    create("Second", "2012-02-12").expect(201).expect_header("preference-applied", None);
}
