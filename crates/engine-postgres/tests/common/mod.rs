//! Engines on the server that the tests share.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses a part")]

use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Engine, Expect, Key, Modify, Revision, Write,
};
use lazuli_engine_postgres::{Address, PostgresEngine, PostgresOptions};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::postgres::{fresh_address, is_there};
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::sync::Arc;
use std::time::Duration;

/// Our clock, in ticks like revisions.
pub(crate) fn now() -> Revision {
    Revision(SystemClock.now().ticks())
}

pub(crate) fn options(address: &str) -> PostgresOptions {
    let address = Address::parse(address).unwrap();
    let options = PostgresOptions::new(address, Arc::new(TestPace::default()));
    // Test machines are slow, and some tests keep many views.
    let connections = 32.try_into().unwrap();
    PostgresOptions { wait_max: Duration::from_secs(20), connections, ..options }
}

/// An engine on an existing store. It connects when it is used.
pub(crate) fn open_on(address: &str, set: impl FnOnce(&mut PostgresOptions)) -> PostgresEngine {
    let mut options = options(address);
    set(&mut options);
    PostgresEngine::new(options)
}

/// An engine on an empty store.
pub(crate) fn fresh() -> PostgresEngine {
    fresh_with_address().1
}

/// An engine on an empty store, and the address at which others can join.
pub(crate) fn fresh_with_address() -> (String, PostgresEngine) {
    let address = fresh_address();
    create(&address);
    let engine = open_on(&address, |_| {});
    (address, engine)
}

/// An engine on a line that can be bad.
pub(crate) struct Line {
    pub(crate) engine: PostgresEngine,
    pub(crate) proxy: Arc<WireCut>,
    /// Another gateway, on a good line.
    pub(crate) other: PostgresEngine,
    /// Where that is.
    pub(crate) address: String,
}

impl Line {
    /// On an empty store.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(set: impl FnOnce(&mut PostgresOptions)) -> Self {
        let (address, other) = fresh_with_address();
        let proxy = Arc::new(proxy(&address));
        let engine = open_on(&through(&proxy, &address), set);
        Self { engine, proxy, other, address }
    }

    /// Commits, and loses the first answer, after the database has done its work.
    pub(crate) async fn commit_and_lose(&self, commit: Commit) -> Result<Revision, CommitError> {
        // A connection with its statements, so that the answer lost is that of the commit.
        self.engine.health().await.unwrap();
        losing_first(&self.proxy, self.engine.commit(commit)).await
    }

    /// What the other gateway finds.
    pub(crate) async fn value(&self, text: &str) -> Option<(String, Revision)> {
        let found = self.other.read(&[key(text)]).await.unwrap().remove(0)?;
        Some((String::from_utf8(found.value.to_vec()).unwrap(), found.revision))
    }
}

/// Runs a test that needs the server, on one thread: what is sent together is sent in one piece, and the clock
/// of the runtime can be moved.
pub(crate) fn on_one_thread(test: impl Future<Output = ()>) {
    if is_there() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test);
    }
}

/// Creates the tables, in a runtime that does not outlive this call.
pub(crate) fn create(address: &str) {
    let options = options(address);
    let create = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(PostgresEngine::open(options, now)).map(drop).unwrap();
    };
    std::thread::spawn(create).join().unwrap();
}

/// The address with the port of a proxy.
fn through(proxy: &WireCut, address: &str) -> String {
    let (before, rest) = address.split_once('@').unwrap();
    let (_, after) = rest.split_once('/').unwrap();
    format!("{before}@{}/{after}", proxy.address())
}

/// A proxy before the server at `address`.
fn proxy(address: &str) -> WireCut {
    let (_, rest) = address.split_once('@').unwrap();
    let server = rest.split_once('/').unwrap().0;
    WireCut::before(server.parse().unwrap(), 1).unwrap()
}

/// What comes of `asked`, whose first answer is lost with its connection, after the database has done its work.
pub(crate) async fn losing_first<T>(proxy: &WireCut, asked: impl Future<Output = T>) -> T {
    let lost = proxy.lost();
    proxy.set(Weather::LosesAnswers { one_in: 1 });
    let mend = async {
        while proxy.lost() == lost {
            tokio::task::yield_now().await;
        }
        proxy.set(Weather::Clear);
    };
    tokio::join!(asked, mend).0
}

pub(crate) fn key(text: &str) -> Key {
    Key::from(format!("L{text}").into_bytes())
}

pub(crate) fn put(text: &str, value: &str) -> Write {
    Write::Put(key(text), value.to_owned().into())
}

pub(crate) fn check(text: &str, expect: Expect) -> Check {
    Check { key: key(text), expect }
}

pub(crate) fn commit(checks: Vec<Check>, writes: Vec<Write>) -> Commit {
    Commit { checks, ..Commit::new(Revision(0), writes) }
}

/// Appends to the value.
#[derive(Debug)]
pub(crate) struct Append(pub(crate) &'static str);

impl Modify for Append {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let current = current.map(|current| current.value).unwrap_or_default();
        Ok(Some([current, self.0.as_bytes()].concat()))
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.0.len()
    }
}

/// A separate session in the schema.
pub(crate) async fn raw(address: &str) -> tokio_postgres::Client {
    let (base, schema) = address.split_once("?schema=").unwrap();
    let (client, connection) = tokio_postgres::connect(base, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.batch_execute(&format!("set search_path = {schema}")).await.unwrap();
    client
}
