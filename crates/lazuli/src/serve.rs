//! `lazuli serve`: opens the engine, listens, and shuts down in order.

use crate::address::listen;
use crate::admin;
use crate::announce::Started;
use crate::certificate;
use crate::chores::{reclaim_dropped_tables, tend, write_analytics};
use crate::config::{AccountsChoice, Settings};
use crate::descriptors;
use crate::failure::{chain, with_hint};
use crate::logging::{LogQueue, Logging};
use crate::memory::{self, Budget};
use crate::notify::Notify;
use crate::operator::Operator;
use crate::options::{Bounds, MIB};
use crate::pace::RuntimePace;
use crate::reload::Reload;
use crate::signals::{Signals, Stop};
use anyhow::{Context, Result, ensure};
use lazuli_admin::Reason;
use lazuli_engine::{Engine, Limits};
use lazuli_engine_local::{LocalOptions, OpenError, ReopeningEngine};
use lazuli_meter::Source;
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{
    AccessLog, Accounts, ConnectionMeter, Extent, Front, FrontOptions, ListenOptions, Shared,
    TableApi, TableOptions, Tls,
};
use lazuli_table::TableService;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let settings = Settings::load(arguments, memory::cgroup_limit())?;
    let logging = Logging::start(&settings.log)?;
    say_how_memory_is_shared(&settings);
    let temporary = match settings.options.in_memory {
        true => Some(tempfile::tempdir().context("make a temporary directory")?),
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
    let bounds = &settings.options.bounds;
    let signals = Signals::install().context("listen to signals")?;
    let hangup = signal(SignalKind::hangup()).context("listen to signals")?;
    let user = signal(SignalKind::user_defined1()).context("listen to signals")?;
    let notify = Arc::new(Notify::from_environment());
    // Before the engine opens its files.
    let connections_max = descriptors::connections_max(bounds.connections_max.get());
    let auth = settings.options.auth.options().await?;
    // The port first: a second start fails on it without waiting for the data directory.
    let listener = listen(&settings.options.host, settings.options.table_port).await?;
    let address = listener.local_addr().context("read the listening address")?;
    let operator = Operator::new(settings, data, log.clone());
    let bound = admin::bind(settings).await?;
    let tokens = bound.as_ref().and_then(|bound| bound.tokens());
    // Health is served while the store opens, unless a certificate from the store is needed first.
    let (admin, bound) = match bound {
        Some(bound) if !bound.https => (Some(operator.start(bound, settings, None)?), None),
        bound => (None, bound),
    };

    notify.status("opening the store");
    let opening = Instant::now();
    let engine = Arc::new(open(data, settings)?);
    let recovery = opening.elapsed();
    operator.watch_engine(engine.clone());
    let accounts = Arc::new(Accounts::new(settings.accounts.list()?)?);
    let names = certificate::names(&settings.options.host, &settings.host_suffixes);
    let certificate = certificate::load(&settings.tls, data, &names, SystemClock.now())?;
    let tls = certificate.map(|certificate| Arc::new(Tls::new(certificate)));
    check_view_life(engine.limits())?;
    let service = TableService::new(engine.clone(), Arc::new(SystemClock))
        .with_pace(Arc::new(RuntimePace::new()));
    if let Some(tokens) = &tokens {
        tokens.replace(admin::load_tokens(settings, data)?);
    }
    if let Some(tls) = &tls {
        operator.watch_certificate(tls.clone());
    }
    let https = bound.is_some();
    let admin = match bound {
        Some(bound) => Some(operator.start(bound, settings, tls.clone())?),
        None => admin,
    };
    let reload = Reload {
        arguments: arguments.to_vec(),
        accounts: accounts.clone(),
        accounts_given: matches!(settings.accounts, AccountsChoice::Given(_)),
        tls: tls.clone(),
        tokens,
        log: log.clone(),
        notify: notify.clone(),
        data: data.to_path_buf(),
        names,
    };
    let disk = operator.disk.clone();
    let options = FrontOptions { auth, disk, ..front_options(settings) };
    let shared = Arc::new(Shared::new(accounts.clone(), Arc::new(SystemClock), options));
    let tables = TableApi::new(&shared, service.clone(), table_options(settings));
    let analytics = tables.analytics();
    let front = Front::new(shared.clone(), tables);
    let (requests, connections) = (front.meter(), Arc::new(ConnectionMeter::new("table")));
    let sources: [Arc<dyn Source>; 5] =
        [requests.clone(), connections.clone(), shared, accounts, engine.clone()];
    operator.add_sources(sources);
    let alive = notify.clone();
    let mut chores = vec![
        tokio::spawn(reclaim_dropped_tables(service)),
        tokio::spawn(tend(engine.clone())),
        tokio::spawn(reload.at_each(hangup)),
        tokio::spawn(write_analytics(analytics.clone())),
        tokio::spawn(async move { alive.keep_alive().await }),
        tokio::spawn(operator.clone().log_status_at_each(user, began)),
    ];
    if admin.is_none() {
        chores.push(tokio::spawn(operator.watch.clone().run()));
    }
    operator.watch.look_at_disk();
    operator.readiness.set(Reason::Starting, None);
    notify.ready();
    let admin_address = admin.as_ref().map(|admin| (admin.address(), https));
    Started { settings, data, table: address, admin: admin_address, recovery }.announce()?;

    let connections_max = usize::try_from(connections_max)?;
    let options =
        ListenOptions { tls, connections_max, meter: connections, ..listen_options(bounds) };
    let drain = bounds.drain_seconds.duration();
    let stop = Stop { signals, readiness: operator.readiness.clone(), notify, log, drain };
    let in_flight = requests.clone();
    let shutdown = stop.wait(move || in_flight.in_flight());
    let cut = lazuli_server::serve(listener, Arc::new(front), options, shutdown).await;
    if cut > 0 {
        tracing::warn!(connections = cut, "connections were cut at the end of the grace period");
    }
    for chore in chores {
        chore.abort();
        let _ = chore.await;
    }
    analytics.flush(Extent::All).await;
    engine.close().await.context("close the engine")?;
    drop(admin);
    let (uptime_s, requests) = (began.elapsed().as_secs(), requests.answered());
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
        // The low digits of the clock come first, so that ids of two runs differ at a glance.
        request_id_seed: SystemClock.now().ticks().reverse_bits(),
        ..FrontOptions::default()
    }
}

fn table_options(settings: &Settings) -> TableOptions {
    let simulate = settings.options.simulate.options();
    let mut options = TableOptions { simulate, ..TableOptions::default() };
    options.host_suffixes.extend(settings.host_suffixes.iter().cloned());
    options
}

fn open(data: &Path, settings: &Settings) -> Result<ReopeningEngine> {
    let options = engine_options(settings);
    ReopeningEngine::open(data, options).map_err(|error| {
        let advice = match &error {
            OpenError::Locked { .. } => {
                "another lazuli uses this directory; stop it, or choose another with --data"
            }
            OpenError::NewerFormat { .. } => "start the newer lazuli that wrote it",
            OpenError::NotLazuli { .. } => "choose an empty or new directory with --data",
            OpenError::Corrupt { .. } => {
                "what lies there is not what was written: check the disk, restore the directory \
                 from a copy, or start with another one with --data"
            }
            _ => "check that the directory exists, is writable and has free space",
        };
        with_hint(chain(&error), advice)
    })
}

/// A request reads one view: an engine whose views live hardly longer than a request would fail
/// queries at random.
fn check_view_life(limits: &Limits) -> Result<()> {
    let (needed, given) = (2 * REQUEST_MS_MAX, limits.view_ms_max);
    ensure!(given >= needed, "views of the engine live {given} ms, and requests need {needed} ms");
    Ok(())
}

fn engine_options(settings: &Settings) -> LocalOptions {
    let bounds = &settings.options.bounds;
    let memtable_bytes = match bounds.memtable_kib {
        Some(kib) => u64::from(kib.get()) * 1024,
        None => u64::from(bounds.memtable_mib.get()) * MIB,
    };
    LocalOptions {
        durability: settings.options.durability.0,
        cache_bytes: u64::from(bounds.cache_mib) * MIB,
        memtable_bytes,
        queue_bytes_max: mib(bounds.commit_queue_mib.get()),
        queue_wait_max: bounds.commit_wait_seconds.duration(),
        group_commits_max: bounds.commit_group_max.get() as usize,
        ..LocalOptions::default()
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

fn mib(number: u32) -> usize {
    usize::try_from(u64::from(number) * MIB).unwrap_or(usize::MAX)
}

/// Whoever gives a container little memory finds in the log what became of it.
fn say_how_memory_is_shared(settings: &Settings) {
    let Some(Budget { bytes, cgroup_bytes: Some(limit) }) = settings.memory else { return };
    tracing::info!(
        limit_mib = limit / MIB,
        shared_mib = bytes / MIB,
        "the memory pools share 70 % of the cgroup's limit; --memory sets another amount"
    );
}
