//! Queues: every operation, and lost answers.

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::queue::{MessageEncoding, Queue};
use lazuli_client::{Deleted, ErrorKind, Proof, Retry};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

async fn queue(server: &TestServer) -> Queue {
    server.account().queues().create_if_missing("orders").await.unwrap()
}

#[tokio::test]
async fn messages_are_sent_taken_updated_and_deleted() {
    // C-17.1.
    let server = TestServer::start();
    let queue = queue(&server).await;
    let sent = queue.send("first").time_to_live(60 * SECOND).await.unwrap();
    assert_eq!(sent.expires.millis_since(sent.inserted), 60_000);
    let peeked = queue.peek(32).await.unwrap();
    assert_eq!(peeked.len(), 1);
    assert_eq!((&*peeked[0].id, &*peeked[0].body), (&*sent.id, &b"first"[..]));
    assert_eq!(peeked[0].dequeue_count, 0);

    let taken = queue.receive(32).visibility(60 * SECOND).await.unwrap();
    assert_eq!((taken.len(), taken[0].dequeue_count), (1, 1));
    assert_eq!(taken[0].body, "first");
    assert_eq!(queue.receive(1).await.unwrap(), []);
    assert_eq!(queue.approximate_count().await.unwrap(), 1);

    let receipt = queue.update(&taken[0].receipt).body("second").await.unwrap();
    let error = queue.delete(&taken[0].receipt).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ReceiptLost, "C-17.3");
    assert!(error.to_string().starts_with("delete message orders: 404 MessageNotFound"), "{error}");
    assert_eq!(queue.peek(1).await.unwrap()[0].body, "second", "visible at once");
    assert_eq!(queue.delete(&receipt).await.unwrap(), Deleted::Now(Proof::Answered));
    let error = queue.update(&receipt).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ReceiptLost, "{error}");
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_delayed_message_is_hidden_and_one_may_live_forever() {
    let server = TestServer::start();
    let queue = queue(&server).await;
    let sent = queue.send("later").delay(300 * SECOND).never_expires().await.unwrap();
    assert_eq!(sent.next_visible.millis_since(sent.inserted), 300_000);
    assert_eq!(sent.expires.rfc1123(), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert!(queue.peek(1).await.unwrap().is_empty());
    // The receipt of a put is valid until a consumer receives the message.
    queue.delete(&sent.receipt).await.unwrap();
    for bad in [
        queue.send("x").delay(Duration::from_secs(8 * 86_400)).await.unwrap_err(),
        queue.send("x").delay(10 * SECOND).time_to_live(10 * SECOND).await.unwrap_err(),
        queue.receive(33).await.unwrap_err(),
        queue.receive(1).visibility(Duration::ZERO).await.unwrap_err(),
        queue.peek(0).await.unwrap_err(),
    ] {
        assert!(matches!(bad.kind(), ErrorKind::Config(_)) && bad.attempts() == 0, "{bad}");
    }
}

#[tokio::test]
async fn bodies_are_base64_unless_the_queue_says_text() {
    // C-17.2.
    let server = TestServer::start();
    let queue = queue(&server).await;
    let text = queue.clone().plain_text();
    let bytes = vec![0_u8, 255, 1];
    queue.send(bytes.clone()).await.unwrap();
    text.send(" a<b>&\r\n é🦀 ").await.unwrap();
    queue.send_json(&("archive", 456)).await.unwrap();
    let taken = queue.receive(3).await.unwrap();
    assert_eq!((&taken[0].body[..], taken[0].encoding), (&bytes[..], MessageEncoding::Base64));
    let foreign = (&taken[1].body[..], taken[1].encoding);
    assert_eq!(foreign, (" a<b>&\r\n é🦀 ".as_bytes(), MessageEncoding::Text));
    assert_eq!(taken[2].json::<(String, u32)>().unwrap(), ("archive".to_owned(), 456));
    assert!(matches!(taken[0].json::<u32>().unwrap_err().kind(), ErrorKind::Body(_)));
    let large = queue.send(vec![0; 49_153]).await.unwrap_err();
    assert!(matches!(large.kind(), ErrorKind::TooLarge { .. }), "{large}");
    queue.send(vec![0; 49_152]).await.unwrap();
    assert!(matches!(text.send("\u{1}").await.unwrap_err().kind(), ErrorKind::Body(_)));
    queue.clear().await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

#[tokio::test]
async fn queues_are_created_listed_described_and_deleted() {
    let server = TestServer::start();
    let queues = server.account().queues();
    let queue = queues.create_if_missing("one").await.unwrap();
    queue.set_metadata([("Colour", "blue")]).await.unwrap();
    let metadata = queue.metadata().await.unwrap();
    assert_eq!(metadata.iter().collect::<Vec<_>>(), [("colour", "blue")]);
    queue.send("kept").await.unwrap();
    queues.create_if_missing("one").await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 1);
    queues.create_if_missing("two").await.unwrap();
    assert_eq!(queues.list("").await.unwrap(), ["one", "two"]);
    assert_eq!(queues.list("t").await.unwrap(), ["two"]);
    assert!(queues.delete_if_present("one").await.unwrap());
    assert!(!queues.delete_if_present("one").await.unwrap());
    assert_eq!(queue.send("x").await.unwrap_err().code(), Some("QueueNotFound"));
    let name = queues.queue("No_Name").unwrap_err();
    assert_eq!(*name.kind(), ErrorKind::Name("No_Name".into(), "queue"));
}

#[tokio::test]
async fn a_lost_answer_doubles_a_message_and_loses_no_receipt() {
    // C-13, the row of queues.
    let server = TestServer::start();
    let faults = FaultyTransport::new();
    let retry = Retry::default().pauses(Duration::from_millis(1), Duration::from_millis(1));
    let builder = server.builder().transport(faults.clone()).retry(retry);
    let queue = builder.build().unwrap().queues().create_if_missing("orders").await.unwrap();

    faults.next(&[Fault::LosesAnswer]);
    queue.send("twice").await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 2);

    faults.next(&[Fault::LosesAnswer]);
    let taken = queue.receive(1).await.unwrap();
    assert_eq!(taken.len(), 1, "the first answer took the other one");

    faults.next(&[Fault::LosesAnswer]);
    let deleted = queue.delete(&taken[0].receipt).await.unwrap();
    assert_eq!(deleted, Deleted::Now(Proof::State));
    assert_eq!(queue.approximate_count().await.unwrap(), 1);

    let sent = queue.send("x").await.unwrap();
    faults.next(&[Fault::LosesAnswer]);
    let error = queue.update(&sent.receipt).visibility(SECOND).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ReceiptLost, "{error}");
    assert!(error.may_have_been_applied(), "{error}");
}
