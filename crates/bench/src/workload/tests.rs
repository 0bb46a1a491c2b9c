//! Every workload against the real front on the memory engine: the server answers as expected.

use super::*;
use crate::exchange::{create_table, exchange};
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds, Outcome};
use crate::process::ProcessId;
use lazuli_engine::MemoryEngine;
use lazuli_testkit::live::LiveServer;
use std::net::SocketAddr;

const DATASET: Dataset = Dataset { partitions: 1 };
const OWN_TABLE: &str = "Own";

fn serve() -> LiveServer {
    LiveServer::start(Arc::new(MemoryEngine::default()), "server").unwrap()
}

fn run(address: SocketAddr, scripts: Vec<Script>, operations: u64) -> Outcome {
    let bounds = Bounds::operations(operations);
    let interrupt = Interrupt::default();
    load::run(address, ProcessId::this(), scripts, &bounds, &interrupt).unwrap()
}

fn loaded() -> LiveServer {
    let served = serve();
    create_table(served.address(), TABLE).unwrap();
    let signer = Arc::new(Signer::new(served.address()).unwrap());
    let (scripts, batches) = load_scripts(&signer, 4, 0, DATASET.entities());
    let outcome = run(served.address(), scripts, batches);
    assert_eq!((outcome.operations, outcome.first_error), (batches, None));
    served
}

/// Runs `operations` of `workload` on three connections; each must be good.
#[track_caller]
fn check(served: &LiveServer, workload: Workload, operations: u64) {
    let signer = Signer::new(served.address()).unwrap();
    let scripts = workload.scripts(&signer, 3, DATASET, OWN_TABLE);
    let outcome = run(served.address(), scripts, operations);
    assert_eq!(outcome.first_error, None, "{workload:?}");
    assert_eq!(outcome.errors, 0, "{workload:?}");
    assert_eq!(outcome.operations, operations, "{workload:?}");
}

/// The entities of a partition of the table that inserts go to.
fn rows_in(served: &LiveServer, filter: &str) -> usize {
    let target = query_target(OWN_TABLE, filter);
    let (request, _) = Signer::new(served.address()).unwrap().sign(&Plain::get(&target));
    exchange(served.address(), &request, |answer| {
        assert_eq!((answer.status, answer.continuation), (200, ""));
        Ok(memchr::memmem::find_iter(answer.body, "\"RowKey\":").count())
    })
    .unwrap()
}

#[test]
fn reads_find_exactly_what_was_loaded_also_after_updates() {
    let served = loaded();
    let reads = [Workload::Range1000, Workload::PartitionScan, Workload::TableScan];
    reads.iter().for_each(|workload| check(&served, *workload, 5));
    check(&served, Workload::Point, 100);
    check(&served, Workload::OrKeys, 20);
    for workload in [Workload::Upsert, Workload::Merge, Workload::HotEntity, Workload::Mixed] {
        check(&served, workload, 100);
    }
    reads.iter().for_each(|workload| check(&served, *workload, 5));
}

#[test]
fn inserts_are_spread_over_partitions() {
    let served = serve();
    create_table(served.address(), OWN_TABLE).unwrap();
    check(&served, Workload::Insert, 300);
    assert_eq!(rows_in(&served, ""), 300);
    assert_eq!(rows_in(&served, "PartitionKey eq '000000000007'"), 1);
}

#[test]
fn hot_partition_inserts_into_one() {
    let served = serve();
    create_table(served.address(), OWN_TABLE).unwrap();
    check(&served, Workload::HotPartition, 300);
    assert_eq!(rows_in(&served, "PartitionKey eq '000000000000'"), 300);
}

#[test]
fn a_transaction_inserts_a_hundred_into_a_partition_of_its_own() {
    let served = serve();
    create_table(served.address(), OWN_TABLE).unwrap();
    check(&served, Workload::Egt100, 9);
    assert_eq!(rows_in(&served, ""), 900);
    assert_eq!(rows_in(&served, "PartitionKey eq '000000000003'"), 100);
}

#[test]
fn a_refused_operation_is_counted_as_an_error() {
    let served = serve();
    let signer = Signer::new(served.address()).unwrap();
    let scripts = Workload::Point.scripts(&signer, 2, DATASET, OWN_TABLE);
    let outcome = run(served.address(), scripts, 10);
    assert_eq!((outcome.operations, outcome.errors), (0, 10));
    assert!(outcome.first_error.unwrap().contains("404"));
}
