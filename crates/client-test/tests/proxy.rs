//! What a client experiences behind the proxy, fault by fault (C-19.2).

#![expect(clippy::unwrap_used, reason = "tests may")]

use http::Method;
use lazuli_client::prelude::*;
use lazuli_client::{Proof, Retry};
use lazuli_test::{Fault, FaultyServer, Match, StorageService, TestServer, When};
use std::time::Duration;

async fn server_and_table() -> (FaultyServer, Table) {
    let server = TestServer::with_faults().await.unwrap();
    server.direct().tables().create("Tab").await.unwrap();
    let table = server.account().tables().table("Tab").unwrap();
    (server, table)
}

fn entity() -> Entity {
    Entity::new("p", "r").with("Text", "x".repeat(1000))
}

async fn is_there(server: &FaultyServer) -> bool {
    let table = server.direct().tables().table("Tab").unwrap();
    table.get(("p", "r")).await.unwrap().is_some()
}

/// What a client without retries gets from an upsert, and whether the server has done it.
async fn upsert_meets(fault: Fault) -> (Result<(), ErrorKind>, bool) {
    let (server, _) = server_and_table().await;
    let account = server.faults().builder().unwrap().retry(Retry::none()).build().unwrap();
    server.faults().next([fault]);
    let outcome = account.tables().table("Tab").unwrap().upsert(&entity()).await;
    (outcome.map(drop).map_err(|error| error.kind().clone()), is_there(&server).await)
}

#[tokio::test]
async fn faults_are_what_they_say() {
    assert_eq!(upsert_meets(Fault::Pass).await, (Ok(()), true));
    assert_eq!(upsert_meets(Fault::DropRequest).await, (Err(ErrorKind::OutcomeUnknown), false));
    assert_eq!(upsert_meets(Fault::DropReply).await, (Err(ErrorKind::OutcomeUnknown), true));
    assert_eq!(upsert_meets(Fault::CutReply).await, (Err(ErrorKind::OutcomeUnknown), true));
    let busy = Fault::Busy { retry_after: None };
    assert_eq!(upsert_meets(busy).await, (Err(ErrorKind::OutcomeUnknown), false));
    let late = Fault::Delay(Duration::from_secs(36));
    assert_eq!(upsert_meets(late).await, (Err(ErrorKind::OutcomeUnknown), true));
    let in_time = Fault::Delay(Duration::from_secs(34));
    assert_eq!(upsert_meets(in_time).await, (Ok(()), true));
}

#[tokio::test]
async fn a_read_whose_body_is_cut_is_done_again() {
    let (server, table) = server_and_table().await;
    table.insert(&entity()).await.unwrap();
    server.faults().next([Fault::CutReply]);
    assert_eq!(table.get(("p", "r")).required().await.unwrap().str("Text").unwrap().len(), 1000);
    let exchanges = server.faults().take();
    let seen: Vec<_> = exchanges.iter().map(|seen| (seen.fault, seen.status)).collect();
    assert_eq!(seen, [(Fault::CutReply, Some(200)), (Fault::Pass, Some(200))]);
    assert!(server.faults().exchanges().is_empty());
}

#[tokio::test]
async fn rules_choose_among_exchanges() {
    let (server, table) = server_and_table().await;
    let puts = Match::any().service(StorageService::Table).method(Method::PUT);
    server.faults().add(puts, When::Nth(1), Fault::DropRequest);
    let batches = Match::any().that(|exchange| exchange.is_batch() && exchange.operations() == 2);
    server.faults().add(batches, When::First(1), Fault::DropReply);
    for _ in 0..2 {
        assert_eq!(table.upsert(&entity()).await.unwrap().proof, Proof::Answered);
    }
    assert_eq!(server.faults().methods(), ["PUT"; 3]);
    let other = Entity::new("p", "other");
    let committed = table.batch("p").upsert(&entity()).upsert(&other).commit().await.unwrap();
    assert_eq!(committed.proof(), Proof::Answered);
    let batches = server.faults().take().into_iter().filter(|exchange| exchange.is_batch());
    assert_eq!(batches.map(|batch| batch.operations()).collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test]
async fn a_dead_client_reaches_nobody() {
    let (server, table) = server_and_table().await;
    server.faults().next([Fault::CrashAfter]);
    let (entity, second) = (entity(), Entity::new("p", "second"));
    let write = async {
        table.upsert(&entity).await.unwrap();
        table.upsert(&second).await.unwrap();
    };
    tokio::select! {
        () = write => panic!("it is dead"),
        () = server.faults().crashed() => {}
    }
    assert!(is_there(&server).await);
    let again = table.upsert(&second);
    let waited = tokio::time::timeout(Duration::from_millis(20), again.into_future()).await;
    assert!(waited.is_err());
    assert_eq!(server.faults().exchanges().len(), 1);
}

#[tokio::test]
async fn queues_have_a_port_too() {
    let server = TestServer::with_faults().await.unwrap();
    assert!(server.faults().connection_string().contains("QueueEndpoint=http://127.0.0.1:"));
    assert!(!server.faults().connection_string().contains("BlobEndpoint"));
}
