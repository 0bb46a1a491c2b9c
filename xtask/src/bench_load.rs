//! Shared by the benchmarks of shared stores: a table, and clients that run one operation after the other.

use anyhow::{Context, Result, ensure};
use lazuli_testkit::http::{Connection, Operation, Request};
use lazuli_testkit::processes::cpu_of;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the value of each row.
pub(crate) const VALUE_BYTES: usize = 1_024;
pub(crate) const TABLE: &str = "Bench";

/// One operation of a client; returns whether it was done.
pub(crate) type Step<'a> = &'a (dyn Fn(&mut Connection, &mut Seeded) -> Result<bool> + Sync);

/// Returns the CPU time used so far.
pub(crate) type Cpu<'a> = &'a dyn Fn() -> Result<Duration>;

/// What clients did in a given time.
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
}

impl Done {
    /// CPU of one operation.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }

    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// What runs, with which clients, for how long.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) servers: &'a [SocketAddr],
    pub(crate) clients: usize,
    pub(crate) time: Duration,
    /// The CPU time that is counted.
    pub(crate) cpu: Cpu<'a>,
}

impl Load<'_> {
    /// Makes clients, spread over the servers, run one operation after the other.
    pub(crate) fn run(&self, step: Step<'_>) -> Result<Done> {
        let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut connections = Vec::new();
        for client in 0..self.clients {
            let address = self.servers.get(client % self.servers.len()).context("no server")?;
            connections.push(Connection::open(*address)?);
        }
        let (began, cpu, time) = (Instant::now(), (self.cpu)()?, self.time);
        std::thread::scope(|scope| {
            let (done, failed) = (&done, &failed);
            let client = |(number, mut connection): (usize, Connection)| {
                scope.spawn(move || -> Result<()> {
                    let mut random = Seeded::new(7).stream(number as u64);
                    while began.elapsed() < time {
                        let is_done = step(&mut connection, &mut random)?;
                        if is_done { done } else { failed }.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            };
            let clients: Vec<_> = connections.into_iter().enumerate().map(client).collect();
            clients.into_iter().try_for_each(|client| {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        let (time, cpu) = (began.elapsed(), (self.cpu)()? - cpu);
        Ok(Done { operations: done.into_inner(), failed: failed.into_inner(), time, cpu })
    }
}

/// CPU of servers.
pub(crate) fn cpu_of_servers(servers: &[Server]) -> Result<Duration> {
    servers.iter().map(|server| cpu_of(server.pid()).context("read /proc")).sum()
}

/// Creates the table with this many rows.
pub(crate) fn fill(server: &Server, rows: usize) -> Result<()> {
    let mut connection = server.connect()?;
    let body = format!("{{\"TableName\":\"{TABLE}\"}}");
    connection.send(&Request::new("POST", "/Tables").json(&body))?;
    for first in (0..rows).step_by(100) {
        let rows: Vec<_> = (first..first + 100).map(|row| put("p", row as u64)).collect();
        ensure!(connection.send_batch(&rows)?.status == 202, "a batch was refused");
    }
    Ok(())
}

/// Reads one of this many rows.
pub(crate) fn read(
    rows: usize,
) -> impl Fn(&mut Connection, &mut Seeded) -> Result<bool> + Sync + Copy {
    move |connection, random| {
        let row = random.below(rows);
        let path = format!("/{TABLE}(PartitionKey='p',RowKey='{row:08}')");
        Ok(connection.send(&Request::new("GET", &path))?.status == 200)
    }
}

/// Inserts rows with consecutive numbers.
pub(crate) fn insert(
    number: &AtomicU64,
) -> impl Fn(&mut Connection, &mut Seeded) -> Result<bool> + Sync {
    move |connection, _| {
        let put = put("i", number.fetch_add(1, Ordering::Relaxed));
        Ok(connection.send(&Request::new("PUT", &put.path).json(&put.body))?.status == 204)
    }
}

pub(crate) fn put(partition: &str, row: u64) -> Operation {
    Operation {
        method: "PUT",
        path: format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row:08}')"),
        headers: Vec::new(),
        body: format!("{{\"v\":\"{}\"}}", "x".repeat(VALUE_BYTES)),
    }
}

/// Prints two figures and their ratio.
pub(crate) fn line(what: &str, one: f64, other: f64, goal: &str) {
    println!("{what:44} {one:10.1} {other:10.1} {:7.2}  {goal}", one / other);
}

/// The heading of what [`line`] prints.
pub(crate) fn heading(one: &str, other: &str) {
    println!("{:44} {one:>10} {other:>10} {:>7}  goal", "", "ratio");
}
