//! `lazuli serve`: opens the engine, listens, and shuts down in order.

use crate::admin;
use crate::announce::{Started, check_port_file};
use crate::certificate;
use crate::chores::{self, write_analytics};
use crate::config::{AccountsChoice, Settings};
use crate::descriptors;
use crate::duty;
use crate::logging::{LogQueue, Logging};
use crate::memory::{self, Budget};
use crate::notify::Notify;
use crate::operator::{AdminPort, Operator};
use crate::options::{Bounds, MIB, ServiceName};
use crate::pace::RuntimePace;
use crate::reload::Reload;
use crate::services::{self, Listeners, Services};
use crate::signals::{Signals, Stop};
use crate::store::{self, Opened};
use anyhow::{Context, Result};
use lazuli_cli::failure::usage;
use lazuli_engine::Writers;
use lazuli_layout::cluster::GatewayRecord;
use lazuli_model::{Clock, SystemClock};
use lazuli_queue::{QueueBounds, QueueService};
use lazuli_server::{
    AccessLog, Accounts, AuthOptions, AutoIndex, ConnectionBound, Extent, FrontOptions,
    ListenOptions, Shared, Tls,
};
use lazuli_table::TableService;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let settings = Settings::load(arguments, memory::cgroup_limit())?;
    let logging = Logging::start(&settings.log)?;
    say_how_memory_is_shared(&settings);
    let temporary = match settings.has_temporary_data() {
        true => Some(tempfile::tempdir().context("create a temporary directory")?),
        false => None,
    };
    let data = temporary.as_ref().map_or(settings.options.data.as_path(), |dir| dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("lazuli-http")
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(serve(arguments, &settings, data, logging.queue()));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// What is open before the first request is served.
struct Open {
    auth: AuthOptions,
    listeners: Listeners,
    operator: Operator,
    admin: AdminPort,
    /// The certificate of earlier starts.
    kept: Option<Arc<Tls>>,
    pace: Arc<RuntimePace>,
    gateway_id: String,
    store: Opened,
    /// How long the store took to open.
    recovery: Duration,
}

impl Open {
    async fn all(
        settings: &Settings,
        data: &Path,
        log: &LogQueue,
        notify: &Notify,
    ) -> Result<Self> {
        let auth = settings.options.auth.options().await?;
        check_data_directory(data)?;
        if let Some(file) = &settings.options.port_file {
            check_port_file(file, data)?;
        }
        // They are read again when the data directory may hold another one.
        admin::given_tokens(&settings.options)?;
        // The ports first: a second server fails on them without waiting for the data directory.
        let listeners = Listeners::bind(settings).await?;
        let operator = Operator::new(settings, data, log.clone());
        let kept = certificate::load_kept(&settings.tls, data)?;
        let kept = kept.map(|certificate| Arc::new(Tls::new(certificate)));
        let admin = AdminPort::open(&operator, settings, kept.as_ref()).await?;
        notify.status("opening the store");
        let opening = Instant::now();
        let pace = Arc::new(RuntimePace::new());
        let gateway_id = match &settings.options.engine.gateway_id {
            Some(id) => id.clone(),
            None => duty::gateway_id(&*pace),
        };
        let store = store::open(data, settings, &gateway_id, pace.clone()).await?;
        let recovery = opening.elapsed();
        Ok(Self { auth, listeners, operator, admin, kept, pace, gateway_id, store, recovery })
    }
}

async fn serve(
    arguments: &[OsString],
    settings: &Settings,
    data: &Path,
    log: LogQueue,
) -> Result<()> {
    let began = Instant::now();
    let Signals { mut stop, hangup, user } =
        Signals::install().context("install signal handlers")?;
    let notify = Arc::new(Notify::from_environment());
    // Before the engine opens its files.
    let bounds = &settings.options.bounds;
    let connections_max = descriptors::connections_max(bounds.connections_max.get());
    // Opening a store may take minutes, or wait for an unavailable server. Nothing is served yet, and an unfinished
    // opening leaves no more than a crash does: the process may end at any moment.
    let open = tokio::select! {
        open = Open::all(settings, data, &log, &notify) => open?,
        signal = stop.next() => {
            notify.stopping();
            tracing::info!(signal, in_flight = 0, "stopping");
            tracing::info!(uptime_s = began.elapsed().as_secs(), requests = 0, cut = 0, "stopped");
            return Ok(());
        }
    };
    let Open { auth, listeners, operator, mut admin, kept, pace, gateway_id, store, recovery } =
        open;
    let Opened { engine, meter, .. } = store;
    let addresses = listeners.addresses()?;
    operator.watch_engine(engine.clone());
    let accounts = Arc::new(Accounts::new(settings.accounts.list()?)?);
    let names = certificate::names(&settings.options.host, &settings.options.host_suffix);
    let certificate = certificate::load(&settings.tls, data, &names, SystemClock.now())?;
    let tls = certificate.map(|certificate| match kept {
        Some(tls) => {
            tls.replace(certificate);
            tls
        }
        None => Arc::new(Tls::new(certificate)),
    });
    admin.store_is_open(&operator, settings, data, tls.as_ref())?;
    let reload = Reload {
        arguments: arguments.to_vec(),
        accounts: accounts.clone(),
        accounts_given: matches!(settings.accounts, AccountsChoice::Given(_)),
        tls: tls.clone(),
        tokens: admin.tokens(),
        log: log.clone(),
        notify: notify.clone(),
        data: data.to_path_buf(),
        names,
    };

    let clock = Arc::new(SystemClock);
    let tables = TableService::new(engine.clone(), clock.clone()).with_pace(pace.clone());
    let tables = tables.with_known_tables_max(number(bounds.known_tables_max));
    let queues = QueueService::new(engine.clone(), clock, services::random(pace.clone()));
    let queues = queues.with_pace(pace).with_bounds(queue_bounds(bounds));
    let options = FrontOptions { auth, disk: operator.disk(), ..front_options(settings) };
    let shared = Arc::new(Shared::new(accounts.clone(), Arc::new(SystemClock), options));
    let services = Services::new(listeners, &shared, &tables, &queues, settings);
    let (analytics, requests) = (services.analytics(), services.request_meters());
    let (advice, snapshots) = (services.advice(), services.snapshots());
    if let Some(advice) = &advice
        && let Err(error) = advice.load().await
    {
        tracing::warn!(%error, "could not read the stored data of advice; it starts with none");
    }
    operator.add_sources(vec![shared, accounts, meter]);
    operator.add_sources(vec![Arc::new(tables.clone()), Arc::new(queues.clone())]);
    operator.add_sources(services.meters());
    let alive = notify.clone();
    let (duty, gateway) = duty::join(&engine, gateway_id, record(&addresses));
    let declared_in = tables.clone();
    let mut chores = chores::of_store(engine.clone(), tables, queues, &duty);
    chores.extend([
        tokio::spawn(reload.at_each(hangup)),
        tokio::spawn(async move { alive.keep_alive().await }),
        tokio::spawn(operator.clone().log_status_at_each(user, began)),
    ]);
    chores.extend(analytics.iter().cloned().map(|counted| tokio::spawn(write_analytics(counted))));
    if let (Some(advice), 1..) = (&advice, settings.options.auto_index) {
        let (max, clock) = (settings.options.auto_index.into(), Arc::new(SystemClock));
        let auto = AutoIndex::new(advice.clone(), declared_in, clock, max);
        chores.push(chores::auto_index(auto, &duty));
    }
    chores.extend(snapshots.map(|snapshots| tokio::spawn(chores::end_snapshots(snapshots))));
    chores.extend(advice.iter().flat_map(|advice| chores::of_advice(advice, &duty)));
    operator.started();
    notify.ready();
    let token_file = admin.tokens().map(|_| admin::token_file(&settings.options, data));
    let admin_address = admin.address();
    Started { settings, data, services: addresses, admin: admin_address, token_file, recovery }
        .announce()?;

    let drain = bounds.drain_seconds.duration();
    let temporary = settings.has_temporary_data().then(|| data.to_path_buf());
    let stop =
        Stop { signals: stop, readiness: operator.readiness(), notify, log, drain, temporary };
    let connections_max = usize::try_from(connections_max)?;
    let connection_bound = Some(ConnectionBound::new(connections_max));
    let options =
        ListenOptions { tls, connections_max, connection_bound, ..listen_options(bounds) };
    let shutdown = stop.wait(|| requests.iter().map(|meter| meter.in_flight()).sum());
    let cut = services.run(options, shutdown).await;
    if cut > 0 {
        tracing::warn!(connections = cut, "cut connections at the end of the grace period");
    }
    for chore in chores {
        chore.abort();
        let _ = chore.await;
    }
    if let Some(gateway) = gateway {
        gateway.leave().await;
    }
    for counted in analytics {
        counted.flush(Extent::All).await;
    }
    if let Some(advice) = advice.filter(|_| engine.nature().writers == Writers::Sole)
        && let Err(error) = advice.keep().await
    {
        tracing::warn!(%error, "could not store the data of advice");
    }
    engine.close().await.context("close the engine")?;
    drop(admin);
    let requests: u64 = requests.iter().map(|meter| meter.answered()).sum();
    let uptime_s = began.elapsed().as_secs();
    tracing::info!(uptime_s, requests, cut, "stopped");
    Ok(())
}

/// The directory may exist or not, but nothing else may have its name.
fn check_data_directory(data: &Path) -> Result<()> {
    match data.exists() && !data.is_dir() {
        true => Err(usage(
            format!("--data {} is not a directory", data.display()),
            "choose a directory; it is created if it does not exist",
        )),
        false => Ok(()),
    }
}

/// What this process says of itself to operators of a shared store.
fn record(services: &[(ServiceName, SocketAddr)]) -> GatewayRecord {
    let listens = |(name, address): &(ServiceName, SocketAddr)| {
        (name.as_str().to_owned(), address.to_string())
    };
    GatewayRecord {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: SystemClock.now(),
        listens: services.iter().map(listens).collect(),
    }
}

fn front_options(settings: &Settings) -> FrontOptions {
    let bounds = &settings.options.bounds;
    FrontOptions {
        version_check: settings.version_check,
        profile: settings.options.profile.into(),
        extensions: settings.options.extensions.into(),
        body_bytes_max: mib(bounds.body_memory_mib.get()),
        answer_bytes_max: mib(bounds.answer_memory_mib.get()),
        queries_max: bounds.queries_max.get() as usize,
        memory_wait_max: bounds.memory_wait_seconds.duration(),
        access_log: AccessLog {
            lines: settings.options.access_log.into(),
            slow: Duration::from_millis(settings.options.slow_ms.into()),
            query: settings.options.log_query,
        },
        // The low digits of the clock come first, so that the ids of two runs are easy to distinguish.
        request_id_seed: SystemClock.now().ticks().reverse_bits(),
        ..FrontOptions::default()
    }
}

/// The limits of the queue service.
fn queue_bounds(bounds: &Bounds) -> QueueBounds {
    QueueBounds {
        ready_bytes_max: mib(bounds.message_memory_mib.get()),
        ready_messages_max: bounds.ready_messages_max as usize,
        known_queues_max: number(bounds.known_queues_max),
        active_queues_max: number(bounds.active_queues_max),
        doubts_max: number(bounds.queue_doubts_max),
        count_changes_max: number(bounds.count_changes_max),
    }
}

fn listen_options(bounds: &Bounds) -> ListenOptions {
    ListenOptions {
        header_bytes_max: bounds.header_kib_max as usize * 1024,
        headers_max: bounds.headers_max as usize,
        header_read_timeout: bounds.idle_seconds.duration(),
        write_timeout: bounds.stall_seconds.duration(),
        handshake_timeout: bounds.handshake_seconds.duration(),
        shutdown_grace: bounds.grace_seconds.duration(),
        ..ListenOptions::default()
    }
}

pub(crate) fn number(number: NonZeroU32) -> usize {
    usize::try_from(number.get()).unwrap_or(usize::MAX)
}

pub(crate) fn mib(number: u32) -> usize {
    usize::try_from(u64::from(number) * MIB).unwrap_or(usize::MAX)
}

/// Logs the pool sizes that were derived from a small container limit.
fn say_how_memory_is_shared(settings: &Settings) {
    let Some(Budget { bytes, cgroup_bytes: Some(limit) }) = settings.memory else { return };
    tracing::info!(
        limit_mib = limit / MIB,
        shared_mib = bytes / MIB,
        "sized the memory pools to 70 % of the cgroup limit; --memory sets another amount"
    );
}
