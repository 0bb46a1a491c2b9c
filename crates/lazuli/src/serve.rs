//! `lazuli serve`: opens the engine, listens, and shuts down in order.

use crate::certificate;
use crate::config::{AccountsChoice, Settings, TlsChoice};
use crate::descriptors;
use crate::failure::{chain, with_hint};
use crate::logging::{LogQueue, Logging};
use crate::memory::{self, Budget};
use crate::options::{Bounds, MIB};
use crate::reload::Reload;
use anyhow::{Context, Result};
use lazuli_engine::{Engine, Reclaimed};
use lazuli_engine_local::{LocalOptions, OpenError, ReopeningEngine};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{
    Accounts, Analytics, Extent, Front, FrontOptions, ListenOptions, Shared, TableApi,
    TableOptions, Tls, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the chore that gives back the space of dropped tables rests when there is nothing to do.
const RECLAIM_REST: Duration = Duration::from_secs(2);
/// Connections that wait to be accepted; the system may allow fewer. Where it is too short for a
/// crowd, those left out try again a second later.
const BACKLOG: u32 = 4096;

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
    let bounds = &settings.options.bounds;
    let signals = Signals::install().context("listen to signals")?;
    let hangup = signal(SignalKind::hangup()).context("listen to signals")?;
    // Before the engine opens its files.
    let connections_max = descriptors::connections_max(bounds.connections_max.get());
    let auth = settings.options.auth.options().await?;
    // The port first: a second start fails on it without waiting for the data directory.
    let listener = listen(&settings.options.host, settings.options.table_port).await?;
    let address = listener.local_addr().context("read the listening address")?;
    let engine = Arc::new(open(data, settings)?);
    let accounts = Arc::new(Accounts::new(settings.accounts.list()?)?);
    let names = certificate::names(&settings.options.host, &settings.host_suffixes);
    let certificate = certificate::load(&settings.tls, data, &names, SystemClock.now())?;
    let tls = certificate.map(|certificate| Arc::new(Tls::new(certificate)));
    let service = TableService::new(engine.clone(), Arc::new(SystemClock));
    let reload = Reload {
        arguments: arguments.to_vec(),
        accounts: accounts.clone(),
        accounts_given: matches!(settings.accounts, AccountsChoice::Given(_)),
        tls: tls.clone(),
        log,
        data: data.to_path_buf(),
        names,
    };
    let options = FrontOptions { auth, ..front_options(settings) };
    let shared = Arc::new(Shared::new(accounts, Arc::new(SystemClock), options));
    let tables = TableApi::new(&shared, service.clone(), table_options(settings));
    let analytics = tables.analytics();
    let front = Front::new(shared, tables);
    let chores = [
        tokio::spawn(reclaim_dropped_tables(service)),
        tokio::spawn(reload.at_each(hangup)),
        tokio::spawn(write_analytics(analytics.clone())),
    ];
    announce(settings, data, address)?;

    let connections_max = usize::try_from(connections_max)?;
    let options = ListenOptions { tls, connections_max, ..listen_options(bounds) };
    let cut = lazuli_server::serve(listener, Arc::new(front), options, signals.first()).await;
    if cut > 0 {
        tracing::warn!(connections = cut, "connections were cut at the end of the grace period");
    }
    for chore in chores {
        chore.abort();
        let _ = chore.await;
    }
    analytics.flush(Extent::All).await;
    engine.close().await.context("close the engine")?;
    tracing::info!("stopped");
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

async fn listen(host: &str, port: u16) -> Result<TcpListener> {
    let address = SocketAddr::new(resolve(host).await?, port);
    bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => with_hint(
            format!("port {} on {} is taken", address.port(), address.ip()),
            "another lazuli or Azurite may be running; stop it, or choose --table-port \
             (0 takes a free one)",
        ),
        io::ErrorKind::PermissionDenied => with_hint(
            format!("not allowed to listen on {address}"),
            "ports below 1024 need privileges; choose a higher --table-port",
        ),
        io::ErrorKind::AddrNotAvailable => with_hint(
            format!("{} is not an address of this machine", address.ip()),
            "choose --host 127.0.0.1, or 0.0.0.0 for every address",
        ),
        _ => anyhow::Error::new(error).context(format!("listen on {address}")),
    })
}

/// As `TcpListener::bind`, with a longer backlog.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is restarted takes its port over at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The address of a host. Of a name with several the first IPv4 one: it is what Azurite listens on
/// and what connection strings say.
async fn resolve(host: &str) -> Result<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    let found = tokio::net::lookup_host((bare, 0)).await.map(Iterator::collect::<Vec<_>>);
    let first = found.unwrap_or_default().into_iter().min_by_key(SocketAddr::is_ipv6);
    first.map(|address| address.ip()).ok_or_else(|| {
        with_hint(
            format!("'{host}' is neither an address nor a name that this machine can resolve"),
            "choose --host 127.0.0.1 or localhost, or 0.0.0.0 for every address",
        )
    })
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

/// Tells people what is served, and programs too when they asked.
fn announce(settings: &Settings, data: &Path, address: SocketAddr) -> Result<()> {
    let scheme = if settings.tls == TlsChoice::Off { "http" } else { "https" };
    let endpoint = format!("{scheme}://{}", reachable(address));
    if let Some(file) = &settings.options.port_file {
        write_whole(file, &format!("{{\"table\":\"{endpoint}\"}}\n"))
            .with_context(|| format!("write {}", file.display()))?;
    }
    let well_known = matches!(settings.accounts, AccountsChoice::WellKnown);
    if well_known && !address.ip().is_loopback() {
        tracing::warn!(
            "the key of {WELL_KNOWN_ACCOUNT} is public, and the network can reach this server; \
             give accounts of your own"
        );
    }
    if !settings.options.silent {
        // Nobody may read it, and the server is of use all the same.
        let _ = io::stdout().write_all(greeting(settings, data, scheme, &endpoint).as_bytes());
    }
    Ok(())
}

/// What a person who starts the server wants to know.
fn greeting(settings: &Settings, data: &Path, scheme: &str, endpoint: &str) -> String {
    let options = &settings.options;
    let mut text = format!("lazuli {}\n  tables   {endpoint}\n", env!("CARGO_PKG_VERSION"));
    text += &match options.in_memory {
        true => "  data     nowhere (--in-memory)\n".to_owned(),
        false => format!("  data     {} (durability: {})\n", data.display(), options.durability),
    };
    if settings.tls == TlsChoice::SelfSigned {
        text += &format!("  trust    {}\n", certificate::trust_file(data).display());
    }
    text += &match &settings.accounts {
        AccountsChoice::Given(accounts) => {
            let names: Vec<_> = accounts.iter().map(|account| account.name.as_str()).collect();
            format!("  accounts {}\n", names.join(", "))
        }
        AccountsChoice::WellKnown => format!(
            "\nconnection string:\n\
             DefaultEndpointsProtocol={scheme};AccountName={WELL_KNOWN_ACCOUNT};\
             AccountKey={WELL_KNOWN_KEY};TableEndpoint={endpoint}/{WELL_KNOWN_ACCOUNT};\n"
        ),
    };
    text
}

/// An address that clients on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A reader of the file sees all of it or none.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, text)?;
    std::fs::rename(&part, file)
}

/// Gives back, bit by bit, the space of tables that were dropped.
async fn reclaim_dropped_tables(service: TableService) {
    loop {
        match service.reclaim_some().await {
            Ok(Reclaimed::Partly) => tokio::task::yield_now().await,
            Ok(Reclaimed::Fully) => tokio::time::sleep(RECLAIM_REST).await,
            Err(error) => {
                tracing::warn!(%error, "could not reclaim a dropped table; trying again");
                tokio::time::sleep(RECLAIM_REST * 10).await;
            }
        }
    }
}

/// Writes what was counted of each minute when the next one begins.
async fn write_analytics(analytics: Arc<Analytics>) {
    const MINUTE: Duration = Duration::from_secs(60);
    loop {
        let second = SystemClock.now().unix_seconds() % MINUTE.as_secs();
        tokio::time::sleep(MINUTE - Duration::from_secs(second)).await;
        let analytics = analytics.clone();
        // In a task of its own: this one is stopped anywhere, and a flush must come to its end.
        let flush = async move { analytics.flush(Extent::Complete).await };
        if let Err(error) = tokio::spawn(flush).await {
            tracing::error!(%error, "counts for analytics were not written");
        }
    }
}

/// The signals that end the program.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on the signals are ours to handle.
    fn install() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Resolves at the first SIGINT or SIGTERM. A second one ends the program at once.
    async fn first(mut self) {
        self.next().await;
        tracing::info!("finishing requests in flight; a second signal stops at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(130);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_told_with_a_hint() {
        let taken = listen("127.0.0.1", 0).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen("127.0.0.1", port).await.unwrap_err();
        let hint = error.downcast_ref::<crate::failure::Hint>().unwrap();
        assert!(hint.problem.contains("is taken") && hint.advice.contains("--table-port"));
    }
    #[tokio::test]
    async fn hosts_are_addresses_or_names() {
        for (host, address) in
            [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("0.0.0.0", "0.0.0.0")]
        {
            assert_eq!(resolve(host).await.unwrap().to_string(), address);
        }
        assert!(resolve("localhost").await.unwrap().is_loopback());
        assert!(resolve("").await.is_err());
    }

    #[test]
    fn clients_are_told_an_address_that_they_can_reach() {
        let told = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(told("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(told("[::]:1"), "[::1]:1");
        assert_eq!(told("192.0.2.1:1"), "192.0.2.1:1");
    }
}
