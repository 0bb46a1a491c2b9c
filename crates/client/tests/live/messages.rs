//! Messages in transactions across partitions and tables (C-11.7, X-4.6).

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::queue::Queue;
use lazuli_client::{Account, BatchFault, Entity, Error, ErrorKind, Proof, Table, WriteOp};
use std::time::Duration;

fn row(partition: &str, row: &str) -> Entity {
    Entity::new(partition, row).with("Number", 1)
}

fn is_unknown(error: &Error) -> bool {
    *error.kind() == ErrorKind::OutcomeUnknown
}

/// An account whose requests can be lost, its table and its queue. The service's features have been checked already.
struct Shop {
    _server: TestServer,
    transport: FaultyTransport,
    account: Account,
    orders: Table,
    mails: Queue,
}

impl Shop {
    async fn open() -> Self {
        let server = TestServer::start();
        let transport = FaultyTransport::new();
        let account = server.builder().transport(transport.clone()).build().unwrap();
        let orders = account.tables().create("Orders").await.unwrap();
        let mails = account.queues().create_if_missing("mails").await.unwrap();
        account.atomically().insert(&orders, &row("first", "1")).commit().await.unwrap();
        Self { _server: server, transport, account, orders, mails }
    }

    /// The bodies of all messages.
    async fn mails(&self) -> Vec<String> {
        let messages = self.mails.peek(32).await.unwrap();
        messages.iter().map(|m| String::from_utf8(m.body.to_vec()).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_message_is_put_with_the_writes_or_not_at_all() {
    let shop = Shop::open().await;
    let later = shop.account.queues().create_if_missing("later").await.unwrap();
    let hour = Duration::from_secs(3600);
    let transaction = shop
        .account
        .atomically()
        .send(shop.mails.send("thank don"))
        .insert(&shop.orders, &row("don", "1"))
        .insert(&shop.orders, &row("jun", "1"))
        .send(later.send_json(&17).delay(hour));
    assert_eq!((transaction.len(), transaction.is_empty()), (4, false));
    let committed = transaction.commit().await.unwrap();
    assert_eq!((committed.len(), committed.proof()), (2, Proof::Answered));
    let read = shop.orders.get(("jun", "1")).required().await.unwrap();
    assert_eq!(committed.etag(1), Some(read.etag()));
    assert_eq!(shop.mails().await, ["thank don"]);
    // The delay was applied, and the receipts are valid.
    assert!(later.peek(1).await.unwrap().is_empty());
    let [mail, hidden] = committed.messages() else { panic!("{committed:?}") };
    assert!(hidden.next_visible > mail.next_visible);
    later.delete(&hidden.receipt).await.unwrap();
    assert_eq!(later.approximate_count().await.unwrap(), 0);

    // The row exists already: no message.
    let twice = shop.account.atomically().insert(&shop.orders, &row("don", "1"));
    let error = twice.send(shop.mails.send("never")).commit().await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(shop.mails().await, ["thank don"]);

    // The queue does not exist: no row, and the error names the operation.
    let nowhere = shop.account.queues().queue("nowhere").unwrap();
    let lost = shop.account.atomically().insert(&shop.orders, &row("don", "2"));
    let lost = lost.send(shop.mails.send("never")).send(nowhere.send("never"));
    let error = lost.commit().await.unwrap_err();
    assert_eq!((error.code(), error.batch_index()), (Some("QueueNotFound"), Some(2)), "{error}");
    assert!(error.to_string().contains("a message to the queue nowhere"), "{error}");
    assert!(shop.orders.get(("don", "2")).await.unwrap().is_none());
    assert_eq!(shop.mails().await, ["thank don"]);
}

#[tokio::test]
async fn a_lost_answer_is_proved_by_the_row() {
    // C-13: the message leaves no trace, the row does.
    let shop = Shop::open().await;
    let write = |n: &str| {
        let message = shop.mails.send(n.to_owned());
        shop.account.atomically().insert(&shop.orders, &row("a", n)).send(message).commit()
    };
    shop.transport.next(&[Fault::LosesAnswer]);
    let committed = write("1").await.unwrap();
    assert_eq!((committed.proof(), committed.messages().len()), (Proof::WriteIds, 0));
    shop.transport.next(&[Fault::LosesRequest]);
    assert_eq!(write("2").await.unwrap().proof(), Proof::Answered);
    assert_eq!(shop.mails().await, ["1", "2"]);
    // Equal content proves nothing: the row existed before.
    shop.orders.upsert(&row("a", "3")).await.unwrap();
    shop.transport.next(&[Fault::LosesRequest]);
    let error = write("3").await.unwrap_err();
    assert!(error.may_have_been_applied() && is_unknown(&error), "{error}");
    assert_eq!(shop.mails().await, ["1", "2"]);
}

#[tokio::test]
async fn a_version_that_was_read_proves_what_did_not_happen() {
    let shop = Shop::open().await;
    shop.orders.insert(&row("a", "1")).await.unwrap();
    let seen = shop.orders.get(("a", "1")).required().await.unwrap();
    let replace = |text: &'static str| {
        let replace = shop.account.atomically().replace(&shop.orders, &seen);
        replace.send(shop.mails.send(text)).commit()
    };
    shop.transport.next(&[Fault::LosesAnswer]);
    assert_eq!(replace("yes").await.unwrap().proof(), Proof::WriteIds);
    let error = replace("stale").await.unwrap_err();
    assert!(error.is_precondition_failed() && !error.may_have_been_applied(), "{error}");
    // A deletion: an absent row does not show who deleted it.
    let seen = shop.orders.get(("a", "1")).required().await.unwrap();
    let delete = shop.account.atomically().delete(&shop.orders, &seen);
    shop.transport.next(&[Fault::LosesAnswer]);
    let error = delete.send(shop.mails.send("gone")).commit().await.unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert_eq!(shop.mails().await, ["yes", "gone"]);
}

#[tokio::test]
async fn what_would_put_a_message_twice_is_not_sent_again() {
    let shop = Shop::open().await;
    for (fault, mails) in [(Fault::LosesAnswer, 1), (Fault::LosesRequest, 1)] {
        shop.transport.next(&[fault]);
        let upsert = shop.account.atomically().upsert(&shop.orders, &row("a", "1"));
        let error = upsert.send(shop.mails.send("once")).commit().await.unwrap_err();
        assert!(is_unknown(&error) && !error.is_retryable(), "{error}");
        assert_eq!(shop.transport.methods(), ["POST"]);
        assert_eq!(shop.mails().await.len(), mails);
    }
}

#[tokio::test]
async fn messages_that_cannot_be_sent_are_refused_before_any_request() {
    let shop = Shop::open().await;
    shop.transport.next(&[]);
    let alone = shop.account.atomically().send(shop.mails.send("alone"));
    let error = alone.commit().await.unwrap_err();
    assert!(error.to_string().contains("hint: send them to the queue"), "{error}");

    let large = shop.account.atomically().insert(&shop.orders, &row("a", "1"));
    let large = large.send(shop.mails.send(vec![0; 65_536]));
    let error = large.commit().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidBatch(fault)
            if fault.index == 1 && matches!(fault.reason, BatchFault::Write(_))),
        "{error}"
    );

    let many = shop.account.atomically().write(&shop.orders, WriteOp::insert(&row("a", "1")));
    let many = (0..100).fold(many, |many, _| many.send(shop.mails.send("x")));
    let error = many.commit().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidBatch(fault)
            if fault.index == 100 && fault.reason == BatchFault::TooManyOperations),
        "{error}"
    );
    let other = TestServer::start().account().queues().queue("mails").unwrap();
    let strange = shop.account.atomically().insert(&shop.orders, &row("a", "1"));
    let error = strange.send(other.send("x")).commit().await.unwrap_err();
    assert!(error.to_string().contains("one account"), "{error}");
    assert!(shop.transport.sent().is_empty());
}
