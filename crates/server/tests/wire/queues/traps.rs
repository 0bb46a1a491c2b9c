//! Emulator traps that neither a vector nor a unit test covers: headers, properties, tokens.

use super::harness::{Answer, Ask, Queues};
use crate::harness::ACCOUNT;
use lazuli_model::Clock;
use lazuli_server::WELL_KNOWN_KEY;
use lazuli_wire::sas::QueueSas;
use lazuli_wire::shared_key::SigningKey;

const SERVICE: &str = "/?restype=service&comp=properties";

/// Two rules, whose elements and lists are not in the service's own order.
const CORS: &str = "<StorageServiceProperties><Cors><CorsRule><MaxAgeInSeconds>5</MaxAgeInSeconds>\
    <ExposedHeaders>x-ms-meta-b*,x-ms-meta-a</ExposedHeaders><AllowedHeaders></AllowedHeaders>\
    <AllowedOrigins>http://Site.test</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
    </CorsRule></Cors></StorageServiceProperties>";

fn with_cors() -> Queues {
    let queues = Queues::with_orders();
    queues.send(&Ask::new("PUT", SERVICE).body(CORS)).expect(202);
    queues
}

/// TQ-1, TQ-6, TQ-8: version, server and the client's own id, even when a request fails.
#[test]
fn every_answer_has_the_version_asked_for_and_the_clients_id() {
    let queues = Queues::with_orders();
    for (target, status) in [("/orders/messages", 200), ("/missing/messages", 404)] {
        for version in ["2014-02-14", "2018-03-28", "2021-02-12"] {
            let ask = Ask::new("GET", target).at(version).with("x-ms-client-request-id", "mine 7");
            let answer = queues.send(&ask).expect(status);
            assert_eq!(answer.header("x-ms-version"), Some(version));
            assert_eq!(answer.header("x-ms-client-request-id"), Some("mine 7"));
            let server = "Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0";
            assert_eq!(answer.header("server"), Some(server));
        }
    }
    let without = queues.send(&Ask::new("GET", "/orders/messages")).expect(200);
    assert_eq!(without.header("x-ms-client-request-id"), None);
}

/// TQ-2, TQ-3, Q-2.10, Q-2.11: a mark, a declaration in lower case, one line.
#[test]
fn documents_begin_with_a_mark_and_are_one_line() {
    let queues = with_cors();
    for (target, status) in [
        ("/orders/messages", 200),
        ("/?comp=list", 200),
        (SERVICE, 200),
        ("/orders?comp=acl", 200),
        ("/orders/messages?numofmessages=0", 400),
    ] {
        let answer = queues.send(&Ask::new("GET", target)).expect(status);
        let begin = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><";
        assert!(answer.body.starts_with(begin), "{target}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/xml"));
        // The lines of an error are those of its message.
        let lines = if status == 200 { 1 } else { 3 };
        assert_eq!(answer.body.lines().count(), lines, "{target}: {}", answer.body);
        let empty = |text| answer.body.matches(text).count();
        assert_eq!(empty("/>"), empty(" />"), "{}", answer.body);
        assert!(!answer.body.contains("> <"), "{}", answer.body);
    }
}

/// TQ-4, Q-2.6: on reads, and on nothing else.
#[test]
fn only_what_was_read_is_not_to_be_cached() {
    let queues = Queues::with_orders();
    let ask = |method: &str, target: &str| queues.send(&Ask::new(method, target));
    let cached = |answer: Answer| answer.header("cache-control").map(str::to_owned);
    for (method, target) in [
        ("GET", "/orders/messages"),
        ("GET", "/orders/messages?peekonly=true"),
        ("GET", "/orders?comp=metadata"),
        ("HEAD", "/orders?comp=metadata"),
        ("GET", "/orders?comp=acl"),
        ("GET", "/?comp=list"),
        ("GET", SERVICE),
    ] {
        let answer = cached(ask(method, target).expect(200));
        assert_eq!(answer.as_deref(), Some("no-cache"), "{method} {target}");
    }
    let put = queues.send(&Ask::new("POST", "/orders/messages").text("a")).expect(201);
    assert_eq!(cached(put), None);
    assert_eq!(cached(ask("PUT", "/orders").expect(204)), None);
    assert_eq!(cached(ask("GET", "/missing/messages").expect(404)), None);
}

/// TQ-5, Q-2.7.
#[test]
fn an_answer_varies_by_origin_when_there_are_rules() {
    let get = Ask::new("GET", "/orders/messages");
    assert_eq!(Queues::with_orders().send(&get).expect(200).header("vary"), None);
    assert_eq!(with_cors().send(&get).expect(200).header("vary"), Some("Origin"));
}

/// TQ-51, Q-9.1, Q-9.1a: properties are returned in the service's own order.
#[test]
fn properties_come_back_in_the_order_of_the_service() {
    let answer = with_cors().send(&Ask::new("GET", SERVICE)).expect(200);
    let rule = "<AllowedMethods>GET</AllowedMethods><AllowedOrigins>http://Site.test\
        </AllowedOrigins><AllowedHeaders /><ExposedHeaders>x-ms-meta-a,x-ms-meta-b*\
        </ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds>";
    assert_eq!(answer.element("CorsRule"), Some(rule));
    let logging = "<Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false\
        </Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    assert_eq!(answer.element("Logging"), Some(logging));
    let places = ["<Logging>", "<HourMetrics>", "<MinuteMetrics>", "<Cors>"];
    let places: Vec<_> = places.iter().map(|name| answer.body.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// TQ-52, Q-9.9: origins are compared exactly.
#[test]
fn the_case_of_an_origin_counts() {
    let queues = with_cors();
    let preflight = |origin: &str| {
        let ask = Ask::new("OPTIONS", "/orders/messages").with("origin", origin);
        queues.send(&ask.with("access-control-request-method", "GET").unsigned())
    };
    preflight("http://Site.test").expect(200);
    let refused = preflight("http://site.test").expect(403);
    assert_eq!(refused.element("Code"), Some("CorsPreflightFailure"));
}

/// TQ-43, Q-7.6, Q-7.7: the server's clock decides, to the tick.
#[test]
fn a_message_is_visible_when_the_servers_clock_says_so() {
    let queues = Queues::with_orders();
    queues.send(&Ask::new("POST", "/orders/messages?visibilitytimeout=5").text("a")).expect(201);
    let visible = || {
        let peek = Ask::new("GET", "/orders/messages?peekonly=true");
        queues.send(&peek).expect(200).element("MessageText").is_some()
    };
    let put = queues.clock.now();
    queues.clock.advance_seconds(4);
    assert!(!visible());
    queues.clock.advance_seconds(1);
    assert_eq!(queues.clock.now(), put.plus_seconds(5));
    assert!(visible());
}

/// The response to a token for `orders` with these permissions.
fn by_token(queues: &Queues, permissions: &str, method: &str, target: &str) -> Answer {
    let sas = QueueSas {
        version: "2021-02-12",
        expiry: "2099-01-01",
        permissions,
        ..QueueSas::default()
    };
    let key = SigningKey::from_base64(WELL_KNOWN_KEY).unwrap();
    let token = sas.token(ACCOUNT, "orders", &key).unwrap();
    let separator = if target.contains('?') { '&' } else { '?' };
    queues.send(&Ask::new(method, &format!("{target}{separator}{token}")).text("b").unsigned())
}

/// QV-23, Q-10.6: an update needs `u`.
#[test]
fn qv_23_a_token_lacks_its_letter() {
    let queues = Queues::with_orders();
    let put = queues.send(&Ask::new("POST", "/orders/messages").text("a")).expect(201);
    let (id, receipt) = super::held(&put);
    let update = format!("/orders/messages/{id}?popreceipt={receipt}&visibilitytimeout=0");
    let refused = by_token(&queues, "rap", "PUT", &update).expect(403);
    assert_eq!(refused.element("Code"), Some("AuthorizationPermissionMismatch"));
    by_token(&queues, "raup", "PUT", &update).expect(204);
}

/// QV-24, TQ-58, Q-10.7: what no token for a queue permits, whatever its letters.
#[test]
fn qv_24_no_token_for_a_queue_deletes_it() {
    let queues = Queues::with_orders();
    for (method, target) in [
        ("DELETE", "/orders"),
        ("PUT", "/orders"),
        ("PUT", "/orders?comp=metadata"),
        ("PUT", "/orders?comp=acl"),
        ("DELETE", "/orders/messages"),
        ("GET", "/?comp=list"),
        ("GET", SERVICE),
    ] {
        let refused = by_token(&queues, "raup", method, target).expect(403);
        assert_eq!(refused.element("Code"), Some("AuthorizationFailure"), "{method} {target}");
    }
    queues.send(&Ask::new("GET", "/orders?comp=metadata")).expect(200);
}
