//! Responses of extension resources: their errors, and what they used.

use super::{asking, token};
use crate::harness::{Lazuli, Request};

/// Each resource: method, target and body of a request that fails, its status and code.
const FAILURES: [(&str, &str, &str, u16, &str); 16] = [
    ("GET", "/Orders?comp=lazuli-changes", "", 404, "ResourceNotFound"),
    ("GET", "/Orders?comp=lazuli-changes&wait=61", "", 400, "InvalidQueryParameterValue"),
    ("GET", "/Orders?comp=lazuli-changes&after=forged", "", 400, "InvalidQueryParameterValue"),
    ("GET", "/Missing?comp=lazuli-changes", "", 404, "TableNotFound"),
    ("PUT", "/Orders?comp=lazuli-changes", "{}", 405, "UnsupportedHttpVerb"),
    ("GET", "/Orders?comp=lazuli-ttl", "", 404, "ResourceNotFound"),
    ("PUT", "/Orders?comp=lazuli-ttl", "{}", 400, "InvalidInput"),
    ("GET", "/Orders?comp=lazuli-feed", "", 404, "ResourceNotFound"),
    ("PUT", "/Orders?comp=lazuli-indexes", "[]", 400, "InvalidInput"),
    ("GET", "/Orders?comp=lazuli-verify&from=forged", "", 400, "InvalidQueryParameterValue"),
    ("PUT", "/Orders?comp=lazuli-rebuild&index=none", "{}", 404, "ResourceNotFound"),
    ("PUT", "/Orders?comp=lazuli-rebuild", "{}", 400, "MissingRequiredQueryParameter"),
    ("PUT", "/?comp=lazuli-advice", "{}", 405, "UnsupportedHttpVerb"),
    ("GET", "/?comp=lazuli-ttl", "", 400, "InvalidQueryParameterValue"),
    ("GET", "/Orders?comp=lazuli-nonsense", "", 400, "InvalidQueryParameterValue"),
    ("GET", "/Tables?comp=lazuli-feed", "", 400, "InvalidQueryParameterValue"),
];

fn request(method: &str, target: &str, body: &str) -> Request {
    match body {
        "" => asking(method, target),
        body => asking(method, target).json(body),
    }
}

/// X-0.4a, T-7.2: errors are JSON like their responses, at the level that the client accepts.
#[test]
fn errors_of_extensions_have_the_form_that_the_client_accepts() {
    let lazuli = Lazuli::with_orders();
    for (method, target, body, status, code) in FAILURES {
        for (accept, level) in [
            ("application/json;odata=nometadata", "nometadata"),
            ("application/json;odata=minimalmetadata", "minimalmetadata"),
            ("application/json;odata=fullmetadata", "fullmetadata"),
            ("*/*", "minimalmetadata"),
        ] {
            let failed = lazuli.send(&request(method, target, body).accept(accept));
            let json = format!("application/json;odata={level};streaming=true;charset=utf-8");
            let failed = failed.expect_header("Content-Type", Some(&json));
            failed.refused(status, code, "{\"odata.error\":");
        }
        let silent = lazuli.send(&request(method, target, body).without("Accept"));
        silent.refused(status, code, "{\"odata.error\":");
        for accept in ["application/xml", "application/atom+xml"] {
            let failed = lazuli.send(&request(method, target, body).accept(accept));
            failed.refused(status, code, "<error xmlns=");
        }
    }
}

/// X-0.2, X-0.4a, T-7.5.
#[test]
fn failed_authentication_has_that_form_too_and_only_for_those_who_ask() {
    let lazuli = Lazuli::with_orders();
    for (method, target, body, ..) in FAILURES {
        let unsigned = request(method, target, body).unsigned();
        for (accept, level) in
            [("application/json;odata=nometadata", "nometadata"), ("*/*", "minimalmetadata")]
        {
            let failed = lazuli.send(&unsigned.clone().accept(accept));
            let json = format!("application/json;odata={level};streaming=true;charset=utf-8");
            let failed = failed.expect_header("Content-Type", Some(&json));
            failed.refused(403, "AuthenticationFailed", "{\"odata.error\":");
        }
        let plain = request(method, target, body).without("x-lazuli-extensions");
        lazuli.send(&plain.unsigned()).refused(403, "AuthenticationFailed", "<m:error");
    }
    let wrong = asking("GET", "/Orders?comp=lazuli-feed").with("x-lazuli-extensions", "yes");
    lazuli.send(&wrong).refused(400, "InvalidHeaderValue", "{\"odata.error\":");
    let plain = Request::new("GET", "/Orders?comp=lazuli-feed");
    lazuli.send(&plain).refused(400, "InvalidQueryParameterValue", "<m:error");
    let range = asking("GET", "/Orders?comp=lazuli-feed").sas(&token("r", Some(("a", "b"))));
    lazuli.send(&range).refused(403, "AuthorizationFailure", "{\"odata.error\":");
}

/// X-0.3a: a resource is named by what follows `lazuli-`.
#[test]
fn settings_say_what_they_used() {
    let lazuli = Lazuli::with_orders();
    for (setting, body) in [
        ("indexes", r#"{"indexes":[{"name":"byN","on":["N"]}]}"#),
        ("ttl", r#"{"seconds":60}"#),
        ("feed", r#"{"images":"keys"}"#),
    ] {
        let target = format!("/Orders?comp=lazuli-{setting}");
        let put = lazuli.send(&asking("PUT", &target).json(body));
        assert!(put.status < 300, "{}", put.text());
        let get = lazuli.ask(&target).expect(200);
        let rebuilt = match setting {
            "indexes" => {
                let target = "/Orders?comp=lazuli-rebuild&index=byN";
                let again = lazuli.send(&asking("PUT", target).json("{}")).expect(202);
                again.expect_header("x-lazuli-used", Some("rebuild"));
                lazuli.ask("/Orders?comp=lazuli-verify").expect(200)
            }
            _ => lazuli.ask("/Orders?comp=lazuli-verify").expect(200),
        };
        rebuilt.expect_header("x-lazuli-used", Some("verify"));
        let delete = lazuli.send(&asking("DELETE", &target)).expect(204);
        for answer in [put, get, delete] {
            answer.expect_header("x-lazuli-used", Some(setting));
        }
    }
    let tables = lazuli.ask("/Tables?$filter=startswith(TableName,'Or')").expect(200);
    tables.expect_header("x-lazuli-used", Some("startswith"));
    lazuli.ask("/Tables").expect(200).expect_header("x-lazuli-used", None);
}

/// X-0.3a: functions are named by themselves, all else by a word of its own.
#[test]
fn what_selects_entities_has_a_word() {
    let lazuli = Lazuli::with_rows(&[("1", r#""N":"abc""#)]);
    for (target, word) in [
        ("/Orders()?$filter=endswith(N,'c')", "endswith"),
        ("/Orders()?$filter=N%20in%20('abc')", "in"),
        ("/Orders()?$orderby=PartitionKey%20desc,RowKey%20desc", "reverse"),
        ("/Orders()?$orderby=PartitionKey", "orderby"),
        ("/Orders()?$inlinecount=allpages", "inlinecount"),
        ("/Orders()/$count", "count"),
    ] {
        lazuli.ask(target).expect(200).expect_header("x-lazuli-used", Some(word));
    }
    for target in ["/Orders()", "/Orders()?$filter=N%20eq%20'abc'", "/Orders()?$inlinecount=none"] {
        lazuli.ask(target).expect(200).expect_header("x-lazuli-used", None);
    }
}

/// X-0.4b: a setting that was never set, one that is removed twice, a table that does not exist, and
/// methods that a setting does not have.
#[test]
fn settings_that_are_not_there() {
    let lazuli = Lazuli::with_orders();
    for (setting, body) in [
        ("indexes", r#"{"indexes":[]}"#),
        ("ttl", r#"{"seconds":60}"#),
        ("feed", r#"{"images":"keys"}"#),
    ] {
        let at = |table: &str| format!("/{table}?comp=lazuli-{setting}");
        let get = lazuli.ask(&at("Orders"));
        match setting {
            "indexes" => assert_eq!(get.expect(200).text(), r#"{"indexes":[]}"#),
            _ => drop(get.refused(404, "ResourceNotFound", "")),
        }
        lazuli.send(&asking("DELETE", &at("Orders"))).expect(204);
        let set = lazuli.send(&asking("PUT", &at("Orders")).json(body));
        assert!(set.status < 300, "{}", set.text());
        for _ in 0..2 {
            let gone = lazuli.send(&asking("DELETE", &at("Orders"))).expect(204);
            assert_eq!(gone.text(), "");
        }
        for method in ["GET", "PUT", "DELETE"] {
            let body = if method == "PUT" { body } else { "" };
            let missing = lazuli.send(&request(method, &at("Missing"), body));
            missing.refused(404, "TableNotFound", "");
        }
        for method in ["POST", "MERGE", "PATCH"] {
            let other = lazuli.send(&asking(method, &at("Orders")).json(body));
            other.refused(405, "UnsupportedHttpVerb", "");
        }
        assert_eq!(lazuli.send(&asking("HEAD", &at("Orders"))).status, 405);
    }
}

/// X-0.3a: the response to a batch says what its query used.
#[test]
fn a_query_in_a_batch_says_what_it_used() {
    let lazuli = Lazuli::with_rows(&[("1", r#""N":"abc""#), ("2", r#""N":"xyz""#)]);
    let target = "Orders()?$filter=startswith(N,'ab')";
    let ask = asking("POST", "/$batch");
    let answer = lazuli.send_query(&ask, target).expect(202);
    let answer = answer.expect_header("x-lazuli-used", Some("startswith"));
    assert!(answer.text().contains("abc") && !answer.text().contains("xyz"), "{}", answer.text());
    assert!(!answer.text().contains("x-lazuli"), "{}", answer.text());
    lazuli.send_query(&ask, "Orders()").expect(202).expect_header("x-lazuli-used", None);
    let unasked = lazuli.send_query(&Request::new("POST", "/$batch"), target).expect(202);
    let unasked = unasked.expect_header("x-lazuli-used", None);
    assert!(unasked.text().contains("HTTP/1.1 501 "), "{}", unasked.text());
}

/// X-2.1, X-4.5: where a plan or a snapshot is not possible, the request is refused, not executed without it.
#[test]
fn what_cannot_be_explained_or_read_at_a_snapshot_is_refused() {
    let lazuli = Lazuli::with_orders();
    let orders = ["x-lazuli-explain", "x-lazuli-snapshot"];
    let writes = [
        asking("POST", "/Orders").json(r#"{"PartitionKey":"p","RowKey":"1"}"#),
        asking("PUT", "/Orders(PartitionKey='p',RowKey='1')").json("{}"),
        asking("POST", "/$batch").body("multipart/mixed; boundary=b", "--b--"),
        asking("PUT", "/Orders?comp=lazuli-ttl").json(r#"{"seconds":5}"#),
        asking("GET", "/Tables"),
        asking("DELETE", "/Tables('Orders')"),
    ];
    for (header, value) in [(orders[0], "plan"), (orders[0], "run"), (orders[1], "new")] {
        for write in &writes {
            let refused = lazuli.send(&write.clone().with(header, value));
            refused.refused(400, "InvalidHeaderValue", header);
        }
    }
    let deletion = asking("DELETE", "/Orders()?$filter=N%20eq%201");
    let refused = lazuli.send(&deletion.with(orders[1], "new"));
    refused.refused(400, "InvalidHeaderValue", orders[1]);
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "");
    lazuli.ask("/Orders?comp=lazuli-ttl").expect(404);
    // Without extensions, the headers are unknown.
    let insert = Request::new("POST", "/Orders").json(r#"{"PartitionKey":"p","RowKey":"1"}"#);
    lazuli.send(&insert.with(orders[0], "plan").with(orders[1], "x")).expect(201);
}

/// X-3.1.
#[test]
fn an_index_is_on_a_property_that_entities_can_have() {
    let lazuli = Lazuli::with_orders();
    let declare = |name: &str| {
        let body = format!(r#"{{"indexes":[{{"name":"byN","on":["{name}"]}}]}}"#);
        lazuli.send(&asking("PUT", "/Orders?comp=lazuli-indexes").json(&body))
    };
    declare(&"x".repeat(255)).expect(202);
    declare(&"x".repeat(256)).refused(400, "InvalidInput", "too long");
    declare("").refused(400, "InvalidInput", "cannot be on ''");
}
