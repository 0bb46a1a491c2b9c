//! The log's interface: writes that return at once, and the buffer that stores them.

use super::line::LogLine;
use super::name::{Hour, parse_name};
use super::reader::LogReader;
use super::writer::Writer;
use crate::account::Account;
use crate::blob::Container;
use crate::env::Env;
use crate::error::Error;
use lazuli_model::Timestamp;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// If every line asks for its flush: until lines that could not be stored are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A log in blobs. Cheap to clone; clones share the buffer.
#[derive(Clone, Debug)]
pub struct BlobLog {
    container: Container,
    service: String,
    env: Env,
    flush_every: Duration,
    flush_at: usize,
    buffer_max: usize,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    /// Allows one flush at a time.
    writer: tokio::sync::Mutex<Writer>,
    /// Lines up to this one are stored.
    stored: AtomicU64,
    dropped: AtomicU64,
    /// Signals that the buffer is full enough to be stored.
    is_full: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<(LogLine, usize)>,
    bytes: usize,
    /// The number of the last line.
    last: u64,
}

impl BlobLog {
    /// The log of a service in a container, which must exist. The service name must not contain a slash.
    pub fn new(account: &Account, container: &str, service: &str) -> Result<Self, Error> {
        if service.is_empty() || service.contains('/') {
            return Err(Error::config(format!("{service:?} is not the name of a service")));
        }
        Ok(Self {
            container: account.blobs().container(container)?,
            service: service.to_owned(),
            env: account.0.env.clone(),
            flush_every: Duration::from_secs(30),
            flush_at: 1024 * 1024,
            buffer_max: 16 * 1024 * 1024,
            shared: Arc::default(),
        })
    }

    /// How long a line stays in the buffer at most while [`BlobLog::run`] runs: 30 s by default. Zero stores every line
    /// at once.
    #[must_use]
    pub fn flush_every(self, time: Duration) -> Self {
        Self { flush_every: time, ..self }
    }

    /// The size at which the buffer is stored at once: 1 MiB by default.
    #[must_use]
    pub fn flush_at(self, bytes: usize) -> Self {
        Self { flush_at: bytes, ..self }
    }

    /// The size of the buffer; lines that do not fit are dropped: 16 MiB by default.
    #[must_use]
    pub fn buffer_max(self, bytes: usize) -> Self {
        Self { buffer_max: bytes, ..self }
    }

    /// Writes a new blob at every flush, as Storage Analytics does, instead of one that grows. Call it before the
    /// first line.
    #[must_use]
    pub fn block_blobs(self) -> Self {
        if let Ok(mut writer) = self.shared.writer.try_lock() {
            writer.use_block_blobs();
        }
        self
    }

    /// Adds a line with the current time to the buffer.
    pub fn write<F: Into<String>>(&self, fields: impl IntoIterator<Item = F>) -> Buffered<'_> {
        self.write_line(LogLine::new(self.env.now(), fields))
    }

    /// Adds a line to the buffer. Never waits; a line that does not fit is dropped and counted.
    pub fn write_line(&self, line: LogLine) -> Buffered<'_> {
        let mut text = String::new();
        line.write(&mut text);
        let mut pending = self.pending();
        if pending.bytes + text.len() > self.buffer_max {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return Buffered { log: self, number: None };
        }
        pending.bytes += text.len();
        pending.lines.push((line, text.len()));
        pending.last += 1;
        let number = Some(pending.last);
        if pending.bytes >= self.flush_at || self.flush_every.is_zero() {
            self.shared.is_full.notify_one();
        }
        Buffered { log: self, number }
    }

    /// Lines that were dropped because the buffer was full.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Stores the buffered lines. After an error they stay in the buffer.
    pub async fn flush(&self) -> Result<(), Error> {
        let last = self.pending().last;
        self.flush_through(last).await
    }

    /// Stores the buffer when it is full or old, until `stop` completes, and then a last time.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let mut stop = std::pin::pin!(stop);
        let pause = if self.flush_every.is_zero() { RETRY } else { self.flush_every };
        loop {
            let is_stopped = tokio::select! {
                biased;
                () = stop.as_mut() => true,
                () = self.shared.is_full.notified() => false,
                () = self.env.sleep(pause) => false,
            };
            match (self.flush().await, is_stopped) {
                (flushed, true) => return flushed,
                (Ok(()), false) => {}
                // The lines stay in the buffer.
                (Err(error), false) => tracing::warn!(%error, "a log cannot be stored"),
            }
        }
    }

    /// Stores the buffered lines and closes the log.
    pub async fn shutdown(self) -> Result<(), Error> {
        self.flush().await
    }

    /// The lines of a time range, from all writers, in the order of their times.
    pub fn read(&self, times: Range<Timestamp>) -> LogReader {
        LogReader::new(&self.container, &self.service, times)
    }

    /// Deletes blobs whose hour ended before this time. Returns how many.
    pub async fn expire(&self, before: Timestamp) -> Result<u64, Error> {
        let prefix = format!("{}/", self.service);
        let mut list = self.container.list().prefix(&prefix);
        let mut deleted = 0;
        loop {
            let page = list.page().await?;
            for blob in page.blobs {
                let hour = parse_name(&self.service, &blob.name).map(|(hour, _)| hour);
                // Names sort by time: all following ones are later.
                match hour {
                    Some(hour) if hour.next().start() <= before => {
                        self.container.blob(&blob.name)?.delete().await?;
                        deleted += 1;
                    }
                    Some(_) => return Ok(deleted),
                    None => {}
                }
            }
            match page.next {
                Some(next) => list = list.after(&next),
                None => return Ok(deleted),
            }
        }
    }

    /// A writer that adds each line of text to the log as one field: for `tracing_subscriber::fmt` and the
    /// like (`.with_writer(move || log.writer())`).
    pub fn writer(&self) -> BlobLogWriter {
        BlobLogWriter { log: self.clone(), partial: Vec::new() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn flush_through(&self, number: u64) -> Result<(), Error> {
        let mut writer = self.shared.writer.lock().await;
        loop {
            // Another flush may have stored it in the meantime.
            if self.shared.stored.load(Ordering::Acquire) >= number {
                return Ok(());
            }
            // Lines leave the buffer when they are handed to the writer, which keeps those that it could not store.
            if writer.is_empty() {
                let mut pending = self.pending();
                let lines = std::mem::take(&mut pending.lines);
                pending.bytes = 0;
                writer.take(lines, pending.last, Hour::of);
            }
            let stored = writer.store(&self.container, &self.service).await?;
            self.shared.stored.store(stored, Ordering::Release);
        }
    }
}

/// A line in the buffer.
#[must_use = "await `durable` to know that it is stored, or drop it"]
#[derive(Debug)]
pub struct Buffered<'a> {
    log: &'a BlobLog,
    /// `None` if it was dropped.
    number: Option<u64>,
}

impl Buffered<'_> {
    /// Stores the line and waits for that. An error if it was dropped, or cannot be stored now; in the latter case it
    /// stays in the buffer.
    pub async fn durable(self) -> Result<(), Error> {
        match self.number {
            Some(number) => self.log.flush_through(number).await,
            None => Err(Error::config("the buffer of the log is full: the line was dropped")),
        }
    }
}

/// Writes lines of text into a log.
#[derive(Debug)]
pub struct BlobLogWriter {
    log: BlobLog,
    partial: Vec<u8>,
}

impl io::Write for BlobLogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            drop(self.log.write([text.trim_end_matches(['\r', '\n'])]));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BlobLogWriter {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            let text = String::from_utf8_lossy(&self.partial).into_owned();
            drop(self.log.write([text]));
        }
    }
}
