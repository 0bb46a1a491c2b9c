//! Explained plans (rules X-2).

use super::{asking, token};
use crate::harness::{Json, Lazuli, Request, Response, encode, order};

const ROWS: [(&str, &str); 4] =
    [("1", r#""Age":10"#), ("2", r#""Age":20"#), ("3", r#""Age":30"#), ("é", r#""Age":40"#)];

fn query(filter: &str) -> String {
    format!("/Orders()?$filter={}", encode(filter))
}

fn explaining(mode: &str, target: &str) -> Request {
    asking("GET", target).with("x-lazuli-explain", mode)
}

/// Members of an object as written, by their path.
#[track_caller]
fn member(plan: &Json, path: &str) -> String {
    let found = path.split('.').try_fold(plan, |value, name| value.get(name));
    match found.unwrap_or_else(|| panic!("no {path} in {plan:?}")) {
        Json::String(text) | Json::Number(text) => text.clone(),
        other => panic!("{path}: {other:?}"),
    }
}

fn plan_of(response: &Response) -> Json {
    let text = response.header("x-lazuli-plan").expect("a plan");
    assert!(text.is_ascii(), "{text}");
    Json::parse(text).expect("JSON")
}

/// X-2.1, X-2.2a, X-2.2b.
#[test]
fn a_plan_is_answered_in_place_of_the_page() {
    let lazuli = Lazuli::with_rows(&ROWS);
    for (filter, kind, guide, reads, conditions, azure) in [
        (
            "PartitionKey eq 'p' and RowKey eq '1'",
            "Point",
            "point query",
            r#"[{"PartitionKey":"p","RowKey":"1"}]"#,
            "",
            "Point",
        ),
        (
            "PartitionKey eq 'p' and (RowKey eq '1' or RowKey eq '2')",
            "MultiPoint",
            "point queries",
            r#"[{"PartitionKey":"p","RowKey":"1"},{"PartitionKey":"p","RowKey":"2"}]"#,
            "",
            "Partition",
        ),
        (
            "PartitionKey eq 'p' and RowKey ge '1' and RowKey lt '3'",
            "RowRange",
            "range query",
            r#"[{"PartitionKey":"p","RowKey":{"ge":"1","lt":"3"}}]"#,
            "",
            "RowRange",
        ),
        (
            "PartitionKey eq 'p' and Age gt 15",
            "Partition",
            "partition scan",
            r#"[{"PartitionKey":"p"}]"#,
            "Age gt 15",
            "Partition",
        ),
        (
            "PartitionKey eq 'p' or PartitionKey eq 'q'",
            "Partition",
            "partition scan",
            r#"[{"PartitionKey":"p"},{"PartitionKey":"q"}]"#,
            "PartitionKey eq 'p' or PartitionKey eq 'q'",
            "Table",
        ),
        (
            "PartitionKey gt 'a'",
            "PartitionRange",
            "table scan",
            r#"[{"PartitionKey":{"gt":"a"}}]"#,
            "",
            "PartitionRange",
        ),
        ("Age gt 15", "Table", "table scan", "[{}]", "Age gt 15", "Table"),
        (
            "PartitionKey eq 'p' and PartitionKey eq 'q'",
            "MultiPoint",
            "nothing to read",
            "[]",
            "",
            "MultiPoint",
        ),
    ] {
        let response = lazuli.send(&explaining("plan", &query(filter))).expect(200);
        assert_eq!(response.header("x-lazuli-used"), Some("explain"), "{filter}");
        let text = response.text().to_owned();
        assert!(text.contains(&format!(r#""reads":{reads},"#)), "{filter}: {text}");
        let plan = response.json();
        let found = ["kind", "guide", "conditions", "azure.kind"].map(|path| member(&plan, path));
        assert_eq!(found, [kind, guide, conditions, azure], "{filter}");
        let measured = ["examined", "returned", "bytes", "us"].map(|path| member(&plan, path));
        assert_eq!(measured, ["0"; 4], "nothing was read");
        let price: f64 = member(&plan, "azure.price").parse().unwrap();
        assert!(price > 0.0);
        assert!(!text.contains("000000"), "{text}");
        assert_eq!(member(&plan, "azure.transactions"), member(&plan, "azure.pages"));
    }
}

/// X-2.1, X-2.2a.
#[test]
fn a_query_that_runs_has_its_plan_in_a_header() {
    let lazuli = Lazuli::with_rows(&ROWS);
    let plain = lazuli.get(&query("Age gt 15")).expect(200);
    let response = lazuli.send(&explaining("run", &query("Age gt 15"))).expect(200);
    assert_eq!(
        (response.text(), response.header("content-type")),
        (plain.text(), plain.header("content-type"))
    );
    assert_eq!(plain.header("x-lazuli-plan"), None);
    let plan = plan_of(&response);
    let found = ["kind", "examined", "returned"].map(|path| member(&plan, path));
    assert_eq!(found, ["Table", "4", "3"]);
    assert!(member(&plan, "bytes").parse::<u64>().unwrap() > 0);
    // The entity that a full page stops before is not examined.
    let page = lazuli.send(&explaining("run", "/Orders()?$top=2")).expect(200);
    assert_eq!(["examined", "returned"].map(|path| member(&plan_of(&page), path)), ["2", "2"]);
    assert!(page.header("x-ms-continuation-nextpartitionkey").is_some());
    let point = lazuli.send(&explaining("run", &order("1"))).expect(200);
    assert_eq!(["kind", "examined"].map(|path| member(&plan_of(&point), path)), ["Point", "1"]);
    let cost = ["bytes", "us"].map(|path| member(&plan_of(&point), path).parse::<u64>().unwrap());
    assert!(cost.iter().all(|cost| *cost > 0), "{cost:?}");
    let plan = lazuli.send(&explaining("plan", &order("missing"))).expect(200).json();
    assert_eq!(member(&plan, "guide"), "point query");
}

/// X-2.1: a plan is ASCII and at most 8 KiB.
#[test]
fn a_long_plan_is_cut_and_says_so() {
    let lazuli = Lazuli::with_rows(&ROWS);
    let rows: Vec<String> = (0..400).map(|row| format!("RowKey eq 'é-row-{row}-€'")).collect();
    let filter = format!("PartitionKey eq 'p' and ({}) and Name eq 'ü'", rows.join(" or "));
    let response = lazuli.send(&explaining("run", &query(&filter))).expect(200);
    let text = response.header("x-lazuli-plan").unwrap();
    assert!(text.len() <= 8192 && text.contains(r#""truncated":true"#), "{}", text.len());
    let plan = plan_of(&response);
    assert_eq!(member(&plan, "conditions"), "Name eq 'ü'");
    let whole = lazuli.send(&explaining("plan", &query(&filter))).expect(200);
    assert!(whole.body.len() > 8192 && !whole.text().contains("truncated"));
}

/// X-2.1: estimates are based on what queries have read so far.
#[test]
fn estimates_come_from_earlier_queries() {
    let lazuli = Lazuli::with_rows(&ROWS);
    let plan = |filter: &str| lazuli.send(&explaining("plan", &query(filter))).expect(200);
    assert!(plan("Age eq 10").text().contains(r#""estimate":{"examined":null"#));
    lazuli.get(&query("Age eq 10")).expect(200);
    assert!(plan("Age eq 10").text().contains(r#""estimate":{"examined":4,"returned":1"#));
    assert!(
        plan("PartitionKey eq 'p' and RowKey eq '1'")
            .text()
            .contains(r#""estimate":{"examined":1"#)
    );
}

/// X-2.1, X-0.2.
#[test]
fn other_modes_are_refused_and_nobody_is_explained_unasked() {
    let lazuli = Lazuli::with_rows(&ROWS);
    for mode in ["", "both", "Plan"] {
        lazuli.send(&explaining(mode, "/Orders")).refused(
            400,
            "InvalidHeaderValue",
            "'plan' or 'run'",
        );
    }
    let unasked = Request::new("GET", "/Orders()").with("x-lazuli-explain", "plan");
    let response = lazuli.send(&unasked).expect(200);
    assert_eq!(response.row_keys(), "1 2 3 é");
    assert_eq!((response.header("x-lazuli-plan"), response.header("x-lazuli-used")), (None, None));
}

/// X-2.1, X-0.4: explaining needs the same permission as the query, and shows only its permitted range.
#[test]
fn a_plan_needs_the_rights_of_its_query() {
    let lazuli = Lazuli::with_rows(&ROWS);
    let explained = |token: &str| lazuli.send(&explaining("plan", "/Orders()").sas(token));
    explained(&token("aud", None)).refused(403, "AuthorizationPermissionMismatch", "");
    let whole = explained(&token("r", None)).expect(200);
    assert!(whole.text().contains(r#""reads":[{}]"#), "{}", whole.text());
    let range = explained(&token("r", Some(("a", "b")))).expect(200);
    assert!(range.text().contains(r#""reads":[{"from":["a"],"to":["b"]}]"#), "{}", range.text());
    // What others have read of the rest of the table is not shown.
    lazuli.get("/Orders()").expect(200);
    let whole = explained(&token("r", None)).expect(200);
    assert!(whole.text().contains(r#""estimate":{"examined":4"#), "{}", whole.text());
    let range = explained(&token("r", Some(("a", "b")))).expect(200);
    assert!(range.text().contains(r#""estimate":{"examined":null"#), "{}", range.text());
    assert!(range.text().contains(r#""pages":1,"#), "{}", range.text());
    lazuli.send(&explaining("plan", "/Missing()")).refused(404, "TableNotFound", "");
}

/// X-2.2, X-4.1: what Azure would refuse is named.
#[test]
fn extensions_in_a_filter_are_named() {
    let lazuli = Lazuli::with_rows(&ROWS);
    let filter = "PartitionKey eq 'p' and startswith(RowKey,'1') and tolower(Name) in ('a','b')";
    let response = lazuli.send(&explaining("plan", &query(filter))).expect(200);
    assert_eq!(response.header("x-lazuli-used"), Some("startswith, in, tolower, explain"));
    let text = response.text();
    for part in [
        r#""kind":"RowRange""#,
        r#""reads":[{"PartitionKey":"p","RowKey":{"ge":"1","lt":"2"}}]"#,
        r#""conditions":"tolower(Name) in ('a','b')""#,
        r#""refuses":["in","startswith","tolower"]"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
}
