//! The lenient profile: what Azure refuses is served as an emulator serves it, and the response
//! says what Azure would have returned. Each fault is sent to both profiles.

use crate::harness::{Lazuli, Op, Request, Response, encode, order};
use lazuli_server::{FrontOptions, Profile};

const MARK: &str = "x-lazuli-would-fail";

fn lenient() -> Lazuli {
    let options = FrontOptions { profile: Profile::Lenient, ..FrontOptions::default() };
    let lazuli = Lazuli::with_options(options);
    lazuli.create_table("Orders").expect(201);
    lazuli
}

/// Azure's profile refuses the request; the lenient one returns `status`, and marks the response.
#[track_caller]
fn check(request: &Request, refusal: &str, status: u16) -> Response {
    check_after(|_| {}, request, refusal, status)
}

#[track_caller]
fn check_after(
    prepare: impl Fn(&Lazuli),
    request: &Request,
    refusal: &str,
    status: u16,
) -> Response {
    let azure = Lazuli::with_orders();
    prepare(&azure);
    let refused = azure.send(request).expect_header(MARK, None);
    let (code, name) = refusal.split_once(' ').unwrap();
    assert_eq!(refused.status.to_string(), code, "{}", refused.text());
    assert!(refused.text().contains(name), "{}", refused.text());
    let lazuli = lenient();
    prepare(&lazuli);
    lazuli.send(request).expect(status).expect_header(MARK, Some(refusal))
}

fn query(options: &str) -> Request {
    Request::new("GET", &format!("/Orders()?{options}"))
}

fn filter(text: &str) -> Request {
    query(&format!("$filter={}", encode(text)))
}

fn insert(properties: &str) -> Request {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"1"{properties}}}"#);
    Request::new("POST", "/Orders").json(&body)
}

fn wide(count: usize) -> String {
    (0..count).map(|number| format!(r#","p{number}":{number}"#)).collect()
}

#[test]
fn what_azure_serves_is_not_marked() {
    let lazuli = lenient();
    lazuli.send(&insert(r#","a":1"#)).expect(201).expect_header(MARK, None);
    lazuli.send(&filter("a eq 1")).expect(200).expect_header(MARK, None);
    // Nor for what both profiles refuse.
    lazuli.send(&filter("a eq")).expect(400).expect_header(MARK, None);
    lazuli.send(&insert("")).expect(409).expect_header(MARK, None);
}

#[test]
fn filters_of_emulators_are_understood() {
    let three = |lazuli: &Lazuli| {
        for (row, properties) in [("1", r#","a":1"#), ("2", r#","a":2"#), ("3", "")] {
            let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"{properties}}}"#);
            lazuli.insert("Orders", &body).expect(201);
        }
    };
    let rows = |text: &str| check_after(three, &filter(text), "400 InvalidInput", 200).row_keys();
    // TR-4, TR-22, TR-3, TR-26.
    assert_eq!(rows("a EQ 1 Or RowKey Eq '3'"), "1 3");
    assert_eq!(rows(r#"RowKey eq "2""#), "2");
    assert_eq!(rows("a eq null"), "3");
    assert_eq!(rows("a ne null"), "1 2");
    assert_eq!(rows("PartitionKey eq 12345"), "");
    assert_eq!(rows("PartitionKey ne 12345 and a eq 2"), "2");
    // Features that emulators lack too.
    lenient().send(&filter("startswith(RowKey,'1')")).expect(501).expect_header(MARK, None);
}

#[test]
fn options_of_queries_are_bent() {
    // TR-16, T-4.46, T-1.36, TR-20.
    check(&query("$top=1001"), "400 InvalidInput", 200);
    check(&query("$orderby=RowKey"), "501 NotImplemented", 200);
    check(&query("$nonsense=1"), "400 InvalidInput", 200);
    check(&query("NextPartitionKey=1!4!cA--&NextRowKey="), "400 InvalidInput", 200);
    check(&Request::new("GET", "/Tables?$top=5000"), "400 InvalidInput", 200);
    lenient().send(&query("$top=-1")).expect(400).expect_header(MARK, None);
    // The header names the first of several faults.
    let both = query(&format!("$orderby=RowKey&$filter={}", encode("a EQ 1")));
    check(&both, "501 NotImplemented", 200);
}

#[test]
fn entities_may_be_wider_than_azures() {
    // TR-29.
    let answer = check(&insert(&wide(300)), "400 TooManyProperties", 201);
    assert!(answer.text().contains(r#""p299":299"#));
    // A merge that creates one is found where it is stored, alone and in a batch.
    let full = |lazuli: &Lazuli| drop(lazuli.send(&insert(&wide(252))).expect(201));
    let merge = Request::new("MERGE", &order("1")).json(r#"{"more":1}"#);
    check_after(full, &merge, "400 TooManyProperties", 204);
    let lazuli = lenient();
    full(&lazuli);
    let batch = lazuli.batch(&[Op::on("MERGE", "1", r#"{"more":1}"#), Op::insert("2")]);
    let mark = batch.expect(&[204, 201]).outer.expect_header(MARK, Some("400 TooManyProperties"));
    assert_eq!(mark.status, 202);
    assert!(lazuli.stored("1").ends_with(r#""p99":99"#));
}

#[test]
fn names_and_dates_may_be_stranger() {
    // TR-30: they are stored, selected, filtered and served in every format.
    let odd = r#","my-name":7,"1 \"<a>":true"#;
    let answer = check(&insert(odd), "400 PropertyNameInvalid", 201);
    assert!(answer.text().ends_with(r#""my-name":7,"1 \"<a>":true}"#), "{}", answer.text());
    let lazuli = lenient();
    lazuli.send(&insert(odd)).expect(201);
    let found = lazuli.send(&filter("my-name eq 7")).expect(200);
    assert_eq!(found.expect_header(MARK, Some("400 InvalidInput")).row_keys(), "1");
    let selected = lazuli.get("/Orders()?$select=my-name").expect(200);
    assert!(selected.text().contains(r#""my-name":7"#), "{}", selected.text());
    let atom =
        Request::new("GET", &order("1")).version("2012-02-12").accept("application/atom+xml");
    let atom = lazuli.send(&atom).expect(200);
    assert!(
        atom.text().contains("<d:_x0031__x0020__x0022__x003C_a_x003E_ m:type="),
        "{}",
        atom.text()
    );
    let long = format!(r#","{}":1"#, "n".repeat(300));
    check(&insert(&long), "400 PropertyNameTooLong", 201);
    // TR-36.
    let early = r#","d@odata.type":"Edm.DateTime","d":"0001-01-01T00:00:00Z""#;
    let answer = check(&insert(early), "400 OutOfRangeInput", 201);
    assert!(answer.text().contains(r#""d":"0001-01-01T00:00:00Z""#), "{}", answer.text());
}

#[test]
fn a_batch_may_cross_partitions_and_is_still_one() {
    // TR-69.
    let insert = |partition: &str, row: &str| {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        Op::new("POST", "Orders", &body)
    };
    let azure = Lazuli::with_orders();
    let refused = azure.batch(&[insert("p", "1"), insert("q", "1")]);
    let code = "CommandsInBatchActOnDifferentPartitions";
    let text = "1:All commands in a batch must operate on same entity group.";
    refused.expect_error(400, code, text);
    let lazuli = lenient();
    let taken = lazuli.batch(&[insert("p", "1"), insert("q", "1")]).expect(&[201, 201]);
    taken.outer.expect_header(MARK, Some(&format!("400 {code}")));
    let failed = lazuli.batch(&[insert("r", "1"), insert("q", "1")]);
    failed.expect_error(409, "EntityAlreadyExists", "1:The specified entity already exists.");
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "1 1");
    // What would make a batch ambiguous is still refused.
    let twice = lazuli.batch(&[insert("s", "1"), insert("s", "1")]);
    assert_eq!(twice.parts[0].status, 400);
}

#[test]
fn headers_are_minded_less() {
    // TR-87, T-5.11.
    let acl = Request::new("PUT", "/Orders?comp=acl").accept("*/*");
    let acl = acl.body("application/xml", "<SignedIdentifiers />");
    check(&acl, "415 MediaTypeNotSupported", 204);
    let delete = Request::new("DELETE", "/Tables('Orders')").with("If-Match", "*");
    check(&delete, "400 InvalidInput", 204);
    let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Fresh"}"#);
    check(&create.with("If-None-Match", "*"), "400 InvalidInput", 201);
}

#[test]
fn promises_are_kept_in_every_profile() {
    let lazuli = lenient();
    lazuli.send(&insert("")).expect(201);
    lazuli.write("DELETE", "1", None, "").expect(400);
    let put = Request::new("PUT", &order("1")).json("{}").with("If-None-Match", "*");
    lazuli.send(&put).expect(400);
    let large = format!(r#","a":"{}""#, "x".repeat(32 * 1024 + 1));
    lazuli.send(&insert(&large)).expect(400);
    lazuli.send(&insert(r#","a":1,"a":2"#)).expect(400);
    lazuli.send(&filter("a eq 1").unsigned()).expect(403);
}
