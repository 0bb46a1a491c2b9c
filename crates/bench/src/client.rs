//! The cost of the Rust client library: CPU time of its process per operation, compared with a bare hyper client that
//! sends the same bytes, with the official Python SDK, and with the benchmark's own load client.
//!
//! Each client is a separate process, so that its CPU time can be measured. Clients take turns, and the ratio within
//! each turn counts, because the speed of a machine changes from minute to minute.

mod instructions;
mod order;
mod program;
mod python;
mod report;

pub(crate) use program::Arguments;

use crate::entity::{Dataset, PARTITION_ROWS};
use crate::exchange::create_table;
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds};
use crate::measure::own_table;
use crate::options::Options;
use crate::request::Signer;
use crate::results::Machine;
use crate::target::Target;
use crate::workload::{BATCH, Service, TABLE, Workload};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Concurrent transactions of a bulk load, and connections of the load client.
const LOADERS: usize = 8;
/// A client to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Client {
    /// hyper with the pool of hyper-util; requests are signed before the clock starts.
    Bare,
    /// The typed verbs of `lazuli-client`.
    Lazuli,
    /// The official Python SDK, one request at a time.
    Python,
    /// The load client of this benchmark: transactions made before the clock starts.
    Generator,
}

/// The work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Reads entities by their keys.
    Point,
    /// Inserts entities, one by one.
    Insert,
    /// Decodes pages of 1,000 entities; the bare client does it with serde_json.
    Decode,
    /// Inserts entities in transactions of 100.
    Bulk,
}

impl Work {
    /// Operations of one turn; a bulk load counts entities.
    fn operations(self, quick: bool) -> usize {
        let operations = match self {
            Self::Point | Self::Insert => 10_000,
            Self::Decode => 200,
            Self::Bulk => 50_000,
        };
        if quick { operations / 5 } else { operations }
    }

    fn in_flight(self) -> usize {
        match self {
            Self::Point | Self::Insert => 16,
            Self::Decode => 1,
            Self::Bulk => LOADERS,
        }
    }

    /// The client that the library is compared with.
    fn reference(self) -> Client {
        if self == Self::Bulk { Client::Generator } else { Client::Bare }
    }

    fn clients(self, has_python: bool) -> Vec<Client> {
        let mut clients = vec![self.reference(), Client::Lazuli];
        if has_python && self != Self::Decode {
            clients.push(Client::Python);
        }
        clients
    }
}

/// What one client did in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) operations: usize,
    /// User and system time of the client's process.
    pub(crate) cpu_us: f64,
    pub(crate) elapsed_us: f64,
}

impl Sample {
    pub(crate) fn cpu_per_operation(&self) -> f64 {
        self.cpu_us / self.operations as f64
    }

    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 * 1e6 / self.elapsed_us
    }
}

/// The turns of one kind of work, each with a sample of every client.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) work: Work,
    pub(crate) clients: Vec<Client>,
    pub(crate) turns: Vec<Vec<Sample>>,
}

/// Measures as `options` say, prints the figures, and writes them to a file.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<u64> {
    let directory = options.data_directory()?;
    let server = Target::lazuli(&options.lazuli, &directory.path().join("lazuli"), Service::Table)?;
    let machine = Machine::look();
    println!("{}", machine.text());
    server.load(Dataset::of(PARTITION_ROWS), interrupt)?;
    let bench = Bench { options, server, directory: directory.path(), interrupt };
    if options.instructions {
        instructions::run(&bench)?;
    } else {
        let measured = bench.measure()?;
        report::print(&machine, &measured, options)?;
    }
    bench.server.terminate()?;
    Ok(0)
}

struct Bench<'a> {
    options: &'a Options,
    server: Target,
    directory: &'a Path,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Vec<Measured>> {
        let turns = self.options.rounds.unwrap_or(if self.options.quick { 3 } else { 7 }).max(1);
        let measure = |&work: &Work| -> Result<Measured> {
            let clients = work.clients(self.options.python.is_some());
            let turn = |turn: usize| -> Result<Vec<Sample>> {
                let sample = |client: &Client| self.sample(*client, work, turn);
                clients.iter().map(sample).collect()
            };
            let turns = (0..turns).map(turn).collect::<Result<Vec<_>>>()?;
            Ok(Measured { work, clients, turns })
        };
        Work::value_variants().iter().map(measure).collect()
    }

    /// Runs one client once.
    fn sample(&self, client: Client, work: Work, turn: usize) -> Result<Sample> {
        self.interrupt.pause(std::time::Duration::ZERO)?;
        let label = format!("{}c{}t{turn}", work as usize, client as usize);
        let table = self.table(work, &label)?;
        let operations = work.operations(self.options.quick);
        match client {
            Client::Bare | Client::Lazuli => {
                let arguments =
                    Arguments::new(client, work, self.server.address, &table, operations);
                let mut command = arguments.command()?;
                run_client(&mut command)
            }
            Client::Python => {
                let python = self.options.python.as_deref().context("there is no Python")?;
                // It takes a hundred times the CPU time: fewer operations are as significant.
                let operations = (operations / 10).next_multiple_of(BATCH);
                let file = python::program(self.directory)?;
                let mut command = Command::new(python);
                command.arg(file).args([self.server.address.to_string(), table]);
                let name = work.to_possible_value().context("name the work")?;
                command.arg(name.get_name()).arg(operations.to_string());
                run_client(command.env("PYTHONDONTWRITEBYTECODE", "1"))
            }
            Client::Generator => self.load(&table, operations),
        }
    }

    /// The table that `work` uses, a new one if it inserts.
    fn table(&self, work: Work, label: &str) -> Result<String> {
        match work {
            Work::Point | Work::Decode => Ok(TABLE.to_owned()),
            Work::Insert | Work::Bulk => {
                let table = own_table(label);
                create_table(self.server.address, &table)?;
                Ok(table)
            }
        }
    }

    /// What the benchmark's own load client does in a bulk load.
    fn load(&self, table: &str, entities: usize) -> Result<Sample> {
        let Target { address, pid, .. } = self.server;
        let signer = Signer::new(address)?;
        let dataset = Dataset::of(PARTITION_ROWS);
        let scripts = Workload::Egt100.scripts(&signer, LOADERS, dataset, table);
        let bounds = Bounds::operations((entities / BATCH) as u64);
        let outcome = load::run(address, pid, scripts, &bounds, self.interrupt)?;
        if let Some(error) = outcome.first_error {
            bail!("load: {error}");
        }
        Ok(Sample {
            operations: outcome.operations as usize * BATCH,
            cpu_us: outcome.client_cpu.as_secs_f64() * 1e6,
            elapsed_us: outcome.elapsed.as_secs_f64() * 1e6,
        })
    }
}

/// Runs a client and reads the sample that it prints.
fn run_client(command: &mut Command) -> Result<Sample> {
    let output = command.output().context("start a client")?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(output.status.success(), "a client failed: {stdout}{stderr}");
    serde_json::from_str(stdout.trim()).with_context(|| format!("read the sample {stdout:?}"))
}

/// The connection string of the server at `address`.
fn connection_string(address: SocketAddr) -> String {
    use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
    format!(
        "TableEndpoint=http://{address}/{ACCOUNT};AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
    )
}
