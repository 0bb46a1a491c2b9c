//! The services of the process: which ones run, on which ports, and how they run together.

use crate::address::listen;
use crate::config::Settings;
use crate::options::ServiceName;
use crate::serve::{mib, number};
use anyhow::{Context, Result};
use lazuli_engine::retry::Pace;
use lazuli_meter::Source;
use lazuli_queue::{QueueService, Random};
use lazuli_server::{
    Advice, AdviceOptions, Analytics, ConnectionMeter, Front, ListenOptions, QueryLogOptions,
    QueueApi, QueueOptions, RequestMeter, Shared, SnapshotOptions, Snapshots, TableApi,
    TableOptions,
};
use lazuli_table::TableService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long the declaration of indexes builds them before it is answered: so small tables never have an
/// index that is only being built.
const FIRST_BUILD_MS: u64 = 500;

/// The ports of the enabled services.
pub(crate) struct Listeners {
    table: Option<TcpListener>,
    queue: Option<TcpListener>,
}

impl Listeners {
    pub(crate) async fn bind(settings: &Settings) -> Result<Self> {
        let options = &settings.options;
        let bind = async |name, port, flag| match options.services.serves(name) {
            true => listen(&options.host, port, flag).await.map(Some),
            false => Ok(None),
        };
        Ok(Self {
            table: bind(ServiceName::Table, options.table_port, "--table-port").await?,
            queue: bind(ServiceName::Queue, options.queue_port, "--queue-port").await?,
        })
    }

    /// The address of each enabled service, in the order in which `ServiceName` declares them.
    pub(crate) fn addresses(&self) -> Result<Vec<(ServiceName, SocketAddr)>> {
        let listeners = [(ServiceName::Table, &self.table), (ServiceName::Queue, &self.queue)];
        let bound = listeners.into_iter().filter_map(|(name, bound)| Some((name, bound.as_ref()?)));
        let address = |(name, listener): (ServiceName, &TcpListener)| {
            Ok((name, listener.local_addr().context("read the listening address")?))
        };
        bound.map(address).collect()
    }
}

/// The services, ready to run on their ports.
pub(crate) struct Services {
    table: Option<Bound<TableApi>>,
    queue: Option<Bound<QueueApi>>,
}

/// A service on its port.
struct Bound<S> {
    listener: TcpListener,
    front: Arc<Front<S>>,
    connections: Arc<ConnectionMeter>,
}

impl Services {
    pub(crate) fn new(
        listeners: Listeners,
        shared: &Arc<Shared>,
        tables: &TableService,
        queues: &QueueService,
        settings: &Settings,
    ) -> Self {
        let table = listeners.table.map(|listener| {
            let api = TableApi::new(shared, tables.clone(), table_options(settings));
            let api = api.with_queues(queues.clone());
            let front = Arc::new(Front::new(shared.clone(), api));
            let connections = Arc::new(ConnectionMeter::new(ServiceName::Table.as_str()));
            Bound { listener, front, connections }
        });
        let queue = listeners.queue.map(|listener| {
            let options = queue_options(settings);
            let api = QueueApi::new(shared, queues.clone(), tables.clone(), options);
            let front = Arc::new(Front::new(shared.clone(), api));
            let connections = Arc::new(ConnectionMeter::new(ServiceName::Queue.as_str()));
            Bound { listener, front, connections }
        });
        Self { table, queue }
    }

    /// The analytics of each service.
    pub(crate) fn analytics(&self) -> Vec<Arc<Analytics>> {
        let table = self.table.as_ref().map(|bound| bound.front.service().analytics());
        let queue = self.queue.as_ref().map(|bound| bound.front.service().analytics());
        table.into_iter().chain(queue).collect()
    }

    /// Watches the traffic on tables.
    pub(crate) fn advice(&self) -> Option<Arc<Advice>> {
        self.table.as_ref().map(|bound| bound.front.service().advice())
    }

    /// The snapshots that clients hold.
    pub(crate) fn snapshots(&self) -> Option<Arc<Snapshots>> {
        self.table.as_ref().map(|bound| bound.front.service().snapshots())
    }

    /// The request metrics of each service.
    pub(crate) fn request_meters(&self) -> Vec<Arc<RequestMeter>> {
        let table = self.table.as_ref().map(|bound| bound.front.meter());
        let queue = self.queue.as_ref().map(|bound| bound.front.meter());
        table.into_iter().chain(queue).collect()
    }

    /// All metrics of each service.
    pub(crate) fn meters(&self) -> Vec<Arc<dyn Source>> {
        let table = self.table.as_ref().map(|bound| bound.connections.clone());
        let queue = self.queue.as_ref().map(|bound| bound.connections.clone());
        let connections = table.into_iter().chain(queue).map(|meter| meter as Arc<dyn Source>);
        let requests = self.request_meters().into_iter().map(|meter| meter as Arc<dyn Source>);
        let advice = self.advice().map(|advice| advice as Arc<dyn Source>);
        connections.chain(requests).chain(advice).collect()
    }

    /// Serves until `shutdown`; returns how many connections were cut.
    pub(crate) async fn run(
        self,
        options: ListenOptions,
        shutdown: impl Future<Output = ()>,
    ) -> usize {
        let (stop, stopped) = watch::channel(false);
        let stopped = || {
            let mut stopped = stopped.clone();
            async move {
                // An error is impossible: the sender outlives the services.
                let _ = stopped.wait_for(|stops| *stops).await;
            }
        };
        let table = async {
            let Some(Bound { listener, front, connections }) = self.table else { return 0 };
            let options = ListenOptions { meter: Some(connections), ..options.clone() };
            lazuli_server::serve(listener, front, options, stopped()).await
        };
        let queue = async {
            let Some(Bound { listener, front, connections }) = self.queue else { return 0 };
            let options = ListenOptions { meter: Some(connections), ..options.clone() };
            lazuli_server::serve(listener, front, options, stopped()).await
        };
        let shutdown = async {
            shutdown.await;
            stop.send_replace(true);
        };
        let (table, queue, ()) = tokio::join!(table, queue, shutdown);
        table + queue
    }
}

/// The source of the random part of message ids.
pub(crate) fn random(pace: Arc<dyn Pace>) -> Random {
    Arc::new(move || pace.random())
}

fn table_options(settings: &Settings) -> TableOptions {
    let simulate = settings.options.simulate.options();
    let given = &settings.options;
    let query_log = QueryLogOptions {
        slow_ms: Some(given.slow_query_ms).filter(|ms| *ms > 0),
        waste_ratio: Some(given.waste_ratio).filter(|ratio| *ratio > 0),
        literals: given.log_literals,
    };
    let prices = settings.prices.clone();
    let snapshots = SnapshotOptions {
        max: given.snapshots_max,
        unused_max: Duration::from_secs(60 * given.snapshot_minutes),
    };
    let advice = AdviceOptions {
        bytes_max: mib(given.bounds.advice_mib),
        records_max: number(given.bounds.advice_requests_max),
    };
    let waiters_max = given.bounds.waiters_max as usize;
    let defaults = TableOptions::default();
    let mut options =
        TableOptions { simulate, query_log, prices, snapshots, advice, waiters_max, ..defaults };
    options.first_build_ms = FIRST_BUILD_MS;
    options.host_suffixes.extend(settings.options.host_suffix.iter().cloned());
    options
}

fn queue_options(settings: &Settings) -> QueueOptions {
    let deletion_seconds = settings.options.simulate.queue_deletion();
    let mut options = QueueOptions { deletion_seconds, ..QueueOptions::default() };
    options.host_suffixes.extend(settings.options.host_suffix.iter().cloned());
    options
}
