//! Crashes while fjall begins a new journal and gives up an old one.
//!
//! It does so when a journal has 64 MB, which no small run reaches. So here clients write twice that
//! much into few rows first; then every moment around the change is taken, as `power.rs` does. Where two
//! journals lie side by side, each of them vanishes besides.

use crate::bench::{Bench, Recording};
use crate::power::{self, Plan, Walk};
use crate::trace::Event;
use crate::vanished;
use anyhow::{Context, Result, ensure};
use lazuli_testkit::seed::Seeded;
use std::fmt;

/// Batches of 3 MB that fill two journals: the first may be given up only when the second is full.
pub const BULK: usize = 48;

/// What a run has shown.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub power: power::Counts,
    /// Journals that were begun or given up.
    pub changes: usize,
    pub vanished: vanished::Counts,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { power, changes, vanished } = self;
        write!(f, "{changes} journals begun or given up: {power}; vanished: {vanished}")
    }
}

/// Runs the trial on the `near` events before and after each change of journals.
pub fn run(
    bench: &Bench,
    plan: &Plan,
    near: usize,
    progress: &dyn Fn(&power::Counts),
) -> Result<Counts> {
    let random = Seeded::new(plan.seed);
    let recording = bench.record(plan.names, &random, plan.amount).context("record a run")?;
    let changes: Vec<usize> = (0..recording.events.len())
        .filter(|at| recording.events.get(*at).is_some_and(is_change))
        .collect();
    ensure!(!changes.is_empty(), "the journal has not changed");
    let is_near = |after: usize| changes.iter().any(|change| change.abs_diff(after) <= near);
    let power = power::run_on(bench, plan, &recording, &is_near, progress)?;
    let mut counts = Counts { power, changes: changes.len(), ..Counts::default() };
    counts.vanished = let_journals_vanish(bench, plan, &recording)?;
    Ok(counts)
}

/// Lets each journal vanish at the first and the last acknowledgement while there are several.
fn let_journals_vanish(
    bench: &Bench,
    plan: &Plan,
    recording: &Recording,
) -> Result<vanished::Counts> {
    let mut walk = Walk::new(recording);
    let mut moments = Vec::new();
    for (at, event) in recording.events.iter().enumerate() {
        walk.go_to(at + 1)?;
        let is_answer = matches!(event, Event::Acknowledged { .. });
        if is_answer && walk.disk.live().0.keys().filter(|path| is_journal(path)).count() > 1 {
            // All but the first give way to the last.
            moments.truncate(1);
            moments.push((at, walk.disk.live(), walk.account()));
        }
    }
    let mut counts = vanished::Counts::default();
    for (at, image, account) in moments {
        let journals: Vec<&String> = image.0.keys().filter(|path| is_journal(path)).collect();
        vanished::each(bench, &image, &journals, &account, &mut counts)
            .with_context(|| format!("after event {at}, --seed {}", plan.seed))?;
    }
    Ok(counts)
}

/// Whether a journal but the first is begun, or one is given up.
fn is_change(event: &Event) -> bool {
    match event {
        Event::Create { path, .. } => is_journal(path) && !path.ends_with("/0.jnl"),
        Event::Remove { path } => is_journal(path),
        _ => false,
    }
}

fn is_journal(path: &str) -> bool {
    path.ends_with(".jnl")
}
