//! `cargo xtask bench --engine tikv`: what can be measured without a real cluster (K-11.3, K-11.7).
//!
//! The stand-in is not a database: its speed says nothing about TiKV, so only the CPU of gateways and ratios of
//! one run are reported. Round trips, and calls to the region of the catalog, are covered by tests and not
//! measured here.

use crate::bench_load::{Load, Step, cpu_of_servers, fill, heading, insert, line, read};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use lazuli_testkit::processes::peak_kib_of;
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::tikv::{self, StandIn};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Rows that are read.
const ROWS: usize = 1_000;
const CLIENTS: usize = 8;
/// Clients per gateway where waiting dominates, and how long each read of the store then takes.
const WAITING_CLIENTS: usize = 4;
const WAIT_MS: u64 = 20;
const GATEWAYS: usize = 3;

pub(crate) fn run(workspace: &Workspace, seconds: u64) -> Result<Tally> {
    if !tikv::is_installed() {
        println!("skipped: Go is not installed, which the stand-in of a TiKV cluster needs");
        return Ok(Tally::SKIPPED);
    }
    let (time, data) = (Duration::from_secs(seconds.max(1)), tempfile::tempdir()?);
    let cluster = StandIn::start();
    let quiet = ["--access-log", "off"];
    let start = || {
        let command = Command::new(workspace.dist_binary()?);
        Server::start_gateway(command, &cluster.engine(), &quiet).context("start a gateway")
    };
    let local = Server::start(workspace.dist_binary()?, data.path(), &quiet)?;
    let mut gateways = vec![start()?];
    for server in gateways.iter().chain([&local]) {
        fill(server, ROWS)?;
    }
    compare(&gateways, std::slice::from_ref(&local), time)?;
    while gateways.len() < GATEWAYS {
        gateways.push(start()?);
    }
    cluster.control(&format!("delay KvBatchGet 1000000000 {WAIT_MS}"));
    let rate = |gateways: &[Server]| -> Result<f64> {
        Ok(load(gateways, WAITING_CLIENTS * gateways.len(), time, &read(ROWS))?.rate())
    };
    let (three, one) = (rate(&gateways)?, rate(gateways.get(..1).unwrap_or_default())?);
    heading("3", "1");
    line("gateways, point reads per s", three, one, ">= 2.7");
    for server in gateways.into_iter().chain([local]) {
        ensure!(server.terminate()?.success(), "a server did not stop cleanly");
    }
    Ok(Tally::PASSED)
}

/// The CPU and memory of a gateway, compared with those of the local engine (K-11.3).
fn compare(gateway: &[Server], local: &[Server], time: Duration) -> Result<()> {
    heading("tikv", "local");
    let cost = |servers, step| Ok::<_, anyhow::Error>(load(servers, CLIENTS, time, step)?.cpu_us());
    let read = read(ROWS);
    let (ours, theirs) = (cost(gateway, &read)?, cost(local, &read)?);
    line("point read, CPU of the gateway, µs", ours, theirs, "<= 2.5");
    let number = AtomicU64::new(0);
    let insert = insert(&number);
    let (ours, theirs) = (cost(gateway, &insert)?, cost(local, &insert)?);
    line("upsert, CPU of the gateway, µs", ours, theirs, "");
    let peak = |servers: &[Server]| {
        let kib = servers.first().and_then(|server| peak_kib_of(server.pid()));
        Ok::<_, anyhow::Error>(kib.context("read /proc")? as f64 / 1024.0)
    };
    line("most memory, MiB", peak(gateway)?, peak(local)?, "");
    Ok(())
}

fn load(
    servers: &[Server],
    clients: usize,
    time: Duration,
    step: Step<'_>,
) -> Result<crate::bench_load::Done> {
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let cpu = || cpu_of_servers(servers);
    let done = Load { servers: &addresses, clients, time, cpu: &cpu }.run(step)?;
    ensure!(done.failed == 0, "{} operations were refused", done.failed);
    Ok(done)
}
