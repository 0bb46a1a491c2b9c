//! Engines on the server that the tests share.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses a part")]

use lazuli_engine::{BoxError, Check, Commit, Current, Expect, Key, Modify, Revision, Write};
use lazuli_engine_postgres::{Address, PostgresEngine, PostgresOptions};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::postgres::fresh_address;
use lazuli_testkit::wire_cut::WireCut;
use std::sync::Arc;
use std::time::Duration;

/// Our clock, as revisions count.
pub(crate) fn now() -> Revision {
    Revision(SystemClock.now().ticks())
}

pub(crate) fn options(address: &str) -> PostgresOptions {
    let address = Address::parse(address).unwrap();
    let options = PostgresOptions::new(address, Arc::new(TestPace::default()));
    // The machines of tests are slow, and some tests keep many views.
    let connections = 32.try_into().unwrap();
    PostgresOptions { wait_max: Duration::from_secs(20), connections, ..options }
}

/// An engine on a store that exists. It connects when it is used.
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
pub(crate) fn through(proxy: &WireCut, address: &str) -> String {
    let (before, rest) = address.split_once('@').unwrap();
    let (_, after) = rest.split_once('/').unwrap();
    format!("{before}@{}/{after}", proxy.address())
}

/// A proxy before the server at `address`.
pub(crate) fn proxy(address: &str) -> WireCut {
    let (_, rest) = address.split_once('@').unwrap();
    let server = rest.split_once('/').unwrap().0;
    WireCut::before(server.parse().unwrap(), 1).unwrap()
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

/// A session of our own in the name space.
pub(crate) async fn raw(address: &str) -> tokio_postgres::Client {
    let (base, schema) = address.split_once("?schema=").unwrap();
    let (client, connection) = tokio_postgres::connect(base, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.batch_execute(&format!("set search_path = {schema}")).await.unwrap();
    client
}
