//! What all responses of the Queue service share: headers, the form of bodies, versions (section 2 of the
//! rules).

use super::harness::{Answer, Ask, Queues};
use super::held;

const START: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><";

/// Sets one CORS rule.
fn set_cors(queues: &Queues, origin: &str) {
    let body = format!(
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{origin}</AllowedOrigins>\
         <AllowedMethods>GET</AllowedMethods><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>5\
         </MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
    );
    queues.send(&Ask::new("PUT", "/?restype=service&comp=properties").body(&body)).expect(202);
}

/// TQ-1, TQ-6, TQ-8.
#[test]
fn every_answer_names_server_version_and_ids() {
    let queues = Queues::with_orders();
    for version in ["2014-02-14", "2021-02-12", "2025-07-05"] {
        for (target, status) in [("/orders/messages", 200), ("/missing/messages", 404)] {
            let ask = Ask::new("GET", target).at(version);
            let plain = queues.send(&ask).expect(status);
            let server = "Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0";
            assert_eq!(plain.header("server"), Some(server));
            assert_eq!(plain.header("x-ms-version"), Some(version));
            assert_eq!(plain.header("x-ms-request-id").map(str::len), Some(36));
            assert_eq!(plain.header("x-ms-client-request-id"), None);
            let named = queues.send(&ask.with("x-ms-client-request-id", "a b/7")).expect(status);
            assert_eq!(named.header("x-ms-client-request-id"), Some("a b/7"));
        }
    }
}

/// TQ-2, TQ-4: reads are not cached, bodies are XML on one line, and
/// nothing has an ETag.
#[test]
fn reads_are_not_cached_and_nothing_has_an_etag() {
    let queues = Queues::new();
    let check = |ask: Ask, status: u16, is_read: bool| {
        let answer = queues.send(&ask.with("if-match", "\"x\"")).expect(status);
        assert_eq!(answer.header("cache-control"), is_read.then_some("no-cache"), "{answer:?}");
        let has_body = !answer.body.is_empty();
        assert_eq!(answer.header("content-type"), has_body.then_some("application/xml"));
        assert!(!has_body || answer.body.starts_with(START), "{}", answer.body);
        for absent in ["etag", "last-modified", "location"] {
            assert_eq!(answer.header(absent), None, "{answer:?}");
        }
        answer
    };
    check(Ask::new("PUT", "/orders"), 201, false);
    check(Ask::new("PUT", "/orders"), 204, false);
    check(Ask::new("POST", "/orders/messages").text("a"), 201, false);
    for read in [
        "/?comp=list",
        "/?restype=service&comp=properties",
        "/orders?comp=metadata",
        "/orders?comp=acl",
        "/orders/messages?peekonly=true",
        "/orders/messages",
    ] {
        check(Ask::new("GET", read), 200, true);
    }
    check(Ask::new("PUT", "/orders?comp=metadata"), 204, false);
    check(Ask::new("GET", "/missing/messages"), 404, false);
    check(Ask::new("DELETE", "/orders/messages"), 204, false);
    check(Ask::new("DELETE", "/orders"), 204, false);
}

/// TQ-5, TQ-52.
#[test]
fn answers_vary_by_origin_where_there_are_rules() {
    let queues = Queues::with_orders();
    let get = |origin| queues.send(&Ask::new("GET", "/orders/messages").with("origin", origin));
    let allowed = |answer: Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    assert_eq!(get("http://a").header("vary"), None);
    set_cors(&queues, "http://a");
    assert_eq!(get("http://b").header("vary"), Some("Origin"));
    assert_eq!(get("http://a").header("vary"), Some("Origin"));
    assert_eq!(allowed(get("http://a")).as_deref(), Some("http://a"));
    assert_eq!(allowed(get("http://A")), None);
}

/// a body without a length.
#[test]
fn a_body_needs_a_length() {
    let queues = Queues::with_orders();
    let ask = Ask { has_length: false, ..Ask::new("POST", "/orders/messages") };
    let refused = queues.send(&ask).expect(411);
    assert_eq!(refused.element("Code"), Some("MissingContentLengthHeader"));
}

/// TQ-43: the server's clock decides, to the tick.
#[test]
fn a_message_comes_back_at_its_tick() {
    let queues = Queues::with_orders();
    let put = queues.send(&Ask::new("POST", "/orders/messages").text("a")).expect(201);
    let (id, receipt) = held(&put);
    let target = format!("/orders/messages/{id}?popreceipt={receipt}&visibilitytimeout=2");
    queues.send(&Ask::new("PUT", &target)).expect(204);
    let is_visible = || {
        let peeked = queues.send(&Ask::new("GET", "/orders/messages?peekonly=true"));
        peeked.expect(200).element("MessageText").is_some()
    };
    queues.clock.advance_seconds(1);
    assert!(!is_visible());
    queues.clock.advance_seconds(1);
    // The update came a tick after the put, because the clock stands still.
    queues.clock.advance_ticks(1);
    assert!(is_visible());
}

/// Q-9.1a, Q-9.4, TQ-51: the response has its own order, not the request's.
#[test]
fn service_properties_come_back_in_the_order_of_the_service() {
    let queues = Queues::new();
    let off = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    let sent = format!(
        "<StorageServiceProperties><Cors><CorsRule><MaxAgeInSeconds>5</MaxAgeInSeconds>\
         <ExposedHeaders /><AllowedHeaders>x-ms-a*,x-ms-b</AllowedHeaders><AllowedOrigins>\
         http://a</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods></CorsRule></Cors>\
         <Logging>{off}<Delete>true</Delete><Write>false</Write><Read>true</Read><Version>1.0\
         </Version></Logging></StorageServiceProperties>"
    );
    let properties = "/?restype=service&comp=properties";
    let set = queues.send(&Ask::new("PUT", properties).body(&sent)).expect(202);
    assert_eq!(set.body, "");
    let metrics = format!("<Version>1.0</Version><Enabled>false</Enabled>{off}");
    let expect = format!(
        "{START}StorageServiceProperties><Logging><Version>1.0</Version><Read>true</Read><Write>false\
         </Write><Delete>true</Delete>{off}</Logging><HourMetrics>{metrics}</HourMetrics>\
         <MinuteMetrics>{metrics}</MinuteMetrics><Cors><CorsRule><AllowedMethods>GET,PUT\
         </AllowedMethods><AllowedOrigins>http://a</AllowedOrigins><AllowedHeaders>x-ms-b,x-ms-a*\
         </AllowedHeaders><ExposedHeaders /><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>\
         </StorageServiceProperties>"
    );
    assert_eq!(queues.send(&Ask::new("GET", properties)).expect(200).body, expect);
}
