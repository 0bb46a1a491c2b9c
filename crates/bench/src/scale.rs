//! How cost grows as work grows: one Lazuli, more and more entities.

use crate::entity::{self, Dataset};
use crate::exchange::{create_table, delete_table, expect_status};
use crate::goal::{Bound, Goal, Unit};
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds};
use crate::measure::{Case, Figures, Measured, Pace, measure, median, mib, own_table};
use crate::options::Options;
use crate::report::{self, thousands};
use crate::request::{Plain, Signer, entity_target};
use crate::results::Machine;
use crate::script::DIGITS;
use crate::target::{Target, settle};
use crate::workload::{Service, TABLE, Workload};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 3;
/// How long the server may compact the loaded data before it is measured.
const QUIET: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(300);
/// Starts are short and vary.
const STARTS: usize = 3;

/// The figures of every size.
#[derive(Debug, Serialize)]
pub(crate) struct Growth {
    pub(crate) machine: Machine,
    pub(crate) sizes: Vec<Size>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) errors: u64,
}

/// The figures of one size.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) entities: usize,
    /// Entities per second, through entity group transactions.
    pub(crate) load_per_second: f64,
    pub(crate) point: Figures,
    pub(crate) range1000: Figures,
    pub(crate) insert: Figures,
    /// Entities per second that a scan of the whole table examines.
    pub(crate) scan_per_second: f64,
    /// After all was loaded and scanned.
    pub(crate) resident_mib: f64,
    /// The most since the server was started, the load included.
    pub(crate) resident_peak_mib: f64,
    pub(crate) disk_mib: f64,
    /// From the start of the program to the first entity read.
    pub(crate) start_seconds: f64,
    /// Likewise after `kill -9` in the middle of inserts.
    pub(crate) recovery_seconds: f64,
}

/// Grows one data directory through the sizes, measuring at each.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<Growth> {
    let directory = options.data_directory()?;
    let bench = Bench {
        binary: &options.lazuli,
        data: &directory.path().join("lazuli"),
        pace: options.pace(),
        interrupt,
    };
    let mut growth =
        Growth { machine: Machine::look(), sizes: Vec::new(), goals: Vec::new(), errors: 0 };
    println!("{}", growth.machine.text());
    let mut server = Target::lazuli(bench.binary, bench.data, Service::Table)?;
    create_table(server.address, TABLE)?;
    let mut loaded = 0;
    for dataset in options.sizes() {
        let (size, next) = bench.grow(server, loaded, dataset, &mut growth.errors)?;
        growth.sizes.push(size);
        server = next;
        loaded = dataset.entities();
    }
    server.terminate()?;
    growth.goals = goals(&growth.sizes);
    report::print_growth(&growth, &options.out)?;
    Ok(growth)
}

struct Bench<'a> {
    binary: &'a Path,
    data: &'a Path,
    pace: Pace,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Loads the missing entities, measures, restarts, crashes; returns the server that runs afterwards.
    fn grow(
        &self,
        server: Target,
        loaded: usize,
        dataset: Dataset,
        errors: &mut u64,
    ) -> Result<(Size, Target)> {
        let entities = dataset.entities();
        let took = server.load_more(loaded, dataset, self.interrupt)?;
        let load_per_second = (entities - loaded) as f64 / took.as_secs_f64();
        println!("{} entities: loaded in {:.1} s", thousands(entities as f64), took.as_secs_f64());
        settle(std::slice::from_ref(&server), QUIET, SETTLE_MAX, self.interrupt)?;
        let scan_per_second = entities as f64 / server.scan(dataset, self.interrupt)?.as_secs_f64();
        let (resident, peak) = (server.pid.resident()?, server.pid.resident_peak()?);
        let disk = disk_bytes(self.data).context("look at the data directory")?;
        let mut figures = |workload| self.figures(&server, workload, dataset, errors);
        let (point, range1000) = (figures(Workload::Point)?, figures(Workload::Range1000)?);
        let insert = figures(Workload::Insert)?;
        let (start_seconds, server) = self.restart(server)?;
        let (recovery_seconds, server) = self.crash(server, dataset)?;
        println!("  start {start_seconds:.3} s, recovery {recovery_seconds:.3} s");
        // The next size must find only what was loaded.
        for round in 1..=ROUNDS {
            delete_table(server.address, &own_table(&label(dataset, round)))?;
        }
        let size = Size {
            entities,
            load_per_second,
            point,
            range1000,
            insert,
            scan_per_second,
            resident_mib: mib(resident),
            resident_peak_mib: mib(peak),
            disk_mib: mib(disk),
            start_seconds,
            recovery_seconds,
        };
        Ok((size, server))
    }

    fn figures(
        &self,
        server: &Target,
        workload: Workload,
        dataset: Dataset,
        errors: &mut u64,
    ) -> Result<Figures> {
        let case = Case { workload, connections: CONNECTIONS };
        let mut rounds = Vec::new();
        for round in 1..=ROUNDS {
            let label = label(dataset, round);
            let measured = measure(server, case, dataset, self.pace, &label, self.interrupt)?;
            let Measured { figures, errors: more, first_error, .. } = measured;
            *errors += more;
            if let Some(error) = first_error {
                println!("  {more} errors, the first: {error}");
            }
            rounds.push(figures);
        }
        let figures = Figures::median(&rounds);
        let (name, rate) = (workload.name(), thousands(figures.operations_per_second));
        println!("  {name:10} {rate} ops/s");
        Ok(figures)
    }

    /// The median time that a start takes after a clean stop.
    fn restart(&self, mut server: Target) -> Result<(f64, Target)> {
        let mut times = Vec::new();
        for _ in 0..STARTS {
            server.terminate()?;
            let (time, next) = self.start()?;
            times.push(time);
            server = next;
        }
        Ok((median(times), server))
    }

    /// The start-up time after a crash during inserts; all of them must be stored.
    fn crash(&self, server: Target, dataset: Dataset) -> Result<(f64, Target)> {
        let table = format!("Crash{}", dataset.partitions);
        create_table(server.address, &table)?;
        let signer = Signer::new(server.address)?;
        let scripts = Workload::Insert.scripts(&signer, CONNECTIONS, dataset, &table);
        let bounds = Bounds {
            warm_up: Duration::ZERO,
            window: self.pace.window,
            operations_min: 1,
            window_max: self.pace.window,
            operations_max: u64::MAX,
        };
        let outcome = load::run(server.address, server.pid, scripts, &bounds, self.interrupt)?;
        server.kill();
        let (time, server) = self.start()?;
        let last = outcome.operations.saturating_sub(1);
        let key = (format!("{:0DIGITS$}", last % 1_000), format!("{last:0DIGITS$}"));
        expect_status(server.address, &Plain::get(&entity_target(&table, &key)), 200)
            .context("read an acknowledged insert after the crash")?;
        delete_table(server.address, &table)?;
        Ok((time, server))
    }

    /// From the start of the program to the first entity read.
    fn start(&self) -> Result<(f64, Target)> {
        let start = Instant::now();
        let server = Target::lazuli(self.binary, self.data, Service::Table)?;
        let target = entity_target(TABLE, &entity::key(0));
        expect_status(server.address, &Plain::get(&target), 200)?;
        Ok((start.elapsed().as_secs_f64(), server))
    }
}

fn label(dataset: Dataset, round: usize) -> String {
    format!("s{}r{round}", dataset.partitions)
}

/// Blocks taken on disk, not lengths: files may have holes.
fn disk_bytes(path: &Path) -> std::io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            bytes += match disk_bytes(&entry?.path()) {
                // The server continues to work: a file may vanish between listing and reading.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
                outcome => outcome?,
            };
        }
    }
    Ok(bytes)
}

fn goals(sizes: &[Size]) -> Vec<Goal> {
    let of = |entities: usize| sizes.iter().find(|size| size.entities == entities);
    let (small, large) = (of(10_000), of(1_000_000));
    let ratio = small.zip(large).map(|(small, large)| large.point.p99_us / small.point.p99_us);
    let large = |figure: fn(&Size) -> f64| large.map(figure);
    vec![
        Goal::new("point p99 at 1M / at 10k", Bound::AtMost(1.5), Unit::Times, ratio),
        Goal::new(
            "resident memory at its peak, 1M loaded and scanned",
            Bound::AtMost(600.0),
            Unit::Mib,
            large(|size| size.resident_peak_mib),
        ),
        Goal::new(
            "start with 1M after a clean stop",
            Bound::AtMost(0.3),
            Unit::Seconds,
            large(|size| size.start_seconds),
        ),
        Goal::new(
            "recovery with 1M after kill -9",
            Bound::AtMost(2.0),
            Unit::Seconds,
            large(|size| size.recovery_seconds),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_bytes_are_those_of_all_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/file"), vec![1; 100_000]).unwrap();
        assert!(disk_bytes(directory.path()).unwrap() > 0);
    }

    #[test]
    fn goals_of_sizes_that_were_not_loaded_stay_open() {
        assert!(goals(&[]).iter().all(|goal| goal.is_met().is_none()));
    }
}
