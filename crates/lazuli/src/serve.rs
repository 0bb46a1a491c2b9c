//! `lazuli serve`: opens the engine, listens, and shuts down in order.

use crate::cli::{ServeArguments, durability_text};
use crate::failure::{chain, with_hint};
use anyhow::{Context, Result};
use lazuli_engine::Reclaimed;
use lazuli_engine_local::{LocalEngine, LocalOptions, OpenError};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, VersionCheck, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// How long the chore that gives back the space of dropped tables rests when there is nothing to do.
const RECLAIM_REST: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &ServeArguments) -> Result<()> {
    start_logging(arguments)?;
    let temporary = match arguments.in_memory {
        true => Some(tempfile::tempdir().context("make a temporary directory")?),
        false => None,
    };
    let data = temporary.as_ref().map_or(arguments.data.as_path(), |dir| dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("lazuli-http")
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(serve(arguments, data));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(arguments: &ServeArguments, data: &Path) -> Result<()> {
    let accounts = accounts(arguments)?;
    let auth = arguments.auth.options().await?;
    // The port first: a second start fails on it without waiting for the data directory.
    let listener = listen(SocketAddr::new(arguments.host, arguments.table_port)).await?;
    let address = listener.local_addr().context("read the listening address")?;
    let engine = Arc::new(open(data, arguments)?);
    let service = TableService::new(engine.clone(), Arc::new(SystemClock));
    let chore = tokio::spawn(reclaim_dropped_tables(service.clone()));
    let options = FrontOptions { auth, ..front_options(arguments) };
    let front = Front::new(service, accounts, Arc::new(SystemClock), options);
    announce(arguments, data, address)?;

    let options =
        ListenOptions { connections_max: arguments.connections_max, ..ListenOptions::default() };
    let cut = lazuli_server::serve(listener, Arc::new(front), options, shutdown_signal()).await;
    if cut > 0 {
        tracing::warn!(connections = cut, "connections were cut at the end of the grace period");
    }
    chore.abort();
    let _ = chore.await;
    tokio::task::spawn_blocking(move || engine.close()).await.context("close the engine")??;
    tracing::info!("stopped");
    Ok(())
}

fn start_logging(arguments: &ServeArguments) -> Result<()> {
    let level = if arguments.silent { "error" } else { arguments.log.as_str() };
    let filter = EnvFilter::try_new(log_filter(level)).map_err(|error| {
        let advice = "use error, warn, info, debug or trace";
        with_hint(format!("--log '{level}' is not a filter: {error}"), advice)
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    Ok(())
}

/// A bare level is for our own words; what we build on speaks up from warnings on.
fn log_filter(level: &str) -> String {
    match level {
        "error" => level.to_owned(),
        "warn" | "info" | "debug" | "trace" => {
            let ours = ["lazuli", "lazuli_server", "lazuli_table", "lazuli_engine_local"];
            let ours: Vec<String> = ours.iter().map(|name| format!("{name}={level}")).collect();
            format!("warn,{}", ours.join(","))
        }
        filter => filter.to_owned(),
    }
}

fn accounts(arguments: &ServeArguments) -> Result<Arc<Accounts>> {
    let well_known = format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}");
    let text = arguments.accounts.as_deref().unwrap_or(&well_known);
    let accounts = Accounts::parse(text).and_then(Accounts::new).map_err(|error| {
        with_hint(
            format!("bad account list: {error}"),
            "give --accounts or LAZULI_ACCOUNTS as name:key1[:key2];… with keys in base64",
        )
    })?;
    Ok(Arc::new(accounts))
}

fn front_options(arguments: &ServeArguments) -> FrontOptions {
    let version_check = if arguments.strict_versions {
        VersionCheck::Strict
    } else if arguments.skip_api_version_check {
        VersionCheck::Skip
    } else {
        VersionCheck::WellFormed
    };
    // The low digits of the clock come first, so that ids of two runs differ at a glance.
    let request_id_seed = SystemClock.now().ticks().reverse_bits();
    FrontOptions { version_check, request_id_seed, ..FrontOptions::default() }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
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

fn open(data: &Path, arguments: &ServeArguments) -> Result<LocalEngine> {
    let options = LocalOptions {
        durability: arguments.durability,
        cache_bytes: u64::from(arguments.cache_mib) * 1024 * 1024,
        ..LocalOptions::default()
    };
    LocalEngine::open(data, options).map_err(|error| {
        let advice = match &error {
            OpenError::Locked { .. } => {
                "another lazuli uses this directory; stop it, or choose another with --data"
            }
            OpenError::NewerFormat { .. } => "start the newer lazuli that wrote it",
            OpenError::NotLazuli { .. } => "choose an empty or new directory with --data",
            _ => "check that the directory exists, is writable and has free space",
        };
        with_hint(chain(&error), advice)
    })
}

/// Tells people what is served, and programs too when they asked.
#[expect(clippy::print_stdout, reason = "the first lines of the server are for the person")]
fn announce(arguments: &ServeArguments, data: &Path, address: SocketAddr) -> Result<()> {
    let endpoint = format!("http://{address}");
    if let Some(file) = &arguments.port_file {
        write_whole(file, &format!("{{\"table\":\"{endpoint}\"}}\n"))
            .with_context(|| format!("write {}", file.display()))?;
    }
    if arguments.silent {
        return Ok(());
    }
    let kept = match arguments.in_memory {
        true => "nowhere (--in-memory)".to_owned(),
        false => {
            let durability = durability_text(arguments.durability);
            format!("{} (durability: {durability})", data.display())
        }
    };
    println!("lazuli {}", env!("CARGO_PKG_VERSION"));
    println!("  tables   {endpoint}");
    println!("  data     {kept}");
    if arguments.accounts.is_none() {
        println!();
        println!("connection string:");
        println!(
            "DefaultEndpointsProtocol=http;AccountName={WELL_KNOWN_ACCOUNT};\
             AccountKey={WELL_KNOWN_KEY};TableEndpoint={endpoint}/{WELL_KNOWN_ACCOUNT};"
        );
    }
    Ok(())
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

/// Resolves at the first SIGINT or SIGTERM. A second one ends the program at once.
async fn shutdown_signal() {
    any_signal().await;
    tracing::info!("finishing requests in flight; a second signal stops at once");
    tokio::spawn(async {
        any_signal().await;
        std::process::exit(130);
    });
}

async fn any_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_told_with_a_hint() {
        let taken = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let error = listen(taken.local_addr().unwrap()).await.unwrap_err();
        let hint = error.downcast_ref::<crate::failure::Hint>().unwrap();
        assert!(hint.problem.contains("is taken") && hint.advice.contains("--table-port"));
    }
}
