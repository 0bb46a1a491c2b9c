//! Queries and filters.

use crate::harness::{Json, Lazuli, encode};

const INPUT_NOT_VALID: &str = "One of the request inputs is not valid.";

/// The rows that `filter` finds among entities given by row key and JSON.
#[track_caller]
fn check(rows: &[(&str, &str)], filter: &str, expect: &str) {
    assert_eq!(Lazuli::with_rows(rows).rows(filter), expect, "{filter}");
}

#[track_caller]
fn check_refused(filter: &str, status: u16, code: &str, message: &str) {
    let lazuli = Lazuli::with_orders();
    let target = format!("/Orders()?$filter={}", encode(filter));
    lazuli.get(&target).expect_error(status, code, message);
}

#[track_caller]
fn check_syntax_error(filter: &str, position: usize) {
    let message = format!("Syntax error at position {position} in '{filter}'.");
    check_refused(filter, 400, "InvalidInput", &message);
}

/// TR-1: `ne` returned entities without the property (T-4.35).
#[test]
fn an_entity_without_the_property_matches_no_comparison() {
    let rows = [("none", ""), ("empty", r#""Foo":"""#), ("x", r#""Foo":"x""#)];
    check(&rows, "Foo ne ''", "x");
    for operator in ["eq", "ne", "gt", "ge", "lt", "le"] {
        check(&rows, &format!("Bar {operator} ''"), "");
    }
}

/// TR-2: a Double or DateTime compared with a string gave the opposite (T-4.38).
#[test]
fn values_of_other_types_lie_below_strings() {
    let rows = [
        ("date", r#""Foo@odata.type":"Edm.DateTime","Foo":"2024-01-01T00:00:00Z""#),
        ("double", r#""Foo":1.5"#),
        ("text", r#""Foo":"a""#),
    ];
    check(&rows, "Foo lt ''", "date double");
    check(&rows, "Foo gt ''", "text");
}

/// TR-3: a comparison with null was accepted (T-4.18).
#[test]
fn null_is_no_operand() {
    check_refused("Foo eq null", 400, "InvalidInput", INPUT_NOT_VALID);
    check_refused("null ne Foo", 400, "InvalidInput", INPUT_NOT_VALID);
}

/// TR-4: operators were accepted in any case (T-4.11).
#[test]
fn operators_are_case_sensitive() {
    check_syntax_error("Foo eq 1 Or Foo eq 2", 11);
    check_syntax_error("Foo eq 1 AND Foo eq 2", 12);
    check_syntax_error("Foo Eq 1", 6);
}

/// TR-5: a literal on the left was refused (T-4.15).
#[test]
fn a_literal_may_stand_on_the_left() {
    let rows = [("1", r#""Age":1"#), ("2", r#""Age":2"#), ("3", r#""Age":3"#)];
    check(&rows, "'2' eq RowKey", "2");
    check(&rows, "2 lt Age", "3");
    check(&rows, "2 ge Age", "1 2");
}

/// TR-6: `not` failed on a comparison of keys (T-4.8).
#[test]
fn not_works() {
    let rows = [("a", ""), ("b", ""), ("c", "")];
    check(&rows, "not (RowKey lt 'b')", "b c");
    check(&rows, "not (PartitionKey lt 'b')", "a b c");
    check(&rows, "not (RowKey eq 'a') and not (RowKey eq 'c')", "b");
}

/// TR-7: an empty option was an error (T-1.39).
#[test]
fn an_empty_option_is_as_none() {
    let lazuli = Lazuli::with_rows(&[("r", r#""Age":1"#)]);
    let all = lazuli.get("/Orders()").expect(200);
    assert_eq!(lazuli.get("/Orders()?$filter=").expect(200).body, all.body);
    // Recorded: the metadata repeats even an empty list.
    let selected = lazuli.get("/Orders()?$select=&$filter=").expect(200);
    assert_eq!(selected.text().replace("&$select=", ""), all.text());
    assert!(selected.text().contains("$metadata#Orders&$select=\","), "{}", selected.text());
}

/// TR-8: a constant filter, as health checks send it, was an error (T-4.17).
#[test]
fn constants_are_filters() {
    check(&[("a", ""), ("b", "")], "false", "");
    check(&[("a", ""), ("b", "")], "true", "a b");
}

/// TR-9: a Boolean with a capital failed the request (T-4.12).
#[test]
fn booleans_may_have_a_capital() {
    let rows = [("no", r#""Ok":false"#), ("yes", r#""Ok":true"#)];
    check(&rows, "Ok eq True", "yes");
    check(&rows, "Ok eq False", "no");
}

/// TR-10: an Int64 was compared as text (T-4.34).
#[test]
fn an_int64_compares_as_a_number() {
    let int64 = |value: &str| format!(r#""N@odata.type":"Edm.Int64","N":"{value}""#);
    let (nine, ten) = (int64("9"), int64("10"));
    let (least, most) = (int64("-9223372036854775808"), int64("9223372036854775807"));
    let rows = [("a", nine.as_str()), ("b", &ten), ("c", &least), ("d", &most)];
    check(&rows, "N gt 9L", "b d");
    check(&rows, "N lt -1L", "c");
    check(&rows, "N eq 9223372036854775807L", "d");
    check(&rows, "N ge 9223372036854775806L", "d");
    check(&rows, "N eq -9223372036854775808L", "c");
}

/// TR-11: dates were compared by milliseconds, and microseconds failed (T-4.29).
#[test]
fn dates_compare_by_ticks() {
    let date = |value: &str| format!(r#""D@odata.type":"Edm.DateTime","D":"{value}""#);
    let (one, two) = (date("2024-01-01T00:00:00.0000001Z"), date("2024-01-01T00:00:00.0000002Z"));
    let rows = [("1", one.as_str()), ("2", &two)];
    check(&rows, "D eq datetime'2024-01-01T00:00:00.0000001Z'", "1");
    check(&rows, "D gt datetime'2024-01-01T00:00:00.0000001Z'", "2");
    check(&rows, "D lt datetime'2024-01-01T00:00:00.000001Z'", "1 2");
    check(&rows, "D lt datetime'2024-01-01T00:00:00'", "");
}

/// TR-12: the empty string was equal to the zero Guid, and null to dates (T-4.37).
#[test]
fn values_of_different_types_are_never_equal() {
    let guid = r#""G@odata.type":"Edm.Guid","G":"00000000-0000-0000-0000-000000000000""#;
    let date = r#""G@odata.type":"Edm.DateTime","G":"1601-01-01T00:00:00Z""#;
    let rows = [("date", date), ("guid", guid), ("text", r#""G":"""#)];
    check(&rows, "G eq ''", "text");
    check(&rows, "G ne ''", "date guid");
    check(&rows, "G eq guid'00000000-0000-0000-0000-000000000000'", "guid");
    check(&rows, "G eq false", "");
}

/// TR-13: `$select` left a missing property out (T-4.44).
#[test]
fn a_selected_property_that_is_missing_is_null() {
    let lazuli = Lazuli::with_rows(&[("r", r#""Age":1"#)]);
    let page = lazuli.get("/Orders()?$select=Age,Name").expect(200).json();
    let Some(Json::Array(items)) = page.get("value") else { panic!("{page:?}") };
    assert_eq!(items[0].get("Name"), Some(&Json::Null));
    assert_eq!(items[0].get("Age"), Some(&Json::Number("1".to_owned())));
    assert_eq!(items[0].get("PartitionKey"), None);
}

/// TR-14: a filter on the list of tables was ignored (T-4.72).
#[test]
fn tables_can_be_filtered() {
    let lazuli = Lazuli::empty();
    for name in ["abc1", "abc2", "xyz"] {
        lazuli.create_table(name).expect(201);
    }
    let names = |filter: &str| {
        lazuli.get(&format!("/Tables?$filter={}", encode(filter))).expect(200).items("TableName")
    };
    assert_eq!(names("TableName ge 'abc' and TableName lt 'abc{'"), "abc1 abc2");
    assert_eq!(names("TableName eq 'xyz'"), "xyz");
    assert_eq!(names("not (TableName eq 'xyz')"), "abc1 abc2");
}

/// TR-15: `$top=0` returned rows (T-4.49).
#[test]
fn top_zero_is_an_empty_page() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    assert_eq!(lazuli.get("/Orders()?$top=0").expect(200).row_keys(), "");
}

/// TR-16: `$top` over 1000 was cut down in silence (T-4.48).
#[test]
fn top_over_a_thousand_is_refused() {
    let lazuli = Lazuli::with_orders();
    lazuli.get("/Orders()?$top=1000").expect(200);
    for top in ["1001", "-1", "many", "1.5", ""] {
        let refused = lazuli.get(&format!("/Orders()?$top={top}"));
        refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
    }
}

/// TR-17: a token without a row key started from the first page (T-4.55).
#[test]
fn a_partition_key_alone_resumes() {
    let lazuli = Lazuli::with_orders();
    for partition in ["a", "b", "c"] {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{partition}"}}"#);
        lazuli.insert("Orders", &body).expect(201);
    }
    // `1!4!Yg--` is the token of `b`.
    assert_eq!(lazuli.get("/Orders()?NextPartitionKey=1!4!Yg--").expect(200).row_keys(), "b c");
}

/// TR-18: pages across partitions lost rows (T-4.60).
#[test]
fn pages_go_on_exactly_where_they_ended() {
    let lazuli = Lazuli::with_orders();
    let mut expect = Vec::new();
    for partition in ["a", "b", "c"] {
        for row in 1..=3 {
            let key = format!("{partition}{row}");
            let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{key}"}}"#);
            lazuli.insert("Orders", &body).expect(201);
            expect.push(key);
        }
    }
    for top in 1..=9 {
        assert_eq!(all_pages(&lazuli, &format!("$top={top}")), expect.join(" "), "{top}");
    }
}

/// Follows the tokens to the end; returns the row keys of all pages.
fn all_pages(lazuli: &Lazuli, options: &str) -> String {
    let mut rows = Vec::new();
    let mut target = format!("/Orders()?{options}");
    loop {
        let page = lazuli.get(&target).expect(200);
        rows.push(page.row_keys());
        let Some(partition) = page.header("x-ms-continuation-nextpartitionkey") else {
            return rows.join(" ").trim().to_owned();
        };
        target = format!("/Orders()?{options}&NextPartitionKey={}", encode(partition));
        if let Some(row) = page.header("x-ms-continuation-nextrowkey") {
            target.push_str(&format!("&NextRowKey={}", encode(row)));
        }
    }
}

/// TR-19: a key outside ASCII in a continuation header was an error; the token was bare (T-4.65).
#[test]
fn tokens_are_safe_in_headers_whatever_the_key() {
    let lazuli = Lazuli::with_rows(&[("1", ""), ("é", ""), ("😀", "")]);
    let page = lazuli.get("/Orders()?$top=1").expect(200);
    page.clone().expect_header("x-ms-continuation-nextpartitionkey", Some("1!4!cA--"));
    page.expect_header("x-ms-continuation-nextrowkey", Some("1!4!w6k-"));
    assert_eq!(all_pages(&lazuli, "$top=1"), "1 é 😀");
    lazuli.create_table("mytable2");
    let tables = lazuli.get("/Tables?$top=1").expect(200);
    let token = tables.header("x-ms-continuation-nexttablename").unwrap();
    // `orders`, 0x01, and the time of its creation.
    assert!(token.starts_with("1!32!b3JkZXJzAT"), "{token}");
}

/// TR-20: an empty row key in a token was accepted (T-4.58).
#[test]
fn an_empty_token_is_refused() {
    let lazuli = Lazuli::with_orders();
    for tokens in ["NextPartitionKey=1!4!cA--&NextRowKey=", "NextPartitionKey=", "NextRowKey="] {
        let refused = lazuli.get(&format!("/Orders()?{tokens}"));
        refused.expect_error(400, "InvalidInput", INPUT_NOT_VALID);
    }
}

/// TR-21: every malformed filter got one fixed text (T-4.24).
#[test]
fn a_malformed_filter_is_told_with_its_place() {
    check_syntax_error("aaa bbb ccc", 7);
    check_syntax_error("(Foo eq 1", 9);
    let message = "Unterminated string literal at position 9 in 'Foo eq 'x'.";
    check_refused("Foo eq 'x", 400, "InvalidInput", message);
}

/// TR-22: double quotes were accepted; exponents and suffixes were not; functions were answered like
/// syntax errors (T-4.14, T-4.23).
#[test]
fn literals_are_those_of_the_grammar_and_functions_are_not_implemented() {
    let refused = "Syntax error: character '\"' is not valid at position 7 in 'Foo eq \"x\"'.";
    check_refused("Foo eq \"x\"", 400, "InvalidInput", refused);
    let rows = [("a", r#""N":1.5"#), ("b", r#""N":1000.0"#)];
    check(&rows, "N eq 1.5d", "a");
    check(&rows, "N eq 1e3", "b");
    check(&rows, "N ge 1.0E+0D", "a b");
    let message = "The requested operation is not implemented on the specified resource.";
    for filter in ["startswith(Foo,'x')", "length(Foo) eq 1", "N add 1 eq 2", "Foo eq Bar"] {
        check_refused(filter, 501, "NotImplemented", message);
    }
    // A property may be called like a function.
    check(&[("a", r#""length":1"#)], "length eq 1", "a");
}

/// TR-23: an old emulator compared strings without regard to case (T-4.28).
#[test]
fn strings_compare_with_regard_to_case() {
    let rows = [("B", r#""T":"B""#), ("a", r#""T":"a""#), ("b", r#""T":"b""#)];
    check(&rows, "T eq 'b'", "b");
    check(&rows, "RowKey eq 'B'", "B");
    check(&rows, "T lt 'a'", "B");
    check(&rows, "RowKey ge 'a'", "a b");
}

/// TR-24: a comparison with the empty string failed (T-4.41).
#[test]
fn the_empty_string_compares() {
    let rows = [("empty", r#""T":"""#), ("none", ""), ("x", r#""T":"x""#)];
    check(&rows, "T eq ''", "empty");
    check(&rows, "T ge ''", "empty x");
    check(&rows, "RowKey gt ''", "empty none x");
}

/// TR-25: a query on the empty partition key returned nothing (T-1.25).
#[test]
fn the_empty_partition_can_be_queried() {
    let lazuli = Lazuli::with_orders();
    lazuli.insert("Orders", r#"{"PartitionKey":"","RowKey":"r"}"#).expect(201);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"other"}"#).expect(201);
    assert_eq!(lazuli.rows("PartitionKey eq ''"), "r");
    assert_eq!(lazuli.rows("PartitionKey eq '' and RowKey eq 'r'"), "r");
}

/// TR-26: a key compared with a number was no error (T-4.39).
#[test]
fn keys_and_timestamp_compare_with_their_own_type_alone() {
    let cases = [
        ("PartitionKey eq 12345", "'Edm.String' and 'Edm.Int32' for operator kind 'Equal'"),
        ("RowKey ne true", "'Edm.String' and 'Edm.Boolean' for operator kind 'NotEqual'"),
        ("1L gt RowKey", "'Edm.Int64' and 'Edm.String' for operator kind 'GreaterThan'"),
        (
            "Timestamp le '2024'",
            "'Edm.DateTime' and 'Edm.String' for operator kind 'LessThanOrEqual'",
        ),
        // As in the tests of the .NET and Java clients.
        (
            "(PartitionKey ) and (RowKey ge '000050')",
            "'Edm.String' and 'Edm.Boolean' for operator kind 'And'",
        ),
    ];
    for (filter, found) in cases {
        let message = format!(
            "A binary operator with incompatible types was detected. Found operand types {found}."
        );
        check_refused(filter, 400, "InvalidInput", &message);
    }
    check(&[("r", "")], "Timestamp ge datetime'2024-01-01T00:00:00Z'", "r");
}
