//! Changes by a function, alone, among rivals, and with lost answers.

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

/// Works with the table from another thread, and waits for the end of it.
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
    // The rival comes between the read and the write.
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
