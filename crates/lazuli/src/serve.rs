//! `lazuli serve`: opens the engine, listens, and shuts down in order.

use crate::announce::Started;
use crate::certificate;
use crate::chores::{
    expire_messages, reclaim_dropped_queues, reclaim_dropped_tables, tend, write_analytics,
};
use crate::config::{AccountsChoice, Settings};
use crate::descriptors;
use crate::logging::{LogQueue, Logging};
use crate::memory::{self, Budget};
use crate::notify::Notify;
use crate::operator::{AdminPort, Operator};
use crate::options::{Bounds, MIB};
use crate::pace::RuntimePace;
use crate::reload::Reload;
use crate::services::{self, Listeners, Services};
use crate::signals::{Signals, Stop};
use crate::store;
use anyhow::{Context, Result};
use lazuli_engine::Engine;
use lazuli_model::{Clock, SystemClock};
use lazuli_queue::{QueueBounds, QueueService};
use lazuli_server::{
    AccessLog, Accounts, ConnectionBound, Extent, FrontOptions, ListenOptions, Shared, Tls,
};
use lazuli_table::TableService;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let settings = Settings::load(arguments, memory::cgroup_limit())?;
    let logging = Logging::start(&settings.log)?;
    say_how_memory_is_shared(&settings);
    let temporary = match settings.options.in_memory {
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

async fn serve(
    arguments: &[OsString],
    settings: &Settings,
    data: &Path,
    log: LogQueue,
) -> Result<()> {
    let began = Instant::now();
    let signals = Signals::install().context("install signal handlers")?;
    let notify = Arc::new(Notify::from_environment());
    // Before the engine opens its files.
    let bounds = &settings.options.bounds;
    let connections_max = descriptors::connections_max(bounds.connections_max.get());
    let auth = settings.options.auth.options().await?;
    // The ports first: a second server fails on them without waiting for the data directory.
    let listeners = Listeners::bind(settings).await?;
    let addresses = listeners.addresses()?;
    let operator = Operator::new(settings, data, log.clone());
    let mut admin = AdminPort::open(&operator, settings).await?;

    notify.status("opening the store");
    let opening = Instant::now();
    let engine = Arc::new(store::open(data, settings)?);
    let recovery = opening.elapsed();
    operator.watch_engine(engine.clone());
    let accounts = Arc::new(Accounts::new(settings.accounts.list()?)?);
    let names = certificate::names(&settings.options.host, &settings.host_suffixes);
    let certificate = certificate::load(&settings.tls, data, &names, SystemClock.now())?;
    let tls = certificate.map(|certificate| Arc::new(Tls::new(certificate)));
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

    let (clock, pace) = (Arc::new(SystemClock), Arc::new(RuntimePace::new()));
    let tables = TableService::new(engine.clone(), clock.clone()).with_pace(pace.clone());
    let queues = QueueService::new(engine.clone(), clock, services::random(pace.clone()));
    let queues = queues.with_pace(pace).with_bounds(queue_bounds(bounds));
    let options = FrontOptions { auth, disk: operator.disk(), ..front_options(settings) };
    let shared = Arc::new(Shared::new(accounts.clone(), Arc::new(SystemClock), options));
    let services = Services::new(listeners, &shared, &tables, &queues, settings);
    let (analytics, requests) = (services.analytics(), services.request_meters());
    operator.add_sources(vec![shared, accounts, engine.clone()]);
    operator.add_sources(vec![Arc::new(tables.clone()), Arc::new(queues.clone())]);
    operator.add_sources(services.meters());
    let Signals { stop, hangup, user } = signals;
    let alive = notify.clone();
    let mut chores = vec![
        tokio::spawn(reclaim_dropped_tables(tables)),
        tokio::spawn(reclaim_dropped_queues(queues.clone())),
        tokio::spawn(expire_messages(queues)),
        tokio::spawn(tend(engine.clone())),
        tokio::spawn(reload.at_each(hangup)),
        tokio::spawn(async move { alive.keep_alive().await }),
        tokio::spawn(operator.clone().log_status_at_each(user, began)),
    ];
    chores.extend(analytics.iter().cloned().map(|counted| tokio::spawn(write_analytics(counted))));
    operator.started();
    notify.ready();
    Started { settings, data, services: addresses, admin: admin.address(), recovery }.announce()?;

    let drain = bounds.drain_seconds.duration();
    let stop = Stop { signals: stop, readiness: operator.readiness(), notify, log, drain };
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
    for counted in analytics {
        counted.flush(Extent::All).await;
    }
    engine.close().await.context("close the engine")?;
    drop(admin);
    let requests: u64 = requests.iter().map(|meter| meter.answered()).sum();
    let uptime_s = began.elapsed().as_secs();
    tracing::info!(uptime_s, requests, cut, "stopped");
    Ok(())
}

fn front_options(settings: &Settings) -> FrontOptions {
    let bounds = &settings.options.bounds;
    FrontOptions {
        version_check: settings.version_check,
        profile: settings.options.profile.into(),
        body_bytes_max: mib(bounds.body_memory_mib.get()),
        answer_bytes_max: mib(bounds.answer_memory_mib.get()),
        queries_max: bounds.queries_max.get() as usize,
        memory_wait_max: bounds.memory_wait_seconds.duration(),
        access_log: AccessLog {
            lines: settings.options.access_log.into(),
            slow: Duration::from_millis(settings.options.slow_ms.into()),
            query: settings.options.log_query,
        },
        // The low digits of the clock come first, so that the ids of two runs are easy to tell
        // apart.
        request_id_seed: SystemClock.now().ticks().reverse_bits(),
        ..FrontOptions::default()
    }
}

/// The bounds of the queue service.
fn queue_bounds(bounds: &Bounds) -> QueueBounds {
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    QueueBounds {
        ready_bytes_max: mib(bounds.message_memory_mib.get()),
        ready_messages_max: number(bounds.ready_messages_max),
        known_queues_max: number(bounds.known_queues_max.get()),
        active_queues_max: number(bounds.active_queues_max.get()),
        doubts_max: number(bounds.queue_doubts_max.get()),
        count_changes_max: number(bounds.count_changes_max.get()),
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
