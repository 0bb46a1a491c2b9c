//! Functions and `in` in filters (X-4.1).

use crate::harness::{Lazuli, Request, encode};
use lazuli_server::{FrontOptions, Profile};

fn people() -> Lazuli {
    Lazuli::with_rows(&[
        ("1", r#""Name":"Anna","Age":30"#),
        ("2", r#""Name":"anton","Age":40,"Age@odata.type":"Edm.Int64""#),
        ("3", r#""Name":"ÖZGÜR","Age":50"#),
        ("4", r#""Name":7"#),
        ("5", r#""Age":30.0,"Age@odata.type":"Edm.Double""#),
    ])
}

fn query(filter: &str) -> String {
    format!("/Orders()?$filter={}", encode(filter))
}

/// X-4.1, X-0.3.
#[test]
fn functions_select_text() {
    let lazuli = people();
    for (filter, rows, used) in [
        ("startswith(Name,'An')", "1", "startswith"),
        ("startswith(tolower(Name),'an')", "1 2", "startswith, tolower"),
        ("endswith(Name,'a')", "1", "endswith"),
        ("contains(Name,'nt')", "2", "contains"),
        ("substringof('nn',Name)", "1", "substringof"),
        ("toupper(Name) eq 'ANNA'", "1", "toupper"),
        ("tolower(Name) eq 'özgür'", "3", "tolower"),
        ("tolower(Name) ne 'anna'", "2 3", "tolower"),
        ("startswith(Name,'')", "1 2 3", "startswith"),
        ("not startswith(Name,'A')", "2 3 4 5", "startswith"),
        ("startswith(Name,'A') eq true", "1", "startswith"),
        ("startswith(Name,'A') eq false", "2 3 4 5", "startswith"),
        ("Name in ('Anna','anton','x')", "1 2", "in"),
        ("Age in (30,50)", "1 3 5", "in"),
        ("RowKey in ('5','1','9')", "1 5", "in"),
        ("PartitionKey in ('p')", "1 2 3 4 5", "in"),
        ("startswith(RowKey,'4')", "4", "startswith"),
        ("PartitionKey eq 'p' and startswith(RowKey,'2')", "2", "startswith"),
        ("Age gt 35 and contains(Name,'n') or RowKey in ('4')", "2 4", "contains, in"),
    ] {
        let response = lazuli.ask(&query(filter)).expect(200);
        assert_eq!(response.row_keys(), rows, "{filter}");
        assert_eq!(response.header("x-lazuli-used"), Some(used), "{filter}");
    }
    let plain = lazuli.ask(&query("Age eq 30")).expect(200);
    assert_eq!(plain.header("x-lazuli-used"), None);
}

/// X-0.1, X-0.2.
#[test]
fn without_asking_functions_are_refused_as_ever() {
    let lazuli = people();
    for target in
        ["startswith(Name,'A')", "tolower(Name) eq 'a'", "substringof('a',Name)"].map(query)
    {
        lazuli.get(&target).refused(501, "NotImplemented", "");
        let off = Request::new("GET", &target).with("x-lazuli-extensions", "off");
        lazuli.send(&off).refused(501, "NotImplemented", "");
    }
    for target in ["Name in ('a')", "contains(Name,'a')"].map(query) {
        lazuli.get(&target).refused(400, "InvalidInput", "Syntax error at position");
    }
}

/// X-4.1.
#[test]
fn what_is_wrong_is_told_with_its_place() {
    let lazuli = people();
    for (filter, text) in [
        ("startswith(Name,5)", "A string literal is expected at position 17"),
        ("startswith('a',Name)", "A property is expected at position 14"),
        ("Age in (1,'1')", "The literals of 'in' must have one type"),
        ("Age in ()", "Syntax error at position"),
        ("RowKey in (1)", "incompatible types"),
        ("tolower(Name) eq 1", "incompatible types"),
    ] {
        lazuli.ask(&query(filter)).refused(400, "InvalidInput", text);
    }
    let many: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let list = |n: usize| query(&format!("Age in ({})", many[..n].join(",")));
    assert_eq!(lazuli.ask(&list(1000)).expect(200).row_keys(), "1 2 3 5");
    lazuli.ask(&list(1001)).refused(400, "InvalidInput", "at most 1000 literals");
    lazuli.ask(&query("length(Name) eq 4")).refused(501, "NotImplemented", "");
}

/// X-0.2: the lenient profile and extensions can be combined.
#[test]
fn a_lenient_server_has_extensions_too() {
    let options = FrontOptions { profile: Profile::Lenient, ..FrontOptions::default() };
    let lazuli = Lazuli::with_options(options);
    lazuli.create_table("Orders");
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"r","Name":"Anna"}"#).expect(201);
    let found = lazuli.ask(&query("startswith(Name,'A')")).expect(200);
    assert_eq!((found.row_keys().as_str(), found.header("x-lazuli-would-fail")), ("r", None));
    lazuli.ask(&query("Name EQ 'Anna'")).expect(200);
}

/// X-4.1: tables are found by name, ignoring case.
#[test]
fn tables_are_found_by_functions_of_their_names() {
    let lazuli = Lazuli::with_orders();
    lazuli.create_table("Other");
    for (filter, names) in [
        ("startswith(TableName,'Or')", "Orders"),
        ("TableName in ('other','x')", "Other"),
        ("endswith(tolower(TableName),'r')", "Other"),
        ("startswith(Name,'O')", ""),
    ] {
        let target = format!("/Tables?$filter={}", encode(filter));
        assert_eq!(lazuli.ask(&target).expect(200).items("TableName"), names, "{filter}");
    }
}
