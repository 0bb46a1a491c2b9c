//! Patterns in every order of the requests of several clients, with crashes and lost answers (P-0.7, P-0.8).
//!
//! Nothing of a pattern is replaced but the way out and the clock. A client stops before each request, and a scheduler decides
//! whose request is carried out next, by a server in this process, and who dies. Requests and answers get lost where a
//! program says so. Blobs, which the server does not have, are those of a few lines in [`blobs`].

mod beyond;
mod blobs;

use super::schedule::{self, Chooser, block_on};
use crate::transport::{Body, HttpTransport, Sent, Transport, TransportError};
use crate::{Account, BoxFuture, Credential, Env, Environment, Retry};
use blobs::Blobs;
use bytes::Bytes;
use lazuli_engine::MemoryEngine;
use lazuli_model::{Clock, SystemClock, Timestamp};
use lazuli_server::{WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use lazuli_testkit::live::LiveServer;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 22;

/// What happens to requests of a client, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// These are not carried out, and nobody knows.
    requests: &'static [usize],
    /// These are carried out, and their answers are lost.
    answers: &'static [usize],
    /// Whether the client sends no request again by itself.
    is_final: bool,
}

pub(super) const NO_LOSS: Losses = Losses { requests: &[], answers: &[], is_final: false };

impl Losses {
    pub(super) const fn of_answers(answers: &'static [usize]) -> Self {
        Self { answers, ..NO_LOSS }
    }

    pub(super) const fn of_requests(requests: &'static [usize]) -> Self {
        Self { requests, ..NO_LOSS }
    }

    pub(super) const fn without_retry(self) -> Self {
        Self { is_final: true, ..self }
    }
}

/// A server, and a connection that waits for its answers.
pub(super) struct Bench {
    runtime: Runtime,
    transport: HttpTransport,
    server: LiveServer,
    runs: AtomicU64,
}

impl Bench {
    /// With a table of this name.
    pub(super) fn with_table(name: &str) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let transport = HttpTransport::new(Duration::from_secs(10)).unwrap();
        let server = LiveServer::start(Arc::new(MemoryEngine::default()), "orders").unwrap();
        let bench = Arc::new(Self { runtime, transport, server, runs: AtomicU64::new(0) });
        let run = bench.run();
        block_on(async { run.account(0, NO_LOSS).tables().create(name).await.unwrap() });
        bench
    }

    /// A run, which has a partition of its own.
    pub(super) fn run(self: &Arc<Self>) -> Run {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let (bench, partition) = (self.clone(), format!("p{number}"));
        let (blobs, trace) = Default::default();
        Run { bench, blobs, partition, began: SystemClock.now(), trace }
    }

    fn carry_out(&self, request: http::Request<Bytes>) -> http::Response<Bytes> {
        self.runtime.block_on(async {
            let (head, body) = self.transport.send(request).await.unwrap().into_parts();
            http::Response::from_parts(head, body.read(ANSWER_BYTES_MAX).await.unwrap())
        })
    }
}

#[derive(Clone)]
pub(super) struct Run {
    bench: Arc<Bench>,
    blobs: Arc<Mutex<Blobs>>,
    pub(super) partition: String,
    began: Timestamp,
    trace: Arc<Mutex<Vec<String>>>,
}

impl Run {
    /// The account of a client. Number 0 is not stopped before its requests.
    pub(super) fn account(&self, number: usize, losses: Losses) -> Account {
        let way = Way { run: self.clone(), number, losses, sent: AtomicUsize::new(0) };
        let seed = AtomicU64::new(number as u64);
        let env = Surroundings { now: self.began, seed };
        let retry = if losses.is_final { Retry::none() } else { Retry::default() };
        let address = self.bench.server.address();
        let account = Account::builder(&format!("http://{address}/{WELL_KNOWN_ACCOUNT}"));
        let account = account.blob_endpoint(&format!("{}/{WELL_KNOWN_ACCOUNT}", blobs::ADDRESS));
        let account = account.transport(way).env(Env::new(env)).retry(retry);
        let credential = Credential::shared_key(WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY).unwrap();
        account.credential(credential).build().unwrap()
    }

    pub(super) fn trace(&self) -> String {
        self.trace.lock().unwrap().join("\n")
    }

    /// Runs the futures of clients by the chooser's will, and `check` after each request.
    pub(super) fn interleave<F: Future<Output = ()>>(
        &self,
        chooser: &mut dyn Chooser,
        clients: impl IntoIterator<Item = F>,
        check: impl Fn(),
    ) {
        let clients = clients.into_iter().enumerate();
        let clients = clients.map(|(number, client)| (number + 1, client)).collect();
        schedule::interleave(chooser, &Checked { run: self, check }, clients);
    }
}

struct Checked<'r, C> {
    run: &'r Run,
    check: C,
}

impl<C: Fn()> schedule::World for Checked<'_, C> {
    fn end(&self, client: usize) {
        self.run.trace.lock().unwrap().push(format!("{client} ended"));
    }

    fn check_step(&self) {
        (self.check)();
    }
}

/// The way out of a client.
struct Way {
    run: Run,
    number: usize,
    losses: Losses,
    sent: AtomicUsize,
}

impl Transport for Way {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(async move {
            if self.number > 0 {
                schedule::stop().await;
            }
            let at = self.sent.fetch_add(1, Ordering::Relaxed);
            let what = format!("{} {} {}", self.number, request.method(), request.uri().path());
            let lost = || TransportError { sent: Sent::Maybe, source: "lost".into() };
            let note = |end: &str| self.run.trace.lock().unwrap().push(format!("{what} {end}"));
            if self.losses.requests.contains(&at) {
                note("is lost");
                return Err(lost());
            }
            let answer = match blobs::is_for_blobs(&request) {
                true => self.run.blobs.lock().unwrap().carry_out(&request),
                false => self.run.bench.carry_out(request),
            };
            if self.losses.answers.contains(&at) {
                note(&format!("{}, answer lost", answer.status()));
                return Err(lost());
            }
            note(answer.status().as_str());
            Ok(answer.map(Body::from))
        })
    }
}

/// A clock that stands still, pauses that are over at once, and numbers from a seed.
struct Surroundings {
    now: Timestamp,
    seed: AtomicU64,
}

impl Environment for Surroundings {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        // SplitMix64.
        let seed = self.seed.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let z = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn timer(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// What a client does, and what is lost of it.
#[derive(Clone, Debug)]
pub(super) struct Program<S> {
    pub(super) steps: Vec<S>,
    pub(super) losses: Losses,
}

pub(super) fn program<S: Clone + Debug>(steps: &[S], losses: Losses) -> Program<S> {
    Program { steps: steps.to_vec(), losses }
}
