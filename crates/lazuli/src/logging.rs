//! The log of the process: what it contains, its format, and where it goes.
//!
//! A log that cannot be written never stops, slows or fails a request. The caller formats a line
//! and puts it into a bounded queue; one thread writes (`writer.rs`). Lines that do not fit, or
//! that cannot be written, are dropped and counted.

mod human;
mod json;
mod writer;

use anyhow::{Context, Result};
use clap::ValueEnum;
use human::HumanLines;
use json::JsonLines;
use lazuli_cli::failure::with_hint;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};
use writer::LogSink;

pub(crate) use writer::LogQueue;

/// How long the process waits at exit for the last lines to be written.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(2);

/// What to log, and where.
#[derive(Clone, Debug)]
pub(crate) struct LogSettings {
    /// A level, or a filter as `tracing_subscriber::EnvFilter` reads it.
    pub(crate) filter: String,
    /// `None`: standard error.
    pub(crate) file: Option<PathBuf>,
    /// `None`: human on a terminal, json elsewhere.
    pub(crate) format: Option<LogFormat>,
    /// Lines that may wait for the writer.
    pub(crate) queue_lines: NonZeroUsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// The running log. Dropping it waits a bounded time for queued lines to be written.
#[derive(Debug)]
pub(crate) struct Logging {
    queue: LogQueue,
}

impl Logging {
    /// Starts the writer, and makes it the log of the whole process.
    pub(crate) fn start(settings: &LogSettings) -> Result<Self> {
        let filter = EnvFilter::try_new(directives(&settings.filter)).map_err(|error| {
            let advice = "use error, warn, info, debug or trace";
            with_hint(format!("--log '{}' is not a filter: {error}", settings.filter), advice)
        })?;
        let sink = match &settings.file {
            None => LogSink::Stderr,
            Some(path) => LogSink::open(path).map_err(|error| {
                with_hint(
                    format!("cannot open the log file {}: {error}", path.display()),
                    "check that its directory exists and that this user may write there",
                )
            })?,
        };
        let on_terminal = settings.file.is_none() && io::stderr().is_terminal();
        let colours = on_terminal && std::env::var_os("NO_COLOR").is_none();
        let queue = LogQueue::start(sink, settings.queue_lines).context("start the log writer")?;
        let default = if on_terminal { LogFormat::Human } else { LogFormat::Json };
        let layer = match settings.format.unwrap_or(default) {
            LogFormat::Human => fmt::layer()
                .with_writer(queue.clone())
                .with_ansi(colours)
                // It would write to standard error with `eprintln!`, which panics on failure.
                .log_internal_errors(false)
                .event_format(HumanLines::default())
                .boxed(),
            LogFormat::Json => JsonLines(queue.clone()).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(layer).init();
        if settings.file.is_some() {
            log_panics();
        }
        Ok(Self { queue })
    }

    /// The queue, which counts the lines that were dropped and reopens the log file.
    pub(crate) fn queue(&self) -> LogQueue {
        self.queue.clone()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.queue.flush(FLUSH_WAIT_MAX);
    }
}

/// Panics are printed to standard error. A log file gets them too.
fn log_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        tracing::error!("{panic}");
    }));
}

/// A bare level applies to our own crates; dependencies log at `warn` and above.
fn directives(level: &str) -> String {
    match level {
        "error" => level.to_owned(),
        "warn" | "info" | "debug" | "trace" => {
            let ours = [
                "lazuli",
                "lazuli_access",
                "lazuli_admin",
                "lazuli_server",
                "lazuli_table",
                "lazuli_engine_local",
            ];
            let ours: Vec<String> = ours.iter().map(|name| format!("{name}={level}")).collect();
            format!("warn,{}", ours.join(","))
        }
        filter => filter.to_owned(),
    }
}
