//! Metrics of requests and connections. Every label comes from a closed set; nothing that a client
//! sends becomes a label.

use crate::auth::accounts::Account;
use crate::error::Failure;
use crate::http::reply::Work;
use crate::operation::{Facts, Kind, Plan, ServiceName};
use crate::refusal::Refusal;
use lazuli_meter::{Counter, Family, Gauge, Histogram, Label, Labels, PerLabel, Source, Value};
use lazuli_wire::error_code::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

lazuli_meter::label! {
    /// How a request ended.
    pub(crate) enum Outcome {
        Ok => "ok",
        ClientError => "client_error",
        Throttled => "throttled",
        ServerError => "server_error",
        Cut => "cut",
    }
}

/// Bounds of the number of operations in a transaction.
const BATCH_BOUNDS: [u64; 7] = [1, 2, 5, 10, 25, 50, 100];

/// The index of an operation in the counters of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    /// A request that failed before its operation was known.
    pub(crate) const UNKNOWN: Self = Self(0);
    pub(crate) const PREFLIGHT: Self = Self(1);
    const FIRST: usize = 2;

    /// The slot of the operation at this index among the rows of its service.
    pub(crate) fn of(index: usize) -> Self {
        Self(Self::FIRST + index)
    }
}

/// The request metrics of one service.
pub struct RequestMeter {
    service: ServiceName,
    /// By [`Slot`].
    operations: Vec<OperationMeter>,
    durations: PerLabel<Kind, Histogram>,
    /// By the index of the code in [`ErrorCode::ALL`].
    errors: Vec<Counter>,
    refusals: PerLabel<Refusal, Counter>,
    in_flight: Gauge,
    bytes_in: Counter,
    bytes_out: Counter,
    plans: PerLabel<Plan, PlanMeter>,
    batch_operations: Histogram,
}

/// The measurements of one finished request.
pub(crate) struct Measured<'a> {
    pub(crate) slot: Slot,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
    pub(crate) account: Option<&'a Account>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) work: Work,
}

/// A request in flight. If it is dropped before its response, it was cut: its connection broke, or
/// the server stopped.
pub(crate) struct Flight {
    meter: Arc<RequestMeter>,
    /// The operation, if it is known yet.
    pub(crate) slot: Slot,
    is_answered: bool,
}

impl Flight {
    pub(crate) fn begin(meter: &Arc<RequestMeter>) -> Self {
        meter.in_flight.add(1);
        Self { meter: meter.clone(), slot: Slot::UNKNOWN, is_answered: false }
    }

    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.meter.in_flight.add(-1);
        if !self.is_answered {
            self.meter.count_cut(self.slot);
        }
    }
}

struct OperationMeter {
    name: &'static str,
    /// `None` while the operation is unknown.
    kind: Option<Kind>,
    outcomes: PerLabel<Outcome, Counter>,
}

impl OperationMeter {
    fn new(name: &'static str, kind: Option<Kind>) -> Self {
        Self { name, kind, outcomes: PerLabel::default() }
    }

    fn of(facts: &Facts) -> Self {
        Self::new(facts.name, Some(facts.kind))
    }
}

#[derive(Default)]
struct PlanMeter {
    queries: Counter,
    examined: Counter,
    returned: Counter,
}

impl RequestMeter {
    /// A meter for the operations of a service, in the order of their rows.
    pub(crate) fn new(
        service: ServiceName,
        preflight: &'static Facts,
        rows: impl Iterator<Item = &'static Facts>,
    ) -> Self {
        let first = [OperationMeter::new("Unknown", None), OperationMeter::of(preflight)];
        let rows = rows.map(OperationMeter::of);
        Self {
            service,
            operations: first.into_iter().chain(rows).collect(),
            durations: PerLabel::new(Histogram::of_durations),
            errors: ErrorCode::ALL.iter().map(|_| Counter::default()).collect(),
            refusals: PerLabel::default(),
            in_flight: Gauge::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            plans: PerLabel::default(),
            batch_operations: Histogram::of_numbers(&BATCH_BOUNDS),
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.value()
    }

    /// Finished requests.
    pub fn answered(&self) -> u64 {
        let counts = self.operations.iter().flat_map(|operation| operation.outcomes.iter());
        counts.filter(|(outcome, _)| *outcome != Outcome::Cut).map(|(_, count)| count.value()).sum()
    }

    fn count_cut(&self, slot: Slot) {
        if let Some(operation) = self.operations.get(slot.0) {
            operation.outcomes.of(Outcome::Cut).increment();
        }
    }

    /// Counts a finished request.
    pub(crate) fn count(&self, measured: &Measured<'_>) {
        if let Some(operation) = self.operations.get(measured.slot.0) {
            operation.outcomes.of(measured.outcome).increment();
            if let Some(kind) = operation.kind {
                self.durations.of(kind).observe_duration(measured.elapsed);
            }
        }
        if let Some(account) = measured.account {
            account.requests.of(self.service).increment();
        }
        self.bytes_out.add(measured.bytes_out);
        if measured.bytes_in > 0 {
            self.bytes_in.add(measured.bytes_in);
        }
        if let Some(failure) = measured.failure {
            self.count_failure(failure);
        }
        let work = measured.work;
        if let Some(plan) = work.plan {
            let plan = self.plans.of(plan);
            plan.queries.increment();
            plan.examined.add(work.examined.into());
            plan.returned.add(work.returned.into());
        }
        if work.operations > 0 {
            self.batch_operations.observe(work.operations.into());
        }
    }

    fn count_failure(&self, failure: Failure) {
        if let Some(counter) = self.errors.get(failure.code as usize) {
            counter.increment();
        }
        if let Some(reason) = failure.refusal {
            self.refusals.of(reason).increment();
        }
    }

    fn labels(&self, more: &[(&'static str, &'static str)]) -> Labels {
        let service = ("service", self.service.name());
        [service].iter().chain(more).map(|(name, value)| (*name, (*value).into())).collect()
    }

    /// Rows with the same name, such as those that are always errors, are merged.
    fn requests(&self) -> Family {
        let mut counts = BTreeMap::<(&str, Outcome), u64>::new();
        for operation in &self.operations {
            for (outcome, count) in operation.outcomes.iter() {
                *counts.entry((operation.name, outcome)).or_default() += count.value();
            }
        }
        let family = Family::new("lazuli_requests", "Finished requests");
        counts.into_iter().fold(family, |family, ((name, outcome), count)| {
            let labels = self.labels(&[("operation", name), ("outcome", outcome.name())]);
            family.with(labels, &Value::Counter(count as f64))
        })
    }

    /// Error codes sent, conflicts separately, and reasons for refusing credentials.
    fn failures(&self) -> [Family; 3] {
        let codes = || ErrorCode::ALL.iter().zip(&self.errors);
        let sum = |status: u16| -> f64 {
            let of_status = codes().filter(|(code, _)| code.status() == status);
            of_status.map(|(_, count)| count.value() as f64).sum()
        };
        let mut errors = Family::new("lazuli_errors", "Error codes sent");
        let mut refusals = Family::new("lazuli_auth_refusals", "Credentials that were refused");
        for (code, count) in codes() {
            errors = errors.with(self.labels(&[("code", code.name())]), count);
        }
        for (reason, count) in self.refusals.iter() {
            refusals = refusals.with(self.labels(&[("reason", reason.name())]), count);
        }
        let conflicts = Family::new("lazuli_conflicts", "Conflicts: 409 and 412 responses")
            .with(vec![("code", "409".into())], &Value::Counter(sum(409)))
            .with(vec![("code", "412".into())], &Value::Counter(sum(412)));
        [errors, refusals, conflicts]
    }

    fn plans(&self) -> [Family; 3] {
        let mut families = [
            Family::new("lazuli_queries", "Queries by plan"),
            Family::new("lazuli_entities_examined", "Entities that queries read"),
            Family::new("lazuli_entities_returned", "Entities that queries returned"),
        ];
        for (plan, meter) in self.plans.iter() {
            let counters = [&meter.queries, &meter.examined, &meter.returned];
            for (family, counter) in families.iter_mut().zip(counters) {
                let labels = vec![("plan", plan.name().into())];
                *family = std::mem::replace(family, Family::new("", "")).with(labels, counter);
            }
        }
        families
    }
}

impl Source for RequestMeter {
    fn report(&self) -> Vec<Family> {
        let one =
            |name, help, counter: &Counter| Family::new(name, help).with(self.labels(&[]), counter);
        let durations = self.durations.iter().fold(
            Family::new("lazuli_request_duration_seconds", "From the request head to the response"),
            |family, (kind, histogram)| {
                family.with(self.labels(&[("kind", kind.name())]), histogram)
            },
        );
        let in_flight = Family::new("lazuli_requests_in_flight", "Requests in flight")
            .with(self.labels(&[]), &self.in_flight);
        let batches = Family::of(
            "lazuli_batch_operations",
            "Operations in a transaction",
            &self.batch_operations,
        );
        let mut families = vec![
            self.requests(),
            durations,
            in_flight,
            one("lazuli_request_bytes", "Bytes of request bodies", &self.bytes_in),
            one("lazuli_response_bytes", "Bytes of answer bodies", &self.bytes_out),
            batches,
        ];
        families.extend(self.failures());
        families.extend(self.plans());
        families
    }
}

lazuli_meter::label! {
    /// Why the server closed a connection.
    pub(crate) enum CutReason {
        Limit => "limit",
        HeaderTime => "header_time",
        Stalled => "stalled",
        Shutdown => "shutdown",
    }
}

lazuli_meter::label! {
    pub(crate) enum Handshake {
        Ok => "ok",
        Failed => "failed",
        PlainHttp => "plain_http",
    }
}

/// The connection metrics of one listener.
#[derive(Debug)]
pub struct ConnectionMeter {
    listener: &'static str,
    pub(crate) open: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) cut: PerLabel<CutReason, Counter>,
    pub(crate) handshakes: PerLabel<Handshake, Counter>,
}

impl ConnectionMeter {
    pub fn new(listener: &'static str) -> Self {
        let (open, accepted, cut, handshakes) = Default::default();
        Self { listener, open, accepted, cut, handshakes }
    }
}

impl Source for ConnectionMeter {
    fn report(&self) -> Vec<Family> {
        let labels = || -> Labels { vec![("listener", self.listener.into())] };
        let cut = Family::new("lazuli_connections_cut", "Connections closed by the server");
        let cut = self.cut.iter().fold(cut, |family, (reason, count)| {
            family.with([labels(), vec![("reason", reason.name().into())]].concat(), count)
        });
        vec![
            Family::new("lazuli_connections", "Open connections").with(labels(), &self.open),
            Family::new("lazuli_connections", "Connections accepted")
                .with(labels(), &self.accepted),
            cut,
            Family::by("lazuli_tls_handshakes", "TLS handshakes", "result", &self.handshakes),
        ]
    }
}
