//! Eventually consistent transactions (P-3).

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::AccountBuilder;
use lazuli_client::patterns::jobs::{
    Job, JobError, Jobs, MoveOutcome, PoisonQueue, Run, Seen, Worker, get_moved,
};
use lazuli_client::prelude::*;
use lazuli_client::queue::Queue;
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{Azurite, Fault, FaultyServer, Match, TestClock, TestServer, When};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

const KEY: (&str, &str) = ("Sales", "000456");

#[derive(Clone)]
struct Hr {
    current: Table,
    archive: Table,
}

impl Hr {
    fn of(account: &Account) -> Self {
        let table = |name| account.tables().table(name).unwrap();
        Self { current: table("Current"), archive: table("Archive") }
    }

    async fn create(account: &Account) -> Self {
        for name in ["Current", "Archive"] {
            account.tables().create(name).await.unwrap();
        }
        account.queues().create_if_missing("archive").await.unwrap();
        Self::of(account)
    }

    async fn places(&self) -> (bool, bool) {
        let [current, archive] = [&self.current, &self.archive].map(|table| table.get(KEY));
        (current.await.unwrap().is_some(), archive.await.unwrap().is_some())
    }
}

fn employee(age: i32) -> Entity {
    Entity::new(KEY.0, KEY.1)
        .with("Name", "Jones")
        .with("Age", age)
        .with("Ticks", 9_007_199_254_740_993_i64)
        .with("Photo", vec![0_u8, 255])
        .with("Ratio", 0.5)
        .with("Manager", true)
}

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

async fn server() -> (FaultyServer, Hr) {
    let server = TestServer::with_faults().await.unwrap();
    let hr = Hr::create(&server.direct()).await;
    (server, hr)
}

#[tokio::test]
async fn an_archived_employee_has_all_it_had() {
    // PS-3.1, and the cost of P-3: queue 3, one point read, two writes.
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
            // The delete is refused once: the update comes before its second attempt.
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

/// A move as the job does it, past the worker.
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
    // PS-3.4, first part. The archived copy of a move that ended stays, whatever comes late.
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
    // Without the state that was seen, the one who came again goes too.
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
    // P-3.6. The copy was once told from one whose original had only changed by its mark alone: a worker that died
    // before it took the mark away lost the archived employee when another one of that number was hired.
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
    // P-3.6. It was once replaced: whatever lacked `_src` counted as older than any copy.
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
    // P-3.7. The copies of its indexes were once left behind.
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
    // PS-3.4, third part: asleep between 3 and 4.
    let (server, hr) = server().await;
    hr.current.insert(&employee(34)).await.unwrap();
    send(&server.direct(), &ArchiveEmployee::jones(None)).await;
    let direct = server.direct();
    let sleeper = server.account();
    let is_insert =
        |e: &lazuli_test::Exchange| e.method == http::Method::POST && e.path.ends_with("/Archive");
    // Its insert is refused for now: until it tries again, others act.
    let busy = Fault::Busy { retry_after: Some(1) };
    server.faults().add(Match::any().that(is_insert), When::First(1), busy);
    server.clock().unwrap().hold();
    let (worked, ()) = tokio::join!(async { worker(&sleeper).run_until_idle().await }, async {
        while !server.faults().exchanges().iter().any(is_insert) {
            tokio::task::yield_now().await;
        }
        // The sleeper pauses before its next attempt, until the clock is released.
        assert_eq!(run_move(&direct, None).await, MoveOutcome::Done);
        hr.current.insert(&employee(50)).await.unwrap();
        assert_eq!(run_move(&direct, None).await, MoveOutcome::Done);
        server.clock().unwrap().release();
    });
    worked.unwrap();
    let archived = hr.archive.get(KEY).required().await.unwrap();
    assert_eq!((hr.places().await, archived.get("Age")), ((false, true), Ok(50)));
}

#[derive(Serialize, Deserialize)]
struct Flaky;

#[derive(Clone, Default)]
struct Switch {
    runs: Arc<AtomicU32>,
    is_fixed: Arc<AtomicU32>,
}

impl Job for Flaky {
    const KIND: &'static str = "flaky";
    type Context = Switch;

    async fn run(&self, switch: &Switch, _: &Run) -> Result<(), JobError> {
        switch.runs.fetch_add(1, Ordering::Relaxed);
        match switch.is_fixed.load(Ordering::Relaxed) {
            0 => Err(std::io::Error::other("the printer is on fire").into()),
            1 => Err(JobError::never("there is no printer")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_job_that_always_fails_goes_to_the_poison_queue_and_back() {
    // PS-3.5.
    let server = TestServer::builder().clock(TestClock::default()).start().await.unwrap();
    let (account, clock) = (server.account(), server.clock().unwrap());
    let queue = account.queues().create_if_missing("flaky").await.unwrap();
    let switch = Switch::default();
    let worker = Worker::new(&queue).job::<Flaky>(switch.clone());
    let id = Jobs::new(&queue).send(&Flaky).await.unwrap();
    for (run, pause) in [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80)] {
        let report = worker.run_until_idle().await.unwrap();
        assert_eq!(report.failed, 1, "{report:?}");
        assert_eq!(switch.runs.load(Ordering::Relaxed), run);
        clock.advance(Duration::from_secs(pause - 1));
        assert!(queue.peek(1).await.unwrap().is_empty(), "{pause} s have not passed");
        clock.advance(Duration::from_secs(2));
    }
    assert_eq!(worker.run_until_idle().await.unwrap().poisoned, 1);
    assert_eq!(switch.runs.load(Ordering::Relaxed), 5);
    let poison = PoisonQueue::of(&queue, None).unwrap();
    let listed = poison.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].id, listed[0].kind.as_deref()), (&*id, Some("flaky")));
    assert_eq!(listed[0].error.as_deref(), Some("the printer is on fire"));
    assert_eq!(listed[0].dequeues, Some(6));

    poison.requeue(&id).await.unwrap();
    assert_eq!(poison.list().await.unwrap(), []);
    switch.is_fixed.store(2, Ordering::Relaxed);
    assert_eq!(worker.run_until_idle().await.unwrap().done, 1);

    // What never works goes at once; what is no job, too.
    switch.is_fixed.store(1, Ordering::Relaxed);
    Jobs::new(&queue).send(&Flaky).await.unwrap();
    queue.send("not a job").await.unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().poisoned, 2);
    let listed = poison.list().await.unwrap();
    let errors: Vec<_> = listed.iter().filter_map(|job| job.error.as_deref()).collect();
    assert_eq!(errors.len(), 2);
    assert!(errors.contains(&"there is no printer"), "{errors:?}");
    for job in &listed {
        poison.discard(&job.id).await.unwrap();
    }
    assert_eq!(poison.list().await.unwrap(), []);
    assert!(poison.discard("nobody").await.unwrap_err().is_not_found());
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

#[derive(Serialize, Deserialize)]
struct Long;

#[derive(Clone, Default)]
struct Gate {
    runs: Arc<AtomicU32>,
    begun: Arc<Notify>,
    open: Arc<Notify>,
}

impl Job for Long {
    const KIND: &'static str = "long";
    type Context = Gate;

    async fn run(&self, gate: &Gate, _: &Run) -> Result<(), JobError> {
        gate.runs.fetch_add(1, Ordering::Relaxed);
        gate.begun.notify_one();
        gate.open.notified().await;
        Ok(())
    }
}

#[tokio::test]
async fn a_long_job_keeps_its_message_and_a_dead_worker_loses_it() {
    // PS-3.6, with twice its times.
    let (server, _) = server().await;
    let clock = server.clock().unwrap().clone();
    let direct = server.direct().queues().create_if_missing("long").await.unwrap();
    let queue = server.account().queues().queue("long").unwrap();
    Jobs::new(&direct).send(&Long).await.unwrap();
    let gate = Gate::default();
    let updates = || {
        let exchanges = server.faults().exchanges();
        exchanges.iter().filter(|e| e.method == http::Method::PUT && e.status == Some(204)).count()
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let first = Worker::new(&queue).job::<Long>(gate.clone()).concurrency(1);
    let first = first.visibility(Duration::from_secs(60));
    let first = first.run(async { drop(stopped.await) });
    let rest = async {
        gate.begun.notified().await;
        // Ten minutes pass, second by second: a request in flight must not grow older than its bound. The
        // message is hidden again and again, at half of its minute.
        for _ in 0..600 {
            clock.advance(Duration::from_secs(1));
            assert!(direct.peek(1).await.unwrap().is_empty(), "hidden");
        }
        assert!(updates() >= 10, "{}", updates());
        gate.open.notify_one();
        drop(stop);
    };
    let (report, ()) = tokio::join!(first, rest);
    assert_eq!((report.unwrap().done, gate.runs.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(direct.approximate_count().await.unwrap(), 0);

    // A worker dies; another takes over after the 30 s.
    Jobs::new(&direct).send(&Long).await.unwrap();
    {
        let dead = Worker::new(&queue).job::<Long>(gate.clone());
        tokio::select! {
            _ = dead.run(std::future::pending()) => panic!("it does not end"),
            () = gate.begun.notified() => {}
        }
    }
    clock.advance(Duration::from_secs(29));
    assert!(direct.peek(1).await.unwrap().is_empty());
    clock.advance(Duration::from_secs(2));
    gate.open.notify_one();
    let second = Worker::new(&direct).job::<Long>(gate.clone());
    assert_eq!(second.run_until_idle().await.unwrap().done, 1);
    assert_eq!(gate.runs.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_job_whose_message_somebody_else_took_is_dropped() {
    // P-3.2.
    let (server, _) = server().await;
    let clock = server.clock().unwrap().clone();
    let queue = server.account().queues().create_if_missing("long").await.unwrap();
    Jobs::new(&queue).send(&Long).await.unwrap();
    let gate = Gate::default();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&queue).job::<Long>(gate.clone()).concurrency(1);
    let rest = async {
        gate.begun.notified().await;
        // No time for the worker: the message is visible, and taken, before it hides it again.
        clock.advance(Duration::from_secs(31));
        let rival = server.direct().queues().queue("long").unwrap();
        let taken = rival.receive(1).await.unwrap();
        assert_eq!(taken.len(), 1);
        drop(stop);
    };
    let work = async { worker.run(async { drop(stopped.await) }).await };
    let ((), report) = tokio::join!(biased; rest, work);
    assert_eq!(report.unwrap().lost, 1);
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

#[derive(Serialize, Deserialize)]
struct Count {
    n: u32,
}

impl Job for Count {
    const KIND: &'static str = "count";
    type Context = Table;

    async fn run(&self, table: &Table, run: &Run) -> Result<(), JobError> {
        let row = Entity::new(format!("{:03}", self.n % 100), format!("{:06}", self.n));
        run.upsert(table, &row).await
    }
}

#[tokio::test]
async fn no_job_is_lost_when_workers_are_killed() {
    // PS-3.8: two queues, three workers, one killed again and again. The full test has 10,000 jobs.
    let jobs = u32::try_from(lazuli_test::crash::chosen_rounds(1000)).unwrap();
    let clock = TestClock::default();
    let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
    let account = server.account();
    let table = account.tables().create("Counts").await.unwrap();
    let mut queues = Vec::new();
    for name in ["one", "two"] {
        queues.push(account.queues().create_if_missing(name).await.unwrap());
    }
    for n in 0..jobs {
        Jobs::new(&queues[(n % 2) as usize]).send(&Count { n }).await.unwrap();
    }
    let worker = |n: usize| {
        Worker::new(&queues[n % 2]).job::<Count>(table.clone()).concurrency(8).dequeues_max(100)
    };
    let mut done = 0;
    let mut kills = 0_u32;
    while kills < 40 {
        let (a, b, c) = (worker(0), worker(1), worker(kills as usize));
        let doomed = async {
            // Killed after some work, wherever it stands.
            for _ in 0..(kills % 7) * 40 + 20 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = c.run(std::future::pending()) => unreachable!("it runs until it is killed"),
            () = doomed => {}
        }
        kills += 1;
        if kills.is_multiple_of(10) {
            let (a, b) = tokio::join!(a.run_until_idle(), b.run_until_idle());
            done += a.unwrap().done + b.unwrap().done;
        }
        clock.advance(Duration::from_secs(10));
    }
    // A request of a worker that was killed may still arrive, and hide messages once more.
    for _ in 0..10 {
        clock.advance(Duration::from_secs(60));
        for n in 0..2 {
            done += worker(n).run_until_idle().await.unwrap().done;
        }
    }
    let rows = table.scan().collect_at_most(jobs as usize + 1).await.unwrap();
    assert_eq!(rows.len(), jobs as usize, "{done} done");
    for queue in &queues {
        assert_eq!(queue.approximate_count().await.unwrap(), 0);
    }
}

#[derive(Serialize, Deserialize)]
struct Steps {
    text: String,
}

#[derive(Clone, Default)]
struct Effects(Arc<AtomicU32>);

impl Job for Steps {
    const KIND: &'static str = "steps";
    type Context = (Effects, Table);

    async fn run(&self, (effects, table): &(Effects, Table), run: &Run) -> Result<(), JobError> {
        let mail = async {
            effects.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        run.once("mail", mail).await?;
        run.delete_if_present(table, ("p", "gone")).await?;
        run.upsert(table, &Entity::new("p", "r").with("Length", self.text.len() as i32)).await
    }
}

#[tokio::test]
async fn steps_bear_to_be_done_twice() {
    // P-3.5: every message delivered twice.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let table = account.tables().create("Steps").await.unwrap();
    let queue = account.queues().create_if_missing("steps").await.unwrap();
    let effects = Effects::default();
    let worker = Worker::new(&queue).job::<Steps>((effects.clone(), table.clone())).deliver_twice();
    Jobs::new(&queue).send(&Steps { text: "x".into() }).await.unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().done, 1);
    assert_eq!(effects.0.load(Ordering::Relaxed), 1);
    assert_eq!(table.get(("p", "r")).required().await.unwrap().get("Length"), Ok(1));
    let too_large = Steps { text: "x".repeat(50_000) };
    let error = Jobs::new(&queue).send(&too_large).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_large_job_lies_in_a_blob_until_it_is_done() {
    // P-3.1.
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let clock = TestClock::default();
    let builder = AccountBuilder::from_connection_string(&azurite.connection_string()).unwrap();
    let account = builder.env(clock.env()).build().unwrap();
    let table = account.tables().create("Steps").await.unwrap();
    let queue = account.queues().create_if_missing("steps").await.unwrap();
    let container = account.blobs().create_if_missing("large").await.unwrap();
    let jobs = Jobs::new(&queue).large_jobs_in(&container);
    jobs.send(&Steps { text: "x".repeat(200_000) }).await.unwrap();
    let blobs = || async { container.list().at_most(10).await.unwrap().blobs };
    assert_eq!(blobs().await.len(), 1);
    let worker = || Worker::new(&queue).job::<Steps>((Effects::default(), table.clone()));
    let report = worker().large_jobs_in(&container).run_until_idle().await.unwrap();
    assert_eq!((report.done, blobs().await), (1, Vec::new()));
    assert_eq!(table.get(("p", "r")).required().await.unwrap().get("Length"), Ok(200_000));

    // A blob without its message is collected by age.
    container.blob("jobs/left.json").unwrap().put("{}").await.unwrap();
    assert_eq!(jobs.collect_blobs(Duration::from_secs(3600)).await.unwrap(), 0);
    clock.advance(Duration::from_secs(3700));
    assert_eq!(jobs.collect_blobs(Duration::from_secs(3600)).await.unwrap(), 1);
}
