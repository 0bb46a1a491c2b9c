//! What `lazuli copy` prints: progress to standard error, the summary to standard output.

use lazuli_service::transfer::{Comparison, Progress};
use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(2);

/// Prints progress at intervals, and the end.
pub(super) struct Report {
    is_quiet: bool,
    is_json: bool,
    last: Cell<Instant>,
}

impl Report {
    pub(super) fn new(is_quiet: bool, is_json: bool) -> Self {
        Self { is_quiet, is_json, last: Cell::new(Instant::now()) }
    }

    pub(super) fn copying(&self, progress: &Progress) {
        self.now_and_then(|| {
            format!("copied {} entries, {}", progress.entries, mib(progress.bytes))
        });
    }

    pub(super) fn comparing(&self, entries: u64, all: u64) {
        self.now_and_then(|| format!("compared {entries} of about {all} entries"));
    }

    pub(super) fn planned(&self, entries: u64, bytes: u64) {
        print(&match self.is_json {
            true => serde_json::json!({ "entries": entries, "bytes": bytes }).to_string(),
            false => format!("{entries} entries to copy, {}", mib(bytes)),
        });
    }

    pub(super) fn copied(
        &self,
        progress: &Progress,
        compared: Option<&Comparison>,
        time: Duration,
    ) {
        let Progress { entries, bytes, views, .. } = progress;
        if self.is_json {
            let verified = compared.map(|compared| {
                serde_json::json!({
                    "same": compared.same,
                    "missing": compared.missing,
                    "changed": compared.changed,
                    "extra": compared.extra,
                    "sums": [hex(compared.sums.0), hex(compared.sums.1)],
                    "first": compared.first.iter().map(|key| key_text(key)).collect::<Vec<_>>(),
                })
            });
            let summary = serde_json::json!({
                "entries": entries, "bytes": bytes, "snapshots": views,
                "seconds": time.as_secs_f64(), "verified": verified,
            });
            return print(&summary.to_string());
        }
        let seconds = time.as_secs_f64();
        print(&format!("copied {entries} entries, {}, in {seconds:.1} s", mib(*bytes)));
        if *views > 1 {
            print(&format!(
                "the copy took {views} snapshots of the source: it is consistent only if nothing was written \
                 to the source meanwhile"
            ));
        }
        print("entities have new timestamps and ETags");
        match compared {
            None => print("not verified"),
            Some(compared) if compared.differences() == 0 => {
                let sum = hex(compared.sums.0);
                print(&format!("verified {} entries: all the same, sum {sum}", compared.same));
            }
            Some(Comparison { same, missing, changed, extra, first, .. }) => {
                print(&format!(
                    "{same} entries are the same; {missing} are missing, {changed} differ, {extra} are only in \
                     the target"
                ));
                first.iter().for_each(|key| print(&format!("  key {}", key_text(key))));
            }
        }
    }

    fn now_and_then(&self, text: impl FnOnce() -> String) {
        if !self.is_quiet && self.last.get().elapsed() >= EVERY {
            self.last.set(Instant::now());
            // Progress is dispensable.
            let _ = writeln!(io::stderr(), "{}", text());
        }
    }
}

fn print(line: &str) {
    // The exit code says the same.
    let _ = writeln!(io::stdout(), "{line}");
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

fn hex(sum: u128) -> String {
    format!("{sum:032x}")
}

/// A key as text: unprintable bytes are written in hexadecimal.
fn key_text(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}
