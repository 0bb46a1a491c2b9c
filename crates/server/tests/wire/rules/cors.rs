//! Section 9.5: CORS.

use crate::harness::{Lazuli, Request};

/// A server with these rules, each `origins|methods|headers|exposed`.
fn with_rules(rules: &[&str]) -> Lazuli {
    let lazuli = Lazuli::with_orders();
    let rule = |text: &&str| {
        let fields: Vec<&str> = text.split('|').collect();
        format!(
            "<CorsRule><AllowedOrigins>{}</AllowedOrigins><AllowedMethods>{}</AllowedMethods>\
             <AllowedHeaders>{}</AllowedHeaders><ExposedHeaders>{}</ExposedHeaders>\
             <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>",
            fields[0], fields[1], fields[2], fields[3]
        )
    };
    let rules: String = rules.iter().map(rule).collect();
    let body = format!("<StorageServiceProperties><Cors>{rules}</Cors></StorageServiceProperties>");
    let set = Request::new("PUT", "/?restype=service&comp=properties");
    lazuli.send(&set.body("application/xml", &body)).expect(202);
    lazuli
}

fn preflight(origin: &str, method: &str, headers: &str) -> Request {
    Request::new("OPTIONS", "/Nosuch(PartitionKey='p',RowKey='r')")
        .unsigned()
        .with("Origin", origin)
        .with("Access-Control-Request-Method", method)
        .with("Access-Control-Request-Headers", headers)
}

/// T-9.25.
#[test]
fn a_rule_may_name_every_subdomain() {
    let lazuli = with_rules(&["http://*.contoso.com|GET||"]);
    let origin = "http://www.contoso.com";
    let allowed = lazuli.send(&preflight(origin, "GET", "")).expect(200);
    let allowed = allowed.expect_header("access-control-allow-origin", Some(origin));
    allowed.expect_header("access-control-allow-credentials", None);
    let read = Request::new("GET", "/Orders()").with("Origin", origin);
    let read = lazuli.send(&read).expect(200);
    read.expect_header("access-control-allow-origin", Some(origin));
    lazuli.send(&preflight("http://contoso.com", "GET", "")).expect(403);
}

/// T-9.24, T-9.31: neither credentials nor the table are checked.
#[test]
fn a_preflight_needs_its_headers_and_a_rule() {
    let lazuli = with_rules(&["http://a|GET||"]);
    lazuli.send(&preflight("http://a", "GET", "")).expect(200);
    let message = "A required CORS header is not present.";
    for missing in ["Origin", "Access-Control-Request-Method"] {
        let refused = lazuli.send(&preflight("http://a", "GET", "").without(missing));
        refused.expect_error(400, "InvalidHeaderValue", message);
    }
    let message = "CORS not enabled or no matching rule found for this request.";
    for request in [
        preflight("http://b", "GET", ""),
        preflight("HTTP://A", "GET", ""),
        preflight("http://a", "PUT", ""),
        preflight("http://a", "GET", "x-ms-date"),
    ] {
        lazuli.send(&request).expect_error(403, "CorsPreflightFailure", message);
    }
    let refused = Lazuli::empty().send(&preflight("http://a", "GET", ""));
    refused.expect_error(403, "CorsPreflightFailure", message);
    // It is not OData: if no JSON is requested, its errors look like those of section 9 (T-7.4a).
    let refused = lazuli.send(&preflight("http://b", "GET", "").accept("*/*"));
    let refused = refused.expect_xml_error(403, "CorsPreflightFailure", message);
    assert!(refused.text().contains("<m:error"));
    let refused = refused.expect_header("x-ms-error-code", Some("CorsPreflightFailure"));
    refused.expect_header("content-type", Some("application/xml"));
}

/// T-9.25, T-9.26.
#[test]
fn the_first_matching_rule_answers() {
    let lazuli = with_rules(&["http://a|PUT,MERGE|x-ms-date,x-ms-meta*|", "*|GET|*|"]);
    let named = lazuli.send(&preflight("http://a", "MERGE", "x-ms-meta-x")).expect(200);
    assert!(named.body.is_empty());
    let named = named.expect_header("access-control-allow-origin", Some("http://a"));
    let named = named.expect_header("access-control-allow-methods", Some("MERGE"));
    let named = named.expect_header("access-control-allow-headers", Some("x-ms-meta-x"));
    let named = named.expect_header("access-control-max-age", Some("60"));
    named.expect_header("access-control-allow-credentials", Some("true"));
    let any = lazuli.send(&preflight("http://b", "GET", "anything")).expect(200);
    let any = any.expect_header("access-control-allow-origin", Some("*"));
    any.expect_header("access-control-allow-credentials", None);
}

/// T-2.61, T-9.27.
#[test]
fn answers_tell_browsers_what_they_may_see() {
    let lazuli = with_rules(&["http://a|GET||x-ms-request-id,x-ms-version"]);
    let get = |origin: Option<&str>| {
        let request = Request::new("GET", "/Orders()");
        lazuli.send(&match origin {
            Some(origin) => request.with("Origin", origin),
            None => request,
        })
    };
    let named = get(Some("http://a")).expect(200);
    let named = named.expect_header("access-control-allow-origin", Some("http://a"));
    let exposed = Some("x-ms-request-id,x-ms-version");
    let named = named.expect_header("access-control-expose-headers", exposed);
    named.expect_header("vary", Some("Origin"));
    let other = get(Some("http://b")).expect(200).expect_header("vary", Some("Origin"));
    other.expect_header("access-control-allow-origin", None);
    get(None).expect(200).expect_header("vary", Some("Origin"));
    // Without rules there is nothing to report.
    let plain =
        Lazuli::with_orders().send(&Request::new("GET", "/Tables").with("Origin", "http://a"));
    let plain = plain.expect(200).expect_header("access-control-allow-origin", None);
    plain.expect_header("vary", None);
}

/// T-9.28: a star stands for the headers that are present, in the recorded order.
#[test]
fn a_star_exposes_what_is_there() {
    let lazuli = with_rules(&["*|GET||*"]);
    let request = Request::new("GET", "/Orders()").with("Origin", "http://a");
    let answer = lazuli.send(&request).expect(200);
    let exposed = "x-ms-request-id,x-ms-client-request-id,Server,x-ms-version,\
         X-Content-Type-Options,Cache-Control,Content-Type,Content-Length,Date,Transfer-Encoding";
    let answer = answer.expect_header("access-control-expose-headers", Some(exposed));
    answer.expect_header("access-control-allow-origin", Some("*")).expect_header("vary", None);
}
