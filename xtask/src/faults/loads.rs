//! Special loads for faults that histories of a few clients do not cause.

use super::gateways::Cluster;
use super::script::pause;
use anyhow::{Context, Result, bail, ensure};
use lazuli_model::{ETag, IfMatch, Timestamp};
use lazuli_testkit::http::{Connection, Operation, Request};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::wire_cut::Weather;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 16;
const BATCHES: usize = 30;
const ROWS: usize = 8;
/// Concurrent long queries: as many as a gateway has connections to the store.
const QUERIES: usize = 16;
/// Entities that a long query reads.
const ENTITIES: usize = 1_000;
/// Minimum writes during that time. Few, because how many there are depends on the machine.
const WRITES_MIN: u64 = 5;

fn create_table(connection: &mut Connection, table: &str) -> Result<()> {
    let body = format!("{{\"TableName\":\"{table}\"}}");
    let answer = connection.send(&Request::new("POST", "/Tables").json(&body))?;
    ensure!([201, 204, 409].contains(&answer.status), "create {table}: {}", answer.text());
    Ok(())
}

fn upsert(table: &str, partition: &str, row: usize, value: u64) -> Operation {
    Operation {
        method: "PUT",
        path: format!("/{table}(PartitionKey='{partition}',RowKey='{row}')"),
        headers: Vec::new(),
        body: format!("{{\"n\":{value}}}"),
    }
}

/// Sixteen writers of the same rows in all orders: every batch is done, and no client notices deadlocks.
pub(crate) fn overlapping_batches(addresses: &[SocketAddr], random: &Seeded) -> Result<String> {
    const TABLE: &str = "FaultBatches";
    let first = *addresses.first().context("no gateway")?;
    create_table(&mut Connection::open(first)?, TABLE)?;
    std::thread::scope(|scope| {
        let write = |writer: usize| {
            let mut random = random.stream(writer as u64);
            let address = addresses.get(writer % addresses.len()).copied().unwrap_or(first);
            scope.spawn(move || -> Result<()> {
                let mut connection = Connection::open(address)?;
                for batch in 0..BATCHES {
                    let mut rows: Vec<usize> = (0..ROWS).collect();
                    match batch % 3 {
                        0 => {}
                        1 => rows.reverse(),
                        _ => rows.sort_by_key(|_| random.next_u64()),
                    }
                    let value = random.next_u64() >> 16;
                    let operations: Vec<_> =
                        rows.into_iter().map(|row| upsert(TABLE, "p", row, value)).collect();
                    let answer = connection.send_batch(&operations)?;
                    let all_done = answer.parts.iter().all(|(status, _)| *status == 204);
                    ensure!(
                        answer.status == 202 && answer.parts.len() == ROWS && all_done,
                        "a batch was answered {}: {}",
                        answer.status,
                        answer.body
                    );
                }
                Ok(())
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    Ok(format!("; {} overlapping batches, none refused", WRITERS * BATCHES))
}

/// Long queries use up the connections of a gateway, and its writes continue.
pub(crate) fn writes_beside_long_queries(cluster: &Cluster) -> Result<String> {
    const TABLE: &str = "FaultQueries";
    let address = *cluster.tables().first().context("no gateway")?;
    let mut connection = Connection::open(address)?;
    create_table(&mut connection, TABLE)?;
    for first in (0..ENTITIES).step_by(100) {
        let operations: Vec<_> =
            (first..first + 100).map(|row| upsert(TABLE, "p", row, row as u64)).collect();
        let answer = connection.send_batch(&operations)?;
        ensure!(answer.status == 202, "a batch was answered {}", answer.status);
    }
    // Each chunk of a query takes time, and holds its connection while it does.
    cluster.set_lines_of(0, Weather::Slow(Duration::from_millis(100)))?;
    let (is_over, pages, writes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let slowest = std::thread::scope(|scope| {
        let (is_over, pages, writes) = (&is_over, &pages, &writes);
        let query = |_| {
            scope.spawn(move || -> Result<()> {
                let mut connection = Connection::open(address)?;
                while !is_over.load(Ordering::SeqCst) {
                    let path = format!("/{TABLE}()?$filter=n%20lt%20500");
                    let answer = connection.send(&Request::new("GET", &path))?;
                    ensure!([200, 503].contains(&answer.status), "a query: {}", answer.text());
                    pages.fetch_add(u64::from(answer.status == 200), Ordering::SeqCst);
                }
                Ok(())
            })
        };
        let queries: Vec<_> = (0..QUERIES).map(query).collect();
        let writer = scope.spawn(move || -> Result<Duration> {
            let (mut connection, mut slowest) = (Connection::open(address)?, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let began = Instant::now();
                let number = writes.load(Ordering::SeqCst);
                let path = format!("/{TABLE}(PartitionKey='w',RowKey='{number}')");
                let answer = connection.send(&Request::new("PUT", &path).json("{\"n\":0}"))?;
                ensure!(answer.status == 204, "a write was answered {}", answer.text());
                writes.fetch_add(1, Ordering::SeqCst);
                slowest = slowest.max(began.elapsed());
            }
            Ok(slowest)
        });
        pause(Duration::from_secs(8));
        is_over.store(true, Ordering::SeqCst);
        for query in queries {
            query.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    cluster.set_lines_of(0, Weather::Clear)?;
    let (writes, pages) = (writes.into_inner(), pages.into_inner());
    ensure!(writes >= WRITES_MIN, "only {writes} writes beside {pages} long queries");
    let slowest = slowest.as_secs_f64();
    Ok(format!("; {writes} writes, the slowest {slowest:.1} s, beside {pages} long queries"))
}

/// The timestamp of an entity grows with each write, through any gateway, even if the store's clock steps
/// back.
pub(crate) fn timestamps_increase(
    addresses: &[SocketAddr],
    step_back: impl FnOnce() -> Result<()>,
) -> Result<String> {
    const TABLE: &str = "FaultClocks";
    let mut step_back = Some(step_back);
    let (mut last, mut writes) = (Timestamp::MIN, 0);
    let first = *addresses.first().context("no gateway")?;
    create_table(&mut Connection::open(first)?, TABLE)?;
    for round in 0..30 {
        if round == 10
            && let Some(step_back) = step_back.take()
        {
            step_back()?;
        }
        let address = addresses.get(round % addresses.len()).copied().unwrap_or(first);
        let path = format!("/{TABLE}(PartitionKey='p',RowKey='r')");
        let Ok(answer) = Connection::open(address)
            .and_then(|mut connection| connection.send(&Request::new("PUT", &path).json("{}")))
        else {
            continue;
        };
        if answer.status != 204 {
            continue;
        }
        let Ok(IfMatch::Version(ETag(now))) =
            IfMatch::parse(answer.header("etag").unwrap_or_default())
        else {
            bail!("a write has no etag");
        };
        ensure!(now > last, "the timestamp was {last}, and a later one is {now}");
        (last, writes) = (now, writes + 1);
    }
    ensure!(writes >= 15, "only {writes} of 30 writes were acknowledged");
    Ok(format!("; {writes} timestamps in order"))
}
