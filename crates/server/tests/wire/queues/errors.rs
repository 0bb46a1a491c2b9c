//! How requests of the Queue service fail: status line, header, details (section 8 of the rules).

use super::harness::{Answer, Ask, Queues};
use lazuli_server::QueueOptions;
use std::num::NonZeroU64;

/// The elements after the message of an error.
#[track_caller]
fn details(answer: &Answer) -> &str {
    let (_, rest) = answer.body.split_once("</Message>").expect("an error has a message");
    rest.strip_suffix("</Error>").expect("nothing follows the error")
}

#[track_caller]
fn parameter(answer: &Answer, name: &str, value: &str, reason: &str) {
    let reason = match reason {
        "" => "<Reason />".to_owned(),
        text => format!("<Reason>{text}</Reason>"),
    };
    let expect = format!(
        "<QueryParameterName>{name}</QueryParameterName><QueryParameterValue>{value}\
         </QueryParameterValue>{reason}"
    );
    assert_eq!(details(answer), expect);
}

/// no body, hence no type; the header exists from 2017-07-29 on here too, as
/// recorded HEAD requests of the Blob service show.
#[test]
fn the_answer_to_a_head_that_failed_is_a_header_at_most() {
    let queues = Queues::new();
    for (version, code) in [("2021-02-12", Some("QueueNotFound")), ("2017-04-17", None)] {
        for target in ["/orders?comp=metadata", "/orders?comp=acl"] {
            let failed = queues.send(&Ask::new("HEAD", target).at(version)).expect(404);
            assert_eq!(failed.header("x-ms-error-code"), code);
            assert_eq!((failed.header("content-type"), failed.body.as_str()), (None, ""));
        }
    }
}

/// TQ-13: a refused parameter is shown, whichever part refuses it.
#[test]
fn refused_parameters_are_shown() {
    let queues = Queues::with_orders();
    let get = |target| queues.send(&Ask::new("GET", target)).expect(400);
    parameter(&get("/?comp=list&timeout=soon"), "timeout", "soon", "");
    //
    parameter(&get("/?restype=service&comp=stats"), "comp", "stats", "");
}

///
#[test]
fn an_update_cannot_hide_a_message_past_its_expiry() {
    let queues = Queues::with_orders();
    let put = queues.send(&Ask::new("POST", "/orders/messages?messagettl=60").text("a"));
    let (id, receipt) = super::held(&put);
    let update = |seconds: u32| {
        let target = format!("/orders/messages/{id}?popreceipt={receipt}");
        queues.send(&Ask::new("PUT", &format!("{target}&visibilitytimeout={seconds}")))
    };
    let reason = "messagettl must be greater than visibilitytimeout";
    parameter(&update(61).expect(400), "visibilitytimeout", "61", reason);
    update(59).expect(204);
}

/// a body that is not even read names the same limit.
#[test]
fn a_body_too_large_to_be_read_names_the_limit() {
    let queues = Queues::with_orders();
    let text = "a".repeat(5 << 20);
    for (version, limit) in [("2021-02-12", "65536"), ("2009-09-19", "8192")] {
        let put = Ask::new("POST", "/orders/messages").at(version).text(&text);
        assert_eq!(queues.send(&put).expect(413).element("MaxLimit"), Some(limit));
    }
}

/// before the token is checked, or any issuer is configured.
#[test]
fn a_bearer_token_over_http_is_no_authentication() {
    let queues = Queues::new();
    for version in ["2021-02-12", "2018-03-28", "2017-07-29"] {
        let ask = Ask::new("GET", "/?comp=list").at(version).with("authorization", "Bearer abc");
        let refused = queues.send(&ask.unsigned()).expect(400);
        assert_eq!(refused.element("Code"), Some("InvalidAuthenticationInfo"));
        assert_eq!(refused.header("www-authenticate"), None);
    }
}

/// the name of a deleted queue is free at once, unless the operator simulates the wait.
#[test]
fn a_deleted_queue_is_in_deletion_for_as_long_as_the_operator_says() {
    let queues = Queues::with_options(QueueOptions {
        deletion_seconds: NonZeroU64::new(30),
        ..QueueOptions::default()
    });
    let create = |name: &str| queues.send(&Ask::new("PUT", name));
    create("/orders").expect(201);
    queues.send(&Ask::new("DELETE", "/orders")).expect(204);
    let refused = create("/orders").expect(409);
    assert_eq!(refused.header("x-ms-error-code"), Some("QueueBeingDeleted"));
    let message = refused.element("Message").unwrap();
    assert!(message.starts_with("The specified queue is being deleted.\n"), "{message}");
    queues.send(&Ask::new("GET", "/orders/messages")).expect(404);
    create("/others").expect(201);
    queues.clock.advance_seconds(30);
    create("/orders").expect(201);
}
