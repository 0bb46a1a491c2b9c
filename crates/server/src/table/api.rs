//! The Table service over HTTP: its options and its parts.

use crate::analytics::Analytics;
use crate::error::ApiResult;
use crate::http::shared::Shared;
use crate::table::advice::{Advice, AdviceOptions};
use crate::table::prices::Prices;
use crate::table::query_log::{QueryLog, QueryLogOptions};
use crate::table::simulate::{SimulateOptions, Simulator};
use crate::table::snapshots::{SnapshotOptions, Snapshots};
use crate::table::waiters::Waiters;
use lazuli_model::AccountName;
use lazuli_model::metrics::MeteredService;
use lazuli_queue::QueueService;
use lazuli_table::TableService;
use std::sync::Arc;

/// Options of the Table service, in addition to those that all services share.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Names under which the account is the first label of the host, such as `table.localhost`.
    pub host_suffixes: Vec<String>,
    pub simulate: SimulateOptions,
    /// Which queries are logged.
    pub query_log: QueryLogOptions,
    /// What explained queries cost on Azure.
    pub prices: Prices,
    pub snapshots: SnapshotOptions,
    /// How much of the traffic is remembered for advice.
    pub advice: AdviceOptions,
    /// Maximum requests that may wait for changes at a time.
    pub waiters_max: usize,
    /// How long a request that declares indexes builds them before it is answered.
    pub first_build_ms: u64,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            host_suffixes: vec!["table.localhost".to_owned(), "table.core.windows.net".to_owned()],
            simulate: SimulateOptions::default(),
            query_log: QueryLogOptions::default(),
            prices: Prices::default(),
            snapshots: SnapshotOptions::default(),
            advice: AdviceOptions::default(),
            waiters_max: 1024,
            first_build_ms: 0,
        }
    }
}

/// The Table service over HTTP.
pub struct TableApi {
    pub(crate) tables: TableService,
    pub(super) host_suffixes: Vec<String>,
    pub(super) analytics: Arc<Analytics>,
    /// Simulated failures; most servers have none.
    simulator: Option<Simulator>,
    user_delegation: bool,
    pub(crate) query_log: QueryLog,
    pub(crate) prices: Prices,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) advice: Arc<Advice>,
    pub(crate) waiters: Waiters,
    pub(crate) first_build_ms: u64,
    /// Where messages of transactions are put.
    pub(crate) queues: Option<QueueService>,
}

impl TableApi {
    pub fn new(shared: &Shared, tables: TableService, options: TableOptions) -> Self {
        let TableOptions {
            host_suffixes,
            simulate,
            query_log,
            prices,
            snapshots,
            advice,
            waiters_max,
            first_build_ms,
        } = options;
        let source = tables.clone();
        let read = move |account: AccountName| {
            let source = source.clone();
            async move { Ok(source.service_properties(&account).await?) }
        };
        let analytics = Analytics::new(shared, tables.clone(), MeteredService::Table, read);
        let (accounts, clock) = (shared.accounts.clone(), shared.clock.clone());
        let advice = Advice::new(tables.clone(), accounts, clock, advice);
        let (limits, refused) = (tables.snapshot_limits(), shared.snapshots_refused.clone());
        let simulates = simulate != SimulateOptions::default();
        Self {
            analytics: Arc::new(analytics),
            tables,
            host_suffixes,
            simulator: simulates.then(|| Simulator::new(simulate)),
            user_delegation: shared.options.auth.user_delegation,
            query_log: QueryLog::new(query_log),
            prices,
            snapshots: Arc::new(Snapshots::new(snapshots, limits, refused)),
            advice: Arc::new(advice),
            waiters: Waiters::new(waiters_max, shared.waiters_refused.clone()),
            first_build_ms,
            queues: None,
        }
    }

    /// The same, with transactions that can put messages into queues of the same store.
    pub fn with_queues(self, queues: QueueService) -> Self {
        Self { queues: Some(queues), ..self }
    }

    /// The counted requests, and the tables that store the counts.
    pub fn analytics(&self) -> Arc<Analytics> {
        self.analytics.clone()
    }

    /// The snapshots that clients hold.
    pub fn snapshots(&self) -> Arc<Snapshots> {
        self.snapshots.clone()
    }

    /// The watcher of the traffic.
    pub fn advice(&self) -> Arc<Advice> {
        self.advice.clone()
    }

    /// Whether user delegation keys are issued, and tokens signed with them accepted.
    pub(crate) fn gives_delegation_keys(&self) -> bool {
        self.user_delegation
    }

    /// Asks the simulator, if there is one, whether to continue.
    pub(crate) fn simulate(
        &self,
        check: impl FnOnce(&Simulator) -> ApiResult<()>,
    ) -> ApiResult<()> {
        self.simulator.as_ref().map_or(Ok(()), check)
    }

    /// The number of entities or tables that a page may examine.
    pub(crate) fn page_rows(&self) -> u64 {
        self.simulator.as_ref().map_or(u64::MAX, Simulator::page_rows)
    }

    /// Makes changed properties effective.
    pub(crate) async fn apply_changed_properties(&self, account: &AccountName) -> ApiResult<()> {
        self.analytics.apply_changed_properties(account).await
    }
}
