//! Records the requests and responses of concurrent clients of a running server.

use crate::checker::{self, Verdict};
use crate::gateways::Gateways;
use crate::history::{Call, Request, Response, Span};
use crate::http::{HttpClient, Unexpected};
use crate::workload::{Client, Workload, whole};
use lazuli_testkit::seed::Seeded;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// One run against a server, or against several that share a store.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Clients spread over all of them.
    pub addresses: &'a [SocketAddr],
    pub workload: Workload,
    pub clients: usize,
    /// Requests of each client.
    pub requests: usize,
    pub seed: u64,
}

/// The counts of runs without a violation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub calls: usize,
    /// Calls of unknown outcome.
    pub unknown: usize,
    /// Calls that lost against others: refused, or with `ServerBusy`.
    pub refused: usize,
    /// Calls whose credential did not cover them.
    pub forbidden: usize,
    /// Runs that the checker gave up on.
    pub undecided: usize,
}

impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.forbidden += other.forbidden;
        self.undecided += other.undecided;
    }
}

/// Runs the plan on its own table, and checks the history.
pub fn run(plan: Plan<'_>) -> Result<Report, String> {
    let table = format!("Sim{:016x}{}", plan.seed, plan.workload.name());
    let history = record(plan, &table).map_err(|unexpected| unexpected.to_string())?;
    let mut dropper = HttpClient::new(plan.gateways(0), &table);
    let _ = dropper.call(&Request::DeleteTable);
    judge(plan.workload, &history)
}

/// Checks a history that begins without a table, for the promises of its workload and for
/// linearizability.
pub fn judge(workload: Workload, history: &[Call]) -> Result<Report, String> {
    workload.check(history)?;
    let count = |of: fn(&Response) -> bool| history.iter().filter(|c| of(&c.response)).count();
    let report = Report {
        calls: history.len(),
        unknown: count(|response| *response == Response::Unknown),
        refused: count(|r| matches!(r, Response::Refused { .. } | Response::NotDone)),
        forbidden: 0,
        undecided: 0,
    };
    match checker::check(&workload.initial(), history) {
        Verdict::Linearizable => Ok(report),
        Verdict::Undecided => Ok(Report { undecided: 1, ..report }),
        Verdict::Violation(violation) => Err(violation.to_string()),
    }
}

impl Plan<'_> {
    fn gateways(&self, client: usize) -> Gateways {
        Gateways::of_client(self.addresses, client)
    }
}

fn record(plan: Plan<'_>, table: &str) -> Result<Vec<Call>, Unexpected> {
    let order = Order::default();
    let mut history = Vec::new();
    let mut first = HttpClient::new(plan.gateways(0), table);
    let setup = [Some(Request::CreateTable), plan.workload.setup()];
    for request in setup.into_iter().flatten() {
        history.push(order.call(0, &mut first, request)?);
    }
    let random = Seeded::new(plan.seed);
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let mut client = plan.workload.client(number, random.stream(number as u64));
            let order = &order;
            scope.spawn(move || {
                let mut http = HttpClient::new(plan.gateways(number), table);
                work(number, client.as_mut(), &mut http, order, plan.requests)
            })
        };
        let threads: Vec<_> = (0..plan.clients).map(start).collect();
        for thread in threads {
            match thread.join() {
                Ok(calls) => history.extend(calls?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    history.push(order.call(0, &mut first, whole(None))?);
    Ok(history)
}

fn work(
    number: usize,
    client: &mut dyn Client,
    http: &mut HttpClient,
    order: &Order,
    requests: usize,
) -> Result<Vec<Call>, Unexpected> {
    let mut calls = Vec::with_capacity(requests);
    for _ in 0..requests {
        let call = order.call(number, http, client.next())?;
        client.learn(&call.request, &call.response);
        calls.push(call);
    }
    Ok(calls)
}

/// Numbers every invocation and every response.
#[derive(Debug, Default)]
struct Order(AtomicU64);

impl Order {
    fn call(
        &self,
        client: usize,
        http: &mut HttpClient,
        request: Request,
    ) -> Result<Call, Unexpected> {
        let invoked = self.next();
        let response = http.call(&request)?;
        Ok(Call { client, request, response, invoked, answered: self.next(), span: Span::ALL })
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
