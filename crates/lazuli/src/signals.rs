//! The signals that the server handles. The first stop signal drains; the second exits immediately.

use crate::logging::LogQueue;
use crate::notify::Notify;
use lazuli_admin::{Readiness, Reason};
use lazuli_cli::Exit;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the last log lines may take to be written after a second stop signal.
const FLUSH_WAIT_MAX: Duration = Duration::from_millis(200);

/// How often the removal of temporary data is tried after a second stop signal.
const REMOVALS_MAX: u32 = 3;

/// Signal handlers; once installed, the signals no longer end the process by default.
pub(crate) struct Signals {
    pub(crate) stop: StopSignals,
    /// SIGHUP: reload files.
    pub(crate) hangup: Signal,
    /// SIGUSR1: log the status.
    pub(crate) user: Signal,
}

/// The signals that end the server.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// What a stop signal triggers.
pub(crate) struct Stop {
    pub(crate) signals: StopSignals,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) notify: Arc<Notify>,
    pub(crate) log: LogQueue,
    /// How long to keep serving after `/readyz` reports the stop.
    pub(crate) drain: Duration,
    /// A directory that ends with the process.
    pub(crate) temporary: Option<PathBuf>,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let stop = StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        };
        let (hangup, user) = (signal(SignalKind::hangup())?, signal(SignalKind::user_defined1())?);
        Ok(Self { stop, hangup, user })
    }
}

impl StopSignals {
    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

impl Stop {
    /// Resolves after a signal and the drain. A second signal ends the process immediately.
    pub(crate) async fn wait(mut self, in_flight: impl Fn() -> i64) {
        let signal = self.signals.next().await;
        let detail = format!("{signal} was received");
        self.readiness.set(Reason::Stopping, Some(detail));
        self.notify.stopping();
        tracing::info!(signal, in_flight = in_flight(), "stopping");
        let drain = self.drain;
        tokio::spawn(async move {
            let signal = self.signals.next().await;
            tracing::warn!(signal, "exiting immediately on a second signal");
            self.log.flush(FLUSH_WAIT_MAX);
            if let Some(directory) = self.temporary {
                // The engine still runs: a file that it creates meanwhile fails a removal.
                for _ in 0..REMOVALS_MAX {
                    if std::fs::remove_dir_all(&directory).is_ok() {
                        break;
                    }
                }
            }
            std::process::exit(Exit::Interrupted as i32);
        });
        tokio::time::sleep(drain).await;
    }
}
