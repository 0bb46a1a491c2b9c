//! The goals: which figures are compared, and whether the goal is met.

use crate::queue::used::Used;
use crate::results::Results;
use crate::target::TargetName::{self, Azurite, BareHttp, BareLog, Lazuli};
use crate::workload::{Service, Workload};
use serde::Serialize;

/// A figure and its goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    pub(crate) measure: String,
    pub(crate) bound: Bound,
    pub(crate) unit: Unit,
    /// `None` if its inputs were not measured.
    pub(crate) measured: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    Times,
    Mib,
    Seconds,
}

impl Goal {
    pub(crate) fn new(measure: &str, bound: Bound, unit: Unit, measured: Option<f64>) -> Self {
        Self { measure: measure.to_owned(), bound, unit, measured }
    }

    pub(crate) fn is_met(&self) -> Option<bool> {
        self.measured.map(|measured| match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        })
    }

    pub(crate) fn bound_text(&self) -> String {
        match self.bound {
            Bound::AtLeast(bound) => format!("≥ {}", self.unit.text(bound)),
            Bound::AtMost(bound) => format!("≤ {}", self.unit.text(bound)),
        }
    }

    pub(crate) fn measured_text(&self) -> String {
        self.measured.map_or("–".to_owned(), |measured| self.unit.text(measured))
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "not met",
            None => "not measured",
        }
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Times if value >= 10.0 => format!("{value:.0}×"),
            Self::Times => format!("{}×", significant(value)),
            Self::Mib => format!("{value:.0} MiB"),
            Self::Seconds => format!("{} s", significant(value)),
        }
    }
}

/// Two decimal digits, without trailing zeros.
fn significant(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The goals of the service that was measured, as far as the figures say something about them.
pub(crate) fn goals(results: &Results) -> Vec<Goal> {
    match results.service {
        Service::Table => of_tables(results),
        Service::Queue => of_queues(results),
    }
}

/// Operations per second, or entities where an operation is more than one.
fn rate(results: &Results, workload: Workload, target: TargetName) -> Option<f64> {
    let figures = results.compared(target, workload)?;
    Some(figures.entities_per_second.unwrap_or(figures.operations_per_second))
}

fn of_queues(results: &Results) -> Vec<Goal> {
    use Bound::AtLeast;
    use Workload::{GetDelete, OwnQueues, Put};
    let ratio = |measure, bound, (workload, target), (other_workload, other_target)| {
        let left = rate(results, workload, target);
        let measured = divide(left, rate(results, other_workload, other_target));
        Goal::new(measure, AtLeast(bound), Unit::Times, measured)
    };
    let [used, resident] = Used::goals(results.used.as_ref());
    vec![
        ratio("put, durable: ops/s / Azurite, undurable", 20.0, (Put, Lazuli), (Put, Azurite)),
        ratio(
            "get-delete, durable: ops/s / Azurite, undurable",
            20.0,
            (GetDelete, Lazuli),
            (GetDelete, Azurite),
        ),
        used,
        ratio("get-delete: ops/s / own-queues", 0.7, (GetDelete, Lazuli), (OwnQueues, Lazuli)),
        resident,
    ]
}

fn of_tables(results: &Results) -> Vec<Goal> {
    use Bound::{AtLeast, AtMost};
    use Workload::{
        Egt100, HotPartition, Insert, OrKeys, PartitionScan, Point, Range1000, TableScan,
    };
    let rate = |workload, target| rate(results, workload, target);
    let cpu = |workload, target: TargetName| {
        results.compared(target, workload).map(|it| it.server_cpu_us_per_operation)
    };
    let rates = |workload, other| divide(rate(workload, Lazuli), rate(workload, other));
    let goal = |measure, bound, measured| Goal::new(measure, bound, Unit::Times, measured);
    vec![
        goal(
            "point: server CPU per operation / bare hyper",
            AtMost(1.5),
            divide(cpu(Point, Lazuli), cpu(Point, BareHttp)),
        ),
        goal("point: ops/s / Azurite", AtLeast(30.0), rates(Point, Azurite)),
        goal("insert, durable: ops/s / bare log", AtLeast(0.9), rates(Insert, BareLog)),
        goal("insert, durable: ops/s / Azurite, undurable", AtLeast(20.0), rates(Insert, Azurite)),
        goal("egt100: entities/s / Azurite", AtLeast(25.0), rates(Egt100, Azurite)),
        goal("egt100: entities/s / bare log", AtLeast(0.5), rates(Egt100, BareLog)),
        goal("range1000: entities/s / Azurite", AtLeast(15.0), rates(Range1000, Azurite)),
        goal(
            "partition-scan: entities examined/s / Azurite",
            AtLeast(8.0),
            rates(PartitionScan, Azurite),
        ),
        goal("table-scan: entities examined/s / Azurite", AtLeast(1.0), rates(TableScan, Azurite)),
        goal("or-keys: ops/s / Azurite", AtLeast(100.0), rates(OrKeys, Azurite)),
        goal(
            "hot-partition: ops/s / insert over many partitions",
            AtLeast(0.9),
            divide(rate(HotPartition, Lazuli), rate(Insert, Lazuli)),
        ),
    ]
}

fn divide(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    match (left, right) {
        (Some(left), Some(right)) if right > 0.0 => Some(left / right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_bound() {
        let goal = |bound, measured| Goal::new("x", bound, Unit::Times, measured).is_met();
        assert_eq!(goal(Bound::AtLeast(2.0), Some(2.0)), Some(true));
        assert_eq!(goal(Bound::AtLeast(2.0), Some(1.9)), Some(false));
        assert_eq!(goal(Bound::AtMost(2.0), Some(2.1)), Some(false));
        assert_eq!(goal(Bound::AtMost(2.0), None), None);
    }

    #[test]
    fn figures_are_told_in_their_unit() {
        assert_eq!(Unit::Times.text(0.9), "0.9×");
        assert_eq!(Unit::Times.text(31.26), "31×");
        assert_eq!(Unit::Mib.text(599.6), "600 MiB");
        assert_eq!(Unit::Seconds.text(0.251), "0.25 s");
        assert_eq!(Unit::Seconds.text(2.0), "2 s");
    }
}
