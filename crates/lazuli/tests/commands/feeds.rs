//! `lazuli feed`, `lazuli changes` and `lazuli ttl` (X-0.5, X-6.2, X-7.1).

use crate::harness::Lazuli;

/// X-7.1.
#[test]
fn an_expiry_is_set_shown_and_removed() {
    let lazuli = Lazuli::with_people();
    let hint = "hint: `lazuli ttl set NAME --seconds N`";
    lazuli.fails("ttl show People", 3, &["404 ResourceNotFound", "do not expire", hint]);
    assert_eq!(lazuli.ok("ttl set People --seconds 3600 --json"), "{\"seconds\":3600}\n");
    assert!(lazuli.ok("ttl set People --property Until").contains("Until"));
    assert_eq!(lazuli.ok("ttl show People --json"), "{\"property\":\"Until\"}\n");
    lazuli.fails("ttl set People --seconds 0", 2, &["0 is not in 1.."]);
    lazuli.fails("ttl set People", 2, &["--seconds"]);
    lazuli.ok("ttl off People");
    lazuli.fails("ttl show People", 3, &["do not expire"]);
}

/// O-6.5, X-7.1: wrong usage sends nothing, so it needs no server.
#[test]
fn an_expiry_by_what_no_entity_has_is_wrong_usage() {
    let lazuli = Lazuli::of(crate::harness::NOBODY);
    let long = "x".repeat(256);
    for name in ["PartitionKey", "RowKey", "Timestamp", "a-b", "", &long] {
        let set = lazuli.run(&["ttl", "set", "People", "--property", name]);
        set.failed(2, &["--property"]);
    }
    lazuli.fails("ttl set People --property RowKey", 2, &["not a property that entities can"]);
    lazuli.fails("ttl set People --property Until", 5, &["127.0.0.1:1"]);
}

#[test]
fn a_feed_is_turned_on_followed_and_turned_off() {
    let lazuli = Lazuli::with_people();
    let hint = "hint: `lazuli feed on NAME`";
    lazuli.fails("changes People", 3, &["404 ResourceNotFound", "no change feed", hint]);
    lazuli.fails("feed show People", 3, &["no change feed", hint]);
    lazuli.fails("feed show Nobody", 3, &["TableNotFound", "hint: `lazuli tables create NAME`"]);
    let on = lazuli.ok("feed on People --images both --hours 2 --json");
    assert!(on.starts_with(r#"{"images":"both","retention_hours":2,"complete_from":""#), "{on}");
    assert!(lazuli.ok("feed show People").contains("both"));
    lazuli.fails("feed on People --hours 0", 2, &["0 is not in 1..=8760"]);
    lazuli.ok("entities put People PartitionKey=Sales RowKey=99 Age:Int32=1");
    let token = lazuli.ok("changes People --after now --json");
    let (_, token) = token.split_once(r#""next":""#).unwrap();
    let (token, _) = token.split_once('"').unwrap();
    lazuli.ok("entities put People PartitionKey=Sales RowKey=99 Age:Int32=2");
    lazuli.ok("entities delete People Sales 99 --yes");
    let later = lazuli.ok(&format!("changes People --after {token}"));
    let words: Vec<&str> = later.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words.len(), 2, "{later}");
    assert_eq!(words.last(), Some(&"delete"));
    assert!(lazuli.ok("changes People").starts_with("insert  Sales  99  new {"));
    let verified = lazuli.line("verify People");
    assert!(verified.stderr.contains("3 entries compared, 0 disagreements"), "{verified:?}");
    lazuli.fails("changes People --after x", 1, &["400 InvalidQueryParameterValue"]);
    lazuli.ok("feed off People");
    lazuli.fails("changes People", 3, &["404 ResourceNotFound"]);
}
