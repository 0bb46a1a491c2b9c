//! Records what concurrent clients see of one queue of a running server.

use super::checker::{Promise, check};
use super::client::Client;
use super::history::{Call, Request, Response, Span};
use super::http::{read, sent};
use crate::gateways::Gateways;
use crate::record::Report;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::http::{self, Connection};
use lazuli_testkit::seed::Seeded;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest visibility timeout that clients use, in seconds.
pub const SECONDS_MAX: usize = 2;
/// How long messages taken at the end stay invisible, in seconds.
const DRAIN_SECONDS: u32 = 600;

/// How often the creation of a queue is tried.
const CREATIONS_MAX: usize = 20;

/// What clients saw of one queue so far.
#[derive(Debug)]
pub struct Recorder {
    queue: String,
    order: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

/// A client's connection, opened when it is needed.
#[derive(Debug)]
pub struct Line {
    gateways: Gateways,
    connection: Option<Connection>,
}

impl Line {
    pub fn new(gateways: impl Into<Gateways>) -> Self {
        Self { gateways: gateways.into(), connection: None }
    }

    fn exchange(&mut self, queue: &str, request: &Request) -> std::io::Result<http::Response> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.gateways.connect()?.of_queues()),
        };
        let sent = sent(queue, request);
        let headers: Vec<_> = sent.headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let request = http::Request {
            body: sent.body.as_bytes(),
            ..http::Request::new(sent.method, &sent.path).headers(&headers)
        };
        connection.send(&request)
    }
}

impl Recorder {
    pub fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), order: AtomicU64::new(0), calls: Mutex::default() }
    }

    /// Sends a request and notes its response. A connection that breaks leaves the outcome unknown.
    pub fn call(
        &self,
        client: usize,
        line: &mut Line,
        request: Request,
        is_quiet: bool,
    ) -> Result<Response, String> {
        let invoked = self.order.fetch_add(1, Ordering::SeqCst);
        let least = SystemClock.now().ticks();
        let response = match line.exchange(&self.queue, &request) {
            Ok(answer) => read(&request, &answer).ok_or_else(|| {
                format!("{request:?} was answered {}: {}", answer.status, answer.text())
            })?,
            Err(_) => {
                line.connection = None;
                line.gateways.turn();
                Response::Unknown
            }
        };
        let span = Span { least, most: SystemClock.now().ticks() };
        let answered = self.order.fetch_add(1, Ordering::SeqCst);
        let call = Call { client, request, response, invoked, answered, span, is_quiet };
        let response = call.response.clone();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Ok(response)
    }

    /// Creates the queue; tries again if the outcome is unknown.
    pub fn create(&self, line: &mut Line) -> Result<(), String> {
        let mut last = Response::Unknown;
        for _ in 0..CREATIONS_MAX {
            last = self.call(0, line, Request::CreateQueue { metadata: 0 }, false)?;
            if !matches!(last, Response::Unknown | Response::NotDone) {
                break;
            }
        }
        match last {
            Response::Created | Response::AlreadyThere => Ok(()),
            other => Err(format!("the queue was not created: {other:?}")),
        }
    }

    /// Takes out everything once all messages are visible again, deletes the queue, and checks the
    /// history against the promise.
    pub fn finish(self, promise: Promise, line: &mut Line) -> Result<Report, String> {
        self.call(0, line, Request::GetMetadata, true)?;
        loop {
            let get = Request::Get { max: 32, visibility: DRAIN_SECONDS };
            match self.call(0, line, get, true)? {
                Response::Messages(messages) if !messages.is_empty() => {}
                _ => break,
            }
        }
        self.call(0, line, Request::DeleteQueue, true)?;
        let calls = self.calls.into_inner().unwrap_or_else(PoisonError::into_inner);
        check(promise, &calls)
    }
}

/// Waits until all messages that clients left are visible again.
#[expect(clippy::disallowed_methods, reason = "visibility is a matter of time alone")]
pub fn wait_until_visible() {
    std::thread::sleep(Duration::from_secs(SECONDS_MAX as u64 + 1));
}

/// Makes `clients` clients send `requests` requests each to a new queue, and checks what they saw.
///
/// If several servers share a store, the clients spread over them.
pub fn run(
    addresses: &[SocketAddr],
    seed: u64,
    clients: usize,
    requests: usize,
) -> Result<Report, String> {
    let random = Seeded::new(seed);
    let recorder = Recorder::new(&format!("sim-{seed:016x}"));
    let line_of = |client| Line::new(Gateways::of_client(addresses, client));
    let mut line = line_of(0);
    recorder.create(&mut line)?;
    std::thread::scope(|scope| {
        let start = |number: usize| {
            let (recorder, random) = (&recorder, random.stream(number as u64));
            let mut client =
                Client::new(number, random, seed.is_multiple_of(2)).within_seconds(SECONDS_MAX);
            scope.spawn(move || {
                let mut line = line_of(number);
                for _ in 0..requests {
                    let request = client.next_request();
                    let response = recorder.call(number, &mut line, request.clone(), false)?;
                    client.learn(&request, &response);
                }
                Ok::<_, String>(())
            })
        };
        let threads: Vec<_> = (0..clients).map(start).collect();
        for thread in threads {
            match thread.join() {
                Ok(outcome) => outcome?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, String>(())
    })?;
    wait_until_visible();
    let promise = if addresses.len() > 1 { Promise::ManyWriters } else { Promise::OneWriter };
    recorder.finish(promise, &mut line)
}
