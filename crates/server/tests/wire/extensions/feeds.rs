//! The change feed over HTTP.

use super::{asking, token};
use crate::harness::{Json, Lazuli, Op, Response};

const FEED: &str = "/Orders?comp=lazuli-feed";
const CHANGES: &str = "/Orders?comp=lazuli-changes";

impl Lazuli {
    fn recorded(images: &str) -> Self {
        let lazuli = Self::with_orders();
        lazuli.set_feed(&format!(r#"{{"images":"{images}","retention_hours":24}}"#)).expect(200);
        lazuli
    }

    fn set_feed(&self, feed: &str) -> Response {
        self.send(&asking("PUT", FEED).json(feed))
    }

    /// The changes after a token, and the next token.
    #[track_caller]
    fn changes_after(&self, after: &str) -> (Vec<Json>, String) {
        let target = match after {
            "" => CHANGES.to_owned(),
            after => format!("{CHANGES}&after={after}"),
        };
        let response = self.ask(&target).expect(200);
        assert_eq!(response.header("x-lazuli-used"), Some("changes"));
        read(&response)
    }
}

fn read(response: &Response) -> (Vec<Json>, String) {
    let json = response.json();
    let Some(Json::Array(changes)) = json.get("changes") else { panic!("{}", response.text()) };
    (changes.clone(), json.get("next").unwrap().text().unwrap().to_owned())
}

fn text<'j>(json: &'j Json, name: &str) -> &'j str {
    json.get(name).unwrap().text().unwrap()
}

/// X-6.1.
#[test]
fn a_feed_is_turned_on_shown_and_turned_off() {
    let lazuli = Lazuli::with_orders();
    lazuli.ask(FEED).refused(404, "ResourceNotFound", "no change feed");
    lazuli.ask(CHANGES).refused(404, "ResourceNotFound", "no change feed");
    let shown = r#"{"images":"new","retention_hours":48,"complete_from":"2024-07-31T18:30:00Z"}"#;
    let set = lazuli.set_feed(r#"{"images":"new","retention_hours":48}"#).expect(200);
    assert_eq!(set.text(), shown);
    assert_eq!(lazuli.ask(FEED).expect(200).text(), shown);
    let set = lazuli.set_feed(r#"{"images":"both"}"#).expect(200);
    assert!(set.text().starts_with(r#"{"images":"both","retention_hours":24,"#));
    lazuli.send(&asking("DELETE", FEED)).expect(204);
    lazuli.ask(FEED).refused(404, "ResourceNotFound", "no change feed");
    lazuli.send(&asking("DELETE", FEED)).expect(204);
    lazuli.ask("/Missing?comp=lazuli-changes").refused(404, "TableNotFound", "");
    lazuli.send(&asking("PUT", CHANGES).json("{}")).refused(405, "UnsupportedHttpVerb", "");
}

/// X-6.1: bad input gets a clear 400, and nothing is half done.
#[test]
fn bad_feeds_are_refused() {
    let lazuli = Lazuli::with_orders();
    for (body, text) in [
        ("", "not valid"),
        ("{}", "images"),
        (r#"{"images":"all"}"#, "'keys', 'new' or 'both'"),
        (r#"{"images":"new","retention_hours":0}"#, "1 to 8760"),
        (r#"{"images":"new","retention_hours":8761}"#, "1 to 8760"),
        (r#"{"images":"new","retention_hours":-1}"#, "not valid"),
        (r#"{"images":"new","retention_hours":"24"}"#, "not valid"),
        (r#"{"images":"new","retention_hours":1.5}"#, "not valid"),
        (r#"{"images":"new","more":1}"#, "more"),
    ] {
        lazuli.set_feed(body).refused(400, "InvalidInput", text);
    }
    lazuli.ask(FEED).refused(404, "ResourceNotFound", "no change feed");
}

/// X-6.1, X-6.2.
#[test]
fn changes_are_read_with_whole_images() {
    let lazuli = Lazuli::recorded("both");
    lazuli
        .insert(
            "Orders",
            r#"{"PartitionKey":"p","RowKey":"1","A":"x","B@odata.type":"Edm.Int64","B":"7"}"#,
        )
        .expect(201);
    lazuli.write("MERGE", "1", Some("*"), r#"{"A":"y"}"#).expect(204);
    lazuli.write("DELETE", "1", Some("*"), "").expect(204);
    let (changes, next) = lazuli.changes_after("");
    let operations: Vec<&str> = changes.iter().map(|change| text(change, "operation")).collect();
    assert_eq!(operations, ["insert", "merge", "delete"]);
    let [insert, merge, delete] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(insert.get("old").is_none() && delete.get("new").is_none());
    assert_eq!((text(merge, "PartitionKey"), text(merge, "RowKey")), ("p", "1"));
    let new = merge.get("new").unwrap();
    assert_eq!((text(new, "A"), text(new, "B")), ("y", "7"));
    assert_eq!(text(new, "B@odata.type"), "Edm.Int64");
    let old = merge.get("old").unwrap();
    assert_eq!((text(old, "A"), text(old, "PartitionKey")), ("x", "p"));
    assert_eq!(text(old, "Timestamp"), text(insert.get("new").unwrap(), "Timestamp"));
    assert_ne!(text(old, "odata.etag"), text(new, "odata.etag"));
    assert_ne!(text(insert, "transaction"), text(merge, "transaction"));
    assert!(text(insert, "revision") < text(merge, "revision"));
    assert_eq!(lazuli.changes_after(&next).0.len(), 0);
    let plain = asking("GET", CHANGES).with("Accept", "application/json;odata=nometadata");
    assert!(!lazuli.send(&plain).expect(200).text().contains("odata"));
}

/// X-6.2: a transaction is one commit.
#[test]
fn changes_of_a_transaction_share_its_id() {
    let lazuli = Lazuli::recorded("keys");
    let batch = lazuli.batch(&[
        Op::new("POST", "Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#),
        Op::new("POST", "Orders", r#"{"PartitionKey":"p","RowKey":"2"}"#),
    ]);
    assert!(batch.outer.text().contains("201"));
    let (changes, _) = lazuli.changes_after("");
    assert_eq!(changes.len(), 2);
    assert_eq!(text(&changes[0], "transaction"), text(&changes[1], "transaction"));
    assert!(changes[0].get("new").is_none());
}

/// X-6.2.
#[test]
fn a_token_of_now_sees_what_comes() {
    let lazuli = Lazuli::recorded("keys");
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#).expect(201);
    let (changes, now) = lazuli.changes_after("now");
    assert!(changes.is_empty());
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"2"}"#).expect(201);
    let (changes, _) = lazuli.changes_after(&now);
    assert_eq!(changes.iter().map(|change| text(change, "RowKey")).collect::<Vec<_>>(), ["2"]);
}

/// X-6.2.
#[test]
fn forged_foreign_and_old_tokens_are_refused() {
    let lazuli = Lazuli::recorded("keys");
    lazuli.create_table("Other").expect(201);
    let other = "/Other?comp=lazuli-feed";
    lazuli.send(&asking("PUT", other).json(r#"{"images":"keys"}"#)).expect(200);
    let response = lazuli.ask("/Other?comp=lazuli-changes&after=now").expect(200);
    let (_, foreign) = read(&response);
    let (_, own) = lazuli.changes_after("now");
    let changed = format!("B{}", &own[1..]);
    for forged in ["x", "Now", "1", &changed, &own[1..], &foreign] {
        let target = format!("{CHANGES}&after={forged}");
        lazuli.ask(&target).refused(400, "InvalidQueryParameterValue", "'after'");
    }
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#).expect(201);
    lazuli.clock.advance_seconds(25 * 3600);
    let old = format!("{CHANGES}&after={own}");
    let refused = lazuli.ask(&old).refused(410, "ChangesDropped", "after=");
    let said = refused.text().split("after=").nth(1).unwrap().split('.').next().unwrap();
    lazuli.ask(&format!("{CHANGES}&after={said}")).expect(200);
    // Turned off and on again.
    let (_, before) = lazuli.changes_after("now");
    lazuli.send(&asking("DELETE", FEED)).expect(204);
    lazuli.set_feed(r#"{"images":"keys"}"#).expect(200);
    let before = format!("{CHANGES}&after={before}");
    lazuli.ask(&before).refused(410, "ChangesDropped", "no longer kept");
}

/// X-6.2.
#[test]
fn a_wait_is_a_number_up_to_sixty() {
    let lazuli = Lazuli::recorded("keys");
    for wait in ["61", "-1", "x", "1.5", "99999999999999999999"] {
        let target = format!("{CHANGES}&wait={wait}");
        lazuli.ask(&target).refused(400, "InvalidQueryParameterValue", "at most 60");
    }
    lazuli.ask(&format!("{CHANGES}&after=now&wait=60")).expect(200);
    assert_eq!(read(&lazuli.ask(&format!("{CHANGES}&wait=1")).expect(200)).0.len(), 0);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#).expect(201);
    // Existing changes are returned at once.
    assert_eq!(read(&lazuli.ask(&format!("{CHANGES}&wait=60")).expect(200)).0.len(), 1);
}

/// X-6.2: a waiting request is answered when a change is committed.
#[test]
fn a_change_wakes_who_waits() {
    let lazuli = Lazuli::recorded("keys");
    let (_, now) = lazuli.changes_after("now");
    let waiting = asking("GET", &format!("{CHANGES}&after={now}&wait=60"));
    let insert = crate::harness::Request::new("POST", "/Orders")
        .json(r#"{"PartitionKey":"p","RowKey":"1"}"#);
    let (answer, inserted) = lazuli.send_both(&waiting, &insert);
    inserted.expect(201);
    let (changes, _) = read(&answer.expect(200));
    assert_eq!(changes.len(), 1);
}

/// X-6.2: a request that waits on a feed notices when the feed is turned off, before its time is up.
#[test]
fn the_end_of_a_feed_or_its_table_wakes_who_waits() {
    for (end, code) in [
        (asking("DELETE", FEED), "ResourceNotFound"),
        (asking("DELETE", "/Tables('Orders')"), "TableNotFound"),
    ] {
        let lazuli = Lazuli::recorded("keys");
        let waiting = asking("GET", &format!("{CHANGES}&wait=60"));
        let (answer, ended) = lazuli.send_both(&waiting, &end);
        ended.expect(204);
        answer.refused(404, code, "");
    }
}

/// X-6.2, T-1.37: the client's own timeout ends a wait with a response, not an error.
#[test]
fn a_wait_ends_within_the_time_that_the_client_gives() {
    let lazuli = Lazuli::recorded("keys");
    let (changes, next) = read(&lazuli.ask(&format!("{CHANGES}&wait=60&timeout=1")).expect(200));
    assert!(changes.is_empty() && !next.is_empty());
}

/// X-0.4.
#[test]
fn a_token_for_a_range_of_keys_sees_no_changes() {
    let lazuli = Lazuli::recorded("new");
    let with = |permissions, range| {
        let token = token(permissions, range);
        lazuli.send(&asking("GET", CHANGES).sas(&token))
    };
    with("raud", Some(("a", "b"))).refused(403, "AuthorizationFailure", "");
    with("aud", None).refused(403, "AuthorizationPermissionMismatch", "");
    with("r", None).expect(200);
}
