//! Crashes a client at every point of a write, and heals what it leaves (P-0.7).

use crate::clock::TestClock;
use crate::proxy::FaultProxy;
use crate::script::{Fault, Match, When};
use crate::server::{TestServer, TestServerBuilder};
use futures_util::future::join_all;
use lazuli_client::Account;
use lazuli_testkit::seed::Seeded;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};

/// Concurrent writers in [`seeds`].
pub const WRITERS: usize = 3;

/// A write with more requests than this is assumed not to terminate.
const REQUESTS_MAX: u64 = 1000;

/// One client of the server under test: an account, and the clock that it shares with the server.
#[derive(Clone, Debug)]
pub struct TestClient {
    /// The account.
    pub account: Account,
    /// The clock.
    pub clock: TestClock,
}

impl Deref for TestClient {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

/// Where a client crashes, counted in requests of its write from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Nowhere.
    Never,
    /// Before this request arrives.
    Before(u64),
    /// After this request was carried out, before its answer.
    After(u64),
}

impl Point {
    fn set(self, proxy: &FaultProxy) {
        match self {
            Self::Never => {}
            Self::Before(n) => proxy.add(Match::any(), When::Nth(n), Fault::CrashBefore),
            Self::After(n) => proxy.add(Match::any(), When::Nth(n), Fault::CrashAfter),
        }
    }
}

/// Runs a write once to its end, and then twice for each of its requests: the client crashes before the request
/// arrives, or after it was carried out. Each run has its own server.
///
/// * `setup` prepares the server and returns what the others need to know;
/// * `write` is crashed: it is dropped at its current await, and nothing it sends arrives any more;
/// * `heal` runs afterwards: a worker, the next write, a repair. It may advance the clock;
/// * `check` panics if an invariant does not hold. It receives what `write` returned, `None` if it crashed: what was
///   acknowledged must be stored.
///
/// Returns how many requests the undisturbed write sends.
pub async fn every_point<S, T>(
    setup: impl AsyncFn(&TestClient) -> S,
    write: impl AsyncFn(&TestClient, &S) -> T,
    heal: impl AsyncFn(&TestClient, &S),
    check: impl AsyncFn(&TestClient, &S, Option<T>),
) -> io::Result<u64> {
    every_point_on(&TestServer::builder(), setup, write, heal, check).await
}

/// The same on servers that `servers` starts, with a clock.
pub async fn every_point_on<S, T>(
    servers: &TestServerBuilder,
    setup: impl AsyncFn(&TestClient) -> S,
    write: impl AsyncFn(&TestClient, &S) -> T,
    heal: impl AsyncFn(&TestClient, &S),
    check: impl AsyncFn(&TestClient, &S, Option<T>),
) -> io::Result<u64> {
    let run = async |point: Point| -> io::Result<(bool, u64)> {
        let _context = Context(format!("the client died at {point:?}"));
        let clock = TestClock::default();
        let server = servers.clone().clock(clock.clone()).start().await?;
        let healer = TestClient { account: server.account(), clock: clock.clone() };
        let state = setup(&healer).await;
        let proxy = server.proxy(0)?;
        point.set(&proxy);
        let outcome = until_death(&proxy, &clock, async |client| write(client, &state).await).await;
        let (has_died, requests) = (outcome.is_none(), proxy.exchanges().len() as u64);
        drop(proxy);
        heal(&healer, &state).await;
        check(&healer, &state, outcome).await;
        Ok((has_died, requests))
    };
    let (_, requests) = run(Point::Never).await?;
    for point in [Point::Before, Point::After] {
        let mut n = 0;
        // Other runs may send more or fewer requests than the first.
        while run(point(n)).await?.0 {
            n += 1;
            if n > REQUESTS_MAX {
                return Err(io::Error::other("the write sends requests without end"));
            }
        }
        if n == 0 && requests > 0 {
            return Err(io::Error::other("the client survived the death of its first request"));
        }
    }
    Ok(requests)
}

/// One of the writers of [`seeds`].
#[derive(Clone, Debug)]
pub struct Writer {
    /// Its number, from zero.
    pub number: usize,
    /// Its random choices.
    pub random: Seeded,
}

/// For each seed, [`WRITERS`] clients write concurrently. Each loses some requests and answers, and most crash at some
/// point; then as in [`every_point`]. `check` receives what each writer returned, `None` if it crashed.
///
/// A seed repeats the choices, but not the order in which the writers' requests reach the server.
pub async fn seeds<S, T>(
    seeds: Range<u64>,
    setup: impl AsyncFn(&TestClient) -> S,
    write: impl AsyncFn(&TestClient, &S, Writer) -> T,
    heal: impl AsyncFn(&TestClient, &S),
    check: impl AsyncFn(&TestClient, &S, Vec<Option<T>>),
) -> io::Result<()> {
    seeds_on(&TestServer::builder(), seeds, setup, write, heal, check).await
}

/// The same on servers that `servers` starts, with a clock.
pub async fn seeds_on<S, T>(
    servers: &TestServerBuilder,
    seeds: Range<u64>,
    setup: impl AsyncFn(&TestClient) -> S,
    write: impl AsyncFn(&TestClient, &S, Writer) -> T,
    heal: impl AsyncFn(&TestClient, &S),
    check: impl AsyncFn(&TestClient, &S, Vec<Option<T>>),
) -> io::Result<()> {
    for seed in seeds {
        let _context = Context(format!("run it again with {SEED_VARIABLE}={seed}"));
        let clock = TestClock::new(seed);
        let server = servers.clone().clock(clock.clone()).start().await?;
        let healer = TestClient { account: server.account(), clock: clock.clone() };
        let state = setup(&healer).await;
        let choices = Seeded::new(seed);
        let proxies = (0..WRITERS).map(|number| {
            let proxy = server.proxy(choices.stream(number as u64).next_u64())?;
            doom(&proxy, &mut choices.stream((WRITERS + number) as u64));
            Ok((number, proxy))
        });
        let proxies = proxies.collect::<io::Result<Vec<_>>>()?;
        let (write, state_ref) = (&write, &state);
        let writers = proxies.iter().map(|(number, proxy)| {
            let random = choices.stream((2 * WRITERS + number) as u64);
            let writer = Writer { number: *number, random };
            let write = async move |client: &TestClient| write(client, state_ref, writer).await;
            until_death(proxy, &clock, write)
        });
        let outcomes = join_all(writers).await;
        drop(proxies);
        heal(&healer, &state).await;
        check(&healer, &state, outcomes).await;
    }
    Ok(())
}

/// The faults of a writer: three in four crash, at one of their first twelve requests; one request in ten and one
/// answer in ten is lost.
fn doom(proxy: &FaultProxy, random: &mut Seeded) {
    if !random.one_in(4) {
        let request = random.below(12) as u64;
        let point = if random.one_in(2) { Point::Before } else { Point::After };
        point(request).set(proxy);
    }
    proxy.add(Match::any(), When::OneIn(10), Fault::DropRequest);
    proxy.add(Match::any(), When::OneIn(10), Fault::DropReply);
}

/// Runs `write` with a client behind `proxy`; `None` if the client crashes.
async fn until_death<T>(
    proxy: &FaultProxy,
    clock: &TestClock,
    write: impl AsyncFnOnce(&TestClient) -> T,
) -> Option<T> {
    let client = TestClient { account: proxy.account(), clock: clock.clone() };
    tokio::select! {
        biased;
        outcome = write(&client) => Some(outcome),
        () = proxy.crashed() => None,
    }
}

/// The seed to run; without it, [`SEEDS_VARIABLE`] is the number of seeds.
const SEED_VARIABLE: &str = "LAZULI_SEED";
/// The number of seeds to run.
const SEEDS_VARIABLE: &str = "LAZULI_SEEDS";
/// The length of a long test.
const ROUNDS_VARIABLE: &str = "LAZULI_ROUNDS";

/// The seeds that a test runs: the one in `LAZULI_SEED`, or as many as in `LAZULI_SEEDS` (the full test has 1,000), or
/// `default`.
pub fn chosen_seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    match number(SEED_VARIABLE) {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..number(SEEDS_VARIABLE).unwrap_or(default),
    }
}

/// How often a long test repeats its work: `LAZULI_ROUNDS` (the full test has 10,000), or `default`.
pub fn chosen_rounds(default: usize) -> usize {
    let said = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    said.unwrap_or(default)
}

/// Prints where a test was when it failed.
pub(crate) struct Context<T: fmt::Display>(pub(crate) T);

impl<T: fmt::Display> Drop for Context<T> {
    #[expect(clippy::print_stderr, reason = "beside the message of the panic")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
