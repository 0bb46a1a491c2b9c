//! Every workload of queues against the real front on the memory engine.

use super::*;
use crate::exchange::exchange;
use crate::load::Outcome;
use crate::process::ProcessId;
use lazuli_engine::MemoryEngine;
use lazuli_testkit::live::LiveServer;

const MESSAGES: usize = 60;
const CONNECTIONS: usize = 3;

struct Bench {
    served: LiveServer,
    queues: Queues,
}

impl Bench {
    /// A server with the queues of `workload`, filled with [`MESSAGES`].
    fn filled(workload: Workload) -> Self {
        let served = LiveServer::start_queues(Arc::new(MemoryEngine::default()), "server").unwrap();
        let queues = Queues::new(Case { workload, connections: CONNECTIONS }, "1");
        queues.create(served.address()).unwrap();
        let (address, pid) = (served.address(), ProcessId::this());
        queues.fill_at(address, pid, MESSAGES, &Interrupt::default()).unwrap();
        Self { served, queues }
    }

    fn run(&self, operations: u64) -> Outcome {
        let address = self.served.address();
        let signer = Arc::new(Signer::new(address).unwrap());
        let scripts = self.queues.scripts(&signer, MESSAGES);
        let bounds = Bounds::operations(operations);
        load::run(address, ProcessId::this(), scripts, &bounds, &Interrupt::default()).unwrap()
    }

    /// Runs `operations`, each of which must be good.
    #[track_caller]
    fn check(&self, operations: u64) {
        let outcome = self.run(operations);
        assert_eq!(outcome.first_error, None);
        assert_eq!((outcome.operations, outcome.errors), (operations, 0));
    }

    /// The messages of queue `number`, whether visible or not.
    fn count(&self, number: usize) -> usize {
        let address = self.served.address();
        let target = format!("/{}?comp=metadata", self.queues.names[number]);
        let request = Signer::new(address).unwrap().sign(&Plain::queue("GET", &target, "")).0;
        exchange(address, &request, |answer| {
            let head = std::str::from_utf8(answer.head)?.to_ascii_lowercase();
            let (_, rest) = head.split_once("x-ms-approximate-messages-count: ").unwrap();
            Ok(rest.split("\r\n").next().unwrap().parse().unwrap())
        })
        .unwrap()
    }
}

#[test]
fn puts_add_messages() {
    let bench = Bench::filled(Workload::Put);
    bench.check(20);
    assert_eq!(bench.count(0), MESSAGES + 20);
}

#[test]
fn peeks_and_gets_leave_messages() {
    for workload in [Workload::Peek, Workload::Get] {
        let bench = Bench::filled(workload);
        bench.check(20);
        assert_eq!(bench.count(0), MESSAGES, "{workload:?}");
    }
}

#[test]
fn consumers_of_one_queue_delete_each_message() {
    let bench = Bench::filled(Workload::GetDelete);
    bench.check(MESSAGES as u64);
    assert_eq!(bench.count(0), 0);
}

#[test]
fn consumers_of_their_own_queues_end_when_those_are_empty() {
    let bench = Bench::filled(Workload::OwnQueues);
    assert_eq!([0, 1, 2].map(|number| bench.count(number)), [MESSAGES / CONNECTIONS; 3]);
    let outcome = bench.run(10 * MESSAGES as u64);
    assert_eq!((outcome.operations, outcome.first_error), (MESSAGES as u64, None));
    assert_eq!([0, 1, 2].map(|number| bench.count(number)), [0; 3]);
}

#[test]
fn a_get_of_an_empty_queue_is_an_error() {
    let bench = Bench::filled(Workload::Get);
    bench.check(MESSAGES as u64);
    let outcome = bench.run(1);
    assert_eq!((outcome.operations, outcome.errors), (0, 1));
    assert!(outcome.first_error.unwrap().contains("<QueueMessagesList />"));
}
