//! The Queue service behind its whole HTTP front, on one thread, under faults, reproducible from one seed.
//!
//! Half of the runs have one process that has its store to itself, and crashes; the others have two
//! that share a store. At the end the faults stop, time passes, and all remaining messages are taken
//! out: anything then missing was lost.

use super::engine::{Bug, FaultRates, FaultyEngine};
use super::executor::{Executor, Handle};
use super::pace::SimulatedPace;
use super::queue_clock::QueueClock;
use super::queue_front::QueueFrontClient;
use super::{Log, PATIENCE, run_to_the_end};
use crate::queue::checker::{Promise, check};
use crate::queue::client::Client;
use crate::queue::history::{Call, Request, Response};
use crate::record::Report;
use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
use lazuli_queue::{QueueService, Random};
use lazuli_table::TableService;
use lazuli_testkit::seed::Seeded;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

pub use super::queue_clock::Drift;

/// Maximum gets to empty a queue at the end.
const DRAIN_GETS_MAX: usize = 40;
/// How long messages taken at the end stay invisible, in seconds.
const DRAIN_SECONDS: u32 = 3600;

/// One run, as its seed chose it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: usize,
    /// Requests per client.
    pub requests: usize,
    pub faults: FaultRates,
    pub promise: Promise,
    /// Maximum number of crashes.
    pub crashes: usize,
    /// Whether the queue is deleted, cleared and recreated.
    pub comes_and_goes: bool,
    pub drift: Drift,
    /// A bug planted in the engine, to verify that the checker finds it.
    pub bug: Option<Bug>,
}

impl Plan {
    /// The run of `seed`.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Seeded::new(seed).stream(u64::MAX - 1);
        let promise = if random.one_in(2) { Promise::OneWriter } else { Promise::ManyWriters };
        let crashes = if random.one_in(2) { 1 + random.below(4) } else { 0 };
        Self {
            seed,
            clients: 1 + random.below(5),
            requests: 5 + random.below(30),
            faults: FaultRates::random(&mut random),
            promise,
            crashes,
            comes_and_goes: random.one_in(2),
            drift: Drift::of(promise, crashes > 0),
            bug: None,
        }
    }
}

impl Drift {
    /// What a queue copes with. Servers that share a store may differ by less than a minute, and a
    /// clock may step back by less than that while a server is stopped; jumps while a commit is on its
    /// way count alike. One process that goes on does not care.
    pub(super) fn of(promise: Promise, crashes: bool) -> Self {
        match (promise, crashes) {
            (Promise::ManyWriters, _) => Self { ahead_max: 20, behind_max: 10, apart: 1_500 },
            (Promise::OneWriter, true) => Self { ahead_max: 600, behind_max: 50, apart: 0 },
            (Promise::OneWriter, false) => Self { ahead_max: 600, behind_max: 600, apart: 0 },
        }
    }
}

/// Runs the plan and checks what its clients saw.
pub fn run(plan: Plan) -> Result<Report, String> {
    let world = play(plan)?;
    let report = check(plan.promise, &world.history.calls())?;
    Ok(Report { forbidden: world.forbidden.load(Ordering::SeqCst), ..report })
}

/// Runs the plan to its end.
fn play(plan: Plan) -> Result<World, String> {
    let random = Seeded::new(plan.seed);
    let executor = Executor::new(random.stream(0));
    let handle = executor.handle();
    let writers = match plan.promise {
        Promise::OneWriter => Writers::Sole,
        Promise::ManyWriters => Writers::Many,
    };
    let memory = MemoryOptions { reclaim_rows_max: 3, writers, ..MemoryOptions::default() };
    let memory = MemoryEngine::new(memory);
    let faults = (plan.faults, plan.bug);
    let engine = Arc::new(FaultyEngine::new(memory, handle.clone(), faults, random.stream(1)));
    let clock = Arc::new(QueueClock::new(handle.clone(), plan.drift, random.stream(2)));
    let world = World {
        pace: Arc::new(SimulatedPace::new(handle.clone(), random.stream(3))),
        handle,
        engine,
        clock,
        servers: Arc::default(),
        history: Arc::default(),
        is_bad: Arc::default(),
        forbidden: Arc::default(),
        started: Arc::default(),
        plan,
    };
    for place in 0..if writers == Writers::Sole { 1 } else { 2 } {
        world.start_server(place);
    }
    drop(world.handle.spawn(world.clone().play(random)));
    run_to_the_end(executor)?;
    match world.history.failure() {
        None => Ok(world),
        Some(failure) => Err(failure),
    }
}

/// A process that serves the queue.
#[derive(Clone)]
struct Server {
    client: QueueFrontClient,
    is_alive: Arc<AtomicBool>,
}

impl Server {
    /// The result of `future`, unless the process ends first: then it is not polled again.
    async fn while_alive<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match self.is_alive.load(Ordering::SeqCst) {
            true => future.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        })
        .await
    }
}

#[derive(Clone)]
struct World {
    handle: Handle,
    engine: Arc<FaultyEngine>,
    clock: Arc<QueueClock>,
    pace: Arc<SimulatedPace>,
    servers: Arc<Mutex<Vec<Server>>>,
    history: Arc<Log<Call>>,
    is_bad: Arc<AtomicBool>,
    forbidden: Arc<AtomicUsize>,
    /// Processes that were started.
    started: Arc<AtomicUsize>,
    plan: Plan,
}

impl World {
    /// Sets up, runs the clients, and takes out what they left, twice.
    async fn play(self, random: Seeded) {
        self.call(0, Request::CreateQueue { metadata: 0 }, false).await;
        self.break_things(true);
        let chores = self.handle.spawn(self.clone().chores());
        let crashes = self.handle.spawn(self.clone().crashes(random.stream(99)));
        let start = |number: usize| {
            let random = random.stream(100 + number as u64);
            let client = Client::new(number, random.clone(), self.plan.comes_and_goes);
            self.handle.spawn(self.clone().work(number, client, random.stream(1)))
        };
        let clients: Vec<_> = (0..self.plan.clients).map(start).collect();
        for client in clients {
            client.await;
        }
        self.break_things(false);
        chores.await;
        crashes.await;
        self.drain().await;
        // Once more, with processes that remember nothing.
        self.crash(0);
        self.crash(1);
        self.drain().await;
        self.history.note(self.engine.end().await);
    }

    fn break_things(&self, bad: bool) {
        self.engine.break_things(bad);
        self.is_bad.store(bad, Ordering::SeqCst);
    }

    async fn work(self, number: usize, mut client: Client, mut random: Seeded) {
        for _ in 0..self.plan.requests {
            if random.one_in(2) {
                self.handle.sleep(random.below(1_000) as u64).await;
            }
            let request = client.next_request();
            let response = self.call(number, request.clone(), false).await;
            client.learn(&request, &response);
        }
    }

    /// Takes out everything, once commits in flight have ended and all messages are visible again.
    async fn drain(&self) {
        self.handle.sleep(10 * PATIENCE).await;
        self.clock.advance(2 * u64::from(DRAIN_SECONDS));
        self.call(0, Request::GetMetadata, true).await;
        self.call(0, Request::Peek { max: 32 }, true).await;
        for _ in 0..DRAIN_GETS_MAX {
            let get = Request::Get { max: 32, visibility: DRAIN_SECONDS };
            match self.call(0, get, true).await {
                Response::Messages(messages) if messages.is_empty() => break,
                _ => {}
            }
        }
    }

    /// One request; its client waits a bounded time.
    async fn call(&self, client: usize, request: Request, is_quiet: bool) -> Response {
        let invoked = self.history.tick();
        let asked = self.clock.asked();
        let response = match self.server(client) {
            Some(server) => {
                let call = server.while_alive(server.client.call(&request));
                self.handle.within(PATIENCE, call).await.flatten()
            }
            None => None,
        };
        let response = match response {
            Some(Ok(response)) => response,
            Some(Err(failure)) => {
                self.history.fail(failure);
                Response::Unknown
            }
            None => Response::Unknown,
        };
        let span = self.clock.span_since(asked);
        let answered = self.history.tick();
        let call = Call { client, request, response, invoked, answered, span, is_quiet };
        let response = call.response.clone();
        self.history.push(call);
        response
    }

    /// The process that a client uses.
    fn server(&self, client: usize) -> Option<Server> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.get(client % servers.len().max(1)).cloned()
    }

    fn start_server(&self, place: usize) {
        let number = self.started.fetch_add(1, Ordering::SeqCst) as u64;
        let random = Seeded::new(self.plan.seed).stream(1_000 + number);
        let ids = Mutex::new(random.stream(1));
        let ids: Random =
            Arc::new(move || ids.lock().unwrap_or_else(PoisonError::into_inner).next_u64());
        let queues = QueueService::new(self.engine.clone(), self.clock.clone(), ids);
        let queues = queues.with_pace(self.pace.clone());
        let tables = TableService::new(self.engine.clone(), self.clock.clone());
        let (handle, is_bad) = (self.handle.clone(), self.is_bad.clone());
        let client =
            QueueFrontClient::new((queues, tables), self.clock.clone(), handle, random, is_bad);
        let server = Server { client, is_alive: Arc::new(AtomicBool::new(true)) };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        match servers.get_mut(place) {
            Some(other) => *other = server,
            None => servers.push(server),
        }
    }

    /// Ends a process without warning, and starts another.
    fn crash(&self, place: usize) {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = servers.get(place).cloned() else { return };
        drop(servers);
        server.is_alive.store(false, Ordering::SeqCst);
        self.forbidden.fetch_add(server.client.forbidden(), Ordering::SeqCst);
        // A shared store still executes what its processes have sent.
        if self.plan.promise == Promise::OneWriter {
            self.engine.crash();
        }
        self.start_server(place);
    }

    async fn crashes(self, mut random: Seeded) {
        for _ in 0..self.plan.crashes {
            self.handle.sleep(random.below(3_000) as u64).await;
            self.crash(random.below(2));
        }
    }

    /// Runs the servers' background tasks while the clients work.
    async fn chores(self) {
        for number in 0..20 {
            self.handle.sleep(PATIENCE / 8).await;
            self.history.note(self.engine.look_after().await);
            if let Some(server) = self.server(number) {
                let chores = server.while_alive(server.client.chores());
                self.handle.within(PATIENCE, chores).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
