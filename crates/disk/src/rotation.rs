//! Crashes while fjall creates a new journal and removes an old one.
//!
//! It does so when a journal reaches 64 MB, which never happens in a small run. So here clients
//! first write twice that much into a few rows; then every moment around the rotation is tried, as
//! in `power.rs`. While two journals exist, each of them is also removed.

use crate::bench::{Bench, Recording};
use crate::image::Image;
use crate::power::{self, Plan, Walk};
use crate::trace::Event;
use crate::vanished;
use anyhow::{Context, Result, ensure};
use lazuli_testkit::seed::Seeded;
use std::fmt;

/// Batches of 3 MB that fill two journals.
pub const BULK: usize = 48;

/// What a run covered.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub power: power::Counts,
    /// Journals that were created or removed.
    pub changes: usize,
    pub vanished: vanished::Counts,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { power, changes, vanished } = self;
        write!(f, "{changes} journals created or removed: {power}; deleted: {vanished}")
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

/// Removes each journal at the first and the last acknowledgement while there are several, and each
/// time a new one has just been created.
fn let_journals_vanish(
    bench: &Bench,
    plan: &Plan,
    recording: &Recording,
) -> Result<vanished::Counts> {
    let mut walk = Walk::new(recording);
    let (mut answered, mut begun) = (Vec::new(), Vec::new());
    for (at, event) in recording.events.iter().enumerate() {
        walk.go_to(at + 1)?;
        let moment = || (at, walk.disk.live(), walk.account());
        match event {
            Event::Create { .. } if is_change(event) => begun.push(moment()),
            Event::Acknowledged { .. } if journals(&walk.disk.live()).len() > 1 => {
                // Keep only the first and the last.
                answered.truncate(1);
                answered.push(moment());
            }
            _ => {}
        }
    }
    let mut counts = vanished::Counts::default();
    for (at, image, account) in answered.into_iter().chain(begun) {
        vanished::each(bench, &image, &journals(&image), &account, &mut counts)
            .with_context(|| format!("after event {at}, --seed {}", plan.seed))?;
    }
    Ok(counts)
}

fn journals(image: &Image) -> Vec<&String> {
    image.0.keys().filter(|path| is_journal(path)).collect()
}

/// Whether a journal other than the first is created, or one is removed.
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
