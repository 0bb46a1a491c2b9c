//! The signals that the server listens to. Of those that end it, the first drains and the second
//! stops at once.

use crate::exit::Exit;
use crate::logging::LogQueue;
use crate::notify::Notify;
use lazuli_admin::{Readiness, Reason};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the last lines of the log may take when a second signal stops the server.
const FLUSH_WAIT_MAX: Duration = Duration::from_millis(200);

/// Handles of the signals; once it exists, they no longer end the process by themselves.
pub(crate) struct Signals {
    pub(crate) stop: StopSignals,
    /// SIGHUP: read files again.
    pub(crate) hangup: Signal,
    /// SIGUSR1: log the status.
    pub(crate) user: Signal,
}

/// The signals that end the server.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// What a stop sets in motion.
pub(crate) struct Stop {
    pub(crate) signals: StopSignals,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) notify: Arc<Notify>,
    pub(crate) log: LogQueue,
    /// How long everything is served while the server already says that it stops.
    pub(crate) drain: Duration,
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
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

impl Stop {
    /// Resolves when a signal came and the drain is over. A second signal ends the process at once.
    pub(crate) async fn wait(mut self, in_flight: impl Fn() -> i64) {
        let signal = self.signals.next().await;
        let detail = format!("{signal} was received");
        self.readiness.set(Reason::Stopping, Some(detail));
        self.notify.stopping();
        tracing::info!(signal, in_flight = in_flight(), "stopping");
        let drain = self.drain;
        tokio::spawn(async move {
            let signal = self.signals.next().await;
            tracing::warn!(signal, "stopped at once by a second signal");
            self.log.flush(FLUSH_WAIT_MAX);
            std::process::exit(Exit::Interrupted as i32);
        });
        tokio::time::sleep(drain).await;
    }
}
