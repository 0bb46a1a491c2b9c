//! Section 4: queries.

use crate::harness::{Lazuli, Request, encode, order};

const INPUT_NOT_VALID: &str = "One of the request inputs is not valid.";
const NOT_IMPLEMENTED: &str =
    "The requested operation is not implemented on the specified resource.";

#[track_caller]
fn check(rows: &[(&str, &str)], filter: &str, expect: &str) {
    assert_eq!(Lazuli::with_rows(rows).rows(filter), expect, "{filter}");
}

#[track_caller]
fn check_refused(filter: &str, status: u16, code: &str, message: &str) {
    let target = format!("/Orders()?$filter={}", encode(filter));
    Lazuli::with_orders().get(&target).expect_error(status, code, message);
}

/// T-4.1, T-4.2.
#[test]
fn results_are_in_the_order_of_keys() {
    let lazuli = Lazuli::with_orders();
    for (partition, row) in [("b", "2"), ("a", "3"), ("b", "1"), ("B", "4"), ("", "5")] {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        lazuli.insert("Orders", &body).expect(201);
    }
    assert_eq!(lazuli.rows(""), "5 4 3 1 2");
}

/// T-4.5 (that options are ignored is unverified), T-4.7 (unverified).
#[test]
fn a_point_read_ignores_filter_top_and_conditions() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1,"B":2"#)]);
    let read = lazuli.get(&format!("{}?$filter=false&$top=0&$select=A", order("r"))).expect(200);
    assert!(read.text().ends_with(r#""A":1}"#), "{}", read.text());
    let request = Request::new("GET", &order("r")).with("If-Match", "W/\"x\"");
    lazuli.send(&request.with("If-None-Match", "*")).expect(200);
}

/// T-4.29.
#[test]
fn a_datetime_literal_may_be_short() {
    let day = r#""D@odata.type":"Edm.DateTime","D":"2024-01-01T00:00:00Z""#;
    let time = r#""D@odata.type":"Edm.DateTime","D":"2024-01-01T10:20:00Z""#;
    let rows = [("day", day), ("time", time)];
    check(&rows, "D eq datetime'2024-01-01'", "day");
    check(&rows, "D gt datetime'2024-01-01'", "time");
    check(&rows, "D ge datetime'2024-01-01T10:20Z'", "time");
    check(&rows, "D ge datetime'2024-01-01T10:20'", "time");
}

/// T-4.23 (unverified).
#[test]
fn an_unknown_word_before_a_parenthesis_is_a_syntax_error() {
    let filter = "NOT (PartitionKey eq 'p')";
    let message = format!("Syntax error at position 5 in '{filter}'.");
    check_refused(filter, 400, "InvalidInput", &message);
    check_refused("tolower(A) eq 'a'", 501, "NotImplemented", NOT_IMPLEMENTED);
}

/// T-4.6.
#[test]
fn a_filter_on_both_keys_is_a_collection() {
    let rows = [("a", ""), ("b", "")];
    check(&rows, "PartitionKey eq 'p' and RowKey eq 'a'", "a");
    check(&rows, "PartitionKey eq 'p' and RowKey eq 'none'", "");
}

/// T-4.8, T-4.9.
#[test]
fn and_binds_tighter_than_or() {
    let rows = [("1", r#""A":1,"B":1"#), ("2", r#""A":1,"B":2"#), ("3", r#""A":2,"B":2"#)];
    check(&rows, "A eq 2 or A eq 1 and B eq 1", "1 3");
    check(&rows, "(A eq 2 or A eq 1) and B eq 1", "1");
    check(&rows, "not (A eq 1 and B eq 1) and not (A eq 2)", "2");
}

/// T-4.10, T-4.20, T-4.22, T-4.23 (all unverified).
#[test]
fn what_the_grammar_has_and_the_service_has_not() {
    for filter in ["A eq B", "not A eq 1", "A mul 2 eq 4", "substringof('x',A)", "-A eq 1"] {
        check_refused(filter, 501, "NotImplemented", NOT_IMPLEMENTED);
    }
    let message = "Syntax error at position 9 in 'A eq 1 eq 2'.";
    check_refused("A eq 1 eq 2", 400, "InvalidInput", message);
}

/// T-4.13, T-4.16, T-4.19 (unverified), T-4.21.
#[test]
fn filters_have_some_freedom() {
    let rows =
        [("a", r#""ok":true,"_x1":5"#), ("b", r#""ok":false,"_x1":6"#), ("c", r#""ok":"true""#)];
    check(&rows, "ok", "a");
    check(&rows, "not ok", "b c");
    check(&rows, "  _x1   eq\t5  ", "a");
    check(&rows, "((_x1) eq (5))", "a");
    check(&rows, "1 eq 1", "a b c");
    check(&rows, "1 gt 1", "");
    check(&rows, "nosuch eq 1", "");
}

/// T-4.25 (unverified): see TR-21 for the text. T-4.11: type prefixes have case.
#[test]
fn type_prefixes_have_case() {
    for filter in ["A eq DateTime'2020-01-01T00:00:00Z'", "A eq GUID'x'"] {
        let refused = Lazuli::with_orders().get(&format!("/Orders()?$filter={}", encode(filter)));
        assert!(refused.expect(400).text().contains("Syntax error at position"));
    }
}

/// T-4.26, T-4.27.
#[test]
fn long_filters_are_taken() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":77"#)]);
    let filter: Vec<String> = (0..100).map(|n| format!("A eq {n}")).collect();
    assert_eq!(lazuli.rows(&filter.join(" or ")), "r");
    let long = format!("A eq 77 and not (B eq '{}')", "x".repeat(32 * 1024));
    assert_eq!(lazuli.rows(&long), "r");
}

/// 4.2: literals as recorded.
#[test]
fn literals_of_every_type_compare() {
    let rows = [(
        "r",
        r#""name":"o'clock","married":true,"age":39,"large@odata.type":"Edm.Int64","large":"1099511627776","ratio":3.1,"birthday@odata.type":"Edm.DateTime","birthday":"1970-10-04T00:00:00Z","clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5""#,
    )];
    for filter in [
        "name eq 'o''clock'",
        "married eq true",
        "age lt 40",
        "large eq 1099511627776L",
        "ratio lt 4.1",
        "birthday eq datetime'1970-10-04T00:00:00.000000Z'",
        "birthday lt datetime'2019-07-10T19:00:00.000Z'",
        "clsid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
        "binary eq X'62696e617279'",
        "binary eq binary'62696E617279'",
    ] {
        check(&rows, filter, "r");
    }
}

/// T-4.30 to T-4.33 (all unverified).
#[test]
fn the_other_types_are_ordered_too() {
    let guid = |first: &str| {
        format!(r#""X@odata.type":"Edm.Guid","X":"{first}0000000-0000-0000-0000-000000000000""#)
    };
    let rows = [("1", &*guid("1")), ("a", &*guid("a"))];
    check(&rows, "X gt guid'20000000-0000-0000-0000-000000000000'", "a");
    let rows = [
        ("1", r#""X@odata.type":"Edm.Binary","X":"AQ==""#),
        ("2", r#""X@odata.type":"Edm.Binary","X":"AQI=""#),
    ];
    check(&rows, "X gt X'01'", "2");
    check(&[("f", r#""X":false"#), ("t", r#""X":true"#)], "X lt true", "f");
    let nan = r#""X@odata.type":"Edm.Double","X":"NaN""#;
    let rows = [("nan", nan), ("one", r#""X":1.0"#)];
    check(&rows, "X eq NaN", "");
    check(&rows, "X ne NaN", "nan one");
    check(&rows, "X lt 2.0", "one");
    check(&rows, "X lt INF", "one");
}

/// T-4.34, T-4.36 (unverified).
#[test]
fn numbers_of_different_types_compare_as_numbers() {
    let rows =
        [("d", r#""N":5.0"#), ("i", r#""N":5"#), ("l", r#""N@odata.type":"Edm.Int64","N":"5""#)];
    for literal in ["5", "5L", "5.0"] {
        check(&rows, &format!("N eq {literal}"), "d i l");
    }
    check(&[("none", ""), ("x", r#""T":"x""#)], "not (T eq 'x')", "none");
}

/// T-4.42, T-4.45b (unverified).
#[test]
fn a_selection_has_at_most_255_names() {
    let lazuli = Lazuli::with_orders();
    let names = |count: usize| (0..count).map(|n| format!("P{n}")).collect::<Vec<_>>().join(",");
    lazuli.get(&format!("/Orders()?$select={}", names(255))).expect(200);
    let refused = lazuli.get(&format!("/Orders()?$select={}", names(256)));
    refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
}

/// T-4.46 (unverified).
#[test]
fn options_the_service_lacks_are_not_implemented() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for target in [
        "/Orders()?$orderby=A",
        "/Orders()?$skip=1",
        "/Orders()?$skiptoken=x",
        "/Orders()?$expand=A",
        "/Orders()?$inlinecount=allpages",
        "/Orders()/$count",
    ] {
        lazuli.get(target).expect_error(501, "NotImplemented", NOT_IMPLEMENTED);
    }
    let value = lazuli.get(&format!("{}/$value", order("r")));
    value.expect_error(501, "NotImplemented", NOT_IMPLEMENTED);
}

/// T-4.51, T-4.54, T-4.60, T-4.62 (unverified).
#[test]
fn a_page_holds_at_most_a_thousand_items() {
    use crate::harness::Op;
    let lazuli = Lazuli::with_orders();
    for hundred in 0..11 {
        let rows = hundred * 100..(hundred + 1) * 100;
        let inserts: Vec<Op> = rows.map(|row| Op::insert(&format!("{row:04}"))).collect();
        lazuli.batch(&inserts).expect(&[201; 100]);
    }
    let page = lazuli.get("/Orders()").expect(200);
    assert_eq!(page.row_keys().split(' ').count(), 1000);
    let page = page.expect_header("x-ms-continuation-nextpartitionkey", Some("1!4!cA--"));
    page.expect_header("x-ms-continuation-nextrowkey", Some("1!8!MTAwMA--"));
    let rest = lazuli.get("/Orders()?NextPartitionKey=1!4!cA--&NextRowKey=1!8!MTAwMA--");
    assert_eq!(rest.expect(200).row_keys().split(' ').count(), 100);
    // A page that ends with the table has no token.
    let last = lazuli.get("/Orders()?$top=100&NextPartitionKey=1!4!cA--&NextRowKey=1!8!MTAwMA--");
    last.expect(200).expect_header("x-ms-continuation-nextpartitionkey", None);
}

/// T-4.59, T-4.69 (unverified).
#[test]
fn a_token_that_is_none_of_ours_is_refused() {
    let lazuli = Lazuli::with_orders();
    for tokens in [
        "NextRowKey=1!4!cA--",
        "NextPartitionKey=pk",
        "NextPartitionKey=1!5!cA--",
        "NextPartitionKey=2!4!cA--",
        "NextPartitionKey=1!4!****",
    ] {
        let refused = lazuli.get(&format!("/Orders()?{tokens}"));
        refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
    }
    let refused = lazuli.get("/Tables?NextTableName=orders");
    refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
}

/// T-4.63 (unverified), T-4.64.
#[test]
fn a_token_outlives_what_it_names() {
    let lazuli = Lazuli::with_rows(&[("1", ""), ("2", ""), ("3", "")]);
    lazuli.write("DELETE", "2", Some("*"), "").expect(204);
    let rest = lazuli.get("/Orders()?NextPartitionKey=1!4!cA--&NextRowKey=1!4!Mg--").expect(200);
    assert_eq!(rest.row_keys(), "3");
}

/// T-4.56, T-4.67, T-4.71, T-4.74 (unverified).
#[test]
fn tables_are_listed_by_lower_case_name() {
    let lazuli = Lazuli::empty();
    for name in ["beta", "Alpha", "GAMMA"] {
        lazuli.create_table(name).expect(201);
    }
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "Alpha beta GAMMA");
    let mut names = Vec::new();
    let mut target = "/Tables?$top=1".to_owned();
    loop {
        let page = lazuli.get(&target).expect(200);
        names.push(page.items("TableName"));
        let Some(token) = page.header("x-ms-continuation-nexttablename") else { break };
        target = format!("/Tables?$top=1&NextTableName={}", encode(token));
    }
    assert_eq!(names, ["Alpha", "beta", "GAMMA"]);
    let filtered = lazuli.get(&format!("/Tables?$filter={}", encode("TableName eq 'gamma'")));
    assert_eq!(filtered.expect(200).items("TableName"), "GAMMA");
}

/// T-4.72: `$select` is accepted on tables; T-4.76: analytics tables are not listed.
#[test]
fn tables_take_select_and_top() {
    let lazuli = Lazuli::with_orders();
    lazuli.get("/Tables?$select=TableName").expect(200);
    assert_eq!(lazuli.get("/Tables?$top=0").expect(200).items("TableName"), "");
    lazuli.get("/Tables?$top=1001").expect_error(400, "InvalidInput", INPUT_NOT_VALID);
}
