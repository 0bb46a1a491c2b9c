//! What tokens for a queue permit, and the order in which a request is checked (sections 8 and 10 of the
//! rules).

use super::harness::{Answer, Ask, Queues};
use crate::harness::ACCOUNT;
use lazuli_server::WELL_KNOWN_KEY;
use lazuli_wire::sas::QueueSas;
use lazuli_wire::shared_key::SigningKey;

const SAS: QueueSas<'_> = QueueSas {
    version: "2021-02-12",
    start: "",
    expiry: "2099-01-01T00:00:00Z",
    permissions: "raup",
    policy: "",
    addresses: "",
    protocol: "",
    signature: "",
};

/// The response to a request with a token for `orders`.
fn with_token(queues: &Queues, sas: &QueueSas<'_>, method: &str, target: &str) -> Answer {
    let key = SigningKey::from_base64(WELL_KNOWN_KEY).unwrap();
    let token = sas.token(ACCOUNT, "orders", &key).unwrap();
    let joint = if target.contains('?') { '&' } else { '?' };
    queues.send(&Ask::new(method, &format!("{target}{joint}{token}")).text("a").unsigned())
}

#[track_caller]
fn check(answer: &Answer, status: u16, code: &str) {
    let found = (answer.status, answer.header("x-ms-error-code").unwrap_or_default());
    assert_eq!(found, (status, code), "{answer:?}");
}

/// Q-10.6 to Q-10.8, Q-10.10, QV-23, QV-24, TQ-58: each letter permits its operation.
#[test]
fn a_token_opens_what_its_letters_say() {
    let queues = Queues::with_orders();
    for (letters, method, target, status) in [
        ("a", "POST", "/orders/messages", 201),
        ("r", "GET", "/orders/messages?peekonly=true", 200),
        ("r", "GET", "/orders?comp=metadata", 200),
        ("p", "GET", "/orders/messages", 200),
        ("puar", "GET", "/orders/messages", 200),
    ] {
        with_token(&queues, &QueueSas { permissions: letters, ..SAS }, method, target)
            .expect(status);
        let others: String = "raup".chars().filter(|letter| !letters.contains(*letter)).collect();
        if !others.is_empty() {
            let sas = QueueSas { permissions: &others, ..SAS };
            let refused = with_token(&queues, &sas, method, target);
            check(&refused, 403, "AuthorizationPermissionMismatch");
        }
    }
    for (method, target) in [
        ("DELETE", "/orders"),
        ("PUT", "/orders"),
        ("PUT", "/orders?comp=metadata"),
        ("DELETE", "/orders/messages"),
        ("GET", "/orders?comp=acl"),
    ] {
        check(&with_token(&queues, &SAS, method, target), 403, "AuthorizationFailure");
    }
}

/// TQ-57, TQ-59, A-5.5, A-13.14.
#[test]
fn a_token_is_good_for_its_addresses_in_every_version() {
    let queues = Queues::with_orders();
    let get = |sas: &QueueSas<'_>| with_token(&queues, sas, "GET", "/orders/messages");
    get(&QueueSas { addresses: "127.0.0.0-127.0.0.9", ..SAS }).expect(200);
    let elsewhere = get(&QueueSas { addresses: "10.0.0.1", ..SAS });
    check(&elsewhere, 403, "AuthorizationSourceIPMismatch");
    for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2018-03-28"] {
        get(&QueueSas { version, ..SAS }).expect(200);
    }
}

/// Q-8.7, Q-6.17a, Q-6.43: of several faults, the earliest in this list is reported.
#[test]
fn checks_have_an_order() {
    let queues = Queues::new();
    let send =
        |method: &str, target: &str, body: &str| queues.send(&Ask::new(method, target).body(body));
    let stranger = Ask::new("POST", "/A/messages?messagettl=0").body("<").unsigned();
    check(&queues.send(&stranger), 401, "NoAuthenticationInformation");
    check(&send("POST", "/A/messages?messagettl=0", "<"), 400, "InvalidResourceName");
    check(&send("PATCH", "/ab?comp=nonsense", ""), 400, "OutOfRangeInput");
    let out_of_range = "OutOfRangeQueryParameterValue";
    check(&send("POST", "/orders/messages?messagettl=0", "<"), 400, out_of_range);
    check(&send("POST", "/orders/messages", "<"), 400, "InvalidXmlDocument");
    let id = "/orders/messages/5d2b6f3c-0000-0000-0000-000000000000";
    let receipt = "AgAAAAMAAAAAAAAATo9G3YHt2AE%3D";
    let bad = format!("{id}?popreceipt=x&visibilitytimeout=-1");
    check(&send("PUT", &bad, "<"), 400, "InvalidQueryParameterValue");
    let range = format!("{id}?popreceipt={receipt}&visibilitytimeout=-1");
    check(&send("PUT", &range, "<"), 400, out_of_range);
    let good = format!("{id}?popreceipt={receipt}&visibilitytimeout=1");
    check(&send("PUT", &good, "<"), 400, "InvalidXmlDocument");
    check(&send("PUT", &good, ""), 404, "QueueNotFound");
    queues.send(&Ask::new("PUT", "/orders")).expect(201);
    check(&send("PUT", &good, ""), 404, "MessageNotFound");
}
