//! Jobs that fail, take long, or lose their worker (P-3.2 to P-3.4).

use crate::server;
use lazuli_client::patterns::jobs::{Job, JobError, Jobs, PoisonQueue, Run, Worker};
use lazuli_client::prelude::*;
use lazuli_test::{TestClock, TestServer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

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
    // PS-3.5, P-3.3.
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

#[tokio::test]
async fn the_pause_before_a_retry_has_an_upper_bound() {
    // P-3.3: 5 s, doubled up to 10 min.
    let server = TestServer::builder().clock(TestClock::default()).start().await.unwrap();
    let (account, clock) = (server.account(), server.clock().unwrap());
    let queue = account.queues().create_if_missing("flaky").await.unwrap();
    let worker = Worker::new(&queue).job::<Flaky>(Switch::default()).dequeues_max(10);
    Jobs::new(&queue).send(&Flaky).await.unwrap();
    for pause in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
        assert_eq!(worker.run_until_idle().await.unwrap().failed, 1);
        clock.advance(Duration::from_secs(pause - 1));
        assert!(queue.peek(1).await.unwrap().is_empty(), "{pause} s have not passed");
        clock.advance(Duration::from_secs(2));
        assert_eq!(queue.peek(1).await.unwrap().len(), 1, "{pause} s have passed");
    }
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
    // PS-3.8, P-3.8: two queues, three workers, one killed again and again. The full test has 10,000 jobs.
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
