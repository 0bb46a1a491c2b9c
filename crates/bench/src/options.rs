//! The command line of the benchmark.

use crate::entity::Dataset;
use crate::limit::Limit;
use crate::measure::{Case, Pace};
use crate::workload::{Service, Workload};
use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Measure Lazuli, Azurite and bare servers, which show the limits of the machine
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) limit: Option<Limit>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Measure one short round on 10,000 entities, in under two minutes
    #[arg(long, conflicts_with = "scale")]
    pub(crate) quick: bool,

    /// Measure queues instead of tables
    #[arg(long, conflicts_with = "scale")]
    pub(crate) queue: bool,

    /// Measure the Rust client library beside a bare hyper client and the Python SDK
    #[arg(long, conflicts_with_all = ["queue", "scale", "only", "before", "entities", "connections", "seconds"])]
    pub(crate) client: bool,

    /// The Python that has the official SDK, for --client
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) python: Option<PathBuf>,

    /// Measure this workload only; may be repeated
    #[arg(long, value_name = "WORKLOAD")]
    pub(crate) only: Vec<Workload>,

    /// Load more and more entities into Lazuli and measure how it scales
    #[arg(long)]
    pub(crate) scale: bool,

    /// Maximum number of entities for --scale
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    pub(crate) scale_max: usize,

    /// Entities in the table, or messages in a queue; rounded up to partitions of 5,000
    /// [default: 100k, quick: 10k, queue: 150k, quick queue: 10k]
    #[arg(long, value_name = "N", value_parser = parse_count, visible_alias = "messages")]
    pub(crate) entities: Option<usize>,

    /// Messages that pass through a queue before its gets are measured [default: 1M, quick: 50k]
    #[arg(long, value_name = "N", requires = "queue", value_parser = parse_count)]
    pub(crate) passed: Option<usize>,

    /// Rounds; the result is the median [default: 3, quick: 1, before: 11, client: 7, quick client: 3]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,

    /// Seconds of each measurement, after the warm-up [default: 3, quick: 1, before: 1]
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,

    /// Numbers of connections, such as 1,16,64,256 [default: those of the workload]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) connections: Vec<usize>,

    /// Skip Azurite
    #[arg(long)]
    pub(crate) no_azurite: bool,

    /// The binary to measure
    #[arg(long, value_name = "FILE", default_value = "target/dist/lazuli")]
    pub(crate) lazuli: PathBuf,

    /// Compare with this build of Lazuli, in turns of short windows, and measure nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "scale"])]
    pub(crate) before: Option<PathBuf>,

    /// Compare `--access-log all`, written to a file, with `--access-log off`, in turns of short windows, and
    /// measure nothing else: point reads, unless --only names others
    #[arg(long, conflicts_with_all = ["quick", "scale", "before", "queue", "client", "instructions"])]
    pub(crate) access_log: bool,

    /// Count the instructions per operation under valgrind, also for --before if given, and measure
    /// nothing else
    #[arg(long, conflicts_with_all = ["quick", "scale", "entities", "rounds", "seconds", "connections"])]
    pub(crate) instructions: bool,

    /// Directory for results, data and Azurite; must be on a disk for syncs to be meaningful
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) out: PathBuf,
}

/// What a run measures, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The name of the result files.
    pub(crate) name: &'static str,
    pub(crate) service: Service,
    pub(crate) dataset: Dataset,
    pub(crate) rounds: usize,
    pub(crate) pace: Pace,
    pub(crate) cases: Vec<Case>,
    /// Messages that pass through a queue before its gets are measured, if they are.
    pub(crate) passed: Option<usize>,
}

impl Options {
    /// Fails if a named workload does not belong to the service.
    pub(crate) fn check(&self) -> Result<()> {
        for workload in &self.only {
            let hint = if self.queue { "leave out --queue" } else { "add --queue" };
            ensure!(workload.service() == self.service(), "for {}, {hint}", workload.name());
        }
        Ok(())
    }

    pub(crate) fn service(&self) -> Service {
        if self.queue { Service::Queue } else { Service::Table }
    }

    pub(crate) fn plan(&self) -> Plan {
        let entities = match (self.service(), self.quick) {
            (_, true) => 10_000,
            (Service::Table, false) => 100_000,
            // A get hides a message: there must be enough for the fastest window.
            (Service::Queue, false) => 150_000,
        };
        let rounds = match (self.quick, self.compares()) {
            (true, _) => 1,
            (false, true) => 11,
            (false, false) => 3,
        };
        Plan {
            name: match (self.service(), self.quick) {
                (Service::Table, true) => "quick",
                (Service::Table, false) => "bench",
                (Service::Queue, true) => "quick-queue",
                (Service::Queue, false) => "queue",
            },
            service: self.service(),
            dataset: Dataset::of(self.entities.unwrap_or(entities)),
            rounds: self.rounds.unwrap_or(rounds).clamp(1, 100),
            pace: self.pace(),
            cases: self.cases(),
            passed: (self.queue && self.wants(Workload::Get))
                .then(|| self.passed.unwrap_or(if self.quick { 50_000 } else { 1_000_000 })),
        }
    }

    /// A directory for data, which is removed when the returned value is dropped.
    pub(crate) fn data_directory(&self) -> Result<TempDir> {
        let directory = tempfile::Builder::new().prefix("data-").tempdir_in(&self.out);
        directory.context("make a directory for data")
    }

    pub(crate) fn pace(&self) -> Pace {
        let default = if self.quick || self.compares() { 1.0 } else { 3.0 };
        // A signature is valid for fifteen minutes, and a measurement may take four windows.
        let window = Duration::from_secs_f64(self.seconds.unwrap_or(default).clamp(0.1, 120.0));
        Pace { warm_up: window / 5, window }
    }

    /// The sizes of --scale.
    pub(crate) fn sizes(&self) -> Vec<Dataset> {
        let sizes = [10_000, 100_000, 1_000_000, 10_000_000];
        sizes.into_iter().filter(|size| *size <= self.scale_max).map(Dataset::of).collect()
    }

    /// Whether `workload` is to be measured.
    pub(crate) fn wants(&self, workload: Workload) -> bool {
        let default =
            if self.access_log { &[Workload::Point][..] } else { Workload::value_variants() };
        let named = if self.only.is_empty() { default } else { &self.only };
        workload.service() == self.service() && named.contains(&workload)
    }

    /// Whether two servers are measured in turns.
    fn compares(&self) -> bool {
        self.before.is_some() || self.access_log
    }

    fn cases(&self) -> Vec<Case> {
        let wanted = |workload: &&Workload| self.wants(**workload);
        let cases = |&workload: &Workload| {
            let connections = match (self.connections.as_slice(), self.quick || self.compares()) {
                ([], false) => workload.connections().to_vec(),
                ([], true) => vec![workload.compared_connections()],
                (given, _) => given.iter().map(|&connections| connections.clamp(1, 1024)).collect(),
            };
            connections.into_iter().map(move |connections| Case { workload, connections })
        };
        Workload::value_variants().iter().filter(wanted).flat_map(cases).collect()
    }
}

/// `10000`, `10k`, `1M`.
fn parse_count(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (text.get(..text.len() - 1), 1_000),
        Some(b'm' | b'M') => (text.get(..text.len() - 1), 1_000_000),
        _ => (Some(text), 1),
    };
    let count = digits.and_then(|digits| digits.parse::<usize>().ok()?.checked_mul(unit));
    match count {
        Some(count @ 1..=10_000_000) => Ok(count),
        _ => Err("expected a number up to 10M, such as 100k".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn options(line: &str) -> Options {
        Cli::try_parse_from(format!("bench {line}").split_whitespace()).unwrap().options
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn counts_have_units() {
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("5000"), Ok(5_000));
        for bad in ["", "k", "-1", "1G", "11M", "0", "99999999999999999999k"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ten_million_are_loaded_on_request_only() {
        assert_eq!(options("--scale").sizes().len(), 3);
        assert_eq!(options("--scale --scale-max 10M").sizes().len(), 4);
    }

    #[test]
    fn every_workload_is_measured_unless_one_is_named() {
        let cases = |line: &str| options(line).plan().cases.len();
        let all = cases("--quick") + cases("--quick --queue");
        assert_eq!(all, Workload::value_variants().len());
        let plan = options("--only egt100 --only or-keys --connections 1,2").plan();
        assert_eq!(plan.cases.len(), 4);
        assert_eq!(plan.cases[0], Case { workload: Workload::OrKeys, connections: 1 });
    }

    #[test]
    fn access_lines_are_measured_on_point_reads() {
        let plan = options("--access-log").plan();
        assert_eq!(plan.cases, [Case { workload: Workload::Point, connections: 64 }]);
        assert_eq!(plan.rounds, 11);
        let named = options("--access-log --only insert").plan();
        assert_eq!(named.cases[0].workload, Workload::Insert);
    }

    #[test]
    fn what_only_reads_comes_first() {
        for line in ["", "--queue"] {
            let cases = options(line).plan().cases;
            assert!(cases.is_sorted_by_key(|case| !case.workload.only_reads()));
        }
    }

    #[test]
    fn a_workload_of_the_other_service_is_refused() {
        assert!(options("--queue --only put").check().is_ok());
        let error = options("--only put").check().unwrap_err();
        assert_eq!(error.to_string(), "for put, add --queue");
        assert!(options("--queue --only point").check().is_err());
    }

    #[test]
    fn messages_pass_through_a_queue_when_gets_are_measured() {
        let passed = |line: &str| options(line).plan().passed;
        assert_eq!(passed("--queue"), Some(1_000_000));
        assert_eq!(passed("--queue --quick --only get"), Some(50_000));
        assert_eq!(passed("--queue --passed 2M"), Some(2_000_000));
        assert_eq!((passed("--queue --only put"), passed("")), (None, None));
    }
}
