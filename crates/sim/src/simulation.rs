//! The server on one thread, under faults, reproducible from one seed.
//!
//! A run has clients of one [`Workload`], the table service, alone or behind the whole HTTP front,
//! and the memory engine below. The seed determines the next task, the duration of a commit, its
//! faults, how a body arrives, the credential, and the clock. The history is then checked like
//! those over HTTP.

mod body;
mod clock;
mod credential;
mod engine;
mod executor;
mod front;
pub mod messages;
mod pace;
mod queue_clock;
mod queue_front;
pub mod queues;
mod replay;
mod service;
mod shadow;
mod trouble;

pub use engine::{Bug, FaultRates};

use crate::history::{Call, Request, Response, Span};
use crate::record::{Report, judge};
use crate::workload::{Client, Workload, whole, whole_by_index};
use clock::{Jumps, SimulatedClock};
use engine::FaultyEngine;
use executor::{Executor, Handle};
use front::FrontClient;
use lazuli_engine::{BoxFuture, MemoryEngine, MemoryOptions, Reclaimed, Writers};
use lazuli_model::{AccountName, TableName};
use lazuli_table::{IndexState, TableError, TableService};
use lazuli_testkit::seed::Seeded;
use pace::SimulatedPace;
use service::ServiceClient;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a request may take before its client gives up, in ticks of simulated time.
const PATIENCE: u64 = 4_000;
/// Pause between two steps of building indexes, in the same ticks.
const BUILD_REST: u64 = 100;
/// The longest wait of a build that failed under faults: a minute, in ticks of 100 ns.
const BUILD_WAIT_MAX: u64 = 61 * 10_000_000;
/// Maximum steps of building, for the background task and at the end.
const BUILD_STEPS: usize = 200;
/// The table of every run.
const TABLE: &str = "Simulated";

/// One run, as its seed chose it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub workload: Workload,
    pub clients: usize,
    /// Requests per client.
    pub requests: usize,
    pub faults: FaultRates,
    pub through: Through,
    /// A bug planted in the engine, to verify that the checker finds it.
    pub bug: Option<Bug>,
}

/// What the requests of a run pass through on their way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The table service alone.
    Service,
    /// The HTTP front too: routing, authorization, bodies, batches.
    Front,
}

impl Plan {
    /// The run of `seed`.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Seeded::new(seed).stream(u64::MAX);
        let chosen = random.below(Workload::SIMULATED.len());
        let workload = Workload::SIMULATED.get(chosen).copied().unwrap_or(Workload::Mix);
        let clients = 2 + random.below(5);
        let requests = 5 + random.below(14);
        let faults = FaultRates::random(&mut random);
        let through = if random.one_in(2) { Through::Front } else { Through::Service };
        Self { seed, workload, clients, requests, faults, through, bug: None }
    }
}

/// Runs the plan and checks what its clients saw.
pub fn run(plan: Plan) -> Result<Report, String> {
    let world = play(plan)?;
    if let Some(failure) = world.derived.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure);
    }
    let report = judge(plan.workload, &world.history.calls())?;
    Ok(Report { forbidden: world.servers.iter().map(Server::forbidden).sum(), ..report })
}

/// Runs the plan to its end.
fn play(plan: Plan) -> Result<World, String> {
    let random = Seeded::new(plan.seed);
    let executor = Executor::new(random.stream(0));
    let handle = executor.handle();
    // Two services, like two processes on one store; or one that has its store to itself, and so may trust its
    // table cache.
    let writers = if plan.seed.is_multiple_of(2) { Writers::Many } else { Writers::Sole };
    let memory = MemoryOptions { reclaim_rows_max: 3, writers, ..MemoryOptions::default() };
    let (memory, faults) = (MemoryEngine::new(memory), (plan.faults, plan.bug));
    let engine = Arc::new(FaultyEngine::new(memory, handle.clone(), faults, random.stream(1)));
    let jumps = match plan.workload {
        Workload::Expiring => Jumps::Forward,
        _ => Jumps::BothWays,
    };
    let clock = Arc::new(SimulatedClock::new(handle.clone(), random.stream(2), jumps));
    let pace = Arc::new(SimulatedPace::new(handle.clone(), random.stream(3)));
    let service = || ServiceClient::new(engine.clone(), clock.clone(), pace.clone());
    let server = |number: u64| match plan.through {
        Through::Service => Server::Service(service()),
        Through::Front => {
            let (tables, clock) = (service().tables(), clock.clone());
            Server::Front(FrontClient::new(
                tables,
                clock,
                handle.clone(),
                random.stream(4 + number),
            ))
        }
    };
    let servers = match writers {
        Writers::Many => vec![server(0), server(1)],
        Writers::Sole => vec![server(0)],
    };
    let (history, derived) = (Arc::default(), Arc::default());
    let (handle, engine) = (handle.clone(), engine.clone());
    let world = World { handle, servers, engine, clock, history, derived, plan };
    drop(world.handle.spawn(world.clone().play(random.clone())));
    run_to_the_end(executor)?;
    match world.history.failure() {
        None => Ok(world),
        Some(failure) => Err(failure),
    }
}

fn run_to_the_end(executor: Executor) -> Result<(), String> {
    // The front sets tokio timers. Nothing drives that runtime, so they never fire: the executor controls
    // time, and makes clients give up.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let _timers = runtime.enter();
    executor.run()
}

/// A server as its clients see it.
#[derive(Clone)]
enum Server {
    Service(ServiceClient),
    Front(FrontClient),
}

impl Server {
    fn call<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, String>> {
        match self {
            Self::Service(client) => Box::pin(async { Ok(client.call(request).await) }),
            Self::Front(client) => Box::pin(client.call(request)),
        }
    }

    async fn reclaim(&self) {
        match self {
            Self::Service(client) => client.reclaim().await,
            Self::Front(client) => client.reclaim().await,
        }
    }

    fn account(&self) -> &'static str {
        match self {
            Self::Service(_) => service::ACCOUNT,
            Self::Front(_) => lazuli_testkit::server::ACCOUNT,
        }
    }

    fn tables(&self) -> TableService {
        match self {
            Self::Service(client) => client.tables(),
            Self::Front(client) => client.tables(),
        }
    }

    /// Requests refused for lack of permission.
    fn forbidden(&self) -> usize {
        match self {
            Self::Service(_) => 0,
            Self::Front(client) => client.forbidden(),
        }
    }
}

#[derive(Clone)]
struct World {
    handle: Handle,
    servers: Vec<Server>,
    engine: Arc<FaultyEngine>,
    clock: Arc<SimulatedClock>,
    history: Arc<Log<Call>>,
    /// An error in the data derived from commits.
    derived: Arc<Mutex<Option<String>>>,
    plan: Plan,
}

impl World {
    /// Sets up, runs the clients, and reads the final state.
    async fn play(self, random: Seeded) {
        let setup = [Some(Request::CreateTable), self.plan.workload.setup()];
        for request in setup.into_iter().flatten() {
            self.call(0, request).await;
        }
        self.break_things(true);
        let reclaim = self.handle.spawn(self.clone().reclaim());
        let build = self.handle.spawn(self.clone().build());
        let start = |number: usize| {
            let random = random.stream(100 + number as u64);
            let client = self.plan.workload.client(number, random);
            self.handle.spawn(self.clone().work(number, client))
        };
        let clients: Vec<_> = (0..self.plan.clients).map(start).collect();
        for client in clients {
            client.await;
        }
        self.break_things(false);
        reclaim.await;
        build.await;
        // Commits whose clients gave up may still be in flight.
        self.handle.sleep(10 * PATIENCE).await;
        self.clock.calm();
        if self.builds() {
            // Builds that failed under faults wait, unless the clock was set back: those are due only now.
            if let Some(server) = self.servers.first() {
                let tables = server.tables();
                let mut steps = 0..BUILD_STEPS;
                while steps.next().is_some()
                    && matches!(tables.build_some().await, Ok(Reclaimed::Partly))
                {}
            }
            self.handle.sleep(BUILD_WAIT_MAX).await;
        }
        self.call(0, whole(None)).await;
        let mut derived = self.engine.check_derived().await.err();
        if self.plan.workload == Workload::Indexed {
            derived = derived.or(self.check_indexes().await.err());
            for request in whole_by_index() {
                self.call(0, request).await;
            }
        }
        if self.plan.workload == Workload::Expiring {
            derived = derived.or(self.sweep_all().await.err());
            derived = derived.or(self.check_indexes().await.err());
            self.call(0, whole(None)).await;
        }
        *self.derived.lock().unwrap_or_else(PoisonError::into_inner) = derived;
        self.history.note(self.engine.end().await);
    }

    /// Turns faults on or off.
    fn break_things(&self, bad: bool) {
        self.engine.break_things(bad);
        for server in &self.servers {
            if let Server::Front(client) = server {
                client.break_things(bad);
            }
        }
    }

    async fn work(self, number: usize, mut client: Box<dyn Client>) {
        for _ in 0..self.plan.requests {
            let request = client.next();
            let response = self.call(number, request.clone()).await;
            client.learn(&request, &response);
        }
    }

    /// One request; its client waits a bounded time.
    async fn call(&self, client: usize, request: Request) -> Response {
        let invoked = self.history.tick();
        let from = self.clock.shown();
        let mut servers = self.servers.iter().cycle().skip(client % 2);
        let response = match servers.next() {
            Some(server) => self.handle.within(PATIENCE, server.call(&request)).await,
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
        let answered = self.history.tick();
        // A request without a response may be done at any later time.
        let is_over = response != Response::Unknown;
        let span = Span { from, to: if is_over { self.clock.shown() } else { u64::MAX } };
        let seen = response.clone();
        self.history.push(Call { client, request, response, invoked, answered, span });
        seen
    }

    fn builds(&self) -> bool {
        matches!(self.plan.workload, Workload::Indexed | Workload::Expiring)
    }

    /// Builds indexes and sweeps expired entities while the clients work, on one server or the other.
    async fn build(self) {
        if !self.builds() {
            return;
        }
        for server in self.servers.iter().cycle().take(BUILD_STEPS) {
            self.handle.sleep(BUILD_REST).await;
            let tables = server.tables();
            // The task retries later, whatever went wrong.
            let _ = self.handle.within(PATIENCE, tables.build_some()).await;
            let _ = self.handle.within(PATIENCE, tables.sweep_some()).await;
        }
    }

    /// Finishes all builds; then every entry belongs to an entity, and every entity has its entries.
    async fn check_indexes(&self) -> Result<(), String> {
        let Some(server) = self.servers.first() else { return Ok(()) };
        let tables = server.tables();
        let wrong = |error: TableError| format!("indexes: {error}");
        let mut steps = 0..BUILD_STEPS;
        while tables.build_some().await.map_err(wrong)? == Reclaimed::Partly {
            steps.next().ok_or("the building of an index does not come to an end")?;
        }
        let account = AccountName::parse(server.account()).ok_or("not the name of an account")?;
        let table = TableName::parse(TABLE).map_err(|error| error.to_string())?;
        for index in tables.indexes(&account, &table).await.map_err(wrong)? {
            if index.state != IndexState::Ready {
                return Err(format!("an index is not ready: {index:?}"));
            }
        }
        let page = tables.verify_indexes(&account, &table, None).await.map_err(wrong)?;
        match page.found.first() {
            Some(found) => Err(format!("an index disagrees with its entity: {found:?}")),
            None => replay::check(&tables, &account, &table).await,
        }
    }

    /// Deletes all expired entities.
    async fn sweep_all(&self) -> Result<(), String> {
        let Some(server) = self.servers.first() else { return Ok(()) };
        for _ in 0..BUILD_STEPS {
            let swept = server.tables().sweep_some().await;
            if swept.map_err(|error| format!("expiry: {error}"))? == Reclaimed::Fully {
                return Ok(());
            }
        }
        Err("the sweeping of expired entities does not come to an end".to_owned())
    }

    /// Tends the engine and reclaims the space of deleted tables while the clients work.
    async fn reclaim(self) {
        for _ in 0..20 {
            self.handle.sleep(PATIENCE).await;
            self.history.note(self.engine.look_after().await);
            if let Some(server) = self.servers.first() {
                self.handle.within(PATIENCE, server.reclaim()).await;
            }
        }
    }
}

/// The calls of all clients, numbered as they begin and end.
#[derive(Debug)]
struct Log<C>(Mutex<Entries<C>>);

#[derive(Debug)]
struct Entries<C> {
    ticks: u64,
    calls: Vec<C>,
    /// The first invalid response.
    failure: Option<String>,
}

impl<C> Default for Log<C> {
    fn default() -> Self {
        Self(Mutex::new(Entries { ticks: 0, calls: Vec::new(), failure: None }))
    }
}

impl<C: Clone> Log<C> {
    fn tick(&self) -> u64 {
        let mut log = self.entries();
        log.ticks += 1;
        log.ticks
    }

    fn push(&self, call: C) {
        self.entries().calls.push(call);
    }

    fn calls(&self) -> Vec<C> {
        self.entries().calls.clone()
    }

    fn fail(&self, failure: String) {
        self.entries().failure.get_or_insert(failure);
    }

    fn note(&self, outcome: Result<(), String>) {
        if let Err(failure) = outcome {
            self.fail(failure);
        }
    }

    fn failure(&self) -> Option<String> {
        self.entries().failure.clone()
    }

    fn entries(&self) -> MutexGuard<'_, Entries<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
