//! The conformance vectors QV-1 to QV-26 (section 12 of the Queue rules), and traps of emulators.

use super::harness::{Answer, Ask, Queues};
use super::held;

fn get(queues: &Queues, target: &str) -> Answer {
    queues.send(&Ask::new("GET", target))
}

fn put_text(queues: &Queues, text: &str) -> Answer {
    queues.send(&Ask::new("POST", "/orders/messages").text(text))
}

fn code(answer: &Answer) -> &str {
    answer.element("Code").unwrap_or_default()
}

#[test]
fn qv_1_and_qv_2_a_queue_is_created_once() {
    let queues = Queues::with_orders();
    queues.send(&Ask::new("PUT", "/orders")).expect(204);
    let other = queues.send(&Ask::new("PUT", "/orders").with("x-ms-meta-a", "1")).expect(409);
    assert_eq!(code(&other), "QueueAlreadyExists");
}

/// TQ-9, TQ-10.
#[test]
fn qv_5_to_qv_7_answers_depend_on_the_version() {
    let queues = Queues::with_orders();
    let put = |version| queues.send(&Ask::new("POST", "/orders/messages").at(version).text("a"));
    let old = put("2015-07-08").expect(201);
    assert_eq!((old.body.as_str(), old.header("content-type")), ("", None));
    let new = put("2016-05-31").expect(201);
    assert!(new.element("TimeNextVisible").is_some() && new.element("MessageText").is_none());
    let got = queues.send(&Ask::new("GET", "/orders/messages").at("2015-07-08")).expect(200);
    assert!(got.body.find("DequeueCount") < got.body.find("PopReceipt"));
}

/// TQ-7.
#[test]
fn qv_8_and_qv_9_the_code_is_a_header_since_2017() {
    let queues = Queues::new();
    let ask = |version| queues.send(&Ask::new("GET", "/orders/messages").at(version)).expect(404);
    assert_eq!(ask("2017-04-17").header("x-ms-error-code"), None);
    assert_eq!(ask("2017-07-29").header("x-ms-error-code"), Some("QueueNotFound"));
}

/// TQ-44.
#[test]
fn qv_10_to_qv_12_messages_live_for_ever_and_have_64_kib() {
    let queues = Queues::with_orders();
    let forever = Ask::new("POST", "/orders/messages?messagettl=-1").text("a");
    let forever = queues.send(&forever).expect(201);
    assert_eq!(forever.element("ExpirationTime"), Some("Fri, 31 Dec 9999 23:59:59 GMT"));
    put_text(&queues, &"a".repeat(65_536)).expect(201);
    let large = put_text(&queues, &"a".repeat(65_537)).expect(413);
    assert_eq!((code(&large), large.element("MaxLimit")), ("RequestBodyTooLarge", Some("65536")));
}

/// TQ-32.
#[test]
fn qv_13_bad_xml_is_noticed_before_a_missing_queue() {
    let bad = put_text(&Queues::new(), "\u{1}").expect(400);
    assert_eq!((code(&bad), bad.element("LinePosition")), ("InvalidXmlDocument", Some("28")));
}

/// TQ-11, TQ-13, TQ-36.
#[test]
fn qv_14_and_qv_15_numbers_have_ranges() {
    let queues = Queues::with_orders();
    let many = get(&queues, "/orders/messages?numofmessages=33").expect(400);
    assert_eq!(code(&many), "OutOfRangeQueryParameterValue");
    assert!(many.body.ends_with(
        "<QueryParameterName>numofmessages</QueryParameterName><QueryParameterValue>33\
         </QueryParameterValue><MinimumAllowed>1</MinimumAllowed><MaximumAllowed>32</MaximumAllowed>\
         </Error>"
    ));
    get(&queues, "/orders/messages?visibilitytimeout=0").expect(400);
}

/// TQ-25, TQ-26, TQ-28, TQ-29, TQ-38, TQ-39.
#[test]
fn qv_16_and_qv_17_a_receipt_is_good_until_it_is_replaced() {
    let queues = Queues::with_orders();
    let (id, receipt) = held(&put_text(&queues, "a"));
    let message = format!("/orders/messages/{id}?popreceipt={receipt}");
    let update = Ask::new("PUT", &format!("{message}&visibilitytimeout=0"));
    let updated = queues.send(&update).expect(204);
    assert!(updated.header("x-ms-popreceipt").is_some_and(|receipt| receipt.len() == 32));
    assert!(updated.header("x-ms-time-next-visible").is_some());
    let stale = queues.send(&Ask::new("DELETE", &message)).expect(404);
    assert_eq!(code(&stale), "MessageNotFound");
    let missing = format!("/missing/messages/{id}?popreceipt={receipt}Random");
    let bad = queues.send(&Ask::new("DELETE", &missing)).expect(400);
    assert_eq!(bad.element("Reason"), Some("Invalid pop receipt format"));
    let other = format!("/orders/messages/{id}Random?popreceipt={receipt}");
    queues.send(&Ask::new("DELETE", &other)).expect(404);
}

/// TQ-46.
#[test]
fn qv_18_messages_of_one_get_share_a_receipt() {
    let queues = Queues::with_orders();
    for text in ["a", "b", "c"] {
        put_text(&queues, text).expect(201);
    }
    let got = get(&queues, "/orders/messages?numofmessages=3").expect(200);
    let receipts: Vec<&str> = got.body.split("<PopReceipt>").skip(1).map(|r| &r[..28]).collect();
    assert!(receipts.len() == 3 && receipts.iter().all(|receipt| *receipt == receipts[0]));
}

/// TQ-17 to TQ-20.
#[test]
fn qv_20_and_qv_21_a_page_names_the_next_queue() {
    let queues = Queues::new();
    for name in ["aaa", "aab", "aac", "aad", "bbb"] {
        queues.send(&Ask::new("PUT", &format!("/{name}"))).expect(201);
    }
    let page = get(&queues, "/?comp=list&maxresults=3").expect(200);
    assert_eq!(page.element("NextMarker"), Some("/devstoreaccount1/aad"));
    let next = "/?comp=list&include=&marker=%2Fdevstoreaccount1%2Faad";
    let next = get(&queues, next).expect(200);
    assert!(next.body.ends_with(
        "ServiceEndpoint=\"http://127.0.0.1:10001/devstoreaccount1/\"><Marker>/devstoreaccount1/aad\
         </Marker><Queues><Queue><Name>aad</Name></Queue><Queue><Name>bbb</Name></Queue></Queues>\
         <NextMarker /></EnumerationResults>"
    ));
}

#[test]
fn qv_25_and_qv_26_nothing_to_get_and_nothing_to_wait_for() {
    let queues = Queues::with_orders();
    let got = get(&queues, "/orders/messages").expect(200);
    assert!(got.body.ends_with("?><QueueMessagesList />"));
    assert_eq!(got.header("cache-control"), Some("no-cache"));
    let put = Ask::new("POST", "/orders/messages?messagettl=30&visibilitytimeout=30").text("a");
    let reason = "messagettl must be greater than visibilitytimeout";
    assert_eq!(queues.send(&put).expect(400).element("Reason"), Some(reason));
}

/// TQ-15, TQ-16, TQ-22, TQ-40.
#[test]
fn metadata_is_kept_and_its_names_are_identifiers() {
    let queues = Queues::new();
    queues.send(&Ask::new("PUT", "/orders").with("x-ms-meta-val1", " test ")).expect(201);
    let metadata = get(&queues, "/orders?comp=metadata").expect(200);
    assert_eq!(metadata.header("x-ms-meta-val1"), Some("test"));
    assert_eq!(metadata.header("x-ms-approximate-messages-count"), Some("0"));
    let set = |name| queues.send(&Ask::new("PUT", "/orders?comp=metadata").with(name, "test"));
    assert_eq!(code(&set("x-ms-meta-invalid-meta").expect(400)), "InvalidMetadata");
    let empty = set("x-ms-meta-").expect(400);
    assert_eq!((code(&empty), empty.element("MetadataValue")), ("EmptyMetadataKey", Some("test")));
    queues.send(&Ask::new("PUT", "/orders?comp=metadata")).expect(204);
    assert_eq!(get(&queues, "/orders?comp=metadata").header("x-ms-meta-val1"), None);
}

/// TQ-47, TQ-48, TQ-49, QV-22.
#[test]
fn policies_without_terms_are_kept() {
    let queues = Queues::with_orders();
    let body = "<SignedIdentifiers><SignedIdentifier><Id>empty</Id><AccessPolicy /></SignedIdentifier>\
                </SignedIdentifiers>";
    queues.send(&Ask::new("PUT", "/orders?comp=acl").body(body)).expect(204);
    let acl = get(&queues, "/orders?comp=acl").expect(200);
    let kept = "<SignedIdentifier><Id>empty</Id></SignedIdentifier>";
    assert_eq!(acl.element("SignedIdentifiers"), Some(kept));
}

/// TQ-55, TQ-56: what the service says about an invalid signature.
#[test]
fn a_bad_signature_is_answered_with_the_string_to_sign() {
    let queues = Queues::with_orders();
    let ask = Ask::new("GET", "/orders?comp=metadata")
        .with("authorization", "SharedKey devstoreaccount1:AAAA")
        .unsigned();
    let refused = queues.send(&ask).expect(403);
    let detail = refused.element("AuthenticationErrorDetail").unwrap();
    assert!(detail.starts_with(
        "The MAC signature found in the HTTP request 'AAAA' is not the same as any computed \
         signature. Server used following string to sign: 'GET\n\n\n"
    ));
    assert!(detail.ends_with("/devstoreaccount1/devstoreaccount1/orders\ncomp:metadata'."));
}

///
#[test]
fn the_secondary_shows_messages_and_hands_out_none() {
    let queues = Queues::with_orders();
    let ask = |target| queues.send(&Ask { at_secondary: true, ..Ask::new("GET", target) });
    ask("/orders/messages?peekonly=true").expect(200);
    assert_eq!(code(&ask("/orders/messages").expect(403)), "InsufficientAccountPermissions");
    let stats = ask("/?restype=service&comp=stats").expect(200);
    assert_eq!(stats.element("Status"), Some("live"));
}
