//! The load client: keep-alive connections in a closed loop, a thread of epoll for many of them.
//!
//! Each connection sends its next request as soon as the last answer is complete. An operation costs one write, one
//! or two reads and a share of one poll; nothing is allocated, signed or parsed beyond status, length and
//! continuation, except to delete messages. So the client is cheaper than any server worth measuring.

use crate::answer::Receiver;
use crate::interrupt::Interrupt;
use crate::process::ProcessId;
use crate::script::{Next, Script};
use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest latency that is recorded exactly, in nanoseconds.
const LATENCY_MAX: u64 = 600_000_000_000;
/// How often idle clients check whether the phase has changed.
const POLL: Duration = Duration::from_millis(20);
/// How often the conductor checks the clients.
const LOOK: Duration = Duration::from_millis(5);
/// How long operations may take to finish after the measurement.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// When a load begins to count, and when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Time before anything is counted.
    pub(crate) warm_up: Duration,
    /// Time that is counted.
    pub(crate) window: Duration,
    /// The window lasts until this many operations are counted, ...
    pub(crate) operations_min: u64,
    /// ... but not longer than this.
    pub(crate) window_max: Duration,
    /// No more operations than this are begun, including the warm-up.
    pub(crate) operations_max: u64,
}

impl Bounds {
    /// This many operations, each counted, with a generous bound on their time.
    pub(crate) fn operations(count: u64) -> Self {
        let window = Duration::from_secs(600);
        Self {
            warm_up: Duration::ZERO,
            window,
            operations_min: 0,
            window_max: window,
            operations_max: count,
        }
    }
}

/// What a load measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// In nanoseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) server_cpu: Duration,
    pub(crate) client_cpu: Duration,
    pub(crate) client_threads: usize,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Threads for the client: one on small machines, so that the servers get the rest.
pub(crate) fn client_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1))
}

/// Runs `scripts`, one connection each, against the server at `address`.
pub(crate) fn run(
    address: SocketAddr,
    server: ProcessId,
    scripts: Vec<Script>,
    bounds: &Bounds,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let threads = client_threads().min(scripts.len()).max(1);
    let mut clients: Vec<Client> = (0..threads).map(|_| Client::new()).collect::<Result<_>>()?;
    for (number, script) in scripts.into_iter().enumerate() {
        if let Some(client) = clients.get_mut(number % threads) {
            client.connect(address, script)?;
        }
    }
    let first = if bounds.warm_up.is_zero() { Phase::Measure } else { Phase::WarmUp };
    let shared = Shared::new(first, bounds.operations_max, threads);
    let (timing, histograms) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.into_iter().map(|client| scope.spawn(|| client.run(&shared))).collect();
        let timing = conduct(&shared, server, bounds, interrupt);
        // Also if the conductor failed: the clients must end before its error is returned.
        shared.set(Phase::Drain);
        let histograms: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (timing, histograms)
    });
    let (elapsed, server_cpu, client_cpu) = timing?;
    let mut latency = new_histogram()?;
    for histogram in histograms {
        latency.add(histogram.map_err(|_| anyhow!("a client panicked"))??)?;
    }
    Ok(Outcome {
        operations: latency.len(),
        elapsed,
        latency,
        server_cpu,
        client_cpu,
        client_threads: threads,
        errors: shared.errors.load(Ordering::Relaxed),
        first_error: shared.first_error.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}

/// The length of the window by the clock, by the server's processors, and by the client's.
type Timing = (Duration, Duration, Duration);

/// Leads the clients through the phases.
fn conduct(
    shared: &Shared,
    server: ProcessId,
    bounds: &Bounds,
    interrupt: &Interrupt,
) -> Result<Timing> {
    let wait_until = |over: &dyn Fn() -> bool| -> Result<()> {
        while !over() && shared.running.load(Ordering::Acquire) > 0 {
            interrupt.pause(LOOK)?;
        }
        Ok(())
    };
    let start = Instant::now();
    wait_until(&|| start.elapsed() >= bounds.warm_up)?;
    let (server_before, client_before) = (server.cpu()?, ProcessId::this().cpu()?);
    let start = Instant::now();
    shared.set(Phase::Measure);
    wait_until(&|| {
        let enough = shared.counted.load(Ordering::Relaxed) >= bounds.operations_min;
        let elapsed = start.elapsed();
        elapsed >= bounds.window_max || (enough && elapsed >= bounds.window)
    })?;
    shared.set(Phase::Drain);
    let elapsed = start.elapsed();
    let server_cpu = server.cpu().context("the server has ended")?.saturating_sub(server_before);
    Ok((elapsed, server_cpu, ProcessId::this().cpu()?.saturating_sub(client_before)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    WarmUp,
    Measure,
    Drain,
}

/// Shared by conductor and clients.
#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    /// Operations that may still be begun.
    tickets: AtomicU64,
    counted: AtomicU64,
    /// Clients that still have connections.
    running: AtomicUsize,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Shared {
    fn new(phase: Phase, tickets: u64, clients: usize) -> Self {
        Self {
            phase: AtomicU8::new(phase as u8),
            tickets: AtomicU64::new(tickets),
            counted: AtomicU64::new(0),
            running: AtomicUsize::new(clients),
            errors: AtomicU64::new(0),
            first_error: Mutex::new(None),
        }
    }

    fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    /// Whether one more operation may begin.
    fn take_ticket(&self) -> bool {
        let one_less = |tickets: u64| tickets.checked_sub(1);
        !self.is(Phase::Drain)
            && self.tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    fn fail(&self, error: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }
}

/// One thread's connections.
struct Client {
    poll: Poll,
    connections: Vec<Option<Connection>>,
    latency: Histogram<u64>,
}

impl Client {
    fn new() -> Result<Self> {
        let poll = Poll::new().context("make a poll")?;
        Ok(Self { poll, connections: Vec::new(), latency: new_histogram()? })
    }

    fn connect(&mut self, address: SocketAddr, script: Script) -> Result<()> {
        let stream = std::net::TcpStream::connect(address)
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let token = Token(self.connections.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interest)?;
        self.connections.push(Some(Connection::new(stream, script)));
        Ok(())
    }

    /// Runs until every connection has ended; returns the latencies that were counted.
    fn run(mut self, shared: &Shared) -> Result<Histogram<u64>> {
        let outcome = self.work(shared);
        shared.running.fetch_sub(1, Ordering::Release);
        outcome.map(|()| self.latency)
    }

    fn work(&mut self, shared: &Shared) -> Result<()> {
        let mut open = 0;
        for slot in &mut self.connections {
            let started =
                slot.as_mut().map_or(Ok(Turn::End), |it| it.begin(Instant::now(), shared));
            open += usize::from(keep(slot, started, shared));
        }
        let mut events = Events::with_capacity(1024);
        let mut drain_since = None;
        while open > 0 {
            match self.poll.poll(&mut events, Some(POLL)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome.context("poll")?,
            }
            for event in &events {
                let Some(slot) = self.connections.get_mut(event.token().0) else { continue };
                let Some(connection) = slot.as_mut() else { continue };
                let readable = event.is_readable() || event.is_read_closed() || event.is_error();
                let turn = connection.turn(readable, shared, &mut self.latency);
                open -= usize::from(!keep(slot, turn, shared));
            }
            if shared.is(Phase::Drain) {
                let since = *drain_since.get_or_insert_with(Instant::now);
                ensure!(since.elapsed() < DRAIN_MAX, "operations did not end in time");
            }
        }
        Ok(())
    }
}

/// Closes a connection that has ended or failed; true when it goes on.
fn keep(slot: &mut Option<Connection>, turn: std::io::Result<Turn>, shared: &Shared) -> bool {
    match turn {
        Ok(Turn::GoOn) => return true,
        Ok(Turn::End) => {}
        Err(error) => shared.fail(format!("the connection failed: {error}")),
    }
    *slot = None;
    false
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    GoOn,
    End,
}

struct Connection {
    stream: TcpStream,
    script: Script,
    /// Bytes of the request that have been sent.
    sent: usize,
    receiver: Receiver,
    /// When the operation began.
    began: Instant,
}

impl Connection {
    fn new(stream: TcpStream, script: Script) -> Self {
        Self { stream, script, sent: 0, receiver: Receiver::default(), began: Instant::now() }
    }

    /// Begins the next operation, unless the load is over.
    fn begin(&mut self, now: Instant, shared: &Shared) -> std::io::Result<Turn> {
        if self.script.is_over() || !shared.take_ticket() {
            return Ok(Turn::End);
        }
        self.script.advance();
        self.began = now;
        self.sent = 0;
        self.send()?;
        Ok(Turn::GoOn)
    }

    /// Handles an event: sends the rest of a request, or receives.
    fn turn(
        &mut self,
        readable: bool,
        shared: &Shared,
        latency: &mut Histogram<u64>,
    ) -> std::io::Result<Turn> {
        if self.sent < self.script.request().len() {
            self.send()?;
        }
        if !readable || !self.receiver.receive(&mut self.stream)? {
            return Ok(Turn::GoOn);
        }
        let Some(answer) = self.receiver.answer() else { return Ok(Turn::GoOn) };
        let judged = self.script.judge(&answer);
        self.receiver.clear();
        match judged {
            Ok(Next::More) => {
                self.sent = 0;
                self.send()?;
                Ok(Turn::GoOn)
            }
            Ok(Next::Done) => {
                let now = Instant::now();
                if shared.is(Phase::Measure) {
                    let nanos = now.duration_since(self.began).as_nanos() as u64;
                    latency.saturating_record(nanos);
                    shared.counted.fetch_add(1, Ordering::Relaxed);
                }
                self.begin(now, shared)
            }
            Err(error) => {
                shared.fail(error);
                self.begin(Instant::now(), shared)
            }
        }
    }

    /// Sends as much as the socket accepts; an event announces room for more.
    fn send(&mut self) -> std::io::Result<()> {
        while let Some(rest) = self.script.request().get(self.sent..).filter(|r| !r.is_empty()) {
            match self.stream.write(rest) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn new_histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).context("make a histogram")
}
