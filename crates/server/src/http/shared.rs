//! What all services of one process share: accounts, clock, request ids, and one memory budget for
//! bodies and responses.

use crate::auth::accounts::Accounts;
use crate::auth::authenticate::AuthOptions;
use crate::http::access_log::AccessLog;
use crate::http::answer_memory::AnswerMemory;
use crate::http::body::BodyMemory;
use crate::http::disk_guard::DiskGuard;
use crate::http::extensions::ExtensionsMode;
use crate::http::profile::Profile;
use crate::http::version::VersionCheck;
use crate::request_id::RequestIds;
use http::HeaderValue;
use lazuli_meter::{Counter, Family, Source, Value};
use lazuli_model::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Options of the fronts of all services.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    pub version_check: VersionCheck,
    /// Whether a signed date must be within 15 minutes of the clock.
    pub date_check: bool,
    /// Memory for all request bodies together.
    pub body_bytes_max: usize,
    /// Memory for all large responses together, while they are built and until their clients have
    /// read them.
    pub answer_bytes_max: usize,
    /// Maximum concurrent queries and transactions; each reserves its part of the response memory
    /// before it begins.
    pub queries_max: usize,
    /// How long a request waits for body or response memory before it gets `ServerBusy`.
    pub memory_wait_max: Duration,
    /// Makes request ids differ between runs of the server.
    pub request_id_seed: u64,
    pub auth: AuthOptions,
    pub profile: Profile,
    /// Which requests get extensions.
    pub extensions: ExtensionsMode,
    pub access_log: AccessLog,
    /// Refuses writes while the disk is nearly full.
    pub disk: Arc<DiskGuard>,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            version_check: VersionCheck::default(),
            date_check: true,
            body_bytes_max: 256 * 1024 * 1024,
            answer_bytes_max: 256 * 1024 * 1024,
            queries_max: 32,
            memory_wait_max: Duration::from_secs(10),
            request_id_seed: 0,
            auth: AuthOptions::default(),
            profile: Profile::default(),
            extensions: ExtensionsMode::default(),
            access_log: AccessLog::default(),
            disk: Arc::default(),
        }
    }
}

/// What all services of one process share.
pub struct Shared {
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: FrontOptions,
    pub(crate) ids: RequestIds,
    pub(crate) bodies: BodyMemory,
    pub(crate) answers: AnswerMemory,
    /// Requests refused because all connections were taken.
    pub(crate) connections_refused: Counter,
    /// Requests refused because clients already hold the maximum number of snapshots.
    pub(crate) snapshots_refused: Arc<Counter>,
    /// Requests refused because the maximum number already wait for changes.
    pub(crate) waiters_refused: Arc<Counter>,
    /// The challenge in a 401.
    pub(crate) challenge: HeaderValue,
}

impl Shared {
    pub fn new(accounts: Arc<Accounts>, clock: Arc<dyn Clock>, options: FrontOptions) -> Self {
        let FrontOptions { body_bytes_max, answer_bytes_max, queries_max, .. } = options;
        Self {
            accounts,
            clock,
            ids: RequestIds::new(options.request_id_seed),
            bodies: BodyMemory::new(body_bytes_max, options.memory_wait_max),
            answers: AnswerMemory::new(queries_max, answer_bytes_max, options.memory_wait_max),
            connections_refused: Counter::default(),
            snapshots_refused: Arc::default(),
            waiters_refused: Arc::default(),
            challenge: options.auth.challenge(),
            options,
        }
    }
}

impl Source for Shared {
    fn report(&self) -> Vec<Family> {
        let pages = self.answers.pages_refused();
        let busy = [
            ("connections", self.connections_refused.value()),
            ("bodies", self.bodies.memory().refused()),
            ("queries", pages),
            ("answers", self.answers.memory().refused().saturating_sub(pages)),
            ("snapshots", self.snapshots_refused.value()),
            ("waiters", self.waiters_refused.value()),
        ];
        let mut refused =
            Family::new("lazuli_busy", "Requests refused with ServerBusy, by exhausted bound");
        for (bound, count) in busy {
            refused = refused.with(vec![("bound", bound.into())], &Value::Counter(count as f64));
        }
        let mut used = Family::new("lazuli_memory_bytes", "Memory in use");
        let mut limits = Family::new("lazuli_memory_limit_bytes", "Memory that may be used");
        for (pool, memory) in [("bodies", self.bodies.memory()), ("answers", self.answers.memory())]
        {
            let gauge = |bytes: usize| Value::Gauge(bytes as f64);
            used = used.with(vec![("pool", pool.into())], &gauge(memory.bytes_taken()));
            limits = limits.with(vec![("pool", pool.into())], &gauge(memory.bytes_max()));
        }
        vec![refused, used, limits]
    }
}
