//! Stores the request counts of a service in the analytics tables of the accounts that enable them
//! (9.7).
//!
//! The counts of every service are stored in tables, so this module depends on the Table service.

use crate::auth::accounts::Accounts;
use crate::error::ApiResult;
use crate::http::analytics::{Cell, Counts};
use crate::http::properties::PropertiesCache;
use crate::http::shared::Shared;
use lazuli_model::metrics::{MeteredService, MetricsRow};
use lazuli_model::service_properties::Metrics;
use lazuli_model::{
    AccountName, Clock, Interval, Location, ServiceProperties, TableName, Timestamp,
};
use lazuli_table::{MetricsRows, TableError, TableService};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

const LOCATIONS: [Location; 2] = [Location::Primary, Location::Secondary];
const SECONDS_PER_DAY: u64 = 24 * 3600;

/// Which counts a flush writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those of completed minutes.
    Complete,
    /// All of them, because the server is stopping.
    All,
}

/// The counted requests of a service, and the tables that store the counts.
pub struct Analytics {
    /// The service whose requests are counted.
    counted: MeteredService,
    /// Reads the properties of the service.
    read: Box<ReadProperties>,
    tables: TableService,
    accounts: Arc<Accounts>,
    properties: PropertiesCache,
    clock: Arc<dyn Clock>,
    counts: Counts,
    /// Held by the running flush.
    flushing: tokio::sync::Mutex<()>,
}

/// Reads the stored properties of an account.
type ReadProperties = dyn Fn(AccountName) -> Pin<Box<dyn Future<Output = ApiResult<ServiceProperties>> + Send>>
    + Send
    + Sync;

impl Analytics {
    /// Counts for the service whose properties `read` reads; `tables` stores the counts.
    pub(crate) fn new<F>(
        shared: &Shared,
        tables: TableService,
        counted: MeteredService,
        read: impl Fn(AccountName) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ApiResult<ServiceProperties>> + Send + 'static,
    {
        let (counts, flushing) = Default::default();
        Self {
            counted,
            read: Box::new(move |account| Box::pin(read(account))),
            properties: PropertiesCache::new(tables.nature()),
            tables,
            accounts: shared.accounts.clone(),
            clock: shared.clock.clone(),
            counts,
            flushing,
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The properties of an account, which include what to count.
    pub(crate) async fn properties(
        &self,
        account: &AccountName,
    ) -> ApiResult<Arc<ServiceProperties>> {
        match self.properties.known(account, &*self.clock) {
            Some(known) => Ok(known),
            None => {
                let read = (self.read)(account.clone());
                self.properties.learn(account, &*self.clock, read).await
            }
        }
    }

    /// The properties of an account as they were last read, without asking the store.
    pub(crate) fn last_properties(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        self.properties.last(account)
    }

    /// Makes changed properties effective (T-9.15): drops the cached ones, and creates the tables
    /// that the new ones need, so that clients can read them.
    pub(crate) async fn apply_changed_properties(&self, account: &AccountName) -> ApiResult<()> {
        self.properties.forget(account);
        let properties = self.properties(account).await?;
        for (interval, _) in intervals(&properties) {
            for location in LOCATIONS {
                let table = TableName::of_metrics(self.counted, interval, location);
                self.tables.create_metrics_table(account, &table).await?;
            }
        }
        Ok(())
    }

    /// Adds the counts to the tables of the accounts that enable them, and deletes expired rows.
    /// Counts that cannot be written are lost and logged; so are the counts of a flush that is
    /// cancelled.
    pub async fn flush(&self, extent: Extent) {
        let _one_at_a_time = self.flushing.lock().await;
        let now = self.clock.now();
        let this_minute = Interval::Minute.start(now);
        let mut counted = self.counts.drain(match extent {
            Extent::Complete => this_minute,
            Extent::All => Timestamp::MAX,
        });
        for account in self.accounts.all() {
            let cells = counted.remove(&account.name).unwrap_or_default();
            let Ok(properties) = self.properties(&account.name).await else {
                continue;
            };
            for (interval, metrics) in intervals(&properties) {
                let flushed = self.write(&account.name, interval, metrics, &cells, now).await;
                if let Err(error) = flushed {
                    let account = account.name.as_str();
                    tracing::warn!(account, %error, "analytics counts are lost");
                }
            }
        }
    }

    async fn write(
        &self,
        account: &AccountName,
        interval: Interval,
        metrics: &Metrics,
        cells: &[(Cell, MetricsRow)],
        now: Timestamp,
    ) -> Result<(), TableError> {
        let apis = metrics.include_apis == Some(true);
        for ((location, start), rows) in by_interval(interval, apis, cells, now) {
            let table = TableName::of_metrics(self.counted, interval, location);
            self.tables.add_metrics(account, &table, start, &rows).await?;
        }
        let Some(days) = metrics.retention.0 else { return Ok(()) };
        let age = u64::from(days) * SECONDS_PER_DAY;
        let cutoff = Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(age));
        for location in LOCATIONS {
            let table = TableName::of_metrics(self.counted, interval, location);
            while self.tables.expire_metrics(account, &table, cutoff).await? > 0 {}
        }
        Ok(())
    }
}

fn intervals(properties: &ServiceProperties) -> impl Iterator<Item = (Interval, &Metrics)> {
    let hour = (Interval::Hour, &properties.hour_metrics);
    let minute = (Interval::Minute, &properties.minute_metrics);
    [hour, minute].into_iter().filter(|(_, metrics)| metrics.enabled)
}

/// The rows of each interval and location: the sum of all operations, and if enabled each operation
/// (T-9.45). The sums are written even without requests.
fn by_interval(
    interval: Interval,
    apis: bool,
    cells: &[(Cell, MetricsRow)],
    now: Timestamp,
) -> BTreeMap<(Location, Timestamp), MetricsRows> {
    let sums = || {
        let zero = MetricsRow::default;
        MetricsRows::from([("user;All".to_owned(), zero()), ("system;All".to_owned(), zero())])
    };
    let minute_ago = Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(60));
    let mut intervals: BTreeMap<_, _> = LOCATIONS
        .into_iter()
        .map(|location| ((location, interval.start(minute_ago)), sums()))
        .collect();
    for (cell, row) in cells {
        let place = (cell.location, interval.start(cell.minute));
        let rows = intervals.entry(place).or_insert_with(sums);
        rows.entry("user;All".to_owned()).or_default().add(row);
        if let Some(api) = cell.operation.filter(|_| apis) {
            rows.entry(format!("user;{api}")).or_default().add(row);
        }
    }
    intervals
}
