//! Histories of clients that spread over three servers of one store (K-10.3, K-10.6).

use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
use lazuli_sim::queue;
use lazuli_sim::record::{Plan, run};
use lazuli_sim::workload::Workload;
use lazuli_testkit::live::{LiveOptions, LiveServer};
use std::net::SocketAddr;
use std::sync::Arc;

/// Three servers that know each other only through their store.
struct Gateways {
    tables: Vec<SocketAddr>,
    queues: Vec<SocketAddr>,
    _servers: Vec<LiveServer>,
}

impl Gateways {
    fn start() -> Self {
        let options = MemoryOptions { writers: Writers::Many, ..MemoryOptions::default() };
        let engine = Arc::new(MemoryEngine::new(options));
        let start = |_| {
            let options = LiveOptions::new().unwrap();
            LiveServer::start_both(engine.clone(), "gateway", options).unwrap()
        };
        let servers: Vec<_> = (0..3).map(start).collect();
        Self {
            tables: servers.iter().map(LiveServer::address).collect(),
            queues: servers.iter().map(|server| server.queues().unwrap()).collect(),
            _servers: servers,
        }
    }
}

#[track_caller]
fn check(workload: Workload, clients: usize, requests: usize, seeds: std::ops::Range<u64>) {
    let gateways = Gateways::start();
    for seed in seeds {
        let plan = Plan { addresses: &gateways.tables, workload, clients, requests, seed };
        match run(plan) {
            Ok(report) => assert!(report.undecided == 0 && report.unknown == 0, "{report:?}"),
            Err(violation) => panic!("{plan:?}: {violation}"),
        }
    }
}

#[test]
fn what_one_gateway_acknowledges_all_others_show() {
    check(Workload::Mix, 9, 40, 0..4);
    check(Workload::Ring, 6, 60, 0..2);
    check(Workload::Bank, 6, 60, 0..2);
}

/// K-10.6: no entity of a dropped table is served, and no acknowledged insert into the new one is lost.
#[test]
fn tables_are_dropped_and_created_under_load_from_three_gateways() {
    check(Workload::Tables, 6, 40, 0..6);
}

#[test]
fn a_message_has_one_holder_at_a_time_whichever_gateway_it_asks() {
    let gateways = Gateways::start();
    for seed in 0..2 {
        let report = queue::record::run(&gateways.queues, seed, 9, 40);
        let report = report.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(report.undecided == 0 && report.unknown == 0, "{report:?}");
    }
}
