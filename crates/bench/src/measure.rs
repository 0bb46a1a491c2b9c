//! One measurement: a workload on a number of connections against one server, and its figures.

use crate::entity::Dataset;
use crate::exchange::{create_table, delete_table};
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds, Outcome};
use crate::queue::{self, Queues};
use crate::request::Signer;
use crate::script::Script;
use crate::target::{Target, TargetName};
use crate::workload::{Service, Workload};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Azurite saves all changed data every five seconds, and does nothing else during that time. A
/// window must include one such cycle to show the cost of its writes.
const AZURITE_CYCLE: Duration = Duration::from_secs(5);

/// How long measurements take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
}

/// The figures of one round of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: f64,
    /// For operations on more than one entity.
    pub(crate) entities_per_second: Option<f64>,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// User and system time of the server's process.
    pub(crate) server_cpu_us_per_operation: f64,
    pub(crate) server_resident_mib: f64,
    /// The share of time in which the client's threads were busy; near 1 the client may be the
    /// limit.
    pub(crate) client_busy: f64,
}

/// Figures, and the errors of the measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    pub(crate) operations: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// The table that the inserts of the measurement called `label` go to.
pub(crate) fn own_table(label: &str) -> String {
    format!("Own{label}")
}

/// Measures `case`. Inserts go to a new table, [`own_table`], and messages to new queues.
pub(crate) fn measure(
    target: &Target,
    case: Case,
    dataset: Dataset,
    pace: Pace,
    label: &str,
    interrupt: &Interrupt,
) -> Result<Measured> {
    match case.workload.service() {
        Service::Table => measure_table(target, case, dataset, pace, label, interrupt),
        Service::Queue => {
            let queues = Queues::new(case, label);
            queues.create(target.address)?;
            let measured = measure_queues(target, case, &queues, dataset, pace, interrupt)?;
            // As for tables.
            if target.name == TargetName::Azurite {
                queues.delete(target.address)?;
            }
            Ok(measured)
        }
    }
}

/// Measures `case` on `queues`, which exist. They are filled first, unless the workload fills them.
pub(crate) fn measure_queues(
    target: &Target,
    case: Case,
    queues: &Queues,
    dataset: Dataset,
    pace: Pace,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let messages = queue::messages(target.name, dataset);
    if case.workload != Workload::Put {
        queues.fill(target, messages, interrupt)?;
    }
    let scripts = queues.scripts(&Arc::new(Signer::new(target.address)?), messages);
    measure_scripts(target, case, dataset, pace, scripts, interrupt)
}

fn measure_table(
    target: &Target,
    case: Case,
    dataset: Dataset,
    pace: Pace,
    label: &str,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let own_table = own_table(label);
    let own = case.workload.inserts() && target.name.stores();
    if own {
        create_table(target.address, &own_table)?;
    }
    let signer = Signer::new(target.address)?;
    let scripts = case.workload.scripts(&signer, case.connections, dataset, &own_table);
    let measured = measure_scripts(target, case, dataset, pace, scripts, interrupt)?;
    // Azurite keeps every table in memory and saves all of them every few seconds: a leftover table
    // would slow down the next measurement.
    if own && target.name == TargetName::Azurite {
        delete_table(target.address, &own_table)?;
    }
    Ok(measured)
}

fn measure_scripts(
    target: &Target,
    case: Case,
    dataset: Dataset,
    pace: Pace,
    scripts: Vec<Script>,
    interrupt: &Interrupt,
) -> Result<Measured> {
    let bounds = bounds(target.name, case, dataset, pace);
    let outcome = load::run(target.address, target.pid, scripts, &bounds, interrupt)?;
    let resident = target.pid.resident()?;
    ensure!(outcome.operations > 0, no_operations(case, target, &outcome));
    let figures = figures(&outcome, case.workload, dataset, resident);
    let Outcome { operations, errors, first_error, .. } = outcome;
    Ok(Measured { figures, operations, errors, first_error })
}

fn bounds(target: TargetName, case: Case, dataset: Dataset, pace: Pace) -> Bounds {
    let writes = !case.workload.only_reads();
    let window = match target {
        TargetName::Azurite if writes => pace.window.max(AZURITE_CYCLE),
        _ => pace.window,
    };
    Bounds {
        warm_up: pace.warm_up,
        window,
        // Connections that start together tend to finish together; a few operations even that out.
        operations_min: 4 * case.connections as u64,
        window_max: window * 4,
        operations_max: match target.stores() && writes {
            true if case.workload.takes_messages() => queue::messages(target, dataset) as u64,
            true => case.workload.operations_max(),
            false => u64::MAX,
        },
    }
}

fn no_operations(case: Case, target: &Target, outcome: &Outcome) -> String {
    let why = outcome.first_error.as_deref().unwrap_or("none came to its end in time");
    format!("{} did no {}: {why}", target.name.text(), case.workload.name())
}

fn figures(outcome: &Outcome, workload: Workload, dataset: Dataset, resident: u64) -> Figures {
    let seconds = outcome.elapsed.as_secs_f64();
    let rate = outcome.operations as f64 / seconds;
    let entities = workload.entities(dataset);
    let latency_us = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
    let client_seconds = seconds * outcome.client_threads as f64;
    Figures {
        operations_per_second: rate,
        entities_per_second: entities.map(|(_, entities)| rate * entities as f64),
        p50_us: latency_us(0.5),
        p99_us: latency_us(0.99),
        server_cpu_us_per_operation: outcome.server_cpu.as_secs_f64() * 1e6
            / outcome.operations as f64,
        server_resident_mib: mib(resident),
        client_busy: outcome.client_cpu.as_secs_f64() / client_seconds,
    }
}

impl Figures {
    /// The median of each figure separately.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure).collect());
        let entities: Vec<f64> = rounds.iter().filter_map(|it| it.entities_per_second).collect();
        Self {
            operations_per_second: of(|it| it.operations_per_second),
            entities_per_second: (!entities.is_empty()).then(|| median(entities)),
            p50_us: of(|it| it.p50_us),
            p99_us: of(|it| it.p99_us),
            server_cpu_us_per_operation: of(|it| it.server_cpu_us_per_operation),
            server_resident_mib: of(|it| it.server_resident_mib),
            client_busy: of(|it| it.client_busy),
        }
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

/// The middle value, or the mean of the two middle ones; zero if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = values.len().checked_sub(2).and_then(|left| values.get(left / 2)).copied();
    (lower.unwrap_or_default() + upper) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn each_figure_has_its_own_median() {
        let round = |rate: f64, p50_us: f64| Figures {
            operations_per_second: rate,
            p50_us,
            ..Figures::default()
        };
        let median = Figures::median(&[round(1.0, 9.0), round(2.0, 8.0), round(3.0, 7.0)]);
        assert_eq!(median, round(2.0, 8.0));
    }
}
