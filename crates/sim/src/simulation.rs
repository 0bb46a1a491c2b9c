//! The table service on one thread, under faults, repeated by one number.
//!
//! A run is clients of one [`Workload`], the service, and the memory engine beneath it. Which task
//! goes next, how long a commit is under way, which fault it meets, what the clock says: all of it
//! comes from the seed. What the clients saw is then checked as histories over HTTP are.

mod clock;
mod engine;
mod executor;
mod pace;
mod service;
mod shadow;

pub use engine::{Bug, FaultRates};

use crate::history::{Call, Request, Response};
use crate::record::{Report, judge};
use crate::workload::{Client, Workload, whole};
use clock::SimulatedClock;
use engine::FaultyEngine;
use executor::{Executor, Handle};
use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
use lazuli_testkit::seed::Seeded;
use pace::SimulatedPace;
use service::ServiceClient;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a request may take before its client gives up, in ticks of simulated time.
const PATIENCE: u64 = 4_000;

/// One run, as its seed chose it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub workload: Workload,
    pub clients: usize,
    /// Requests of each client.
    pub requests: usize,
    pub faults: FaultRates,
    /// A defect planted into the engine, to see that the checker finds it.
    pub bug: Option<Bug>,
}

impl Plan {
    /// The run that `seed` stands for.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Seeded::new(seed).stream(u64::MAX);
        let chosen = random.below(Workload::ALL.len());
        let workload = Workload::ALL.get(chosen).copied().unwrap_or(Workload::Mix);
        let clients = 2 + random.below(5);
        let requests = 5 + random.below(14);
        let faults = FaultRates::random(&mut random);
        Self { seed, workload, clients, requests, faults, bug: None }
    }
}

/// Runs the plan and checks what its clients saw.
pub fn run(plan: Plan) -> Result<Report, String> {
    let world = play(plan)?;
    if let Some(failure) = world.derived.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure);
    }
    judge(plan.workload, &world.history.calls())
}

/// Runs the plan to its end.
fn play(plan: Plan) -> Result<World, String> {
    let random = Seeded::new(plan.seed);
    let executor = Executor::new(random.stream(0));
    let handle = executor.handle();
    // Two services, as two processes on one store would be; or one that has its store to itself, and
    // so may believe what it remembers of tables.
    let writers = if plan.seed.is_multiple_of(2) { Writers::Many } else { Writers::Sole };
    let memory = MemoryOptions { reclaim_rows_max: 3, writers, ..MemoryOptions::default() };
    let engine =
        FaultyEngine::new(MemoryEngine::new(memory), handle.clone(), plan, random.stream(1));
    let engine = Arc::new(engine);
    let clock = Arc::new(SimulatedClock::new(handle.clone(), random.stream(2)));
    let pace = Arc::new(SimulatedPace::new(handle.clone(), random.stream(3)));
    let client = || ServiceClient::new(engine.clone(), clock.clone(), pace.clone());
    let first = client();
    let services = match writers {
        Writers::Many => [first, client()],
        Writers::Sole => [first.clone(), first],
    };
    let history = Arc::new(Log::default());
    let world = World { handle, services, engine, history, derived: Arc::default(), plan };
    drop(world.handle.spawn(world.clone().play(random)));
    executor.run()?;
    Ok(world)
}

#[derive(Clone)]
struct World {
    handle: Handle,
    services: [ServiceClient; 2],
    engine: Arc<FaultyEngine>,
    history: Arc<Log>,
    /// What is wrong with what was derived from the commits.
    derived: Arc<Mutex<Option<String>>>,
    plan: Plan,
}

impl World {
    /// Sets up, runs the clients, and reads what they left.
    async fn play(self, random: Seeded) {
        let setup = [Some(Request::CreateTable), self.plan.workload.setup()];
        for request in setup.into_iter().flatten() {
            self.call(0, request).await;
        }
        self.engine.break_things(true);
        let chore = self.handle.spawn(self.clone().reclaim());
        let start = |number: usize| {
            let random = random.stream(100 + number as u64);
            let client = self.plan.workload.client(number, random);
            self.handle.spawn(self.clone().work(number, client))
        };
        let clients: Vec<_> = (0..self.plan.clients).map(start).collect();
        for client in clients {
            client.await;
        }
        self.engine.break_things(false);
        chore.await;
        // Commits whose clients gave up may still be under way.
        self.handle.sleep(10 * PATIENCE).await;
        self.call(0, whole(None)).await;
        let derived = self.engine.check_derived().await.err();
        *self.derived.lock().unwrap_or_else(PoisonError::into_inner) = derived;
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
        let [even, odd] = &self.services;
        let service = if client.is_multiple_of(2) { even } else { odd };
        let answer = service.call(&request);
        let response = self.handle.within(PATIENCE, answer).await.unwrap_or(Response::Unknown);
        let (answered, response) = (self.history.tick(), response);
        self.history.push(Call { client, request, response: response.clone(), invoked, answered });
        response
    }

    /// Reclaims the space of deleted tables while the clients work.
    async fn reclaim(self) {
        for _ in 0..20 {
            self.handle.sleep(PATIENCE).await;
            let [service, _] = &self.services;
            self.handle.within(PATIENCE, service.reclaim()).await;
        }
    }
}

/// The calls of all clients, numbered as they begin and end.
#[derive(Debug, Default)]
struct Log(Mutex<(u64, Vec<Call>)>);

impl Log {
    fn tick(&self) -> u64 {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.0 += 1;
        log.0
    }

    fn push(&self, call: Call) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(call);
    }

    fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

#[cfg(test)]
mod tests;
