//! `lazuli tables`.

use crate::harness::Lazuli;

#[test]
fn tables_are_created_listed_shown_and_deleted() {
    let lazuli = Lazuli::start();
    assert_eq!(lazuli.ok("tables list"), "TABLE\n");
    assert_eq!(lazuli.ok("tables list --json"), "{\"tables\":[]}\n");
    let created = lazuli.line("tables create People");
    assert_eq!((created.code, &*created.stdout, &*created.stderr), (0, "", "created People\n"));
    lazuli.ok("tables create Orders --quiet");
    assert_eq!(lazuli.ok("tables list"), "TABLE\nOrders\nPeople\n");
    let json = lazuli.ok("tables list --prefix Pe --json");
    assert_eq!(json, "{\"tables\":[{\"name\":\"People\"}]}\n");
    let url = format!("http://{}/devstoreaccount1/People", lazuli.server.address());
    assert_eq!(lazuli.ok("tables show People"), format!("table  People\nurl    {url}\n"));
    let json = lazuli.ok("tables show People --json");
    assert_eq!(json, format!("{{\"name\":\"People\",\"url\":\"{url}\"}}\n"));
    let json = lazuli.ok("tables delete People --yes --json");
    assert_eq!(json, "{\"table\":\"People\",\"deleted\":true}\n");
    assert_eq!(lazuli.ok("tables list"), "TABLE\nOrders\n");
}

#[test]
fn a_table_that_is_there_or_not_is_told_by_the_exit_code() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    lazuli.fails("tables create People", 6, &["409 TableAlreadyExists", "[request "]);
    let json = lazuli.ok("tables create People --if-missing --json");
    assert_eq!(json, "{\"table\":\"People\",\"created\":false}\n");
    lazuli.fails("tables show Nobody", 3, &["there is no table Nobody", "hint: "]);
    lazuli.fails(
        "tables delete Nobody --yes",
        3,
        &["no table Nobody", "hint: `lazuli tables list`"],
    );
    let json = lazuli.ok("tables delete Nobody --yes --if-present --json");
    assert_eq!(json, "{\"table\":\"Nobody\",\"deleted\":false}\n");
}

#[test]
fn policies_that_no_service_takes_are_refused_by_name() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    for number in 1..=5 {
        lazuli.ok(&format!("tables acl set People p{number} --permissions r"));
    }
    let more = ["has 5 policies", "hint: `lazuli tables acl remove`"];
    lazuli.fails("tables acl set People p6 --permissions r", 1, &more);
    lazuli.ok("tables acl set People p5 --permissions ra --expiry 2099-01-01");
    let long = "x".repeat(65);
    lazuli.fails(&format!("tables acl set People {long}"), 2, &["1 to 64 characters"]);
    let backwards = "tables acl set People p5 --start 2099-01-02 --expiry 2099-01-01";
    lazuli.fails(backwards, 2, &["ends before it starts"]);
    // It was once stored without an end.
    lazuli.fails("tables acl set People p5 --expiry 4294967295d", 2, &["after the year 9999"]);
    let policies = lazuli.ok("tables acl list People --json");
    let last = r#"{"id":"p5","start":null,"expiry":"2099-01-01T00:00:00Z","permissions":"ra"}]}"#;
    assert!(policies.trim_end().ends_with(last), "{policies}");
}

#[test]
fn nothing_is_deleted_without_a_yes() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    lazuli.fails("tables delete People", 2, &["must be confirmed", "hint: --yes"]);
    assert_eq!(lazuli.ok("tables list"), "TABLE\nPeople\n");
}

#[test]
fn wrong_names_and_wrong_usage_reach_no_server() {
    let lazuli = Lazuli::start();
    for line in ["tables create a", "tables delete 1x --yes", "tables show a-b"] {
        lazuli.fails(line, 2, &["is not the name of a table", "hint: a name has 3 to 63 letters"]);
    }
    for line in [
        "tables",
        "tables sell",
        "tables create",
        "tables list --colour",
        "tables list --color blue",
    ] {
        assert_eq!(lazuli.line(line).code, 2, "{line}");
    }
}
