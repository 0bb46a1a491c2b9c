//! Secondary indexes over HTTP.

use super::asking;
use crate::harness::{Json, Lazuli, Op, Response};
use lazuli_server::{FrontOptions, TableOptions};

const INDEXES: &str = "/Orders?comp=lazuli-indexes";

impl Lazuli {
    fn declare(&self, indexes: &str) -> Response {
        self.send(&asking("PUT", INDEXES).json(indexes))
    }

    fn build_indexes(&self) {
        self.build().unwrap();
    }
}

/// The entities of an answer, as `PartitionKey/RowKey`.
fn keys(response: &Response) -> Vec<String> {
    let json = response.json();
    let Some(Json::Array(entities)) = json.get("value") else { panic!("{}", response.text()) };
    let text = |entity: &Json, name: &str| entity.get(name).unwrap().text().unwrap().to_owned();
    entities.iter().map(|e| format!("{}/{}", text(e, "PartitionKey"), text(e, "RowKey"))).collect()
}

/// X-3.1.
#[test]
fn the_whole_set_is_declared_and_shown() {
    let lazuli = Lazuli::with_rows(&[("1", r#""Email":"a""#), ("2", r#""Email":"b""#)]);
    assert_eq!(lazuli.ask(INDEXES).expect(200).text(), r#"{"indexes":[]}"#);
    let declared = r#"{"indexes":[{"name":"byEmail","on":["Email"],"unique":true},{"name":"byAge","on":["PartitionKey","Age"]}]}"#;
    let shown = lazuli.declare(declared).expect(202);
    assert!(shown.text().contains(r#""state":"building","done":0,"total":0,"since":""#));
    lazuli.build_indexes();
    let shown = lazuli.ask(INDEXES).expect(200).text().to_owned();
    assert!(
        shown.starts_with(
            r#"{"indexes":[{"name":"byEmail","on":["Email"],"unique":true,"state":"ready","done":2,"total":2,"since":"#
        ),
        "{shown}"
    );
    // An index left out is dropped.
    lazuli.declare(r#"{"indexes":[{"name":"BYAGE","on":["PartitionKey","Age"]}]}"#).expect(202);
    let shown = lazuli.ask(INDEXES).expect(200).text().to_owned();
    assert!(shown.contains(r#""name":"BYAGE""#) && !shown.contains("byEmail"), "{shown}");
    assert!(shown.contains(r#""state":"ready""#), "{shown}");
    lazuli.send(&asking("DELETE", INDEXES)).expect(204);
    assert_eq!(lazuli.ask(INDEXES).expect(200).text(), r#"{"indexes":[]}"#);
}

/// X-3.1: bad input gets a clear 400, and nothing is half done.
#[test]
fn bad_declarations_are_refused() {
    let lazuli = Lazuli::with_orders();
    let one = |name: &str, on: &str| format!(r#"{{"indexes":[{{"name":"{name}","on":{on}}}]}}"#);
    let many: Vec<String> =
        (0..17).map(|n| format!(r#"{{"name":"by{n:02}","on":["A"]}}"#)).collect();
    for (body, text) in [
        ("".to_owned(), "not valid"),
        ("{}".to_owned(), "indexes"),
        (r#"{"indexes":[],"more":1}"#.to_owned(), "more"),
        (r#"{"indexes":[{"name":"abc","on":["A"],"unique":"yes"}]}"#.to_owned(), "boolean"),
        (one("ab", r#"["A"]"#), "'ab'"),
        (one("abc", "[]"), "one to 4 properties"),
        (one("abc", r#"["RowKey"]"#), "RowKey"),
        (one("abc", r#"["A","odata.etag"]"#), "no entity has such a property"),
        (one("abc", &format!(r#"["{}"]"#, "x".repeat(256))), "at most 255 characters"),
        (one("abc", r#"["PartitionKey"]"#), "PartitionKey"),
        (one("abc", r#"["A","A"]"#), "twice"),
        (
            r#"{"indexes":[{"name":"abc","on":["A"]},{"name":"ABC","on":["B"]}]}"#.to_owned(),
            "two indexes",
        ),
        (format!(r#"{{"indexes":[{}]}}"#, many.join(",")), "at most 16"),
    ] {
        lazuli.declare(&body).refused(400, "InvalidInput", text);
    }
    assert_eq!(lazuli.ask(INDEXES).expect(200).text(), r#"{"indexes":[]}"#);
    let missing = asking("PUT", "/Missing?comp=lazuli-indexes").json(r#"{"indexes":[]}"#);
    lazuli.send(&missing).refused(404, "TableNotFound", "");
}

/// X-3.9.
#[test]
fn a_taken_value_is_a_conflict_that_names_the_index() {
    let lazuli = Lazuli::with_rows(&[("1", r#""Email":"a""#)]);
    lazuli.declare(r#"{"indexes":[{"name":"byEmail","on":["Email"],"unique":true}]}"#).expect(202);
    lazuli.build_indexes();
    let taken = r#"{"PartitionKey":"q","RowKey":"2","Email":"a"}"#;
    lazuli.insert("Orders", taken).refused(409, "EntityAlreadyExists", "byEmail");
    let batch = lazuli.batch(&[
        Op::new("POST", "Orders", r#"{"PartitionKey":"q","RowKey":"1","Email":"b"}"#),
        Op::new("POST", "Orders", taken),
    ]);
    let text = batch.outer.text();
    assert!(text.contains("409") && text.contains("1:The specified entity"), "{text}");
    lazuli.insert("Orders", r#"{"PartitionKey":"q","RowKey":"2","Email":"A"}"#).expect(201);
}

/// X-3.9: there is no moment at which the value of an older entity can be taken, where the table is small and
/// the server alone on its store.
#[test]
fn a_small_table_is_indexed_before_the_declaration_is_answered() {
    let tables = TableOptions { first_build_ms: 500, ..TableOptions::default() };
    let lazuli = Lazuli::with_table_options(FrontOptions::default(), tables);
    lazuli.create_table("Orders").expect(201);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1","Email":"a"}"#).expect(201);
    let declared = r#"{"indexes":[{"name":"byEmail","on":["Email"],"unique":true}]}"#;
    let answer = lazuli.declare(declared).expect(202);
    if !lazuli.is_alone() {
        return;
    }
    assert!(answer.text().contains(r#""state":"ready""#), "{}", answer.text());
    let taken = r#"{"PartitionKey":"q","RowKey":"2","Email":"a"}"#;
    lazuli.insert("Orders", taken).refused(409, "EntityAlreadyExists", "byEmail");
}

/// X-0.3: a plain client sees no difference.
#[test]
fn an_index_changes_no_answer_of_a_plain_client() {
    let rows: Vec<(String, String)> =
        (0..30).map(|n| (format!("{n:02}"), format!(r#""N":{},"M":{}"#, n % 3, n % 2))).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(r, p)| (r.as_str(), p.as_str())).collect();
    let lazuli = Lazuli::with_rows(&rows);
    let filters =
        ["N eq 1", "N eq 1 and M eq 0", "N eq 1 or M eq 1", "N ge 1", "N lt 1 and M eq 1"];
    let ask = || -> Vec<(String, Vec<String>)> {
        let answers = filters.iter().map(|filter| {
            let target = format!("/Orders()?$filter={}", filter.replace(' ', "%20"));
            let response = lazuli.get(&target).expect(200);
            (response.text().to_owned(), keys(&response))
        });
        answers.collect()
    };
    let before = ask();
    let declared = r#"{"indexes":[{"name":"byN","on":["N"]},{"name":"byM","on":["M"]}]}"#;
    lazuli.declare(declared).expect(202);
    lazuli.build_indexes();
    assert_eq!(before, ask());
    assert_eq!(before[0].1.len(), 10);
}

/// X-2.2a, X-0.3: the plan names the index, and so does the response to clients that ask.
#[test]
fn a_plan_names_its_index() {
    let lazuli = Lazuli::with_rows(&[("1", r#""N":1,"M":1"#), ("2", r#""N":2,"M":1"#)]);
    let target = "/Orders()?$filter=N%20eq%201";
    let plan = |mode: &str| asking("GET", target).with("x-lazuli-explain", mode);
    lazuli.declare(r#"{"indexes":[{"name":"byN","on":["N"]}]}"#).expect(202);
    let before = lazuli.send(&plan("plan")).expect(200);
    assert!(before.text().contains(r#""kind":"Table""#), "{}", before.text());
    assert!(before.text().contains(r#""candidates":["byN"]"#), "{}", before.text());
    lazuli.build_indexes();
    let planned = lazuli.send(&plan("plan")).expect(200);
    for part in [
        r#""kind":"Index","guide":"index lookup""#,
        r#""index":{"name":"byN","access":"eq","entries":0}"#,
        r#""azure":{"kind":"Table""#,
    ] {
        assert!(planned.text().contains(part), "{part}: {}", planned.text());
    }
    let ran = lazuli.send(&plan("run")).expect(200);
    let header = ran.header("x-lazuli-plan").unwrap();
    assert!(header.contains(r#""index":{"name":"byN","access":"eq","entries":1}"#), "{header}");
    assert!(header.contains(r#""examined":1,"returned":1"#), "{header}");
    assert_eq!(ran.header("x-lazuli-used"), Some("explain, index"));
    assert_eq!(lazuli.ask(target).header("x-lazuli-used"), Some("index"));
    assert_eq!(lazuli.get(target).header("x-lazuli-used"), None);
}

/// X-3.4, X-4.1: `in` is `or`, and a prefix is a range.
#[test]
fn functions_are_served_by_an_index() {
    let rows = [("1", r#""S":"apple""#), ("2", r#""S":"apricot""#), ("3", r#""S":"fig""#)];
    let lazuli = Lazuli::with_rows(&rows);
    lazuli.declare(r#"{"indexes":[{"name":"byS","on":["S"]}]}"#).expect(202);
    lazuli.build_indexes();
    for (filter, access, rows) in [
        ("S%20in%20('fig','apple')", "union", &["p/1", "p/3"][..]),
        ("startswith(S,'ap')", "range", &["p/1", "p/2"]),
        ("startswith(S,'ap')%20and%20S%20ne%20'apple'", "range", &["p/2"]),
    ] {
        let target = format!("/Orders()?$filter={filter}");
        let ran = lazuli.send(&asking("GET", &target).with("x-lazuli-explain", "run")).expect(200);
        assert_eq!(keys(&ran), rows, "{filter}");
        let plan = ran.header("x-lazuli-plan").unwrap();
        assert!(plan.contains(&format!(r#""access":"{access}""#)), "{plan}");
    }
}

/// X-3.12a.
#[test]
fn indexes_are_verified_and_rebuilt_on_request() {
    let lazuli = Lazuli::with_rows(&[("1", r#""N":1"#), ("2", r#""N":2"#)]);
    lazuli.declare(r#"{"indexes":[{"name":"byN","on":["N"],"unique":true}]}"#).expect(202);
    lazuli.build_indexes();
    let verify = "/Orders?comp=lazuli-verify";
    let clean = r#"{"entities":2,"entries":2,"found":[]}"#;
    assert_eq!(lazuli.ask(verify).expect(200).text(), clean);
    lazuli.ask("/Orders?comp=lazuli-verify&from=x").refused(
        400,
        "InvalidQueryParameterValue",
        "'from'",
    );
    let rebuild = |name: &str| {
        let target = format!("/Orders?comp=lazuli-rebuild&index={name}");
        lazuli.send(&asking("PUT", &target).json(""))
    };
    rebuild("byX").refused(404, "ResourceNotFound", "byX");
    rebuild("").refused(400, "MissingRequiredQueryParameter", "");
    let shown = rebuild("byn").expect(202);
    assert!(shown.text().contains(r#""state":"building""#), "{}", shown.text());
    lazuli.build_indexes();
    assert_eq!(lazuli.ask(verify).expect(200).text(), clean);
    lazuli.ask("/Orders?comp=lazuli-rebuild&index=byN").refused(405, "UnsupportedHttpVerb", "");
}
