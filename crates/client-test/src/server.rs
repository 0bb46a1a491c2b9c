//! The real server in this process, in memory (C-19.1).

use crate::clock::TestClock;
use crate::proxy::{FaultProxy, builder};
use lazuli_client::{Account, AccountBuilder};
use lazuli_engine::MemoryEngine;
use lazuli_server::{Accounts, SimulateOptions};
use lazuli_testkit::live::{LiveOptions, LiveServer};
use lazuli_wire::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// Tables and queues in memory, on free local ports, with the well-known account. Stops when dropped.
///
/// It runs on its own threads, so a test may use any runtime, or none.
pub struct TestServer {
    /// Taken on drop.
    server: Option<LiveServer>,
    accounts: Arc<Accounts>,
    connection_string: String,
    account: Account,
    clock: Option<TestClock>,
}

/// A server, and a [`FaultProxy`] in front of it. The methods of [`TestServer`] bypass the proxy.
#[derive(Debug)]
pub struct FaultyServer {
    // Dropped first: it runs on the server's threads.
    faults: FaultProxy,
    server: TestServer,
}

/// The settings of a server.
#[derive(Clone, Default)]
#[must_use = "nothing runs before `start`"]
pub struct TestServerBuilder {
    clock: Option<TestClock>,
    seed: u64,
    blob_endpoint: Option<String>,
    simulate: SimulateOptions,
}

impl TestServer {
    /// Starts a server with the machine's clock.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// The same for tests without a runtime.
    pub fn start_blocking() -> io::Result<Self> {
        Self::builder().start_blocking()
    }

    /// Starts a server with a proxy in front of it. Both and their clients share a [`TestClock`], so that pauses before
    /// retries take no real time.
    pub async fn with_faults() -> io::Result<FaultyServer> {
        Self::builder().clock(TestClock::default()).start_with_faults().await
    }

    /// Begins to configure a server.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// The account of the server.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// The same, for accounts with other options.
    pub fn account_builder(&self) -> io::Result<AccountBuilder> {
        builder(&self.connection_string, self.clock.as_ref())
    }

    /// The endpoints and the key, for any client.
    pub fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// The clock that the server and its accounts share, if they do not use the machine's.
    pub fn clock(&self) -> Option<&TestClock> {
        self.clock.as_ref()
    }

    /// Another proxy in front of the server: for a client with its own faults.
    pub fn proxy(&self, seed: u64) -> io::Result<FaultProxy> {
        let server = self.server.as_ref().ok_or_else(|| io::Error::other("stopped"))?;
        FaultProxy::start(server.runtime(), &self.connection_string, self.clock.clone(), seed)
    }

    /// Gives the account other keys, in the format of the server's option `--accounts`: `name:key[:key2]`.
    pub fn set_keys(&self, text: &str) -> io::Result<()> {
        let accounts = Accounts::parse(text).map_err(io::Error::other)?;
        self.accounts.replace(accounts).map_err(io::Error::other)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let server = self.server.take();
        // It has its own runtime, which cannot be dropped within another.
        let _ = std::thread::spawn(move || drop(server)).join();
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("account", &self.account).finish_non_exhaustive()
    }
}

impl FaultyServer {
    /// The proxy: its script, its recorded exchanges, its account.
    pub fn faults(&self) -> &FaultProxy {
        &self.faults
    }

    /// The account behind the proxy.
    pub fn account(&self) -> Account {
        self.faults.account()
    }

    /// The account that bypasses the proxy, for other clients and for checking the result.
    pub fn direct(&self) -> Account {
        self.server.account()
    }
}

impl Deref for FaultyServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl TestServerBuilder {
    /// A clock for the server and its accounts, instead of the machine's.
    pub fn clock(self, clock: TestClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// The seed of the proxy's random choices.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A blob service for the account, such as Azurite's, with the well-known account.
    pub fn blob_endpoint(self, address: impl Into<String>) -> Self {
        Self { blob_endpoint: Some(address.into()), ..self }
    }

    /// Makes pages end early, some of them empty, at places that `seed` chooses (T-4.53).
    pub fn early_pages(mut self, seed: u64) -> Self {
        self.simulate.early_pages = Some(seed);
        self
    }

    /// Refuses more operations per second on one partition with 503 (T-11.3).
    pub fn partition_rate_max(mut self, operations: std::num::NonZeroU32) -> Self {
        self.simulate.partition_rate_max = Some(operations);
        self
    }

    /// Starts the server.
    pub async fn start(self) -> io::Result<TestServer> {
        self.start_blocking()
    }

    /// Starts the server, without a runtime.
    pub fn start_blocking(self) -> io::Result<TestServer> {
        let mut options = LiveOptions::new()?;
        options.tables.simulate = self.simulate;
        if let Some(clock) = &self.clock {
            options.clock = Arc::new(clock.clone());
        }
        let accounts = options.accounts.clone();
        let engine = Arc::new(MemoryEngine::default());
        let start = || LiveServer::start_both(engine, "lazuli-test", options);
        // It has its own runtime, which cannot start within another.
        let server =
            std::thread::spawn(start).join().map_err(|_| io::Error::other("no thread"))??;
        let queues = server.queues().ok_or_else(|| io::Error::other("no queues"))?;
        let mut connection_string = format!(
            "AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};\
             TableEndpoint=http://{}/{DEVELOPMENT_ACCOUNT};QueueEndpoint=http://{queues}/{DEVELOPMENT_ACCOUNT};",
            server.address(),
        );
        if let Some(address) = &self.blob_endpoint {
            connection_string += &format!("BlobEndpoint={address};");
        }
        let account = builder(&connection_string, self.clock.as_ref())?;
        let account = account.build().map_err(io::Error::other)?;
        let clock = self.clock;
        Ok(TestServer { server: Some(server), accounts, connection_string, account, clock })
    }

    /// Starts the server and a proxy in front of it.
    pub async fn start_with_faults(self) -> io::Result<FaultyServer> {
        let seed = self.seed;
        let server = self.start().await?;
        Ok(FaultyServer { faults: server.proxy(seed)?, server })
    }
}

impl fmt::Debug for TestServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServerBuilder").field("seed", &self.seed).finish_non_exhaustive()
    }
}
