//! An account: endpoints, credential, options (C-2).

use crate::credential::{Credential, Kind};
use crate::dialect::Dialect;
use crate::encryption::Protection;
use crate::env::Env;
use crate::error::Error;
use crate::meter::Counters;
use crate::observe::{Hook, Observe};
use crate::retry::{Retry, RetryBudget};
use crate::tables::Tables;
use crate::transport::{HttpTransport, Proxy, Transport};
use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::{
    ConnectionCredential, ConnectionString, Endpoint, StorageService,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;
use tokio::sync::Semaphore;

mod check;
mod from_env;

pub use check::Checked;

/// Endpoints and a credential, with one pool of connections. Cheap to clone; makes no request by itself.
///
/// ```
/// # use lazuli_client::{Account, Credential, Error};
/// # fn run(new_key: &str) -> Result<(), Error> {
/// let account = Account::from_connection_string("UseDevelopmentStorage=true;Region=north")?;
/// assert_eq!(account.ignored_settings(), ["Region"]);
/// account.on_attempt(|attempt| {
///     println!("{} {}: {:?}", attempt.operation, attempt.number, attempt.status)
/// });
/// // ... after a while:
/// println!("{} transactions", account.meter().total().billed);
/// // The old key is about to be replaced: tables that are open go on with the new one.
/// account.set_credential(Credential::shared_key("devstoreaccount1", new_key)?);
/// # Ok(())
/// # }
/// # run("c2VjcmV0").unwrap();
/// ```
#[derive(Clone)]
pub struct Account(pub(crate) Arc<Inner>, pub(crate) Protection);

pub(crate) struct Inner {
    pub(crate) name: Option<String>,
    pub(crate) endpoints: [Option<Endpoint>; 3],
    pub(crate) credential: ArcSwap<Credential>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) env: Env,
    pub(crate) retry: Retry,
    pub(crate) budget: RetryBudget,
    pub(crate) timeouts: Timeouts,
    pub(crate) places: Semaphore,
    pub(crate) user_agent: HeaderValue,
    pub(crate) allow_token_over_http: bool,
    /// The date of the last request, and its text.
    pub(crate) date: ArcSwapOption<(Timestamp, HeaderValue)>,
    /// Seconds that the service's clock is ahead of ours, as last seen.
    pub(crate) skew_seconds: AtomicI64,
    pub(crate) dialect: Dialect,
    /// Whether the service is known to have transactions across partitions (X-4.6).
    pub(crate) has_spanning_transactions: AtomicBool,
    /// Set if it is not the version that this library was written for.
    pub(crate) table_version: Option<HeaderValue>,
    pub(crate) trusts_server: bool,
    pub(crate) observe: Observe,
    pub(crate) counters: Counters,
    pub(crate) hooks: ArcSwap<Vec<Hook>>,
    #[cfg(feature = "patterns")]
    pub(crate) advisor: ArcSwapOption<std::sync::Mutex<lazuli_advice::Advisor>>,
    ignored_settings: Vec<String>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    total: Duration,
    attempt: Duration,
    connect: Duration,
}

impl Default for Timeouts {
    /// 60 s for an operation with all its attempts, 35 s for one attempt (the service gives up after 30 s), 10 s
    /// to connect.
    fn default() -> Self {
        Self {
            total: Duration::from_secs(60),
            attempt: Duration::from_secs(35),
            connect: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    /// Limit for an operation with all its attempts.
    #[must_use]
    pub fn total(self, total: Duration) -> Self {
        Self { total, ..self }
    }

    /// Limit for one attempt.
    #[must_use]
    pub fn attempt(self, attempt: Duration) -> Self {
        Self { attempt, ..self }
    }

    /// Limit for connecting.
    #[must_use]
    pub fn connect(self, connect: Duration) -> Self {
        Self { connect, ..self }
    }

    pub(crate) fn total_max(&self) -> Duration {
        self.total
    }

    pub(crate) fn attempt_max(&self) -> Duration {
        self.attempt
    }
}

impl Account {
    /// The same account without encryption: sends and returns entities as they are stored.
    pub(crate) fn unprotected(&self) -> Self {
        Self(Arc::clone(&self.0), Protection::default())
    }

    /// The account of a connection string.
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        AccountBuilder::from_connection_string(text)?.build()
    }

    /// The account configured in the environment: `LAZULI_CONNECTION_STRING`, else
    /// `AZURE_STORAGE_CONNECTION_STRING`, else `AZURE_STORAGE_ACCOUNT` with `AZURE_STORAGE_KEY` or
    /// `AZURE_STORAGE_SAS_TOKEN`.
    pub fn from_env() -> Result<Self, Error> {
        from_env::builder(|name| std::env::var(name).ok())?.build()
    }

    /// Like [`from_env`](Self::from_env), but falls back to the development account on the usual ports of this
    /// machine: for examples, tools and tests.
    pub fn from_env_or_development() -> Result<Self, Error> {
        from_env::builder_or_development(|name| std::env::var(name).ok())?.build()
    }

    /// Begins to configure an account whose table service is at `table_endpoint`, such as
    /// `https://orders.table.core.windows.net`.
    pub fn builder(table_endpoint: &str) -> AccountBuilder {
        AccountBuilder::new(table_endpoint)
    }

    /// The table service.
    pub fn tables(&self) -> Tables {
        Tables::new(self.clone())
    }

    /// The account's name, if it is known.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The endpoint of the table service.
    pub fn table_endpoint(&self) -> Option<&str> {
        self.0.endpoint(StorageService::Table).map(|endpoint| &*endpoint.primary)
    }

    /// The endpoint of the queue service.
    pub fn queue_endpoint(&self) -> Option<&str> {
        self.0.endpoint(StorageService::Queue).map(|endpoint| &*endpoint.primary)
    }

    /// The endpoint of the blob service, if the account has one.
    pub fn blob_endpoint(&self) -> Option<&str> {
        self.0.endpoint(StorageService::Blob).map(|endpoint| &*endpoint.primary)
    }

    /// Which service this is.
    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    /// Uses another credential from now on, in all handles of this account: keys can be rotated without a
    /// restart.
    pub fn set_credential(&self, credential: Credential) {
        self.0.credential.store(Arc::new(credential));
    }

    /// Settings in the connection string that this library does not know.
    pub fn ignored_settings(&self) -> &[String] {
        &self.0.ignored_settings
    }
}

impl Inner {
    pub(crate) fn endpoint(&self, service: StorageService) -> Option<&Endpoint> {
        self.endpoints.get(service as usize)?.as_ref()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("name", &self.0.name)
            .field("endpoints", &self.0.endpoints)
            .field("credential", &self.0.credential)
            .finish_non_exhaustive()
    }
}

/// Configures an [`Account`].
///
/// ```
/// use lazuli_client::{Account, Credential, Dialect, Error, Observe, Retry, Timeouts};
/// use std::time::Duration;
///
/// # fn run(key: &str, sas: &str) -> Result<(), Error> {
/// const SECOND: Duration = Duration::from_secs(1);
/// let account = Account::builder("https://orders.table.core.windows.net")
///     .queue_endpoint("https://orders.queue.core.windows.net")
///     .blob_endpoint("https://orders.blob.core.windows.net")
///     .credential(Credential::shared_key("orders", key)?)
///     .timeouts(Timeouts::default().total(90 * SECOND).attempt(20 * SECOND).connect(3 * SECOND))
///     .retry(Retry::default().attempts(8).pauses(SECOND / 10, 5 * SECOND).strict())
///     .concurrency_max(64)
///     .application("checkout/1.4")
///     .build()?;
/// assert_eq!(account.dialect(), Dialect::Azure);
/// assert_eq!(account.queue_endpoint(), Some("https://orders.queue.core.windows.net"));
/// assert_eq!(account.blob_endpoint(), Some("https://orders.blob.core.windows.net"));
///
/// // A service in a test network, under a name that does not show what it is.
/// let test = Account::builder("http://tables.test:10002/orders")
///     .credential(Credential::sas(sas)?)
///     .dialect(Dialect::Cosmos)
///     .table_version("2018-03-28")
///     .trust_server()
///     .allow_token_over_http()
///     .observe(Observe::default().keys())
///     .build()?;
/// assert!(!test.dialect().sorts());
/// # Ok(())
/// # }
/// # run("c2VjcmV0", "sv=2019-02-02&sig=c2VjcmV0").unwrap();
/// ```
#[must_use = "nothing is made before `build`"]
pub struct AccountBuilder {
    name: Option<String>,
    endpoints: [Option<Endpoint>; 3],
    credential: Credential,
    transport: Option<Arc<dyn Transport>>,
    env: Env,
    retry: Retry,
    timeouts: Timeouts,
    concurrency_max: usize,
    application: Option<String>,
    allow_token_over_http: bool,
    dialect: Option<Dialect>,
    table_version: Option<String>,
    trusts_server: bool,
    observe: Observe,
    proxy: Proxy,
    ignored_settings: Vec<String>,
    /// The first thing that is wrong.
    fault: Option<Error>,
}

impl AccountBuilder {
    fn new(table_endpoint: &str) -> Self {
        Self::with_endpoints([None, None, None]).endpoint(StorageService::Table, table_endpoint)
    }

    fn with_endpoints(endpoints: [Option<Endpoint>; 3]) -> Self {
        Self {
            name: None,
            endpoints,
            credential: Credential::anonymous(),
            transport: None,
            env: Env::system(),
            retry: Retry::default(),
            timeouts: Timeouts::default(),
            concurrency_max: 256,
            application: None,
            allow_token_over_http: false,
            dialect: None,
            table_version: None,
            trusts_server: false,
            observe: Observe::default(),
            proxy: Proxy::none(),
            ignored_settings: Vec::new(),
            fault: None,
        }
    }

    /// Begins with the settings of a connection string.
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        let parsed = ConnectionString::parse(text)?;
        let endpoints = [StorageService::Blob, StorageService::Queue, StorageService::Table]
            .map(|service| parsed.endpoint(service).cloned());
        let credential = match (parsed.credential, &parsed.account) {
            (ConnectionCredential::Key(key), Some(account)) => Credential::of_key(account, *key),
            (ConnectionCredential::Sas(token), _) => Credential::sas(&token)?,
            _ => Credential::anonymous(),
        };
        Ok(Self {
            name: parsed.account,
            credential,
            ignored_settings: parsed.ignored,
            ..Self::with_endpoints(endpoints)
        })
    }

    fn endpoint(mut self, service: StorageService, address: &str) -> Self {
        let endpoint = Endpoint::parse(address);
        if endpoint.is_none() {
            self.fault.get_or_insert_with(|| not_an_address(service, address));
        }
        if let Some(slot) = self.endpoints.get_mut(service as usize) {
            *slot = endpoint;
        }
        self
    }

    /// The endpoint of the queue service.
    pub fn queue_endpoint(self, address: &str) -> Self {
        self.endpoint(StorageService::Queue, address)
    }

    /// The endpoint of the blob service.
    pub fn blob_endpoint(self, address: &str) -> Self {
        self.endpoint(StorageService::Blob, address)
    }

    /// The credential.
    pub fn credential(mut self, credential: Credential) -> Self {
        if let Kind::SharedKey { account, .. } = &credential.0 {
            self.name.get_or_insert_with(|| account.as_ref().to_owned());
        }
        self.credential = credential;
        self
    }

    /// How long things may take.
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// How often and how soon a request is retried.
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Concurrent requests at most, 256 by default; zero counts as one.
    pub fn concurrency_max(self, requests: usize) -> Self {
        Self { concurrency_max: requests.clamp(1, Semaphore::MAX_PERMITS), ..self }
    }

    /// The name of the application, for the service's logs.
    pub fn application(self, word: &str) -> Self {
        Self { application: Some(word.to_owned()), ..self }
    }

    /// A transport other than this library's HTTP client.
    pub fn transport(self, transport: impl Transport) -> Self {
        Self { transport: Some(Arc::new(transport)), ..self }
    }

    /// Replaces the clock, the timer and the source of random numbers.
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Which service it is, if the endpoint does not show it.
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self { dialect: Some(dialect), ..self }
    }

    /// Sends bearer tokens without TLS: anybody on the network path can read and use them.
    pub fn allow_token_over_http(self) -> Self {
        Self { allow_token_over_http: true, ..self }
    }

    /// Sends this version of the table service in `x-ms-version`, such as `2020-12-06`.
    pub fn table_version(self, version: &str) -> Self {
        Self { table_version: Some(version.to_owned()), ..self }
    }

    /// Sends requests even if the shared access signature clearly does not allow them (C-16.5).
    pub fn trust_server(self) -> Self {
        Self { trusts_server: true, ..self }
    }

    /// What spans show.
    pub fn observe(self, observe: Observe) -> Self {
        Self { observe, ..self }
    }

    /// Connects through a proxy. Only this library's own HTTP client uses it.
    pub fn proxy(self, proxy: Proxy) -> Self {
        Self { proxy, ..self }
    }

    /// Checks the settings. Makes no request.
    pub fn build(self) -> Result<Account, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for (service, endpoint) in StorageService::ALL.into_iter().zip(&self.endpoints) {
            let is_address = |endpoint: &Endpoint| endpoint.primary.parse::<http::Uri>().is_ok();
            if endpoint.as_ref().is_some_and(|endpoint| !is_address(endpoint)) {
                return Err(not_an_address(service, ""));
            }
        }
        let dialect = self.dialect.unwrap_or_else(|| {
            let table = self.endpoints.get(StorageService::Table as usize);
            table.and_then(Option::as_ref).map_or(Dialect::Azure, |e| Dialect::of(&e.primary))
        });
        let transport = match self.transport {
            Some(transport) => transport,
            None => {
                let transport = HttpTransport::through(self.proxy, self.timeouts.connect);
                Arc::new(transport.map_err(|source| {
                    let error = Error::config("TLS cannot be set up");
                    error.with(|context| context.source = Some(source))
                })?)
            }
        };
        let product = concat!("lazuli-client/", env!("CARGO_PKG_VERSION"));
        let user_agent = match self.application {
            Some(word) => format!("{product} {word}"),
            None => product.to_owned(),
        };
        let user_agent = HeaderValue::try_from(user_agent)
            .map_err(|_| Error::config("the word about the application is not a header value"))?;
        let table_version = self.table_version.map(HeaderValue::try_from).transpose();
        let table_version = table_version
            .map_err(|_| Error::config("the version of the table service is not a header value"))?;
        let inner = Inner {
            name: self.name,
            endpoints: self.endpoints,
            credential: ArcSwap::from_pointee(self.credential),
            transport,
            env: self.env,
            retry: self.retry,
            budget: RetryBudget::new(),
            timeouts: self.timeouts,
            places: Semaphore::new(self.concurrency_max),
            user_agent,
            allow_token_over_http: self.allow_token_over_http,
            date: ArcSwapOption::empty(),
            skew_seconds: AtomicI64::new(0),
            has_spanning_transactions: AtomicBool::new(false),
            dialect,
            table_version,
            trusts_server: self.trusts_server,
            observe: self.observe,
            counters: Counters::default(),
            hooks: ArcSwap::default(),
            #[cfg(feature = "patterns")]
            advisor: arc_swap::ArcSwapOption::default(),
            ignored_settings: self.ignored_settings,
        };
        Ok(Account(Arc::new(inner), Protection::default()))
    }
}

/// The error of an endpoint. It does not show the text, which may hold a secret (C-2.10).
fn not_an_address(service: StorageService, text: &str) -> Error {
    let what = format!("the {} endpoint is not an http or https address", service.name());
    let hint = match text {
        text if text.contains("sig=") && !text.contains(';') => {
            "give the query of the address to Credential::sas"
        }
        text if text.contains('?') => "an endpoint has no query",
        text if text.contains(';') => "a connection string is for Account::from_connection_string",
        _ => return Error::config(what),
    };
    Error::config(what).with(|context| context.hint = Some(hint.into()))
}

#[cfg(test)]
mod tests;
