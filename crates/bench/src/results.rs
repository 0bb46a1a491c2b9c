//! Everything that a run measured, and the machine it ran on.

use crate::goal::{self, Goal};
use crate::measure::{Case, Figures};
use crate::queue::used::Used;
use crate::target::TargetName;
use crate::workload::{Counted, Service, Workload};
use lazuli_model::{Clock, SystemClock};
use serde::Serialize;
use std::fs;

/// The results for every server, workload and number of connections.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) service: Service,
    pub(crate) azurite: &'static str,
    /// Entities in the table, or messages in a queue.
    pub(crate) entities: usize,
    pub(crate) rounds: usize,
    pub(crate) window_seconds: f64,
    pub(crate) measurements: Vec<Measurement>,
    /// Of queues, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<Used>,
    pub(crate) goals: Vec<Goal>,
    /// Servers that were left out, and why.
    pub(crate) skipped: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Measurement {
    pub(crate) target: TargetName,
    #[serde(flatten)]
    pub(crate) case: Case,
    /// What a rate of entities counts, if there is one.
    pub(crate) counted: Option<Counted>,
    pub(crate) median: Figures,
    pub(crate) rounds: Vec<Figures>,
    pub(crate) operations: u64,
    pub(crate) errors: u64,
}

impl Measurement {
    /// Whether the client may have been the limit: the server could do more.
    pub(crate) fn is_client_bound(&self) -> bool {
        self.median.client_busy > 0.9
    }
}

impl Results {
    pub(crate) fn add(&mut self, measurement: Measurement) {
        let same =
            |it: &&mut Measurement| it.target == measurement.target && it.case == measurement.case;
        match self.measurements.iter_mut().find(same) {
            None => self.measurements.push(measurement),
            Some(known) => {
                known.rounds.extend(measurement.rounds);
                known.median = Figures::median(&known.rounds);
                known.operations += measurement.operations;
                known.errors += measurement.errors;
            }
        }
    }

    /// Computes the ratios, once everything is measured.
    pub(crate) fn judge(&mut self) {
        self.goals = goal::goals(self);
    }

    pub(crate) fn errors(&self) -> u64 {
        let used = self.used.as_ref().map_or(0, |used| used.errors);
        used + self.measurements.iter().map(|it| it.errors).sum::<u64>()
    }

    /// The figures with the number of connections at which servers are compared.
    pub(crate) fn compared(&self, target: TargetName, workload: Workload) -> Option<&Figures> {
        let case = Case { workload, connections: workload.compared_connections() };
        let found = self.measurements.iter().find(|it| it.target == target && it.case == case);
        found.map(|it| &it.median)
    }
}

/// Where and when figures were measured; without that they are meaningless.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) lazuli: &'static str,
    pub(crate) date: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Processes that wanted a processor in the last minute before the run.
    pub(crate) load_average: f64,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor =
            processor.unwrap_or("an unknown processor").trim_start_matches([' ', '\t', ':']);
        let load_average = read("/proc/loadavg");
        let load_average = load_average.split(' ').next().and_then(|text| text.parse().ok());
        Self {
            lazuli: env!("CARGO_PKG_VERSION"),
            date: SystemClock.now().rfc1123(),
            processor: processor.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average: load_average.unwrap_or_default(),
        }
    }

    /// Whether the machine was busy with other work, so that figures may be noise.
    pub(crate) fn is_busy(&self) -> bool {
        self.load_average > self.cores as f64 / 4.0
    }

    pub(crate) fn text(&self) -> String {
        let Self { lazuli, date, processor, cores, kernel, load_average } = self;
        format!(
            "Lazuli {lazuli} · {processor}, {cores} cores · Linux {kernel} · \
             load {load_average:.1} before · {date}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TargetName::{Azurite, Lazuli};

    fn results(service: Service) -> Results {
        Results {
            service,
            machine: Machine::look(),
            azurite: "",
            entities: 0,
            rounds: 3,
            window_seconds: 1.0,
            measurements: Vec::new(),
            used: None,
            goals: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn measurement(target: TargetName, workload: Workload, rate: f64) -> Measurement {
        let figures = Figures { operations_per_second: rate, ..Figures::default() };
        Measurement {
            target,
            case: Case { workload, connections: 64 },
            counted: None,
            median: figures.clone(),
            rounds: vec![figures],
            operations: 1,
            errors: 0,
        }
    }

    #[test]
    fn rounds_of_the_same_case_are_one_measurement() {
        let mut results = results(Service::Table);
        for rate in [5.0, 1.0, 3.0] {
            results.add(measurement(Lazuli, Workload::Point, rate));
        }
        assert_eq!(results.measurements.len(), 1);
        assert_eq!(results.measurements[0].median.operations_per_second, 3.0);
        assert_eq!(results.measurements[0].operations, 3);
    }

    #[test]
    fn ratios_come_from_the_compared_connections_and_the_rest_stays_open() {
        let mut results = results(Service::Table);
        results.add(measurement(Lazuli, Workload::Point, 90.0));
        results.add(measurement(Azurite, Workload::Point, 3.0));
        results.judge();
        let known: Vec<_> = results.goals.iter().filter(|it| it.measured.is_some()).collect();
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].measured, Some(30.0));
        assert_eq!(known[0].verdict(), "met");
    }

    #[test]
    fn consumers_of_one_queue_are_compared_with_those_of_many() {
        let mut results = results(Service::Queue);
        results.add(measurement(Lazuli, Workload::GetDelete, 6.0));
        results.add(measurement(Lazuli, Workload::OwnQueues, 10.0));
        results.judge();
        let known: Vec<_> = results.goals.iter().filter(|it| it.measured.is_some()).collect();
        assert_eq!((known.len(), known[0].measured), (1, Some(0.6)));
        assert_eq!(known[0].verdict(), "not met");
    }
}
