//! A job that moves an entity from one table to another (P-3.6, P-3.7).

use crate::{Hr, KEY, employee, server};
use lazuli_client::patterns::jobs::{
    Job, JobError, Jobs, MoveOutcome, PoisonQueue, Run, Seen, Worker, get_moved,
};
use lazuli_client::prelude::*;
use lazuli_client::queue::Queue;
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{Fault, Match, When};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Serialize, Deserialize)]
struct ArchiveEmployee {
    department: String,
    id: u32,
    seen: Option<Seen>,
}

impl ArchiveEmployee {
    fn jones(seen: Option<Seen>) -> Self {
        Self { department: "Sales".into(), id: 456, seen }
    }
}

impl Job for ArchiveEmployee {
    const KIND: &'static str = "archive-employee";
    type Context = Hr;

    async fn run(&self, hr: &Hr, run: &Run) -> Result<(), JobError> {
        let key = (&self.department, format!("{:06}", self.id));
        run.move_entity(&hr.current, key, &hr.archive).if_match(&self.seen).await?;
        Ok(())
    }
}

fn queue(account: &Account) -> Queue {
    account.queues().queue("archive").unwrap()
}

fn worker(account: &Account) -> Worker {
    Worker::new(&queue(account)).job::<ArchiveEmployee>(Hr::of(account))
}

async fn send(account: &Account, job: &ArchiveEmployee) {
    Jobs::new(&queue(account)).send(job).await.unwrap();
}

#[tokio::test]
async fn an_archived_employee_has_all_it_had() {
    // PS-3.1, and the cost in P-3: queue 3, one point read, two writes.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    server.faults().take();
    send(&server.account(), &ArchiveEmployee::jones(None)).await;
    let report = worker(&server.account()).concurrency(1).run_until_idle().await.unwrap();
    assert_eq!((report.done, report.failed, report.lost), (1, 0, 0));
    // The last one finds the queue empty.
    let methods = ["POST", "GET", "GET", "POST", "DELETE", "DELETE", "GET"];
    assert_eq!(server.faults().methods(), methods);
    assert_eq!(hr.places().await, (false, true));
    let mut archived = hr.archive.get(KEY).required().await.unwrap();
    assert!(archived.remove("_src").is_some());
    for (name, value) in employee(34).properties() {
        assert_eq!(archived.value(name), Some(value));
    }
    assert_eq!(archived.len(), employee(34).len());
    assert_eq!(queue(&server.direct()).approximate_count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_one_copy_in_the_archive() {
    // PS-3.2, for a job with and without the state that its sender saw.
    for with_seen in [false, true] {
        let setup = async |client: &TestClient| {
            let hr = Hr::create(client).await;
            hr.current.insert(&employee(34)).await.unwrap();
            let seen = hr.current.get(KEY).required().await.unwrap().seen();
            ArchiveEmployee::jones(with_seen.then_some(seen))
        };
        let write = async |client: &TestClient, job: &ArchiveEmployee| {
            send(client, job).await;
            worker(client).concurrency(1).run_until_idle().await.unwrap();
        };
        let heal = async |client: &TestClient, _: &ArchiveEmployee| {
            client.clock.advance(Duration::from_secs(31));
            worker(client).run_until_idle().await.unwrap();
        };
        let check = async |client: &TestClient, _: &ArchiveEmployee, outcome: Option<()>| {
            let hr = Hr::of(client);
            let is_sent = outcome.is_some() || !hr.places().await.0;
            if is_sent {
                assert_eq!(hr.places().await, (false, true));
                let archived = hr.archive.get(KEY).required().await.unwrap();
                assert_eq!((archived.get("Age"), archived.value("_st")), (Ok(34), None));
            }
            assert_ne!(hr.places().await, (false, false));
            assert_eq!(queue(client).approximate_count().await.unwrap(), 0);
        };
        let requests = crash::every_point(setup, write, heal, check).await.unwrap();
        assert_eq!(requests, if with_seen { 9 } else { 7 });
    }
}

#[tokio::test]
async fn an_update_between_read_and_delete_is_archived_too() {
    // PS-3.3.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    send(&server.direct(), &ArchiveEmployee::jones(None)).await;
    server.faults().take();
    server.faults().add(
        Match::any().path_contains("/Current").method(http::Method::DELETE),
        When::First(1),
        Fault::Busy { retry_after: None },
    );
    server.clock().unwrap().hold();
    let (worked, ()) =
        tokio::join!(async { worker(&server.account()).run_until_idle().await }, async {
            while server.faults().exchanges().iter().all(|e| e.method != http::Method::DELETE) {
                tokio::task::yield_now().await;
            }
            // The deletion is refused once: the update comes before its second attempt.
            hr.current.merge(KEY).set("Age", 35).await.unwrap();
            server.clock().unwrap().release();
        });
    assert_eq!(worked.unwrap().done, 1);
    assert_eq!(hr.places().await, (false, true));
    let archived = hr.archive.get(KEY).required().await.unwrap();
    let age: i32 = archived.get("Age").unwrap();
    let deletes = server.faults().exchanges();
    let deletes = deletes.iter().filter(|e| e.method == http::Method::DELETE);
    let refused = deletes.filter(|e| e.status == Some(412)).count();
    assert_eq!((age, refused), (35, 1));
}

/// A move as in the job, without the worker.
async fn run_move(account: &Account, seen: Option<Seen>) -> MoveOutcome {
    let hr = Hr::of(account);
    let outcome = Arc::new(Mutex::new(None));
    let probe = Probe { hr, outcome: outcome.clone() };
    let queue = account.queues().create_if_missing("probe").await.unwrap();
    Jobs::new(&queue).send(&ProbeJob { seen }).await.unwrap();
    Worker::new(&queue).job::<ProbeJob>(probe).run_until_idle().await.unwrap();
    let outcome = outcome.lock().unwrap().take();
    outcome.unwrap()
}

struct Probe {
    hr: Hr,
    outcome: Arc<Mutex<Option<MoveOutcome>>>,
}

#[derive(Serialize, Deserialize)]
struct ProbeJob {
    seen: Option<Seen>,
}

impl Job for ProbeJob {
    const KIND: &'static str = "probe";
    type Context = Probe;

    async fn run(&self, probe: &Probe, run: &Run) -> Result<(), JobError> {
        let hr = &probe.hr;
        let moved = run.move_entity(&hr.current, KEY, &hr.archive).if_match(&self.seen).await?;
        *probe.outcome.lock().unwrap() = Some(moved);
        Ok(())
    }
}

#[tokio::test]
async fn a_late_duplicate_moves_nobody_who_came_again() {
    // PS-3.4, first part. The archived copy of a finished move stays, even if messages come late.
    let (server, hr) = server().await;
    let account = server.direct();
    hr.current.insert(&employee(34)).await.unwrap();
    let seen = Some(hr.current.get(KEY).required().await.unwrap().seen());
    assert_eq!(run_move(&account, seen.clone()).await, MoveOutcome::Done);
    assert_eq!(run_move(&account, seen.clone()).await, MoveOutcome::WasDone);
    hr.current.insert(&employee(50)).await.unwrap();
    assert_eq!(run_move(&account, seen).await, MoveOutcome::Changed);
    assert_eq!(hr.places().await, (true, true));
    let archived = hr.archive.get(KEY).required().await.unwrap();
    assert_eq!((archived.get("Age"), archived.value("_st")), (Ok(34), None));
    // Without the state that was seen, the employee who was hired again is moved too.
    assert_eq!(run_move(&account, None).await, MoveOutcome::Done);
    let archived = hr.archive.get(KEY).required().await.unwrap();
    assert_eq!((hr.places().await, archived.get("Age")), ((false, true), Ok(50)));
}

#[tokio::test]
async fn a_run_that_died_leaves_no_copy_of_a_state_that_is_past() {
    // PS-3.4, second part: run 1 is cut after step 4, the entity is updated, run 2 is sent for the old state.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    let seen = Some(hr.current.get(KEY).required().await.unwrap().seen());
    send(&server.direct(), &ArchiveEmployee::jones(seen)).await;
    let is_commit = Match::any().path_contains("/$batch");
    server.faults().add(is_commit, When::First(1), Fault::CrashBefore);
    let doomed = worker(&server.account());
    tokio::select! {
        biased;
        _ = doomed.run_until_idle() => panic!("it died"),
        () = server.faults().crashed() => {}
    }
    assert_eq!(hr.places().await, (true, true));
    hr.current.merge(KEY).set("Age", 35).await.unwrap();
    server.clock().unwrap().advance(Duration::from_secs(31));
    assert_eq!(worker(&server.direct()).run_until_idle().await.unwrap().done, 1);
    assert_eq!(hr.places().await, (true, false));
}

#[tokio::test]
async fn a_run_that_died_after_the_commit_keeps_the_archived_copy_of_one_who_came_again() {
    // P-3.6, P-3.6c. At first the copy was distinguished from one whose original had merely changed by its mark alone: if a
    // worker crashed before it removed the mark, the archived employee was lost when another one with that number was
    // hired.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    let seen = Some(hr.current.get(KEY).required().await.unwrap().seen());
    send(&server.direct(), &ArchiveEmployee::jones(seen)).await;
    let is_end = Match::any().path_contains("/Archive(").method(http::Method::PUT);
    server.faults().add(is_end, When::First(1), Fault::CrashBefore);
    let doomed = worker(&server.account());
    tokio::select! {
        biased;
        _ = doomed.run_until_idle() => panic!("it died"),
        () = server.faults().crashed() => {}
    }
    assert_eq!(hr.places().await, (false, true));
    hr.current.insert(&employee(50)).await.unwrap();
    server.clock().unwrap().advance(Duration::from_secs(31));
    assert_eq!(worker(&server.direct()).run_until_idle().await.unwrap().done, 1);
    let ages = [&hr.current, &hr.archive].map(|table| table.get(KEY).required());
    let [current, archived] = ages;
    let (current, archived) = (current.await.unwrap(), archived.await.unwrap());
    assert_eq!((current.get("Age"), archived.get("Age")), (Ok(50), Ok(34)));
    assert_eq!((archived.value("_st"), archived.value("_gen")), (None, None));
    assert_eq!(hr.current.scan().collect_at_most(10).await.unwrap().len(), 1, "no note is left");
}

#[tokio::test]
async fn a_row_that_is_no_copy_keeps_its_place() {
    // P-3.6, P-3.6d. It was once replaced: any row without `_src` counted as older than any copy.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    hr.archive.insert(&Entity::new(KEY.0, KEY.1).with("Name", "another")).await.unwrap();
    send(&server.direct(), &ArchiveEmployee::jones(None)).await;
    let report = worker(&server.direct()).run_until_idle().await.unwrap();
    assert_eq!((report.done, report.poisoned), (0, 1));
    let archived = hr.archive.get(KEY).required().await.unwrap();
    assert_eq!((hr.places().await, archived.str("Name")), ((true, true), Ok("another")));
    let poison = PoisonQueue::of(&queue(&server.direct()), None).unwrap();
    let error = poison.list().await.unwrap().remove(0).error.unwrap();
    assert!(error.contains("the place in Archive has a row that is no copy"), "{error}");
}

#[derive(TableEntity)]
#[table(name = "Current", kind = "Indexed", partition = "{department}", row = "empid_{id:06}")]
#[index(name, row = "name_{name}_{id:06}")]
struct Indexed {
    department: String,
    id: u32,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct MoveIndexed;

impl Job for MoveIndexed {
    const KIND: &'static str = "move-indexed";
    type Context = Table<Indexed>;

    async fn run(&self, current: &Table<Indexed>, run: &Run) -> Result<(), JobError> {
        run.move_entity(current, Indexed::key("Sales", 456)?, current).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_job_moves_no_entity_that_is_more_than_one_row() {
    // P-3.7. The index copies were once left behind.
    let (server, _) = server().await;
    let account = server.direct();
    let current = account.tables().of::<Indexed>().unwrap();
    let jones = Indexed { department: "Sales".into(), id: 456, name: "Jones".into() };
    current.insert(&jones).await.unwrap();
    Jobs::new(&queue(&account)).send(&MoveIndexed).await.unwrap();
    let worker = Worker::new(&queue(&account)).job::<MoveIndexed>(current.clone());
    assert_eq!(worker.run_until_idle().await.unwrap().poisoned, 1);
    assert!(current.get(Indexed::key("Sales", 456).unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_worker_that_slept_puts_no_old_state_over_a_newer_one() {
    // PS-3.4, third part: suspended between 3 and 4.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    send(&server.direct(), &ArchiveEmployee::jones(None)).await;
    let direct = server.direct();
    let sleeper = server.account();
    let is_insert =
        |e: &lazuli_test::Exchange| e.method == http::Method::POST && e.path.ends_with("/Archive");
    // Its insert is refused for now: until it tries again, other clients act.
    let busy = Fault::Busy { retry_after: Some(1) };
    server.faults().add(Match::any().that(is_insert), When::First(1), busy);
    server.clock().unwrap().hold();
    let (worked, ()) = tokio::join!(async { worker(&sleeper).run_until_idle().await }, async {
        while !server.faults().exchanges().iter().any(is_insert) {
            tokio::task::yield_now().await;
        }
        // The suspended run pauses before its next attempt, until the clock is released.
        assert_eq!(run_move(&direct, None).await, MoveOutcome::Done);
        hr.current.insert(&employee(50)).await.unwrap();
        assert_eq!(run_move(&direct, None).await, MoveOutcome::Done);
        server.clock().unwrap().release();
    });
    worked.unwrap();
    let archived = hr.archive.get(KEY).required().await.unwrap();
    assert_eq!((hr.places().await, archived.get("Age")), ((false, true), Ok(50)));
}

#[tokio::test]
async fn a_reader_finds_the_entity_in_one_table_or_the_other() {
    // PS-3.7.
    let (server, hr) = server().await;
    let account = server.direct();
    let key = |n: usize| ("Sales".to_owned(), format!("{n:06}"));
    for n in 0..1000 {
        hr.current.upsert(&Entity::new(key(n).0, key(n).1).with("N", n as i32)).await.unwrap();
        let job = ArchiveEmployee { department: "Sales".into(), id: n as u32, seen: None };
        send(&account, &job).await;
    }
    let worker = worker(&account).concurrency(32);
    let work = async { worker.run_until_idle().await.unwrap().done };
    let read = async {
        let mut found = 0;
        for n in 0..1000 {
            let entity = get_moved(&hr.current, &hr.archive, key(n)).await.unwrap();
            assert_eq!(entity.unwrap().get("N"), Ok(n as i32), "{n} is in neither");
            found += 1;
        }
        found
    };
    let (done, found) = tokio::join!(work, read);
    assert_eq!((done, found), (1000, 1000));
    assert!(hr.current.scan().collect_at_most(1).await.unwrap().is_empty());
}
