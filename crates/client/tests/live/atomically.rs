//! Transactions across partitions and tables (C-11.7).

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use bytes::Bytes;
use lazuli_client::{
    BatchFault, Body, BoxFuture, Entity, ErrorKind, HttpTransport, Proof, Retry, Transport,
    TransportError, WriteOp,
};
use std::time::Duration;

fn row(partition: &str, row: &str) -> Entity {
    Entity::new(partition, row).with("Number", 1)
}

#[tokio::test]
async fn partitions_and_tables_change_together_or_not_at_all() {
    let server = TestServer::start();
    let (orders, stocks) = (server.table("Orders").await, server.table("Stocks").await);
    let account = server.account();
    let (orders, stocks) = (
        account.tables().table(orders.name()).unwrap(),
        account.tables().table(stocks.name()).unwrap(),
    );
    stocks.insert(&row("bolts", "oslo")).await.unwrap();
    let mut stock = stocks.get(("bolts", "oslo")).required().await.unwrap();
    stock.set("Number", 0);
    let transaction = account
        .atomically()
        .insert(&orders, &row("don", "1"))
        .insert(&orders, &row("jun", "1"))
        .replace(&stocks, &stock);
    assert_eq!((transaction.len(), transaction.is_empty()), (3, false));
    let committed = transaction.commit().await.unwrap();
    let read = stocks.get(("bolts", "oslo")).required().await.unwrap();
    assert_eq!(read.get::<i32>("Number"), Ok(0));
    assert_eq!((committed.len(), committed.etag(2)), (3, Some(read.etag())));

    // The stock has changed since it was read: nothing is written, and the error names the operation.
    let stale = account.atomically().insert(&orders, &row("don", "2")).replace(&stocks, &stock);
    let error = stale.commit().await.unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
    assert_eq!(
        (error.batch_index(), error.key().map(|key| key.row.as_str())),
        (Some(1), Some("oslo"))
    );
    assert!(orders.get(("don", "2")).await.unwrap().is_none());

    // One row key in two partitions and two tables is four entities; every operation is used.
    let committed = account
        .atomically()
        .upsert(&orders, &row("a", "r"))
        .upsert_merge(&orders, &row("b", "r"))
        .upsert(&stocks, &row("a", "r"))
        .overwrite(&stocks, &row("bolts", "oslo"))
        .delete_key(&orders, ("don", "1"))
        .write(&stocks, WriteOp::insert(&row("b", "r")))
        .commit()
        .await
        .unwrap();
    assert_eq!(committed.len(), 6);
    assert!(orders.get(("don", "1")).await.unwrap().is_none());
    assert_eq!(account.atomically().commit().await.unwrap().len(), 0);
}

#[tokio::test]
async fn what_cannot_be_one_transaction_is_refused_before_any_request() {
    let server = TestServer::start();
    let transport = FaultyTransport::new();
    let account = server.builder().transport(transport.clone()).build().unwrap();
    let table = account.tables().table("Orders").unwrap();
    transport.next(&[]);
    let twice = account
        .atomically()
        .insert(&table, &row("a", "1"))
        .insert(&table, &row("b", "1"))
        .upsert(&account.tables().table("orders").unwrap(), &row("a", "1"));
    let error = twice.commit().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidBatch(fault)
            if fault.index == 2 && fault.reason == BatchFault::NamedTwice),
        "{error}"
    );
    let many = (0..101)
        .fold(account.atomically(), |many, n| many.insert(&table, &row(&n.to_string(), "r")));
    let error = many.commit().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidBatch(fault) if fault.index == 100),
        "{error}"
    );
    let other = server.account().tables().table("Orders").unwrap();
    let error = account.atomically().insert(&other, &row("a", "1")).commit().await.unwrap_err();
    assert!(error.to_string().contains("one account"), "{error}");
    assert!(transport.sent().is_empty());
}

/// A service without Lazuli's extensions.
struct Plain(HttpTransport);

impl Transport for Plain {
    fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        for header in ["x-lazuli-extensions", "x-lazuli-transaction"] {
            request.headers_mut().remove(header);
        }
        self.0.send(request)
    }
}

#[tokio::test]
async fn a_service_without_such_transactions_is_asked_and_gets_no_write() {
    let server = TestServer::start();
    server.table("Orders").await;
    let plain = Plain(HttpTransport::new(Duration::from_secs(10)).unwrap());
    let account = server.builder().transport(plain).build().unwrap();
    let table = account.tables().table("Orders").unwrap();
    // One partition: an ordinary service would carry it out.
    let error = account.atomically().insert(&table, &row("a", "1")).commit().await.unwrap_err();
    assert!(error.to_string().contains("no transactions over partitions"), "{error}");
    assert!(error.to_string().contains("hint: a Lazuli server has"), "{error}");
    // The same with a message.
    let mails = account.queues().create_if_missing("mails").await.unwrap();
    let message = account.atomically().insert(&table, &row("a", "1")).send(mails.send("hello"));
    let error = message.commit().await.unwrap_err();
    assert!(error.to_string().contains("hint: a Lazuli server has"), "{error}");
    assert!(table.get(("a", "1")).await.unwrap().is_none());
    assert!(mails.peek(1).await.unwrap().is_empty());
}

/// A service, or a balancer before it, that has enough to do.
struct Throttling;

impl Transport for Throttling {
    fn send(
        &self,
        _: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let mut answer = http::Response::new(Body::from(Bytes::new()));
        *answer.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test]
async fn a_service_that_throttles_is_not_said_to_lack_such_transactions() {
    // C-11.7.
    let server = TestServer::start();
    let account = server.builder().transport(Throttling).retry(Retry::none()).build().unwrap();
    let table = account.tables().table("Orders").unwrap();
    let error = account.atomically().insert(&table, &row("a", "1")).commit().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Throttled, "{error}");
}

#[tokio::test]
async fn a_lost_answer_is_looked_up() {
    // C-13: all or nothing, so one row is enough.
    let server = TestServer::start();
    server.table("Orders").await;
    let transport = FaultyTransport::new();
    let account = server.builder().transport(transport.clone()).build().unwrap();
    let table = account.tables().table("Orders").unwrap();
    let write =
        |n: &str| account.atomically().insert(&table, &row("a", n)).insert(&table, &row("b", n));
    write("0").commit().await.unwrap();
    transport.next(&[Fault::LosesAnswer]);
    assert_eq!(write("1").commit().await.unwrap().proof(), Proof::Content);
    transport.next(&[Fault::LosesRequest]);
    assert_eq!(write("2").commit().await.unwrap().proof(), Proof::Answered);
}
