//! Every operation in the table of C-13 with every loss of C-13.10: CS-13, CS-14.

use crate::peer::Peer;
use lazuli_client::{BoxFuture, Change, Deleted, Entity, Error, Proof, Table, Transaction};
use lazuli_test::{Fault, FaultProxy};

crate::scenarios! {
    cs_13_every_verb_says_what_became_of_it_when_an_answer_is_lost_or_cut
    cs_14_every_verb_is_sent_again_when_its_request_is_lost
    cs_13_what_was_deleted_meanwhile_is_not_found
    cs_13_messages_may_be_sent_twice_and_are_deleted_once
}

/// The outcome of an operation, in one or two words.
type Outcome = BoxFuture<'static, String>;

/// An operation, its outcome if an answer was lost, and how many requests precede the faulty one.
struct Case {
    name: &'static str,
    passes: usize,
    after_loss: &'static str,
    run: fn(Table) -> Outcome,
}

const fn case(
    name: &'static str,
    passes: usize,
    after_loss: &'static str,
    run: fn(Table) -> Outcome,
) -> Case {
    Case { name, passes, after_loss, run }
}

fn row(age: i32) -> Entity {
    Entity::new("p", "r").with("Age", age)
}

fn other() -> Entity {
    Entity::new("p", "other").with("Age", 1)
}

fn said(outcome: Result<Proof, Error>) -> String {
    match outcome {
        Ok(proof) => format!("{proof:?}"),
        Err(error) => {
            let unknown = if error.may_have_been_applied() { ", may be ours" } else { "" };
            let kind = format!("{:?}", error.kind());
            format!("{}{unknown}", kind.split([' ', '(']).next().unwrap_or_default())
        }
    }
}

fn proof(deleted: Deleted) -> Proof {
    match deleted {
        Deleted::Now(proof) => proof,
        Deleted::WasAbsent => panic!("it was there"),
    }
}

fn add_one(entity: &mut Entity) -> Result<Change, lazuli_client::BoxError> {
    let age: i32 = entity.get("Age")?;
    entity.set("Age", age + 1);
    Ok(Change::Write)
}

/// The rows of the table of C-13 about entities. Row `r` exists with an age of 1, and `other` does not.
/// Without a loss, and after a lost request, each outcome is `Answered`.
const CASES: [Case; 17] = [
    case("insert", 0, "Content", |table| {
        Box::pin(async move { said(table.insert(&other()).await.map(|it| it.proof)) })
    }),
    case("insert with a write id", 0, "WriteIds", |table| {
        Box::pin(async move { said(table.insert(&other()).write_id().await.map(|it| it.proof)) })
    }),
    case("upsert", 0, "Answered", |table| {
        Box::pin(async move { said(table.upsert(&row(2)).await.map(|it| it.proof)) })
    }),
    case("upsert_merge", 0, "Answered", |table| {
        Box::pin(async move { said(table.upsert_merge(&row(2)).await.map(|it| it.proof)) })
    }),
    case("overwrite", 0, "Answered", |table| {
        Box::pin(async move { said(table.overwrite(&row(2)).await.map(|it| it.proof)) })
    }),
    case("merge", 0, "Answered", |table| {
        Box::pin(
            async move { said(table.merge(("p", "r")).set("Age", 2).await.map(|it| it.proof)) },
        )
    }),
    case("merge or insert", 0, "Answered", |table| {
        Box::pin(async move {
            said(table.merge(("p", "r")).set("Age", 2).or_insert().await.map(|it| it.proof))
        })
    }),
    case("replace", 1, "Content", |table| {
        Box::pin(async move {
            let loaded = table.get(("p", "r")).required().await.unwrap();
            said(table.replace(&loaded.map(|_| row(2))).await.map(|it| it.proof))
        })
    }),
    case("replace with a write id", 1, "WriteIds", |table| {
        Box::pin(async move {
            let loaded = table.get(("p", "r")).required().await.unwrap();
            said(table.replace(&loaded.map(|_| row(2))).write_id().await.map(|it| it.proof))
        })
    }),
    case("conditional merge", 1, "Content", |table| {
        Box::pin(async move {
            let loaded = table.get(("p", "r")).required().await.unwrap();
            let merge = table.merge(("p", "r")).if_unchanged(&loaded).set("Age", 2);
            said(merge.await.map(|it| it.proof))
        })
    }),
    case("delete", 1, "State", |table| {
        Box::pin(async move {
            let loaded = table.get(("p", "r")).required().await.unwrap();
            said(table.delete(&loaded).await.map(proof))
        })
    }),
    case("delete_key", 0, "State", |table| {
        Box::pin(async move { said(table.delete_key(("p", "r")).await.map(proof)) })
    }),
    case("batch", 0, "Content", |table| {
        Box::pin(async move {
            let batch = table.batch("p").upsert(&row(2)).insert(&other());
            said(batch.commit().await.map(|it| it.proof()))
        })
    }),
    case("update_with", 1, "Answered", |table| {
        Box::pin(async move {
            let updated = table.update_with(("p", "r"), add_one).await;
            said(updated.map(|_| Proof::Answered))
        })
    }),
    case("update_with without ids", 1, "OutcomeUnknown, may be ours", |table| {
        Box::pin(async move {
            let updated = table.update_with(("p", "r"), add_one).without_write_id().await;
            said(updated.map(|_| Proof::Answered))
        })
    }),
    case("update_with that may be repeated", 1, "Answered", |table| {
        Box::pin(async move {
            let set = |entity: &mut Entity| {
                entity.set("Age", 2);
                Ok(Change::Write)
            };
            let updated = table.update_with(("p", "r"), set).without_write_id().idempotent().await;
            said(updated.map(|_| Proof::Answered))
        })
    }),
    case("transact", 1, "Answered", |table| {
        Box::pin(async move {
            let work = |tx: Transaction| async move {
                let Some(mut row) = tx.get(("p", "r")).await? else { return Ok(()) };
                let age: i32 = row.get("Age")?;
                row.set("Age", age + 1);
                tx.replace(&row)?;
                tx.insert(&other())
            };
            said(table.transact("p", work).await.map(|()| Proof::Answered))
        })
    }),
];

/// A table with one row, the same behind a proxy, and the proxy.
async fn table(peer: &Peer) -> (Table, Table, FaultProxy) {
    let direct = peer.table("Verbs").await;
    direct.insert(&row(1)).await.unwrap();
    let faulty = peer.faulty();
    (direct.clone(), faulty.table(&direct), faulty.proxy)
}

/// Exposes a case to a fault, and checks that it was carried out once.
async fn meet(peer: &Peer, case: &Case, fault: Fault) -> String {
    let (direct, behind, proxy) = table(peer).await;
    let passes = std::iter::repeat_n(Fault::Pass, case.passes);
    proxy.next(passes.chain([fault]));
    let said = (case.run)(behind).await;
    let age =
        |row: Option<lazuli_client::Loaded<Entity>>| row.map(|row| row.get::<i32>("Age").unwrap());
    let ages = [
        age(direct.get(("p", "r")).await.unwrap()),
        age(direct.get(("p", "other")).await.unwrap()),
    ];
    let expected = match case.name {
        "insert" | "insert with a write id" => [Some(1), Some(1)],
        "batch" | "transact" => [Some(2), Some(1)],
        "delete" | "delete_key" => [None, None],
        _ => [Some(2), None],
    };
    assert_eq!(ages, expected, "{} and {fault:?}: done once", case.name);
    said
}

async fn cs_13_every_verb_says_what_became_of_it_when_an_answer_is_lost_or_cut(peer: Peer) {
    for case in &CASES {
        assert_eq!(meet(&peer, case, Fault::Pass).await, "Answered", "{}", case.name);
        for fault in [Fault::DropReply, Fault::CutReply] {
            assert_eq!(meet(&peer, case, fault).await, case.after_loss, "{} {fault:?}", case.name);
        }
    }
}

async fn cs_14_every_verb_is_sent_again_when_its_request_is_lost(peer: Peer) {
    for case in &CASES {
        assert_eq!(meet(&peer, case, Fault::DropRequest).await, "Answered", "{}", case.name);
    }
    let faulty = peer.faulty();
    let tables = faulty.proxy.account().tables();
    let name = peer.name("Made");
    faulty.proxy.next([Fault::DropRequest]);
    tables.create(&name).await.unwrap();
    faulty.proxy.next([Fault::DropRequest]);
    tables.delete(&name).await.unwrap();
}

async fn cs_13_what_was_deleted_meanwhile_is_not_found(peer: Peer) {
    // The row about 404: ours may have been carried out before another client deleted it.
    let (direct, behind, proxy) = table(&peer).await;
    let loaded = behind.get(("p", "r")).required().await.unwrap();
    direct.delete_key(("p", "r")).await.unwrap();
    proxy.next([Fault::DropRequest]);
    let replaced = behind.replace(&loaded).await.map(|it| it.proof);
    assert_eq!(said(replaced), "NotFound, may be ours");
    proxy.next([Fault::DropRequest]);
    let merge = behind.merge(("p", "r")).if_unchanged(&loaded).set("Age", 2);
    assert_eq!(said(merge.await.map(|it| it.proof)), "NotFound, may be ours");
    proxy.next([]);
    assert_eq!(said(behind.replace(&loaded).await.map(|it| it.proof)), "NotFound");
}

async fn cs_13_messages_may_be_sent_twice_and_are_deleted_once(peer: Peer) {
    let faulty = peer.faulty();
    let queues = faulty.proxy.account().queues();
    let queue = queues.create_if_missing(&peer.name("verbs").to_lowercase()).await.unwrap();
    let second = std::time::Duration::from_secs(1);
    for (fault, messages, deleted, updated) in [
        (Fault::DropRequest, 1, "Answered", "Answered"),
        (Fault::DropReply, 2, "State", "ReceiptLost, may be ours"),
        (Fault::CutReply, 2, "State", "ReceiptLost, may be ours"),
    ] {
        queue.clear().await.unwrap();
        faulty.proxy.next([fault]);
        queue.send("work").await.unwrap();
        assert_eq!(queue.approximate_count().await.unwrap(), messages, "{fault:?}");
        let taken = queue.receive(1).await.unwrap();
        faulty.proxy.next([fault]);
        assert_eq!(said(queue.delete(&taken[0].receipt).await.map(proof)), deleted, "{fault:?}");
        let sent = queue.send("more").await.unwrap();
        faulty.proxy.next([fault]);
        let update = queue.update(&sent.receipt).visibility(second).await;
        assert_eq!(said(update.map(|_| Proof::Answered)), updated, "{fault:?}");
    }
}
