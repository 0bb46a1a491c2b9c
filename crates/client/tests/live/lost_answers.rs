//! The table of C-13, row by row: an answer is lost, and the verb says what is true.

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::{Deleted, Entity, ErrorKind, Proof, Retry, Table};
use std::time::Duration;

const LOSES_ANSWER: &[Fault] = &[Fault::LosesAnswer];
const LOSES_REQUEST: &[Fault] = &[Fault::LosesRequest];

struct Test {
    table: Table,
    faults: FaultyTransport,
    /// Without faults.
    rival: Table,
    _server: TestServer,
}

async fn test_with(retry: Retry) -> Test {
    let server = TestServer::start();
    let faults = FaultyTransport::new();
    let retry = retry.pauses(Duration::from_millis(1), Duration::from_millis(1));
    let account = server.builder().transport(faults.clone()).retry(retry).build().unwrap();
    let table = account.tables().create("Lost").await.unwrap();
    let rival = server.account().tables().table("Lost").unwrap();
    Test { table, faults, rival, _server: server }
}

async fn test() -> Test {
    test_with(Retry::default()).await
}

fn entity(age: i32) -> Entity {
    Entity::new("p", "r").with("Age", age).with("Ratio", f64::NAN)
}

#[tokio::test]
async fn an_insert_whose_answer_is_lost_is_no_conflict() {
    // CS-13.
    let test = test().await;
    test.faults.next(LOSES_ANSWER);
    let written = test.table.insert(&entity(1)).await.unwrap();
    assert_eq!(written.proof, Proof::Content);
    assert_eq!(test.faults.methods(), ["POST", "POST", "GET"]);
    let read = test.rival.get(("p", "r")).required().await.unwrap();
    assert_eq!(read.etag(), &written.etag);
}

#[tokio::test]
async fn a_request_that_never_arrived_is_simply_sent_again() {
    // CS-14.
    let test = test().await;
    test.faults.next(LOSES_REQUEST);
    assert_eq!(test.table.insert(&entity(1)).await.unwrap().proof, Proof::Answered);
    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    loaded.set("Age", 2);
    test.faults.next(LOSES_REQUEST);
    assert_eq!(test.table.replace(&loaded).await.unwrap().proof, Proof::Answered);
    test.faults.next(LOSES_REQUEST);
    let deleted = test.table.delete_key(("p", "r")).await.unwrap();
    assert_eq!(deleted, Deleted::Now(Proof::Answered));
}

#[tokio::test]
async fn a_rival_s_insert_is_a_conflict_that_may_hide_ours() {
    // CS-15, without write ids.
    let test = test().await;
    test.rival.insert(&entity(7)).await.unwrap();
    test.faults.next(LOSES_REQUEST);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");
    assert!(error.to_string().contains("may have been carried out"), "{error}");
    test.faults.next(&[]);
    let plain = test.table.insert(&entity(1)).await.unwrap_err();
    assert!(plain.is_conflict() && !plain.may_have_been_applied());
}

#[tokio::test]
async fn conditional_writes_are_looked_up() {
    let test = test().await;
    test.table.insert(&entity(1)).await.unwrap();
    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    loaded.set("Age", 2);
    test.faults.next(LOSES_ANSWER);
    assert_eq!(test.table.replace(&loaded).await.unwrap().proof, Proof::Content);

    let loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.faults.next(LOSES_ANSWER);
    let merge = test.table.merge(("p", "r")).if_match(loaded.etag()).set("Age", 3);
    assert_eq!(merge.await.unwrap().proof, Proof::Content);

    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.rival.merge(("p", "r")).set("Age", 9).await.unwrap();
    loaded.set("Age", 4);
    test.faults.next(LOSES_REQUEST);
    let error = test.table.replace(&loaded).await.unwrap_err();
    assert!(error.is_precondition_failed() && error.may_have_been_applied());
}

#[tokio::test]
async fn unconditional_writes_are_done_again() {
    let test = test().await;
    test.faults.next(LOSES_ANSWER);
    assert_eq!(test.table.upsert(&entity(1)).await.unwrap().proof, Proof::Answered);
    for write in [
        test.table.upsert_merge(&entity(2)),
        test.table.overwrite(&entity(3)),
        test.table.upsert(&entity(4)),
    ] {
        test.faults.next(LOSES_ANSWER);
        let written = write.await.unwrap();
        let read = test.rival.get(("p", "r")).required().await.unwrap();
        assert_eq!((written.proof, &written.etag), (Proof::Answered, read.etag()));
    }
    test.faults.next(LOSES_ANSWER);
    let merge = test.table.merge(("p", "r")).set("Age", 5).await.unwrap();
    assert_eq!(merge.proof, Proof::Answered);
}

#[tokio::test]
async fn what_is_gone_is_deleted() {
    let test = test().await;
    test.table.insert(&entity(1)).await.unwrap();
    let loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.faults.next(LOSES_ANSWER);
    assert_eq!(test.table.delete(&loaded).await.unwrap(), Deleted::Now(Proof::State));
    test.table.insert(&entity(1)).await.unwrap();
    test.faults.next(LOSES_ANSWER);
    let deleted = test.table.delete_key(("p", "r")).await.unwrap();
    assert_eq!(deleted, Deleted::Now(Proof::State));
}

#[tokio::test]
async fn tables_are_made_and_deleted_all_the_same() {
    let test = test().await;
    let tables = test.table.tables();
    test.faults.next(LOSES_ANSWER);
    tables.create_if_missing("Other").await.unwrap();
    test.faults.next(LOSES_ANSWER);
    tables.delete("Other").await.unwrap();
    test.faults.next(LOSES_ANSWER);
    let error = tables.create("Other").await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied());
}

#[tokio::test]
async fn content_is_no_proof_for_the_strict() {
    // C-13.7.
    let test = test_with(Retry::default().strict()).await;
    test.faults.next(LOSES_ANSWER);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
}

#[tokio::test]
async fn a_write_that_never_gets_an_answer_is_unknown() {
    // C-13.5.
    let test = test().await;
    test.faults.next(&[Fault::LosesAnswer; 5]);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::OutcomeUnknown, 5));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_transaction_whose_answer_is_lost_is_looked_up_by_one_of_its_rows() {
    let test = test().await;
    let other = Entity::new("p", "other").with("Age", 1);
    test.faults.next(LOSES_ANSWER);
    let committed = test.table.batch("p").insert(&entity(1)).upsert(&other).commit().await.unwrap();
    assert_eq!(committed.proof(), Proof::Content);
    let read = test.rival.get(("p", "r")).required().await.unwrap();
    assert_eq!((committed.etag(0), committed.etag(1)), (Some(read.etag()), None));

    let gone = test.table.batch("p").delete_key(("p", "r")).delete_key(("p", "other"));
    test.faults.next(LOSES_ANSWER);
    assert_eq!(gone.commit().await.unwrap().proof(), Proof::State);

    test.rival.insert(&entity(7)).await.unwrap();
    test.faults.next(LOSES_REQUEST);
    let error = test.table.batch("p").upsert(&other).insert(&entity(1)).commit().await.unwrap_err();
    assert_eq!(error.batch_index(), Some(1));
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");
    assert!(test.rival.get(("p", "other")).await.unwrap().is_none(), "nothing of it was done");
}
