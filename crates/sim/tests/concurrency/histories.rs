//! Histories of each workload, recorded and checked. `cargo xtask torture` runs more of them.

use crate::server::Server;
use lazuli_sim::queue;
use lazuli_sim::record::{Plan, run};
use lazuli_sim::workload::Workload;

#[track_caller]
fn check(workload: Workload, clients: usize, requests: usize, seeds: std::ops::Range<u64>) {
    let server = Server::start();
    for seed in seeds {
        let plan = Plan { addresses: &[server.address], workload, clients, requests, seed };
        match run(plan) {
            Ok(report) => assert!(report.undecided == 0 && report.unknown == 0, "{report:?}"),
            Err(violation) => panic!("{plan:?}: {violation}"),
        }
    }
}

#[test]
fn mixed_requests_are_linearizable() {
    check(Workload::Mix, 8, 40, 0..6);
}

#[test]
fn requests_racing_the_drop_of_their_table_are_linearizable() {
    check(Workload::Tables, 6, 40, 0..6);
}

#[test]
fn a_ring_stays_a_ring() {
    check(Workload::Ring, 6, 60, 0..3);
}

#[test]
fn money_is_neither_made_nor_lost() {
    check(Workload::Bank, 6, 60, 0..3);
}

/// No message is lost, and none is held by two clients at a time.
#[test]
fn messages_are_delivered_to_one_holder_at_a_time() {
    let server = Server::start();
    for seed in 0..2 {
        let report = queue::record::run(&[server.queues], seed, 8, 40);
        let report = report.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(report.undecided == 0 && report.unknown == 0, "{report:?}");
    }
}
