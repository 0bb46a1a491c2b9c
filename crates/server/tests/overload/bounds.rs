//! One test for each bound.

use crate::server::{
    Server, WAIT_MAX, assert_busy, one_unread_page, small_body_memory, two_queries,
};
use crate::slow::{OnSlowDisk, SlowScans, on_slow_disk};
use lazuli_engine::MemoryEngine;
use lazuli_engine_local::LocalOptions;
use lazuli_server::{FrontOptions, ListenOptions};
use lazuli_testkit::http::{Operation, Request, Response};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn in_memory(front: FrontOptions, listen: ListenOptions) -> Server {
    Server::start(Arc::new(MemoryEngine::default()), front, listen)
}

#[test]
fn a_connection_too_many_is_refused_and_closed() {
    let listen = ListenOptions { connections_max: 2, ..ListenOptions::default() };
    let server = in_memory(FrontOptions::default(), listen);
    let list = Request::new("GET", "/Tables");
    let mut served: Vec<_> = std::iter::repeat_with(|| server.connect())
        .filter_map(|mut connection| {
            // The connection that created the table may not have ended yet.
            (connection.send(&list).unwrap().status == 200).then_some(connection)
        })
        .take(2)
        .collect();
    for _ in 0..200 {
        let mut third = server.connect();
        let answer = third.send(&list).unwrap();
        assert_busy(&answer);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(third.send(&list).is_err(), "the connection goes on");
    }
    for connection in &mut served {
        assert_eq!(connection.send(&list).unwrap().status, 200);
    }
    served.pop();
    // Its slot is free as soon as the server has noticed that it closed.
    while server.send(&list).status != 200 {}
}

#[test]
fn a_body_that_there_is_no_memory_for_is_refused() {
    let server = in_memory(small_body_memory(), ListenOptions::default());
    let large = format!(r#"{{"PartitionKey":"p","RowKey":"large","v":"{}"}}"#, "v".repeat(30_000));
    let large = large + &" ".repeat(30_000);
    let expecting = [("Expect", "100-continue")];
    let large = Request::new("POST", "/Orders").json(&large).headers(&expecting);
    let mut first = server.connect();
    first.start(&large, 0).unwrap();
    // From here on, its share of memory is taken.
    first.wait_for_continue().unwrap();
    let medium = format!(r#"{{"PartitionKey":"p","RowKey":"medium"{}}}"#, " ".repeat(8_000));
    let medium = Request::new("POST", "/Orders").json(&medium);
    assert_busy(&server.send(&medium));
    assert!(!server.has("medium"));
    assert_eq!(server.insert("small").status, 201);
    assert_eq!(first.finish(&large, 0).unwrap().status, 201);
    assert_eq!(server.send(&medium).status, 201);
}

#[test]
fn a_query_that_there_is_no_room_for_is_refused() {
    let (engine, arrivals) = SlowScans::new();
    let server = Server::start(engine.clone(), two_queries(), ListenOptions::default());
    let query = Request::new("GET", "/Orders()");
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..2).map(|_| scope.spawn(|| server.send(&query))).collect();
        for _ in &running {
            arrivals.recv().unwrap();
        }
        assert_busy(&server.send(&query));
        // A transaction reserves memory for its response before it begins, or it would be done
        // without a response.
        let insert = Operation {
            method: "POST",
            path: "/Orders".to_owned(),
            headers: Vec::new(),
            body: r#"{"PartitionKey":"p","RowKey":"batch"}"#.to_owned(),
        };
        let batch = server.connect().send_batch(&[insert]).unwrap();
        assert_eq!(batch.status, 503, "{}", batch.body);
        assert!(!server.has("batch"));
        assert_eq!(server.insert("lone").status, 201);
        engine.open();
        for query in running {
            assert_eq!(query.join().unwrap().status, 200);
        }
    });
    assert_eq!(server.send(&query).status, 200);
}

/// Pages that no client reads would fill the response memory; a client that reads nothing is cut.
#[test]
fn a_client_that_takes_no_answer_is_cut() {
    let (front, listen) = one_unread_page();
    let server = in_memory(front, listen);
    let value = "v".repeat(32 * 1024);
    let properties: String = (0..15).map(|n| format!(",\"v{n}\":\"{value}\"")).collect();
    for row in 0..8 {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"{properties}}}"#);
        assert_eq!(server.send(&Request::new("POST", "/Orders").json(&body)).status, 201);
    }
    server.ask_greedily(&Request::new("GET", "/Orders()"), assert_busy);
}

/// A server on a disk that the test can block.
fn start_on_slow_disk(options: LocalOptions) -> (Server, OnSlowDisk) {
    let slow = on_slow_disk(options);
    let engine = slow.engine.clone();
    let server = Server::start(engine, FrontOptions::default(), ListenOptions::default());
    (server, slow)
}

/// A commit queue with room for two small commits.
pub(crate) fn small_commit_queue() -> LocalOptions {
    LocalOptions { queue_bytes_max: 2048, queue_wait_max: WAIT_MAX, ..LocalOptions::default() }
}

/// What a test writes to a server whose commit queue is full.
pub(crate) trait Writes: Sync {
    /// Writes something called `name`.
    fn write(&self, name: &str) -> Response;
    fn has(&self, name: &str) -> bool;
    fn assert_busy(&self, answer: &Response);
}

impl Writes for Server {
    fn write(&self, name: &str) -> Response {
        self.insert(name)
    }

    fn has(&self, name: &str) -> bool {
        Self::has(self, name)
    }

    fn assert_busy(&self, answer: &Response) {
        assert_busy(answer);
    }
}

/// While the disk is blocked, at least `refused_min` of twelve writes find no place in the queue.
/// They are refused without effect; the others succeed, and so do the refused ones later.
pub(crate) fn fill_commit_queue(server: &impl Writes, slow: &OnSlowDisk, refused_min: usize) {
    const WRITES: usize = 12;
    assert_eq!(server.write("before").status, 201);
    slow.disk.close();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.write("first"));
        slow.arrivals.recv().unwrap();
        // One is being written. Of the new ones, some find a place, and all others do not.
        let (answered, answers) = channel();
        for number in 0..WRITES {
            let answered = answered.clone();
            scope.spawn(move || {
                let name = format!("name{number}");
                let answer = server.write(&name);
                answered.send((name, answer)).unwrap();
            });
        }
        let mut refused = Vec::new();
        for _ in 0..refused_min {
            let (name, answer) = answers.recv().unwrap();
            server.assert_busy(&answer);
            refused.push(name);
        }
        assert!(server.has("before"), "reads go on");
        slow.disk.open();
        assert_eq!(first.join().unwrap().status, 201);
        for _ in refused_min..WRITES {
            let (name, answer) = answers.recv().unwrap();
            match answer.status {
                201 => assert!(server.has(&name)),
                _ => {
                    server.assert_busy(&answer);
                    refused.push(name);
                }
            }
        }
        for name in &refused {
            assert!(!server.has(name), "{name} was refused, and done");
            assert_eq!(server.write(name).status, 201);
        }
    });
}

#[test]
fn a_write_that_finds_no_place_in_the_queue_is_refused() {
    let (server, slow) = start_on_slow_disk(small_commit_queue());
    // Two find a place.
    fill_commit_queue(&server, &slow, 10);
}

/// A disk that hangs makes no client wait longer than the request may take.
#[test]
fn a_write_that_the_disk_does_not_finish_is_given_up() {
    let (server, slow) = start_on_slow_disk(LocalOptions::default());
    assert_eq!(server.insert("before").status, 201);
    slow.disk.close();
    let body = r#"{"PartitionKey":"p","RowKey":"stuck"}"#;
    let stuck = server.send(&Request::new("POST", "/Orders?timeout=1").json(body));
    assert_eq!(stuck.status, 500);
    assert!(stuck.text().contains("\"code\":\"OperationTimedOut\""), "{}", stuck.text());
    slow.arrivals.recv().unwrap();
    assert!(server.has("before") && !server.has("stuck"));
    // It was not refused: once the disk works again, the write may exist after all.
    slow.disk.open();
    assert_eq!(server.insert("after").status, 201);
    assert!(server.has("stuck"));
}
