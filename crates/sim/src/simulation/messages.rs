//! Transactions of entities and messages under faults, on one thread, repeated by one number.
//!
//! Half of the runs have one process that has its store to itself, the others have two that share one. Their
//! clients want some of the same entities. At the end all faults are over, and everything that is stored is
//! compared with what the clients were answered.

use super::engine::{Bug, FaultRates, FaultyEngine};
use super::executor::{Executor, Handle};
use super::pace::SimulatedPace;
use super::queue_clock::{Drift, QueueClock};
use super::{Log, PATIENCE, run_to_the_end};
use crate::queue::checker::Promise;
use crate::record::Report;
use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
use lazuli_queue::QueueService;
use lazuli_table::TableService;
use lazuli_testkit::message_histories::{Gateway, Outcome, Transaction};
use lazuli_testkit::seed::Seeded;
use std::sync::{Arc, Mutex, PoisonError};

/// Until the last message is visible, whatever the clock showed when it was put, in seconds.
const VISIBLE_SECONDS: u64 = 7200;

/// One run, as its seed chose it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: u64,
    /// Transactions of each client.
    pub requests: u64,
    pub faults: FaultRates,
    pub promise: Promise,
    /// A defect planted into the engine, to see that the check finds it.
    pub bug: Option<Bug>,
}

impl Plan {
    /// The run that `seed` stands for.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Seeded::new(seed).stream(u64::MAX - 2);
        let promise = if random.one_in(2) { Promise::OneWriter } else { Promise::ManyWriters };
        Self {
            seed,
            clients: 1 + random.below(5) as u64,
            requests: 3 + random.below(10) as u64,
            faults: FaultRates::random(&mut random),
            promise,
            bug: None,
        }
    }
}

/// Runs the plan, and compares what is stored with what its clients were answered.
pub fn run(plan: Plan) -> Result<Report, String> {
    let random = Seeded::new(plan.seed);
    let executor = Executor::new(random.stream(0));
    let handle = executor.handle();
    let writers = match plan.promise {
        Promise::OneWriter => Writers::Sole,
        Promise::ManyWriters => Writers::Many,
    };
    let memory = MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() });
    let faults = (plan.faults, plan.bug);
    let engine = Arc::new(FaultyEngine::new(memory, handle.clone(), faults, random.stream(1)));
    let drift = Drift::of(plan.promise, false);
    let clock = Arc::new(QueueClock::new(handle.clone(), drift, random.stream(2)));
    let pace = Arc::new(SimulatedPace::new(handle.clone(), random.stream(3)));
    let gateway = |number: u64| {
        let ids = Mutex::new(random.stream(4 + number));
        let ids = move || ids.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        let tables = TableService::new(engine.clone(), clock.clone()).with_pace(pace.clone());
        let queues = QueueService::new(engine.clone(), clock.clone(), Arc::new(ids));
        Gateway::new(tables, queues.with_pace(pace.clone()))
    };
    let gateways = match writers {
        Writers::Sole => vec![gateway(0)],
        Writers::Many => vec![gateway(0), gateway(1)],
    };
    let (engine, clock) = (engine.clone(), clock.clone());
    let world = World { handle, engine, clock, gateways, sent: Arc::default(), plan };
    drop(world.handle.spawn(world.clone().play(random)));
    run_to_the_end(executor)?;
    match world.sent.failure() {
        Some(failure) => Err(failure),
        None => Ok(world.report()),
    }
}

#[derive(Clone)]
struct World {
    handle: Handle,
    engine: Arc<FaultyEngine>,
    clock: Arc<QueueClock>,
    gateways: Vec<Gateway>,
    sent: Arc<Log<(Transaction, Outcome)>>,
    plan: Plan,
}

impl World {
    async fn play(self, random: Seeded) {
        if let Some(gateway) = self.gateways.first() {
            self.sent.note(gateway.set_up().await);
        }
        self.engine.break_things(true);
        let start = |number: u64| {
            let random = random.stream(100 + number);
            self.handle.spawn(self.clone().work(number, random))
        };
        let clients: Vec<_> = (0..self.plan.clients).map(start).collect();
        for client in clients {
            client.await;
        }
        self.engine.break_things(false);
        // Commits whose clients gave up may still be in flight.
        self.handle.sleep(10 * PATIENCE).await;
        self.clock.advance(VISIBLE_SECONDS);
        if let Some(gateway) = self.gateways.last() {
            self.sent.note(gateway.check(&self.sent.calls()).await);
        }
        self.sent.note(self.engine.check_derived().await);
        self.sent.note(self.engine.end().await);
    }

    /// One transaction after the other; its client waits a bounded time, and then looks at the messages.
    async fn work(self, number: u64, mut random: Seeded) {
        let gateway = self.gateways.iter().cycle().nth(number as usize);
        let Some(gateway) = gateway.cloned() else { return };
        for request in 0..self.plan.requests {
            let transaction = Transaction::random(number * 1_000 + request, &mut random);
            let outcome = self.handle.within(PATIENCE, gateway.send(&transaction)).await;
            self.sent.push((transaction, outcome.unwrap_or(Outcome::Unknown)));
            let looked = self.handle.within(PATIENCE, gateway.look()).await;
            self.sent.note(looked.unwrap_or(Ok(())));
        }
    }

    fn report(&self) -> Report {
        let sent = self.sent.calls();
        let count = |wanted| sent.iter().filter(|(_, outcome)| *outcome == wanted).count();
        let (unknown, refused) = (count(Outcome::Unknown), count(Outcome::Refused));
        Report { calls: sent.len(), unknown, refused, ..Report::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rows and messages come together, and nothing that was acknowledged is lost.
    #[test]
    fn three_hundred_seeds_hold() {
        let mut total = Report::default();
        for seed in 0..300 {
            let plan = Plan::of_seed(seed);
            match run(plan) {
                Ok(report) => total += report,
                Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
            }
        }
        let done = total.calls - total.unknown - total.refused;
        assert!(done > 1_000 && total.unknown > 100 && total.refused > 500, "{total:?}");
    }

    #[test]
    fn planted_mistakes_are_noticed() {
        for bug in [Bug::UncheckedCommit, Bug::TornCommit, Bug::LostCommit] {
            let found = (0..400).find(|seed| {
                let faults = FaultRates { lost_commit: 100, ..FaultRates::default() };
                run(Plan { bug: Some(bug), faults, ..Plan::of_seed(*seed) }).is_err()
            });
            assert!(found.is_some(), "{bug:?} is not noticed");
        }
    }
}
