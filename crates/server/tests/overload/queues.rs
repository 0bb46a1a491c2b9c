//! The same bounds for the Queue service, and the bounds that only it has.

use crate::bounds::{Writes, fill_commit_queue, small_commit_queue};
use crate::server::{Server, busy_code, one_unread_page, small_body_memory, two_queries};
use crate::slow::{SlowScans, on_slow_disk};
use lazuli_engine::{Engine, MemoryEngine};
use lazuli_engine_local::LocalOptions;
use lazuli_model::{AccountName, Metadata, QueueName, SystemClock};
use lazuli_queue::QueueService;
use lazuli_server::{FrontOptions, ListenOptions, WELL_KNOWN_ACCOUNT};
use lazuli_testkit::http::{Request, Response};
use std::sync::Arc;

/// A server with one queue, `orders`.
struct Queues(Server);

impl Queues {
    fn start(engine: Arc<dyn Engine>, front: FrontOptions, listen: ListenOptions) -> Self {
        Self(Server::start_queues(engine, front, listen))
    }

    fn in_memory(front: FrontOptions, listen: ListenOptions) -> Self {
        Self::start(Arc::new(MemoryEngine::default()), front, listen)
    }

    fn put(&self, text: &str) -> Response {
        self.0.send(&Request::new("POST", "/orders/messages").xml(&message(text)))
    }

    /// Whether there is a message. A peek of one message has no bound of its own.
    #[track_caller]
    fn has(&self, text: &str) -> bool {
        let peek = Request::new("GET", "/orders/messages?peekonly=true&numofmessages=32");
        let answer = self.0.send(&peek);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().contains(&format!("<MessageText>{text}</MessageText>"))
    }
}

fn message(text: &str) -> Vec<u8> {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>").into_bytes()
}

/// A refusal in a form that clients can act on.
#[track_caller]
fn assert_busy(answer: &Response) {
    let text = answer.text();
    assert!(text.contains("<Error><Code>ServerBusy</Code>"), "{text}");
    assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"));
    busy_code(answer);
}

#[test]
fn a_connection_too_many_is_refused_and_closed() {
    let listen = ListenOptions { connections_max: 2, ..ListenOptions::default() };
    let queues = Queues::in_memory(FrontOptions::default(), listen);
    let list = Request::new("GET", "/?comp=list");
    let served: Vec<_> = std::iter::repeat_with(|| queues.0.connect())
        .filter_map(|mut connection| {
            // The connection that created the queue may not have ended yet.
            (connection.send(&list).unwrap().status == 200).then_some(connection)
        })
        .take(2)
        .collect();
    let mut third = queues.0.connect();
    let answer = third.send(&list).unwrap();
    assert_busy(&answer);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(third.send(&list).is_err(), "the connection goes on");
    drop(served);
    while queues.0.send(&list).status != 200 {}
}

#[test]
fn a_body_that_there_is_no_memory_for_is_refused() {
    let queues = Queues::in_memory(small_body_memory(), ListenOptions::default());
    let large = message(&"v".repeat(60_000));
    let expecting = [("Expect", "100-continue")];
    let large = Request::new("POST", "/orders/messages").xml(&large).headers(&expecting);
    let mut first = queues.0.connect();
    first.start(&large, 0).unwrap();
    // From here on, its share of memory is taken.
    first.wait_for_continue().unwrap();
    let medium = "m".repeat(8_000);
    assert_busy(&queues.put(&medium));
    assert!(!queues.has(&medium));
    assert_eq!(queues.put("small").status, 201);
    assert_eq!(first.finish(&large, 0).unwrap().status, 201);
    assert_eq!(queues.put(&medium).status, 201);
}

#[test]
fn a_page_that_there_is_no_room_for_is_refused() {
    let (engine, arrivals) = SlowScans::new();
    let queues = Queues::start(engine.clone(), two_queries(), ListenOptions::default());
    let list = Request::new("GET", "/?comp=list");
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..2).map(|_| scope.spawn(|| queues.0.send(&list))).collect();
        for _ in &running {
            arrivals.recv().unwrap();
        }
        assert_busy(&queues.0.send(&list));
        // A page of messages reserves memory before any of them is taken; otherwise they would be
        // invisible without being delivered.
        let get = Request::new("GET", "/orders/messages?numofmessages=2");
        assert_busy(&queues.0.send(&get));
        assert_eq!(queues.put("lone").status, 201);
        engine.open();
        for list in running {
            assert_eq!(list.join().unwrap().status, 200);
        }
    });
    assert!(queues.has("lone"));
    assert_eq!(queues.0.send(&list).status, 200);
}

/// Pages that no client reads would fill the response memory; a client that reads nothing is cut.
#[test]
fn a_client_that_takes_no_answer_is_cut() {
    let (front, listen) = one_unread_page();
    let queues = Queues::in_memory(front, listen);
    for _ in 0..32 {
        assert_eq!(queues.put(&"v".repeat(65_536)).status, 201);
    }
    let peek = Request::new("GET", "/orders/messages?peekonly=true&numofmessages=32");
    queues.0.ask_greedily(&peek, assert_busy);
}

impl Writes for Queues {
    fn write(&self, name: &str) -> Response {
        self.put(name)
    }

    fn has(&self, name: &str) -> bool {
        Self::has(self, name)
    }

    fn assert_busy(&self, answer: &Response) {
        assert_busy(answer);
    }
}

#[test]
fn a_message_that_finds_no_place_in_the_commit_queue_is_refused() {
    let slow = on_slow_disk(small_commit_queue());
    let queues =
        Queues::start(slow.engine.clone(), FrontOptions::default(), ListenOptions::default());
    // How many find a place depends on when they arrive.
    fill_commit_queue(&queues, &slow, 4);
}

/// A disk that hangs makes no client wait longer than the request may take.
#[test]
fn a_message_that_the_disk_does_not_take_is_given_up() {
    let slow = on_slow_disk(LocalOptions::default());
    let queues =
        Queues::start(slow.engine.clone(), FrontOptions::default(), ListenOptions::default());
    assert_eq!(queues.put("before").status, 201);
    slow.disk.close();
    let body = message("stuck");
    let stuck = queues.0.send(&Request::new("POST", "/orders/messages?timeout=1").xml(&body));
    assert_eq!(stuck.status, 500);
    assert!(stuck.text().contains("<Code>OperationTimedOut</Code>"), "{}", stuck.text());
    slow.arrivals.recv().unwrap();
    // It was not refused: once the disk works again, the write may exist after all.
    slow.disk.open();
    assert_eq!(queues.put("after").status, 201);
    assert!(queues.has("before") && queues.has("after"));
}

/// 32 messages of 64 KiB are the largest response that a client can request.
#[test]
fn an_answer_has_at_most_so_many_messages() {
    let queues = Queues::in_memory(FrontOptions::default(), ListenOptions::default());
    let text = "t".repeat(65_536);
    for _ in 0..33 {
        assert_eq!(queues.put(&text).status, 201);
    }
    let get = |number| {
        let path = format!("/orders/messages?numofmessages={number}");
        queues.0.send(&Request::new("GET", &path))
    };
    let refused = get(33);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("<MaximumAllowed>32</MaximumAllowed>"), "{}", refused.text());
    assert_eq!(get(32).text().matches("<MessageId>").count(), 32);
    assert_eq!(get(32).text().matches("<MessageId>").count(), 1);
}

/// a page lists 5,000 queues, whatever is requested, and the next page the rest.
#[test]
fn a_page_has_at_most_so_many_queues() {
    const QUEUES: usize = 5_001;
    let engine = Arc::new(MemoryEngine::default());
    let account = AccountName::parse(WELL_KNOWN_ACCOUNT).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The server starts after this service is gone, because the engine allows one writer.
    let service = QueueService::new(engine.clone(), Arc::new(SystemClock), Arc::new(|| 7));
    let none = Metadata::default();
    for number in 0..QUEUES {
        let name = QueueName::parse(&format!("q{number:04}")).unwrap();
        runtime.block_on(service.create_queue(&account, &name, &none)).unwrap();
    }
    drop(service);
    let queues = Queues::start(engine, FrontOptions::default(), ListenOptions::default());
    let page = |path: &str| queues.0.send(&Request::new("GET", path)).text();
    let first = page("/?comp=list&maxresults=100000");
    assert_eq!(first.matches("<Name>").count(), 5_000);
    let (_, marker) = first.rsplit_once("<NextMarker>").unwrap();
    let marker = marker.split_once('<').unwrap().0;
    assert_eq!(marker, format!("/{WELL_KNOWN_ACCOUNT}/q4999"), "orders and 5,001 more");
    let rest = page(&format!("/?comp=list&marker={marker}"));
    assert_eq!(rest.matches("<Name>").count(), QUEUES + 1 - 5_000);
    assert!(rest.ends_with("<NextMarker /></EnumerationResults>"), "{rest}");
}
