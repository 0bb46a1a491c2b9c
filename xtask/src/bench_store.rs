//! `cargo xtask bench --engine postgres`: what gateways cost compared with plain SQL, as ratios of one run
//! (K-11).
//!
//! The machine may be busy with other work: rates mean little, while CPU per operation and ratios are
//! meaningful. `pgbench` runs the plain statements, prepared, on the same database.

use crate::bench_load::{
    Cpu, Done, Load, Step, TABLE, VALUE_BYTES, cpu_of_servers, fill, heading, insert, line, put,
    read,
};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use lazuli_testkit::http::Request;
use lazuli_testkit::processes::peak_kib_of;
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::postgres;
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rows that are read.
const ROWS: usize = 5_000;
const CLIENTS: usize = 16;
/// Clients where rates are compared.
const MANY_CLIENTS: usize = 64;
/// Clients per gateway where waiting dominates, and how long each answer of the store then takes.
const WAITING_CLIENTS: usize = 4;
const WAIT: Duration = Duration::from_millis(50);
const GATEWAYS: usize = 3;

pub(crate) fn run(workspace: &Workspace, seconds: u64) -> Result<Tally> {
    if !postgres::is_installed() {
        println!("skipped: PostgreSQL is not installed (Debian: postgresql-15)");
        return Ok(Tally::SKIPPED);
    }
    let bench = Bench::start(workspace, Duration::from_secs(seconds.max(1)))?;
    heading("lazuli", "plain SQL");
    bench.costs()?;
    bench.page()?;
    bench.hot_entity()?;
    bench.rates()?;
    heading("postgres", "local");
    bench.gateway_costs()?;
    heading("3", "1");
    bench.gateways()?;
    for server in bench.gateway {
        server.terminate()?;
    }
    Ok(Tally::PASSED)
}

struct Bench<'a> {
    workspace: &'a Workspace,
    database: postgres::Server,
    gateway: [Server; 1],
    time: Duration,
}

impl<'a> Bench<'a> {
    fn start(workspace: &'a Workspace, time: Duration) -> Result<Self> {
        let database = postgres::Server::try_start("").context("start PostgreSQL")?;
        let store = SocketAddr::from(([127, 0, 0, 1], database.instance.port));
        let gateway = [start_gateway(workspace, store)?];
        fill(&gateway[0], ROWS)?;
        for statement in [
            "create table plain (k bigint primary key, v bytea not null)".to_owned(),
            "alter table plain alter v set storage external".to_owned(),
            "create table added (k bigint primary key, v bytea not null)".to_owned(),
            "alter table added alter v set storage external".to_owned(),
            format!("insert into plain select n, {} from generate_series(0, {ROWS}) n", value()),
            "analyze".to_owned(),
        ] {
            database.instance.sql(&statement)?;
        }
        Ok(Self { workspace, database, gateway, time })
    }

    /// CPU of the database per operation (K-11.2).
    fn costs(&self) -> Result<()> {
        let done = self.load(CLIENTS, &read(ROWS))?;
        let plain = self.pgbench(CLIENTS, &plain_read())?;
        line("point read, CPU of the database, µs", done.cpu_us(), plain.cpu_us(), "<= 2.0");

        let number = AtomicU64::new(0);
        let inserted = self.load(CLIENTS, &insert(&number))?;
        let plain = self.pgbench(CLIENTS, &plain_insert())?;
        line("insert, CPU of the database, µs", inserted.cpu_us(), plain.cpu_us(), "<= 1.5");

        let batch = self.load(4, &|connection, _| {
            let first = number.fetch_add(100, Ordering::Relaxed);
            let rows: Vec<_> = (first..first + 100).map(|row| put("b", row)).collect();
            Ok(connection.send_batch(&rows)?.status == 202)
        })?;
        let singles = 100.0 * inserted.cpu_us();
        line("batch of 100 beside 100 inserts, µs", batch.cpu_us(), singles, "<= 0.3");
        Ok(())
    }

    /// A page of 1,000 entities, compared with one statement that selects as many rows (K-11.6).
    fn page(&self) -> Result<()> {
        let page = self.load(1, &|connection, _| {
            Ok(connection.send(&Request::new("GET", &format!("/{TABLE}()")))?.status == 200)
        })?;
        let plain = self.pgbench(1, "select k, v from plain order by k limit 1000;\n")?;
        let ms = |done: &Done| 1e3 / done.rate();
        line("page of 1,000, time, ms", ms(&page), ms(&plain), "<= 1.5");
        line("page, CPU of the database, µs", page.cpu_us(), plain.cpu_us(), "");
        Ok(())
    }

    /// Many clients that merge one entity (K-11.5).
    fn hot_entity(&self) -> Result<()> {
        let number = AtomicU64::new(0);
        let path = format!("/{TABLE}(PartitionKey='hot',RowKey='r')");
        let merged = self.load(MANY_CLIENTS, &|connection, _| {
            let body = format!("{{\"n\":{}}}", number.fetch_add(1, Ordering::Relaxed));
            Ok(connection.send(&Request::new("MERGE", &path).json(&body))?.status == 204)
        })?;
        let script = format!("update plain set v = {} where k = 1;\n", value());
        let plain = self.pgbench(MANY_CLIENTS, &script)?;
        line("hot entity, 64 clients, per s", merged.rate(), plain.rate(), ">= 0.5");
        let all = merged.operations + merged.failed;
        println!("  of {all} merges {} were refused", merged.failed);
        Ok(())
    }

    /// Rates of many clients (K-11.4). The gateway's clients share the machine with it and the database, and
    /// each of their operations is an HTTP request.
    fn rates(&self) -> Result<()> {
        let done = self.load(MANY_CLIENTS, &read(ROWS))?;
        let plain = self.pgbench(MANY_CLIENTS, &plain_read())?;
        line("point reads, 64 clients, per s", done.rate(), plain.rate(), ">= 0.7");
        let number = AtomicU64::new(1_000_000_000);
        let done = self.load(MANY_CLIENTS, &insert(&number))?;
        let plain = self.pgbench(MANY_CLIENTS, &plain_insert())?;
        line("inserts, 64 clients, per s", done.rate(), plain.rate(), ">= 0.6");
        Ok(())
    }

    /// CPU and memory of a gateway, compared with those of the local engine (K-11.3).
    fn gateway_costs(&self) -> Result<()> {
        let data = tempfile::tempdir()?;
        let quiet = ["--access-log", "off"];
        let local = [Server::start(self.workspace.dist_binary()?, data.path(), &quiet)?];
        fill(&local[0], ROWS)?;
        let on = |servers: &[Server], step: Step<'_>| -> Result<f64> {
            let cpu = || cpu_of_servers(servers);
            Ok(self.load_on(servers, CLIENTS, &cpu, step)?.cpu_us())
        };
        let read = read(ROWS);
        let (ours, theirs) = (on(&self.gateway, &read)?, on(&local, &read)?);
        line("point read, CPU of the gateway, µs", ours, theirs, "<= 2.5");
        let number = AtomicU64::new(2_000_000_000);
        let insert = insert(&number);
        let (ours, theirs) = (on(&self.gateway, &insert)?, on(&local, &insert)?);
        line("insert, CPU of the gateway, µs", ours, theirs, "");
        let peak = |server: &Server| {
            Ok::<_, anyhow::Error>(peak_kib_of(server.pid()).context("read /proc")? as f64 / 1024.0)
        };
        line("most memory, MiB", peak(&self.gateway[0])?, peak(&local[0])?, "");
        for server in local {
            server.terminate()?;
        }
        Ok(())
    }

    /// One gateway and three, on a store that makes everyone wait (K-11.7).
    fn gateways(&self) -> Result<()> {
        let store = SocketAddr::from(([127, 0, 0, 1], self.database.instance.port));
        let (mut lines, mut gateways) = (Vec::new(), Vec::new());
        for seed in 0..GATEWAYS as u64 {
            let line = WireCut::before(store, seed)?;
            gateways.push(start_gateway(self.workspace, line.address())?);
            line.set(Weather::Slow(WAIT));
            lines.push(line);
        }
        let rate = |gateways: &[Server]| -> Result<f64> {
            let clients = WAITING_CLIENTS * gateways.len();
            Ok(self.load_on(gateways, clients, &|| self.cpu(), &read(ROWS))?.rate())
        };
        let (one, three) = (rate(gateways.get(..1).unwrap_or_default())?, rate(&gateways)?);
        line("gateways, point reads per s", three, one, ">= 2.7");
        Ok(())
    }

    /// A load on the gateway, measured by the CPU of the database.
    fn load(&self, clients: usize, step: Step<'_>) -> Result<Done> {
        self.load_on(&self.gateway, clients, &|| self.cpu(), step)
    }

    fn load_on(
        &self,
        servers: &[Server],
        clients: usize,
        cpu: Cpu<'_>,
        step: Step<'_>,
    ) -> Result<Done> {
        let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
        Load { servers: &addresses, clients, time: self.time, cpu }.run(step)
    }

    /// A `pgbench` script for the same time.
    fn pgbench(&self, clients: usize, script: &str) -> Result<Done> {
        let database = &self.database.instance;
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), script)?;
        let (began, cpu) = (Instant::now(), self.cpu()?);
        let output = Command::new(database.program("pgbench"))
            .args(["--no-vacuum", "--protocol=prepared", "--host=127.0.0.1", "--username=lazuli"])
            .args(["--port", &database.port.to_string()])
            .args(["--client", &clients.to_string(), "--jobs", "2"])
            .args(["--time", &self.time.as_secs().to_string()])
            .arg("--file")
            .arg(file.path())
            .arg("postgres")
            .output()
            .context("run pgbench")?;
        let (time, cpu) = (began.elapsed(), self.cpu()? - cpu);
        let text = String::from_utf8_lossy(&output.stdout);
        let counted = text.split("actually processed: ").nth(1);
        let counted = counted.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let operations = counted.with_context(|| {
            format!("pgbench said: {text}{}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(Done { operations, failed: 0, time, cpu })
    }

    /// CPU of the database.
    fn cpu(&self) -> Result<Duration> {
        Ok(self.database.instance.cpu()?)
    }
}

/// The value of every row, in SQL.
fn value() -> String {
    format!("convert_to(repeat('x', {VALUE_BYTES}), 'UTF8')")
}

fn plain_read() -> String {
    format!("\\set n random(0, {})\nselect v from plain where k = :n;\n", ROWS - 1)
}

fn plain_insert() -> String {
    let value = value();
    format!(
        "\\set n random(1, 1000000000000)\n\
         insert into added values (:n, {value}) on conflict do nothing;\n"
    )
}

fn start_gateway(workspace: &Workspace, store: SocketAddr) -> Result<Server> {
    let engine = format!("postgres://lazuli@{store}/postgres");
    let arguments = ["--access-log", "off"];
    let command = Command::new(workspace.dist_binary()?);
    Server::start_gateway(command, &engine, &arguments).context("start a gateway")
}
