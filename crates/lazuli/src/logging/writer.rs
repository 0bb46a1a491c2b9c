//! The thread that writes the log, and its queue.
//!
//! The queue holds lines back to back. The writer waits for several and takes all of them together, so that a busy log
//! costs few system calls. The queue is bounded in lines and in bytes; the writer holds at most as much again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// The queue has room for this many bytes per line, and always for one line of this size.
const LINE_BYTES_MEAN_MAX: usize = 1024;
const QUEUE_BYTES_MIN: usize = 64 * 1024;

/// How long a line waits for others. Until then it is not on disk; a caller that needs that flushes.
const GATHERING: Duration = Duration::from_millis(10);

/// Where the log goes.
#[derive(Debug)]
pub(crate) enum LogSink {
    Stderr,
    File { path: PathBuf, file: File },
}

impl LogSink {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::File { path: path.to_path_buf(), file: append_to(path)? })
    }
}

/// The way into the log. Clones share one queue.
#[derive(Clone, Debug)]
pub(crate) struct LogQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lines_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
    /// There is work for the writer.
    filled: Condvar,
    /// The writer has nothing left to do.
    emptied: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Queued lines, back to back.
    text: Vec<u8>,
    lines: usize,
    /// The writer must not wait for more lines.
    is_urgent: bool,
    reopen: bool,
    is_writing: bool,
}

impl LogQueue {
    /// Starts the thread that writes to `sink`.
    pub(crate) fn start(sink: LogSink, lines_max: NonZeroUsize) -> io::Result<Self> {
        let queue = Self::new(lines_max.get());
        let report = |lines| tracing::warn!(lines, "log lines were dropped");
        let mut writer = Writer { queue: queue.clone(), sink, report, reported: 0, is_cut: false };
        std::thread::Builder::new().name("log-writer".into()).spawn(move || {
            loop {
                writer.queue.gather();
                writer.write_what_waits();
            }
        })?;
        Ok(queue)
    }

    /// How many lines were dropped since the start.
    pub(crate) fn lines_dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Asks the writer to reopen its file, which may have been renamed.
    pub(crate) fn reopen(&self) {
        let mut state = self.state();
        state.reopen = true;
        self.hurry(&mut state);
    }

    /// Waits until everything logged so far is written or dropped, for at most `wait_max`. Returns
    /// whether it is.
    pub(crate) fn flush(&self, wait_max: Duration) -> bool {
        let waits = |state: &mut State| state.has_work() || state.is_writing;
        let mut state = self.state();
        if state.has_work() {
            self.hurry(&mut state);
        }
        let waited = self.0.emptied.wait_timeout_while(state, wait_max, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !waits(&mut state)
    }

    fn new(lines_max: usize) -> Self {
        Self(Arc::new(Shared {
            lines_max,
            bytes_max: lines_max.saturating_mul(LINE_BYTES_MEAN_MAX).max(QUEUE_BYTES_MIN),
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            dropped: AtomicU64::new(0),
        }))
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.state();
        let bytes = state.text.len().saturating_add(line.len());
        if state.lines >= self.0.lines_max || bytes > self.0.bytes_max {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.text.extend_from_slice(line);
        state.lines += 1;
        // After the first line, the writer is awake, or will check before it sleeps.
        if state.lines == 1 {
            self.0.filled.notify_one();
        }
        if state.lines >= self.0.lines_max / 2 || bytes >= self.0.bytes_max / 2 {
            self.hurry(&mut state);
        }
    }

    fn hurry(&self, state: &mut State) {
        if !state.is_urgent {
            state.is_urgent = true;
            self.0.filled.notify_one();
        }
    }

    /// Waits for work, and then briefly for more.
    fn gather(&self) {
        let state = self.0.filled.wait_while(self.state(), |state| !state.has_work());
        let state = state.unwrap_or_else(PoisonError::into_inner);
        // Ignores poisoning: a panic elsewhere does not affect the queue.
        drop(self.0.filled.wait_timeout_while(state, GATHERING, |state| !state.is_urgent));
    }

    /// Waits for work and takes it: puts the lines into `text`, which is empty, and returns whether
    /// to reopen the file.
    fn take(&self, text: &mut Vec<u8>) -> bool {
        let waits = |state: &mut State| !state.has_work();
        let state = self.0.filled.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut state.text, text);
        state.lines = 0;
        state.is_urgent = false;
        state.is_writing = true;
        mem::take(&mut state.reopen)
    }

    fn done(&self) {
        self.state().is_writing = false;
        self.0.emptied.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_work(&self) -> bool {
        self.lines > 0 || self.reopen
    }
}

/// Takes one whole line per call, as the subscriber's formatter writes them. Never fails.
impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// What the writer writes to.
trait Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn reopen(&mut self) -> io::Result<()>;
}

impl Sink for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stderr => io::stderr().write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { path, file } = self {
            *file = append_to(path)?;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

struct Writer<S, R> {
    queue: LogQueue,
    sink: S,
    /// Logs how many lines were dropped.
    report: R,
    /// How many of the dropped lines were reported.
    reported: u64,
    /// Whether the last write ended in the middle of a line.
    is_cut: bool,
}

impl<S: Sink, R: Fn(u64)> Writer<S, R> {
    fn write_what_waits(&mut self) {
        let mut text = Vec::new();
        if self.queue.take(&mut text)
            && let Err(error) = self.sink.reopen()
        {
            tracing::error!(%error, "cannot reopen the log file; still writing to the old one");
        }
        self.write(&text);
        self.queue.done();
    }

    /// Writes lines. Those that cannot be written are dropped.
    fn write(&mut self, text: &[u8]) {
        let mut rest = text;
        if self.is_cut && !rest.is_empty() {
            match self.sink.write(b"\n") {
                Ok(1) => self.is_cut = false,
                Ok(_) | Err(_) => return self.drop_lines(rest),
            }
        }
        while !rest.is_empty() {
            match self.sink.write(rest) {
                Ok(bytes @ 1..) => {
                    let (written, left) = rest.split_at(bytes.min(rest.len()));
                    self.is_cut = !written.ends_with(b"\n");
                    rest = left;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return self.drop_lines(rest),
            }
        }
        if !text.is_empty() {
            self.report_dropped();
        }
    }

    fn drop_lines(&self, lines: &[u8]) {
        let lines = lines.iter().filter(|byte| **byte == b'\n').count();
        self.queue.0.dropped.fetch_add(lines as u64, Ordering::Relaxed);
    }

    /// Something could be written. The report is an ordinary line: it may be dropped too, and then
    /// counts towards the next report.
    fn report_dropped(&mut self) {
        let dropped = self.queue.lines_dropped();
        if dropped > self.reported {
            (self.report)(dropped - self.reported);
            self.reported = dropped;
        }
    }
}

#[cfg(test)]
mod tests;
