//! Checks that memory stays bounded: loads and scans a big table, and writes on many connections.
//!
//! It uses the kernel's high-water mark of the server's resident memory, read and reset in each
//! phase, so that no peak between two samples is missed.

use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use lazuli_testkit::http::{Connection, Operation};
use lazuli_testkit::server::Server;
use lazuli_testkit::table;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const TABLE: &str = "Memory";
const BATCH: usize = 100;
const LOADERS: usize = 8;
/// Characters of the one payload property.
const PAYLOAD_CHARS: usize = 200;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Entities to load
    #[arg(long, default_value_t = Self::default().entities)]
    entities: usize,
    /// Concurrent writing connections in the last phase
    #[arg(long, default_value_t = Self::default().connections)]
    connections: usize,
    /// Batches that each of them writes
    #[arg(long, default_value_t = Self::default().batches)]
    batches: usize,
    /// Fail if the server's resident memory ever exceeds this
    #[arg(long, value_name = "MIB", default_value_t = Self::default().limit_mib)]
    limit_mib: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { entities: 1_000_000, connections: 256, batches: 20, limit_mib: 600 }
    }
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<Tally> {
    let data = tempfile::tempdir().context("create a data directory")?;
    let server = Server::start(workspace.binary()?, data.path(), &[])?;
    table::create(&mut server.connect()?, TABLE)?.done()?;
    let mut tally = Tally::default();
    let mut phase = |name: &str, work: &dyn Fn() -> Result<String>| -> Result<()> {
        reset_peak(server.pid())?;
        let start = Instant::now();
        let what = work().with_context(|| format!("{name}; log:\n{}", server.log()))?;
        let (seconds, peak) = (start.elapsed().as_secs_f64(), peak_mib(server.pid())?);
        println!("{name}: {what} in {seconds:.1} s, peak {peak} MiB");
        tally += if peak <= options.limit_mib { Tally::PASSED } else { Tally::FAILED };
        Ok(())
    };
    phase("start", &|| Ok("nothing".to_owned()))?;
    let batches = options.entities.div_ceil(BATCH);
    phase("load", &|| write(&server, "load", LOADERS, batches))?;
    phase("scan", &|| scan(&server, batches * BATCH))?;
    let total = options.connections * options.batches;
    phase("write", &|| write(&server, "write", options.connections, total))?;
    ensure!(server.terminate()?.success(), "the server did not stop cleanly");
    Ok(tally)
}

/// Writes `batches` full batches over `connections`, each batch to its own partition.
fn write(server: &Server, prefix: &str, connections: usize, batches: usize) -> Result<String> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let connection = server.connect()?;
                let next = &next;
                Ok(scope.spawn(move || write_some(connection, prefix, next, batches)))
            })
            .collect::<Result<_>>()?;
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a writer panicked"))??;
        }
        Ok(format!("{} entities on {connections} connections", batches * BATCH))
    })
}

fn write_some(
    mut connection: Connection,
    prefix: &str,
    next: &AtomicUsize,
    batches: usize,
) -> Result<()> {
    let payload = "x".repeat(PAYLOAD_CHARS);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= batches {
            return Ok(());
        }
        let operations: Vec<_> = (0..BATCH)
            .map(|row| Operation {
                method: "POST",
                path: format!("/{TABLE}"),
                headers: vec![("Prefer", "return-no-content".to_owned())],
                body: format!(
                    "{{\"PartitionKey\":\"{prefix}-{number:07}\",\"RowKey\":\"{row:03}\",\
                     \"n\":{row},\"payload\":\"{payload}\"}}"
                ),
            })
            .collect();
        let answer = connection.send_batch(&operations)?;
        let good = answer.parts.len() == BATCH && answer.parts.iter().all(|part| part.0 == 204);
        ensure!(good, "a batch answered {} {:?}", answer.status, answer.parts.first());
    }
}

/// Reads every entity, without a filter and then with one that matches nothing.
fn scan(server: &Server, expected: usize) -> Result<String> {
    let mut connection = server.connect()?;
    let mut count = 0;
    table::scan(&mut connection, &format!("/{TABLE}()"), |body| {
        count += count_entities(body);
        Ok(())
    })?
    .done()?;
    ensure!(count == expected, "{count} entities came back, not {expected}");
    table::scan(&mut connection, &format!("/{TABLE}()?$filter=n%20eq%20-1"), |body| {
        ensure!(count_entities(body) == 0, "an entity matched a filter that none matches");
        Ok(())
    })?
    .done()?;
    Ok(format!("{count} entities twice"))
}

fn count_entities(body: &[u8]) -> usize {
    String::from_utf8_lossy(body).matches("\"RowKey\"").count()
}

/// Resets the kernel's high-water mark.
fn reset_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("reset the peak of resident memory")
}

/// The peak of resident memory since the last reset.
pub(crate) fn peak_mib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("read /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("no VmHWM in /proc")? / 1024)
}
