//! Instructions that the server executes for one operation, counted by valgrind's callgrind.
//!
//! Times vary from minute to minute; instruction counts do not, whatever else the machine is doing.
//! So this figure shows a change of one percent. It does not include waiting for memory or the
//! kernel: `--before` without `--instructions` measures that.

use crate::entity::Dataset;
use crate::exchange::create_table;
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds};
use crate::measure;
use crate::options::Options;
use crate::queue::Queues;
use crate::report::thousands;
use crate::request::Signer;
use crate::target::Target;
use crate::workload::{BATCH, Service, Workload};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Entities in the table: few enough to stay in the write buffer of both builds, so that no flush
/// or compaction happens during a count.
const ENTITIES: usize = 5_000;
/// Counts per workload. The smallest is used: timers and background tasks only add.
const ROUNDS: usize = 3;

/// A workload whose operations are counted, and how many per count.
struct Case {
    workload: Workload,
    operations: u64,
}

const CASES: [Case; 9] = [
    Case { workload: Workload::Point, operations: 1_000 },
    Case { workload: Workload::Upsert, operations: 500 },
    Case { workload: Workload::Merge, operations: 500 },
    Case { workload: Workload::Insert, operations: 500 },
    Case { workload: Workload::Egt100, operations: 10 },
    Case { workload: Workload::Peek, operations: 500 },
    Case { workload: Workload::Put, operations: 500 },
    Case { workload: Workload::Get, operations: 500 },
    Case { workload: Workload::GetDelete, operations: 500 },
];

impl Case {
    /// What one count is divided by: operations, or the entities of transactions.
    fn divisor(&self) -> u64 {
        match self.workload {
            Workload::Egt100 => self.operations * BATCH as u64,
            _ => self.operations,
        }
    }

    fn unit(&self) -> &'static str {
        if self.workload == Workload::Egt100 { "entity" } else { "operation" }
    }
}

/// Counts the instructions of the binary of `options` and, if given, of the build before. Returns how
/// many operations failed: always 0, because a failed one ends the run.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<u64> {
    let directory = options.data_directory()?;
    let count = |binary: &Path, name: &str| -> Result<Vec<u64>> {
        ensure!(binary.is_file(), "there is no build at {}", binary.display());
        let counted = Counted::start(binary, &directory.path().join(name), options.service())?;
        counted.count(&wanted(options), interrupt)
    };
    let before = options.before.as_deref().map(|before| count(before, "before")).transpose()?;
    let now = count(&options.lazuli, "now")?;
    println!("{}", table(&wanted(options), before.as_deref(), &now));
    Ok(0)
}

fn wanted(options: &Options) -> Vec<&'static Case> {
    CASES.iter().filter(|case| options.wants(case.workload)).collect()
}

/// A server under callgrind.
struct Counted {
    service: Service,
    target: Target,
    directory: PathBuf,
}

impl Counted {
    fn start(binary: &Path, directory: &Path, service: Service) -> Result<Self> {
        fs::create_dir_all(directory).context("create a directory for counts")?;
        let mut launcher = Command::new("valgrind");
        launcher.args(["--quiet", "--tool=callgrind"]);
        launcher.arg(format!("--callgrind-out-file={}", directory.join("counts").display()));
        launcher.arg(binary);
        let target = Target::lazuli_through(&launcher, &directory.join("data"), service, &[])
            .context("start Lazuli under valgrind, which must be installed")?;
        Ok(Self { service, target, directory: directory.to_owned() })
    }

    /// Instructions for each operation of each wanted case.
    fn count(self, cases: &[&Case], interrupt: &Interrupt) -> Result<Vec<u64>> {
        let dataset = Dataset::of(ENTITIES);
        if self.service == Service::Table {
            self.target.load(dataset, interrupt)?;
        }
        let counts = cases.iter().map(|case| {
            let rounds = (0..ROUNDS).map(|round| self.count_once(case, round, dataset, interrupt));
            let counts = rounds.collect::<Result<Vec<u64>>>()?;
            Ok(counts.into_iter().min().unwrap_or_default() / case.divisor())
        });
        let counts = counts.collect::<Result<Vec<u64>>>()?;
        self.target.terminate()?;
        Ok(counts)
    }

    fn count_once(
        &self,
        case: &Case,
        round: usize,
        dataset: Dataset,
        interrupt: &Interrupt,
    ) -> Result<u64> {
        let Target { address, pid, .. } = self.target;
        let label = format!("{}r{round}", case.workload as usize);
        let own_table = measure::own_table(&label);
        let one = measure::Case { workload: case.workload, connections: 1 };
        let queues = Queues::new(one, &label);
        match self.service {
            Service::Table if case.workload.inserts() => create_table(address, &own_table)?,
            Service::Table => {}
            Service::Queue => {
                queues.create(address)?;
                queues.fill(&self.target, case.operations as usize * 2, interrupt)?;
            }
        }
        let run = |operations| -> Result<()> {
            let signer = Arc::new(Signer::new(address)?);
            let scripts = match self.service {
                Service::Table => case.workload.scripts(&signer, 1, dataset, &own_table),
                Service::Queue => queues.scripts(&signer, case.operations as usize * 2),
            };
            let bounds = Bounds::operations(operations);
            let outcome = load::run(address, pid, scripts, &bounds, interrupt)?;
            match outcome.first_error {
                Some(error) => bail!("{}: {error}", case.workload.name()),
                None => Ok(()),
            }
        };
        // First runs fill caches that later operations use.
        if self.service == Service::Queue || (round == 0 && !case.workload.inserts()) {
            run(case.operations / 5)?;
        }
        self.dump()?;
        run(case.operations)?;
        self.dump()
    }

    /// Instructions since the last dump.
    fn dump(&self) -> Result<u64> {
        let before = self.dumps()?;
        let pid = format!("--pid={}", self.target.pid.raw());
        let output = Command::new("vgdb").args([pid.as_str(), "dump"]).output();
        let output = output.context("run vgdb, which comes with valgrind")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "vgdb: {}", words.trim());
        let new: Vec<_> = self.dumps()?.into_iter().filter(|file| !before.contains(file)).collect();
        let [file] = new.as_slice() else { bail!("vgdb made {} dumps", new.len()) };
        let text = fs::read_to_string(file).context("read a dump")?;
        total(&text).with_context(|| format!("no total in {}", file.display()))
    }

    fn dumps(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.directory).context("list dumps")?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let is_dump = |path: &PathBuf| path.extension().is_some();
        Ok(paths.into_iter().filter(is_dump).collect())
    }
}

/// The count of a dump: `totals: 1154794`.
pub(crate) fn total(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
}

fn table(cases: &[&Case], before: Option<&[u64]>, now: &[u64]) -> String {
    let mut text = String::from("instructions        before       now   ratio\n");
    for (index, (case, now)) in cases.iter().zip(now).enumerate() {
        let before = before.and_then(|before| before.get(index)).copied();
        let ratio =
            before.map_or_else(String::new, |before| format!("{:.3}", *now as f64 / before as f64));
        let before = before.map_or_else(|| "-".to_owned(), |it| thousands(it as f64));
        let (name, now) = (case.workload.name(), thousands(*now as f64));
        text += &format!("{name:14} {before:>11} {now:>9} {ratio:>7}  per {}\n", case.unit());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_dump_is_read() {
        let dump = "version: 1\nevents: Ir\n\nfn=(1) main\n1 5\n\ntotals: 1154794\n";
        assert_eq!(total(dump), Some(1_154_794));
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn transactions_are_counted_by_entity() {
        let text = table(&[&CASES[0], &CASES[4]], Some(&[50_000, 40_000]), &[49_000, 42_000]);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["point", "50,000", "49,000", "0.980", "per", "operation"]);
        assert_eq!(rows[1], ["egt100", "40,000", "42,000", "1.050", "per", "entity"]);
    }
}
