//! Progress of long work: a line that updates itself on a terminal, else a line every ten seconds (O-9.5).

use crate::output::{Output, grouped, to_stderr};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// The pause between two lines without a terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// The bar of work with a known total.
const OF_TOTAL: &str = "[{bar:30}] {human_pos} of {human_len} {msg}  {per_sec}  {eta} left";

/// Progress of counted work.
pub(crate) struct Progress {
    what: &'static str,
    done: u64,
    shown: Shown,
}

enum Shown {
    Not,
    Lines { began: Instant, last: Instant },
    Bar(ProgressBar),
}

impl Progress {
    /// Starts counting. `what` is a plural, such as `entities`.
    pub(crate) fn new(out: &Output, what: &'static str) -> Self {
        let shown = if out.is_quiet() {
            Shown::Not
        } else if io::stderr().is_terminal() {
            Shown::Bar(bar(what))
        } else {
            let now = Instant::now();
            Shown::Lines { began: now, last: now }
        };
        Self { what, done: 0, shown }
    }

    /// Hidden progress, for commands whose output shows it.
    pub(crate) fn hidden() -> Self {
        Self { what: "", done: 0, shown: Shown::Not }
    }

    /// Counts some more.
    pub(crate) fn add(&mut self, count: u64) {
        self.set(self.done + count);
    }

    /// Sets the count.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        match &mut self.shown {
            Shown::Not => {}
            Shown::Bar(bar) => bar.set_position(self.done),
            Shown::Lines { began, last } => {
                if last.elapsed() >= PAUSE {
                    *last = Instant::now();
                    to_stderr(&line(self.done, self.what, began.elapsed()));
                }
            }
        }
    }

    /// Sets the count and the total.
    pub(crate) fn set_of(&mut self, done: u64, total: u64) {
        if let Shown::Bar(bar) = &self.shown
            && bar.length() != Some(total)
        {
            // An invalid template leaves the style unchanged.
            let style = ProgressStyle::with_template(OF_TOTAL);
            bar.set_style(style.unwrap_or_else(|_| bar.style()));
            bar.set_length(total);
        }
        self.set(done);
    }

    /// How many were counted.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn line(done: u64, what: &str, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    format!("{} {what}, {}/s, {} s\n", grouped(done), grouped(rate as u64), elapsed.as_secs())
}

fn bar(what: &'static str) -> ProgressBar {
    let template = "{spinner} {human_pos} {msg}  {per_sec}  {elapsed}";
    // An invalid template leaves the plain style.
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_message(what);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_and_how_fast() {
        let text = line(12_000, "entities", Duration::from_secs(10));
        assert_eq!(text, "12,000 entities, 1,200/s, 10 s\n");
        assert!(ProgressStyle::with_template("{spinner} {human_pos} {msg}").is_ok());
        assert!(ProgressStyle::with_template(OF_TOTAL).is_ok());
    }
}
