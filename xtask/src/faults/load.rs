//! Histories of tables and of queues, one after the other, until the fault is over.

use anyhow::{Result, anyhow};
use lazuli_sim::queue;
use lazuli_sim::record::{self, Report};
use lazuli_sim::workload::Workload;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a client pauses between two requests, so that many faults leave CPU for others on the machine.
const CLIENT_PAUSE: Duration = Duration::from_millis(8);
/// Number of clients of one history.
const TABLE_CLIENTS: usize = 6;
const QUEUE_CLIENTS: usize = 6;
/// Requests per client.
const TABLE_REQUESTS: usize = 40;
const QUEUE_REQUESTS: usize = 25;
/// Keeps the seeds of one run apart from those of the next.
const SEEDS_PER_RUN: u64 = 10_000;

/// Waits a moment.
pub(crate) fn client_pause() {
    std::thread::park_timeout(CLIENT_PAUSE);
}

/// Records histories of tables until `is_over`, at least one of each workload that fits.
pub(crate) fn tables(addresses: &[SocketAddr], seed: u64, is_over: &AtomicBool) -> Result<Report> {
    let mut total = Report::default();
    for (round, workload) in (0..).zip(Workload::ALL.iter().cycle()) {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let plan = record::Plan {
            addresses,
            workload: *workload,
            clients: TABLE_CLIENTS,
            requests: TABLE_REQUESTS,
            seed: seed.wrapping_mul(SEEDS_PER_RUN).wrapping_add(round),
        };
        total += record::run(plan).map_err(|failure| anyhow!("{plan:?}\n{failure}"))?;
    }
    Ok(total)
}

/// Records histories of queues until `is_over`, at least one.
pub(crate) fn queues(addresses: &[SocketAddr], seed: u64, is_over: &AtomicBool) -> Result<Report> {
    let mut total = Report::default();
    for round in 0.. {
        let seed = seed.wrapping_mul(SEEDS_PER_RUN).wrapping_add(round);
        let recorded = queue::record::run(addresses, seed, QUEUE_CLIENTS, QUEUE_REQUESTS);
        total += recorded.map_err(|failure| anyhow!("queue, seed {seed}\n{failure}"))?;
        if is_over.load(Ordering::SeqCst) {
            break;
        }
    }
    Ok(total)
}
