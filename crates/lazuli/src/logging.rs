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
use lazuli_cli::failure::usage;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;
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
    pub(crate) filter: LogFilter,
    /// `None`: standard error.
    pub(crate) file: Option<PathBuf>,
    /// `None`: human on a terminal, json elsewhere.
    pub(crate) format: Option<LogFormat>,
    /// Lines that may wait for the writer.
    pub(crate) queue_lines: NonZeroUsize,
}

/// Which lines to log: a level, or a filter as `tracing_subscriber::EnvFilter` reads it.
#[derive(Clone, Debug)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    /// Errors alone.
    pub(crate) fn errors() -> Self {
        Self("error".to_owned())
    }

    fn compile(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }
}

impl FromStr for LogFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "expected error, warn, info, debug, trace or a filter such as lazuli_server=debug";
        // `EnvFilter` takes a misspelled level for the name of a module, and then logs nothing.
        let is_known = |part: &str| part.contains('=') || LevelFilter::from_str(part).is_ok();
        if text.is_empty() || !(text.contains('[') || text.split(',').all(is_known)) {
            return Err(EXPECTED);
        }
        let filter = match text {
            // A bare level applies to our own crates; dependencies log at `warn` and above.
            "warn" | "info" | "debug" | "trace" => format!("warn,lazuli={text}"),
            _ => text.to_owned(),
        };
        EnvFilter::try_new(&filter).map_err(|_| EXPECTED)?;
        Ok(Self(filter))
    }
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
        let sink = match &settings.file {
            None => LogSink::Stderr,
            Some(path) => LogSink::open(path).map_err(|error| {
                usage(
                    format!("cannot open the log file {}: {error}", path.display()),
                    "check that the directory given with --log-file exists and that this user may \
                     write there",
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
        tracing_subscriber::registry().with(settings.filter.compile()).with(layer).init();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_or_names_modules_with_theirs() {
        for text in ["info", "ERROR", "off", "lazuli_server=debug", "warn,lazuli=trace", "[span]"] {
            assert!(LogFilter::from_str(text).is_ok(), "{text}");
        }
        for bad in ["", "verbose", "warning", "warn,loud", "lazuli_server=loud", "a=b=c"] {
            assert!(LogFilter::from_str(bad).is_err(), "{bad}");
        }
    }
}
