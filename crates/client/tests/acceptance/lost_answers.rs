//! The table of C-13, row by row: an answer or a request is lost, and the reported outcome is true. CS-13,
//! CS-14, CS-16.

use crate::peer::{Faulty, Peer};
use lazuli_client::{Deleted, Entity, ErrorKind, Proof, Retry, Table};
use lazuli_test::Fault;
use std::time::Duration;

const LOSES_ANSWER: [Fault; 1] = [Fault::DropReply];
const LOSES_REQUEST: [Fault; 1] = [Fault::DropRequest];

crate::scenarios! {
    cs_13_an_insert_whose_answer_is_lost_is_no_conflict
    cs_14_a_request_that_never_arrived_is_simply_sent_again
    cs_15_a_rival_s_insert_is_a_conflict_that_may_hide_ours
    cs_13_conditional_writes_are_looked_up
    cs_13_unconditional_writes_are_done_again
    cs_13_what_is_gone_is_deleted
    cs_13_tables_are_made_and_deleted_all_the_same
    cs_13_content_is_no_proof_for_the_strict
    cs_13_a_write_that_never_gets_an_answer_is_unknown
    cs_13_a_transaction_whose_answer_is_lost_is_looked_up_by_its_rows
    cs_16_a_busy_server_is_given_the_time_it_asks_for
}

struct Test {
    table: Table,
    faulty: Faulty,
    /// Without faults.
    rival: Table,
}

async fn test_with(peer: &Peer, retry: Retry) -> Test {
    let rival = peer.table("Lost").await;
    let faulty = peer.faulty();
    let account = faulty.proxy.builder().unwrap().retry(retry).build().unwrap();
    let table = account.tables().table(rival.name()).unwrap();
    Test { table, faulty, rival }
}

async fn test(peer: &Peer) -> Test {
    test_with(peer, Retry::default()).await
}

fn entity(age: i32) -> Entity {
    Entity::new("p", "r").with("Age", age).with("Ratio", f64::NAN)
}

async fn cs_13_an_insert_whose_answer_is_lost_is_no_conflict(peer: Peer) {
    let test = test(&peer).await;
    test.faulty.proxy.next(LOSES_ANSWER);
    let written = test.table.insert(&entity(1)).await.unwrap();
    assert_eq!(written.proof, Proof::Content);
    assert_eq!(test.faulty.proxy.methods(), ["POST", "POST", "GET"]);
    let read = test.rival.get(("p", "r")).required().await.unwrap();
    assert_eq!(read.etag(), &written.etag);
}

async fn cs_14_a_request_that_never_arrived_is_simply_sent_again(peer: Peer) {
    let test = test(&peer).await;
    test.faulty.proxy.next(LOSES_REQUEST);
    assert_eq!(test.table.insert(&entity(1)).await.unwrap().proof, Proof::Answered);
    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    loaded.set("Age", 2);
    test.faulty.proxy.next(LOSES_REQUEST);
    assert_eq!(test.table.replace(&loaded).await.unwrap().proof, Proof::Answered);
    test.faulty.proxy.next(LOSES_REQUEST);
    let deleted = test.table.delete_key(("p", "r")).await.unwrap();
    assert_eq!(deleted, Deleted::Now(Proof::Answered));
}

async fn cs_15_a_rival_s_insert_is_a_conflict_that_may_hide_ours(peer: Peer) {
    let test = test(&peer).await;
    test.rival.insert(&entity(7)).await.unwrap();
    test.faulty.proxy.next(LOSES_REQUEST);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");
    assert!(error.to_string().contains("may have been carried out"), "{error}");
    test.faulty.proxy.next([]);
    let plain = test.table.insert(&entity(1)).await.unwrap_err();
    assert!(plain.is_conflict() && !plain.may_have_been_applied());
}

async fn cs_13_conditional_writes_are_looked_up(peer: Peer) {
    let test = test(&peer).await;
    test.table.insert(&entity(1)).await.unwrap();
    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    loaded.set("Age", 2);
    test.faulty.proxy.next(LOSES_ANSWER);
    assert_eq!(test.table.replace(&loaded).await.unwrap().proof, Proof::Content);

    let loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.faulty.proxy.next(LOSES_ANSWER);
    let merge = test.table.merge(("p", "r")).if_match(loaded.etag()).set("Age", 3);
    assert_eq!(merge.await.unwrap().proof, Proof::Content);

    let mut loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.rival.merge(("p", "r")).set("Age", 9).await.unwrap();
    loaded.set("Age", 4);
    test.faulty.proxy.next(LOSES_REQUEST);
    let error = test.table.replace(&loaded).await.unwrap_err();
    assert!(error.is_precondition_failed() && error.may_have_been_applied());
}

async fn cs_13_unconditional_writes_are_done_again(peer: Peer) {
    let test = test(&peer).await;
    test.faulty.proxy.next(LOSES_ANSWER);
    assert_eq!(test.table.upsert(&entity(1)).await.unwrap().proof, Proof::Answered);
    for write in [
        test.table.upsert_merge(&entity(2)),
        test.table.overwrite(&entity(3)),
        test.table.upsert(&entity(4)),
    ] {
        test.faulty.proxy.next(LOSES_ANSWER);
        let written = write.await.unwrap();
        let read = test.rival.get(("p", "r")).required().await.unwrap();
        assert_eq!((written.proof, &written.etag), (Proof::Answered, read.etag()));
    }
    test.faulty.proxy.next(LOSES_ANSWER);
    let merge = test.table.merge(("p", "r")).set("Age", 5).await.unwrap();
    assert_eq!(merge.proof, Proof::Answered);
}

async fn cs_13_what_is_gone_is_deleted(peer: Peer) {
    let test = test(&peer).await;
    test.table.insert(&entity(1)).await.unwrap();
    let loaded = test.table.get(("p", "r")).required().await.unwrap();
    test.faulty.proxy.next(LOSES_ANSWER);
    assert_eq!(test.table.delete(&loaded).await.unwrap(), Deleted::Now(Proof::State));
    test.table.insert(&entity(1)).await.unwrap();
    test.faulty.proxy.next(LOSES_ANSWER);
    let deleted = test.table.delete_key(("p", "r")).await.unwrap();
    assert_eq!(deleted, Deleted::Now(Proof::State));
}

async fn cs_13_tables_are_made_and_deleted_all_the_same(peer: Peer) {
    let test = test(&peer).await;
    let tables = test.table.tables();
    let other = peer.name("Other");
    test.faulty.proxy.next(LOSES_ANSWER);
    tables.create_if_missing(&other).await.unwrap();
    test.faulty.proxy.next(LOSES_ANSWER);
    tables.delete(&other).await.unwrap();
    test.faulty.proxy.next(LOSES_ANSWER);
    let error = tables.create(&other).await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied());
}

async fn cs_13_content_is_no_proof_for_the_strict(peer: Peer) {
    // C-13.7.
    let test = test_with(&peer, Retry::default().strict()).await;
    test.faulty.proxy.next(LOSES_ANSWER);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
}

async fn cs_13_a_write_that_never_gets_an_answer_is_unknown(peer: Peer) {
    // C-13.5.
    let test = test(&peer).await;
    test.faulty.proxy.next([Fault::DropReply; 5]);
    let error = test.table.insert(&entity(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::OutcomeUnknown, 5));
    assert!(!error.is_retryable());
}

async fn cs_13_a_transaction_whose_answer_is_lost_is_looked_up_by_its_rows(peer: Peer) {
    let test = test(&peer).await;
    let other = Entity::new("p", "other").with("Age", 1);
    test.faulty.proxy.next(LOSES_ANSWER);
    let committed = test.table.batch("p").insert(&entity(1)).upsert(&other).commit().await.unwrap();
    assert_eq!(committed.proof(), Proof::Content);
    // All of its rows are checked: one alone would prove nothing about the others.
    for (index, row) in ["r", "other"].into_iter().enumerate() {
        let read = test.rival.get(("p", row)).required().await.unwrap();
        assert_eq!(committed.etag(index), Some(read.etag()));
    }

    let gone = test.table.batch("p").delete_key(("p", "r")).delete_key(("p", "other"));
    test.faulty.proxy.next(LOSES_ANSWER);
    assert_eq!(gone.commit().await.unwrap().proof(), Proof::State);

    test.rival.insert(&entity(7)).await.unwrap();
    test.faulty.proxy.next(LOSES_REQUEST);
    let error = test.table.batch("p").upsert(&other).insert(&entity(1)).commit().await.unwrap_err();
    assert_eq!(error.batch_index(), Some(1));
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");
    assert!(test.rival.get(("p", "other")).await.unwrap().is_none(), "nothing of it was done");
}

async fn cs_16_a_busy_server_is_given_the_time_it_asks_for(peer: Peer) {
    let test = test(&peer).await;
    let busy = Fault::Busy { retry_after: Some(1) };
    test.faulty.clock.take_pauses();
    test.faulty.proxy.next([busy; 2]);
    test.table.upsert(&entity(1)).await.unwrap();
    test.faulty.proxy.next([busy; 2]);
    test.table.get(("p", "r")).required().await.unwrap();
    assert_eq!(test.faulty.clock.take_pauses(), [Duration::from_secs(1); 4]);

    // The budget is charged: of 500 tokens each retry takes five, each success gives one back (C-13.3).
    let all_busy = (0..200).flat_map(|_| [busy, busy, busy, busy, busy]);
    test.faulty.proxy.next(all_busy);
    let mut retries = 0;
    for _ in 0..200 {
        let error = test.table.get(("p", "r")).await.unwrap_err();
        retries += error.attempts() - 1;
    }
    assert_eq!(retries, (500 - 4 * 5 + 2) / 5);
}
