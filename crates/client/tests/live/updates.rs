//! Changes by a function, alone, with concurrent writers, and with lost answers.

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::{Account, Change, Credential, Entity, ErrorKind, Retry, Table};
use lazuli_server::{WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use std::time::Duration;

const LOSES_ANSWER: &[Fault] = &[Fault::None, Fault::LosesAnswer];

fn add_one(entity: &mut Entity) -> Result<Change, lazuli_client::BoxError> {
    let count: i32 = entity.get("Count")?;
    entity.set("Count", count + 1);
    Ok(Change::Write)
}

async fn counter(table: &Table) {
    table.insert(&Entity::new("p", "r").with("Count", 0)).await.unwrap();
}

async fn count(table: &Table) -> i32 {
    table.get(("p", "r")).required().await.unwrap().get("Count").unwrap()
}

fn faulty(server: &TestServer) -> (Table, FaultyTransport) {
    let faults = FaultyTransport::new();
    let pause = Duration::from_millis(1);
    let retry = Retry::default().pauses(pause, pause);
    let account = server.builder().transport(faults.clone()).retry(retry).build().unwrap();
    (account.tables().table("Counters").unwrap(), faults)
}

/// Works with the table in another thread, and waits for it to end.
fn beside<W: Future<Output = ()>>(endpoint: &str, work: impl FnOnce(Table) -> W + Send) {
    let credential = Credential::shared_key(WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY).unwrap();
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let account = Account::builder(endpoint).credential(credential).build().unwrap();
            work(account.tables().table("Counters").unwrap()).await;
        });
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_tasks_add_a_thousand() {
    // CS-12.
    let server = TestServer::start();
    let table = server.table("Counters").await;
    counter(&table).await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let table = table.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let update = table.update_with(("p", "r"), add_one).attempts(1000);
                    assert!(update.await.unwrap().attempts >= 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&table).await, 1000);
}

#[tokio::test]
async fn a_lost_answer_counts_once() {
    // CS-13.
    let server = TestServer::start();
    counter(&server.table("Counters").await).await;
    let (table, faults) = faulty(&server);
    for expect in 1..=10 {
        faults.next(LOSES_ANSWER);
        let updated = table.update_with(("p", "r"), add_one).await.unwrap();
        assert_eq!((updated.change, updated.attempts), (Change::Write, 1));
        assert_eq!(faults.methods(), ["GET", "PUT", "PUT", "GET"]);
        assert_eq!(count(&table).await, expect);
    }
}

#[tokio::test]
async fn a_request_that_was_lost_before_a_rival_is_counted_once_too() {
    // CS-15 (a).
    let server = TestServer::start();
    let plain = server.table("Counters").await;
    counter(&plain).await;
    plain.update_with(("p", "r"), add_one).await.unwrap();
    let (table, faults) = faulty(&server);
    faults.next(&[Fault::None, Fault::LosesRequest]);
    // The other client writes between the read and the write.
    let mut is_first = true;
    let rival = server.builder().build().unwrap().table_endpoint().map(str::to_owned).unwrap();
    let update = table.update_with(("p", "r"), move |entity| {
        if std::mem::take(&mut is_first) {
            beside(&rival, |table| async move {
                table.update_with(("p", "r"), add_one).await.unwrap();
            });
        }
        add_one(entity)
    });
    let updated = update.await.unwrap();
    assert_eq!(updated.attempts, 2, "the ids say that the first was not carried out");
    assert_eq!(count(&plain).await, 3);
}

#[tokio::test]
async fn ids_that_were_read_are_not_written_over_later_ones() {
    // C-13.6: they would say that the writes since were not carried out.
    let server = TestServer::start();
    let table = server.table("Counters").await;
    counter(&table).await;
    table.update_with(("p", "r"), add_one).await.unwrap();
    let old = table.get(("p", "r")).required().await.unwrap();
    let ids = async || {
        let now = table.get(("p", "r")).required().await.unwrap();
        now.opt::<Vec<u8>>("_WriteIds").unwrap().map(|ids| ids.len() / 16)
    };
    assert_eq!(ids().await, Some(1));
    // A transaction writes its own alone; a merge leaves those that are there.
    for (way, kept) in [None, None, None, Some(1), Some(2)].into_iter().enumerate() {
        table.update_with(("p", "r"), add_one).await.unwrap();
        match way {
            0 => drop(table.upsert(&old).await.unwrap()),
            1 => drop(table.overwrite(&old).await.unwrap()),
            2 => drop(table.batch("p").upsert(&old).commit().await.unwrap()),
            3 => table.transact("p", async |tx| tx.upsert(&*old)).await.unwrap(),
            _ => drop(table.upsert_merge(&old).await.unwrap()),
        }
        assert_eq!(count(&table).await, 1);
        assert_eq!(ids().await, kept, "{way}");
    }
}

#[tokio::test]
async fn without_ids_a_lost_answer_is_unknown_unless_the_change_is_idempotent() {
    // C-10.3.
    let server = TestServer::start();
    counter(&server.table("Counters").await).await;
    let (table, faults) = faulty(&server);
    faults.next(LOSES_ANSWER);
    let update = table.update_with(("p", "r"), add_one).without_write_id();
    let error = update.await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(count(&table).await, 1);
    let set = |entity: &mut Entity| {
        entity.set("Count", 7);
        Ok(Change::Write)
    };
    faults.next(LOSES_ANSWER);
    table.update_with(("p", "r"), set).without_write_id().idempotent().await.unwrap();
    assert_eq!(count(&table).await, 7);
}

#[tokio::test]
async fn a_function_may_keep_refuse_and_begin() {
    let server = TestServer::start();
    let table = server.table("Counters").await;
    let missing = table.update_with(("p", "r"), add_one).await.unwrap_err();
    assert_eq!(*missing.kind(), ErrorKind::NotFound);
    let begin = || Entity::new("p", "r").with("Count", 40);
    table.update_with(("p", "r"), add_one).or_insert_with(begin).await.unwrap();
    assert_eq!(count(&table).await, 41);
    let kept = table.update_with(("p", "r"), |_| Ok(Change::Keep)).await.unwrap();
    let read = table.get(("p", "r")).required().await.unwrap();
    assert_eq!((kept.change, &kept.etag), (Change::Keep, read.etag()));
    let refused = table.update_with(("p", "r"), |_| Err("no".into())).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Refused);
    assert!(format!("{refused:#}").ends_with(": no"), "{refused:#}");
}

#[tokio::test]
async fn an_update_gives_up_among_too_many_rivals() {
    let server = TestServer::start();
    let table = server.table("Counters").await;
    counter(&table).await;
    let address = server.account().table_endpoint().map(str::to_owned).unwrap();
    let rival = move |entity: &mut Entity| {
        beside(&address, |table| async move {
            table.merge(("p", "r")).set("Other", 1).await.unwrap();
        });
        add_one(entity)
    };
    let error = table.update_with(("p", "r"), rival).attempts(3).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Contended { attempts: 3 });
    assert_eq!(count(&table).await, 0);
}

#[tokio::test]
async fn an_entity_keeps_the_key_it_was_read_by() {
    // C-9.2, C-10.1: its version says nothing of another row, which may have the same one.
    let server = TestServer::start();
    let plain = server.table("Counters").await;
    counter(&plain).await;
    let (table, faults) = faulty(&server);
    let mut moved = table.get(("p", "r")).required().await.unwrap();
    *moved = Entity::new("p", "other").with("Count", 9);
    faults.next(&[]);
    let refused = |error: lazuli_client::Error| {
        let text = error.to_string();
        assert!(text.contains("another key") && text.contains("other"), "{text}");
    };
    refused(table.replace(&moved).await.unwrap_err());
    refused(table.batch("p").replace(&moved).commit().await.unwrap_err());
    let moved = &moved;
    refused(table.transact("p", |tx| async move { tx.replace(moved) }).await.unwrap_err());
    assert!(faults.sent().is_empty());

    let moves = |entity: &mut Entity| {
        *entity = Entity::new("p", "other").with("Count", 9);
        Ok(Change::Write)
    };
    refused(table.update_with(("p", "r"), moves).await.unwrap_err());
    let elsewhere = || Entity::new("p", "other").with("Count", 0);
    let absent = table.update_with(("p", "absent"), add_one).or_insert_with(elsewhere);
    refused(absent.await.unwrap_err());
    assert_eq!(faults.methods(), ["GET", "GET"]);
}

#[tokio::test]
async fn a_look_that_fails_leaves_the_outcome_unknown() {
    // C-13.5, C-13.8: the answer is lost, the second attempt is refused, and nobody can look why.
    let server = TestServer::start();
    counter(&server.table("Counters").await).await;
    let (table, faults) = faulty(&server);
    let blind = |reads: usize| {
        let before = std::iter::repeat_n(Fault::None, reads);
        let faults = before.chain([Fault::LosesAnswer, Fault::None]);
        faults.chain([Fault::LosesRequest; 5]).collect::<Vec<_>>()
    };
    let row = |name: &str| Entity::new("p", name).with("Count", 7);
    for verb in 0..6 {
        let loaded = table.get(("p", "r")).required().await.unwrap();
        // An update and a transaction read before they write.
        faults.next(&blind(usize::from(verb < 2)));
        let begin = move || row("begun");
        let result = match verb {
            0 => table.update_with(("p", "r"), add_one).await.map(drop),
            1 => {
                let work = |tx: lazuli_client::Transaction| async move {
                    let mut found = tx.get(("p", "r")).required().await?;
                    let count: i32 = found.get("Count")?;
                    found.set("Count", count + 1);
                    tx.replace(&found)
                };
                table.transact("p", work).await
            }
            2 => table.insert(&row("inserted")).await.map(drop),
            3 => table.replace(&loaded).write_id().await.map(drop),
            4 => table.batch("p").insert(&row("batched")).commit().await.map(drop),
            _ => {
                faults.next(&blind(1));
                table.update_with(("p", "begun"), add_one).or_insert_with(begin).await.map(drop)
            }
        };
        let error = result.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown, "{verb}: {error}");
        assert!(error.may_have_been_applied() && !error.is_retryable(), "{verb}: {error}");
        faults.next(&[]);
    }
    assert_eq!(count(&table).await, 2, "once by the update, once by the transaction");
    let begun = table.get(("p", "begun")).required().await.unwrap();
    assert_eq!(begun.get::<i32>("Count"), Ok(8));
}
