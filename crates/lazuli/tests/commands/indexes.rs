//! `lazuli index`, `lazuli verify` and `lazuli rebuild` (X-0.5, X-3.12).

use crate::harness::Lazuli;

#[test]
fn an_index_is_declared_built_listed_used_and_dropped() {
    let lazuli = Lazuli::with_people();
    assert_eq!(lazuli.ok("index list People --json"), "{\"indexes\":[]}\n");
    let ready =
        "INDEX   ON   UNIQUE  STATE  DONE  TOTAL\nbyAge   Age  no      ready     4      4\n";
    assert_eq!(squeezed(&lazuli.ok("index set People byAge Age")), squeezed(ready));
    let plan = lazuli.run(&["explain", "People", "--filter", "Age eq 47", "--run"]);
    assert!(plan.stdout.contains("by index byAge (eq)"), "{plan:?}");
    // Another index leaves the first one unchanged; the same name replaces it.
    lazuli.ok("index set People byName PartitionKey FirstName --unique");
    let json = lazuli.ok("index set People BYAGE Age FirstName --json");
    assert!(json.contains(r#"{"name":"BYAGE","on":["Age","FirstName"],"unique":false,"state":"ready","done":4,"total":4,"#), "{json}");
    assert!(json.contains(r#""name":"byName","on":["PartitionKey","FirstName"],"unique":true"#));
    let dropped = lazuli.line("index drop People byname");
    assert_eq!((dropped.code, &*dropped.stderr), (0, "dropped byname\n"));
    lazuli.fails("index drop People byName", 3, &["People has no index byName", "hint: "]);
    lazuli.ok("index drop People byName --if-present");
    assert_eq!(lazuli.ok("index list People").lines().count(), 2);
    lazuli.fails("index list Nobody", 3, &["404 TableNotFound"]);
    lazuli.fails("index set People byAge", 2, &["PROPERTY"]);
}

/// O-6.5, X-3.1: wrong usage sends nothing, so it needs no server.
#[test]
fn an_index_that_no_table_can_have_is_wrong_usage() {
    let lazuli = Lazuli::of(crate::harness::NOBODY);
    for (index, problem) in [
        ("x Age", "'x' is not the name of an index"),
        ("by-age Age", "'by-age' is not the name of an index"),
        ("byAge PartitionKey", "cannot be on 'PartitionKey'"),
        ("byAge Age RowKey", "cannot be on 'RowKey'"),
        ("byAge a-b", "cannot be on 'a-b'"),
        ("byAge Age Age", "names 'Age' twice"),
    ] {
        lazuli.fails(&format!("index set People {index}"), 2, &[problem, "hint: "]);
    }
    lazuli.fails("index set People byAge A B C D E", 2, &["unexpected value 'E'"]);
    lazuli.fails("index set a_b byAge Age", 2, &["not the name of a table"]);
    lazuli.fails("index set People byAge Age", 5, &["127.0.0.1:1"]);
}

/// X-3.9: building over duplicates ends as failed, with two of them named.
#[test]
fn an_index_that_cannot_be_unique_fails_with_the_reason() {
    let lazuli = Lazuli::with_people();
    lazuli.ok("entities put People PartitionKey=Sales RowKey=00012 Age:Int32=47");
    let wrong =
        ["the index byAge could not be built", "RowKey='00002'", "RowKey='00012'", "hint: "];
    lazuli.fails("index set People byAge Age --unique", 1, &wrong);
    lazuli.fails("index watch People", 1, &wrong);
    let list = lazuli.ok("index list People");
    assert!(list.contains("ERROR") && list.contains("entities have the same values"), "{list}");
    let verified = lazuli.line("verify People");
    assert_eq!((verified.code, &*verified.stdout), (0, ""));
    assert!(verified.stderr.contains("the index byAge is not ready"), "{verified:?}");
}

#[test]
fn indexes_are_verified_and_built_again() {
    let lazuli = Lazuli::with_people();
    lazuli.ok("tables create Plain");
    lazuli.ok("index set People byAge Age --unique");
    let verified =
        "{\"table\":\"People\",\"entities\":4,\"entries\":4,\"found\":[],\"skipped\":[]}\n";
    assert_eq!(lazuli.ok("verify People --json"), verified);
    let plain = "{\"table\":\"Plain\",\"entities\":0,\"entries\":0,\"found\":[],\"skipped\":[]}\n";
    assert_eq!(lazuli.ok("verify --json"), format!("{verified}{plain}"));
    let said = lazuli.line("verify People");
    let remark = "People: 4 entities and 4 entries compared, 0 disagreements\n";
    assert_eq!((said.code, &*said.stdout, &*said.stderr), (0, "", remark));
    let json = lazuli.ok("rebuild People --index byage --json");
    assert!(json.contains(r#""state":"ready","done":4"#), "{json}");
    let json = lazuli.ok("rebuild People --index byAge --no-wait --json");
    assert!(json.contains(r#""state":"building""#), "{json}");
    lazuli.ok("index watch People");
    assert_eq!(lazuli.ok("verify People --json"), verified);
    lazuli.fails("rebuild People --index byCity", 3, &["404 ", "The table has no index 'byCity'"]);
    lazuli.fails("verify Nobody", 3, &["404 TableNotFound"]);
}

/// The columns are as wide as the terminal allows.
fn squeezed(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// X-0.5, X-4.1, X-4.2, X-4.4: the commands offer what the server can do.
#[test]
fn entities_are_read_counted_and_deleted_in_the_larger_language() {
    let lazuli = Lazuli::with_people();
    let run = |arguments: &[&str]| {
        let run = lazuli.run(&[&["entities"], arguments].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    };
    let keys = |text: String| -> Vec<String> {
        let row = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
        text.lines().skip(1).map(row).collect()
    };
    let all = keys(run(&["query", "People", "--select", "Age", "--all"]));
    let snapshot = ["query", "People", "--select", "Age", "--all", "--snapshot"];
    assert_eq!(keys(run(&snapshot)), all);
    let falling = keys(run(&["query", "People", "--select", "Age", "--all", "--reverse"]));
    assert_eq!(falling.into_iter().rev().collect::<Vec<_>>(), all);
    let last = keys(run(&["query", "People", "--select", "Age", "--reverse", "--top", "1"]));
    assert_eq!(last.first(), all.last());
    let filter = "startswith(RowKey,'0000') and Age in (47,34)";
    assert_eq!(run(&["count", "People", "--filter", filter]).trim(), "2");
    run(&["delete", "People", "--filter", filter, "--yes"]);
    assert_eq!(run(&["count", "People", "--filter", filter]).trim(), "0");
    assert_eq!(run(&["count", "People"]).trim(), (all.len() - 2).to_string());
    let wrong = lazuli.run(&["entities", "query", "People", "--filter", "startswith(Age,5)"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let caret = "  startswith(Age,5)\n                 ^\n";
    assert!(wrong.stderr.contains(caret), "{wrong:?}");
}
