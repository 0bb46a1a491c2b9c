//! Conditional writes.

use crate::harness::{Lazuli, Op, Request, order};
use lazuli_wire::sas::AccountSas;

const NOT_FOUND: &str = "The specified resource does not exist.";
const NOT_MET: &str = "The condition specified using HTTP conditional header(s) is not met.";
const NOT_SATISFIED: &str = "The update condition specified in the request was not satisfied.";

/// TR-58: an upsert of a missing entity failed, an update of one created it (T-5.1, T-5.2).
#[test]
fn without_if_match_a_write_is_an_upsert() {
    let lazuli = Lazuli::with_orders();
    for method in ["PUT", "MERGE", "PATCH"] {
        let update = lazuli.write(method, method, Some("*"), r#"{"A":1}"#);
        update.expect_error(404, "ResourceNotFound", NOT_FOUND);
        lazuli.write(method, method, None, r#"{"A":1}"#).expect(204);
        lazuli.write(method, method, Some("*"), r#"{"A":2}"#).expect(204);
        assert_eq!(lazuli.stored(method), r#""A":2"#);
    }
}

/// TR-59: a weak etag that was never issued counted as malformed (T-5.5).
#[test]
fn a_foreign_weak_etag_is_a_mismatch() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for method in ["PUT", "MERGE", "DELETE"] {
        for etag in ["W/\"wrong\"", "W/\"datetime''2024-07-31T18%3A30%3A00.0000002Z''\""] {
            let refused = lazuli.write(method, "r", Some(etag), "{}");
            let refused = refused.expect_error(412, "ConditionNotMet", NOT_MET);
            refused.expect_header("cache-control", None);
            let missing = lazuli.write(method, "missing", Some(etag), "{}");
            missing.expect_error(412, "ConditionNotMet", NOT_MET);
        }
    }
    let update = Op::on("PUT", "r", "{}").with("If-Match", "W/\"wrong\"");
    let update = update.with("Prefer", "return-no-content");
    let answer = lazuli.batch(&[update]);
    let answer = answer.expect_error(412, "ConditionNotMet", &format!("0:{NOT_MET}"));
    let names = "X-Content-Type-Options DataServiceVersion Content-Type";
    assert_eq!(answer.parts[0].header_names(), names);
}

/// TR-60: a malformed etag got another code (T-5.6).
#[test]
fn a_malformed_etag_is_invalid_input() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for etag in ["wrong", "\"strong\"", "W/\"a\",W/\"b\"", "W/\"open", ""] {
        let message = format!(
            "The etag value '{etag}' specified in one of the request headers is not valid. Please \
             make sure only one etag value is specified and is valid."
        );
        for method in ["PUT", "MERGE", "DELETE"] {
            let refused = lazuli.write(method, "r", Some(etag), "{}");
            refused.expect_error(400, "InvalidInput", &message);
        }
    }
}

/// TR-61: etags of the grain of a millisecond collided (T-2.44, T-2.46).
#[test]
fn an_etag_is_the_timestamp_to_the_tick() {
    let lazuli = Lazuli::with_orders();
    // The clock stands still, and every write is a tick later nonetheless.
    let etag = |tick: u32| format!("W/\"datetime'2024-07-31T18%3A30%3A00.000000{tick}Z'\"");
    let inserted = lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(201);
    let inserted = inserted.expect_header("etag", Some(&etag(2)));
    assert!(inserted.text().contains(r#""Timestamp":"2024-07-31T18:30:00.0000002Z""#));
    assert!(inserted.text().contains(r#""odata.etag":"W/\"datetime'2024-07-31T18%3A30"#));
    lazuli.write("PUT", "r", None, "{}").expect(204).expect_header("etag", Some(&etag(3)));
    lazuli.write("MERGE", "r", Some(&etag(3)), "{}").expect(204);
    let stale = lazuli.write("PUT", "r", Some(&etag(3)), "{}");
    stale.expect_error(412, "UpdateConditionNotSatisfied", NOT_SATISFIED);
    // Zeros at the end are not written.
    lazuli.clock.advance_seconds(1);
    let trimmed = "W/\"datetime'2024-07-31T18%3A30%3A01Z'\"";
    lazuli.write("PUT", "r", None, "{}").expect(204).expect_header("etag", Some(trimmed));
    lazuli.write("DELETE", "r", Some(trimmed), "").expect(204);
}

/// TR-62: a point read had no ETag header (T-2.49).
#[test]
fn a_point_read_has_an_etag_and_a_query_has_none() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let etag = "W/\"datetime'2024-07-31T18%3A30%3A00.0000002Z'\"";
    lazuli.get(&order("r")).expect(200).expect_header("etag", Some(etag));
    lazuli.get("/Orders()").expect(200).expect_header("etag", None);
}

/// TR-63: a stale etag did not fail in a transaction (T-6.37).
#[test]
fn a_stale_etag_fails_in_a_transaction() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1"#)]);
    let etag = "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"";
    let stale = Op::on("PUT", "r", r#"{"A":2}"#).with("If-Match", etag);
    let message = format!("1:{NOT_SATISFIED}");
    let answer = lazuli.batch(&[Op::insert("new"), stale]);
    answer.expect_error(412, "UpdateConditionNotSatisfied", &message);
    assert_eq!(lazuli.rows(""), "r");
}

/// TR-64: DELETE without If-Match was a failed condition (T-5.7; the code is unverified).
#[test]
fn delete_needs_if_match() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let message = "An HTTP header that's mandatory for this request is not specified.";
    let refused = lazuli.write("DELETE", "r", None, "");
    refused.expect_error(400, "MissingRequiredHeader", message);
    let message = format!("0:{message}");
    let part = lazuli.batch(&[Op::on("DELETE", "r", "")]);
    part.expect_error(400, "MissingRequiredHeader", &message);
}

/// TR-65: an update in a batch ignored If-Match (T-6.17).
#[test]
fn if_match_counts_in_a_batch() {
    let lazuli = Lazuli::with_orders();
    let update = Op::on("PUT", "r", r#"{"A":1}"#).with("If-Match", "*");
    lazuli.batch(&[update]).expect_error(404, "ResourceNotFound", NOT_FOUND);
    let upsert = Op::on("PUT", "r", r#"{"A":1}"#);
    let etag = lazuli.batch(&[upsert]).expect(&[204]).parts[0].header("etag").unwrap().to_owned();
    let update = Op::on("MERGE", "r", r#"{"B":2}"#).with("If-Match", &etag);
    lazuli.batch(std::slice::from_ref(&update)).expect(&[204]);
    lazuli.batch(&[update]).expect_error(412, "UpdateConditionNotSatisfied", NOT_SATISFIED);
    assert_eq!(lazuli.stored("r"), r#""A":1,"B":2"#);
}

/// TR-66: the update that Logic Apps send was malformed (T-2.22).
#[test]
fn an_update_with_an_account_sas_and_a_space_in_accept_works() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let sas = AccountSas {
        version: "2019-02-02",
        services: "t",
        resource_types: "sco",
        permissions: "rwdlacu",
        expiry: "2030-01-01T00:00:00Z",
        ..AccountSas::default()
    };
    let token = sas.token(crate::harness::ACCOUNT, &crate::harness::well_known_key()).unwrap();
    let update = Request::new("PUT", &order("r"))
        .json(r#"{"A":1}"#)
        .with("If-Match", "*")
        .accept("application/json; odata=nometadata")
        .sas(&token);
    lazuli.send(&update).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":1"#);
}
