//! Power loss or a kill at any moment of a recorded run.
//!
//! One run is recorded; each moment of it, with each kind of loss, gives a directory to start a
//! server on. It must start, contain everything acknowledged by then, and each in-flight step
//! entirely or not at all. Then it is crashed again: during its start, and after reads, whose
//! results must persist.

use crate::bench::{Amount, Bench, Opened, Recording};
use crate::disk::{Disk, Names};
use crate::image::Image;
use crate::kept;
use crate::loss::Loss;
use crate::trace::Event;
use anyhow::{Context, Result};
use lazuli_testkit::acknowledged::{Acknowledged, Entries, Step, apply};
use lazuli_testkit::seed::Seeded;
use std::collections::HashSet;
use std::fmt;
use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub names: Names,
    pub seed: u64,
    pub amount: Amount,
    /// Maximum number of crashed states; chosen at random if there are more.
    pub states_max: usize,
    /// Maximum number of crashes during each start; chosen the same way.
    pub recoveries_max: usize,
    /// When to stop; at least one state is tried.
    pub deadline: Option<Instant>,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub events: usize,
    pub sync_points: usize,
    pub states_possible: usize,
    /// States tried. The distinct ones were opened.
    pub taken: usize,
    pub states: usize,
    pub recoveries: usize,
    pub reread: usize,
    pub acknowledged: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, sync_points, states_possible, taken, states, .. } = self;
        let Self { recoveries, reread, acknowledged, .. } = self;
        write!(
            f,
            "{acknowledged} acknowledged steps, {events} calls, {sync_points} sync points; {taken} \
             of {states_possible} crashed states taken, {states} that differ opened, {recoveries} \
             crashes while opening, {reread} losses of power after reading"
        )
    }
}

/// A crash after this many events, with this loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Crash {
    after: usize,
    loss: Loss,
}

/// Runs the trial; calls `progress` after each state.
pub fn run(bench: &Bench, plan: &Plan, progress: &dyn Fn(&Counts)) -> Result<Counts> {
    let random = Seeded::new(plan.seed);
    let recording = bench.record(plan.names, &random, plan.amount).context("record a run")?;
    run_on(bench, plan, &recording, &|_| true, progress)
}

/// Runs the trial on the moments of a recording that `wanted` chooses.
pub(crate) fn run_on(
    bench: &Bench,
    plan: &Plan,
    recording: &Recording,
    wanted: &dyn Fn(usize) -> bool,
    progress: &dyn Fn(&Counts),
) -> Result<Counts> {
    let random = Seeded::new(plan.seed);
    let mut all = crashes(&recording.events);
    all.retain(|crash| wanted(crash.after));
    let mut counts = Counts {
        events: recording.events.len(),
        sync_points: recording.events.iter().filter(|e| is_sync_end(e)).count(),
        states_possible: all.len(),
        acknowledged: recording.steps.iter().map(Vec::len).sum(),
        ..Counts::default()
    };
    let mut chosen = choose(all, plan.states_max, &mut random.stream(100));
    chosen.sort_by_key(|crash| crash.after);
    let mut walk = Walk::new(recording);
    let mut seen = HashSet::new();
    for crash in chosen {
        let is_late = || plan.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if counts.taken > 0 && is_late() {
            break;
        }
        walk.go_to(crash.after)?;
        let mut random = random.stream(1000 + crash.after as u64).stream(crash.loss as u64);
        let image = crash.loss.of(&walk.disk, &mut random);
        let account = walk.account();
        counts.taken += 1;
        if seen.insert((image.digest(), walk.begun.clone(), walk.acknowledged.clone())) {
            let trial = Trial { bench, plan, crash, account: &account };
            trial.run(&walk.disk, &image, &mut random, &mut counts)?;
        }
        progress(&counts);
    }
    Ok(counts)
}

/// Every sync just before it succeeds, and every acknowledgement just after it was sent, in all
/// variants; and every call that changed something, as a kill leaves it.
fn crashes(events: &[Event]) -> Vec<Crash> {
    let mut crashes = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let after = match event {
            Event::SyncEnds { .. } => index,
            Event::Acknowledged { .. } => index + 1,
            Event::Begun { .. } | Event::SyncBegins { .. } | Event::SyncFails { .. } => continue,
            _ => {
                crashes.push(Crash { after: index + 1, loss: Loss::Nothing });
                continue;
            }
        };
        crashes.extend(Loss::ALL.map(|loss| Crash { after, loss }));
    }
    crashes
}

fn choose<T>(mut all: Vec<T>, max: usize, random: &mut Seeded) -> Vec<T> {
    while all.len() > max {
        all.swap_remove(random.below(all.len()));
    }
    all
}

fn is_sync_end(event: &Event) -> bool {
    matches!(event, Event::SyncEnds { .. })
}

/// Replays a recording, with the state of the disk and the clients' knowledge at each point.
pub(crate) struct Walk<'r> {
    recording: &'r Recording,
    pub(crate) disk: Disk,
    position: usize,
    settled: Entries,
    begun: Vec<usize>,
    acknowledged: Vec<usize>,
}

impl<'r> Walk<'r> {
    pub(crate) fn new(recording: &'r Recording) -> Self {
        let clients = recording.steps.len();
        Self {
            recording,
            disk: recording.disk.clone(),
            position: 0,
            settled: Entries::new(),
            begun: vec![0; clients],
            acknowledged: vec![0; clients],
        }
    }

    pub(crate) fn go_to(&mut self, position: usize) -> Result<()> {
        let events = self.recording.events.get(self.position..position).unwrap_or_default();
        for event in events {
            self.disk.apply(event)?;
            match event {
                Event::Begun { client, step } => set(&mut self.begun, *client, step + 1),
                Event::Acknowledged { client, step } => {
                    set(&mut self.acknowledged, *client, step + 1);
                    if let Some(step) = self.step(*client, *step) {
                        apply(&mut self.settled, step);
                    }
                }
                _ => {}
            }
        }
        self.position = position;
        Ok(())
    }

    pub(crate) fn account(&self) -> Acknowledged {
        let in_flight = |(client, (begun, acknowledged)): (usize, (&usize, &usize))| {
            if begun > acknowledged { self.step(client, *acknowledged).cloned() } else { None }
        };
        let counts = self.begun.iter().zip(&self.acknowledged).enumerate();
        Acknowledged::new(self.settled.clone(), counts.filter_map(in_flight).collect())
    }

    fn step(&self, client: usize, step: usize) -> Option<&'r Step> {
        self.recording.steps.get(client)?.get(step)
    }
}

fn set(counts: &mut [usize], client: usize, count: usize) {
    if let Some(place) = counts.get_mut(client) {
        *place = count;
    }
}

/// One crashed state.
struct Trial<'t> {
    bench: &'t Bench,
    plan: &'t Plan,
    crash: Crash,
    account: &'t Acknowledged,
}

impl Trial<'_> {
    fn run(
        &self,
        disk: &Disk,
        image: &Image,
        random: &mut Seeded,
        counts: &mut Counts,
    ) -> Result<()> {
        // A killed process leaves unsynced data in the cache; a power loss leaves only durable
        // data.
        let before = match self.crash.loss {
            Loss::Nothing => disk.clone(),
            _ => {
                image.save(&self.bench.data())?;
                Disk::new(self.plan.names, image, &self.bench.data())?
            }
        };
        let opened = self.open(image, Some(&before), self.account, "after the crash")?;
        counts.states += 1;
        self.crash_while_opening(&opened, random, counts)?;
        self.lose_power_after_reading(opened, counts)
    }

    fn open(
        &self,
        image: &Image,
        disk: Option<&Disk>,
        account: &Acknowledged,
        when: &str,
    ) -> Result<Opened> {
        self.bench.open(image, disk, account).with_context(|| {
            let Crash { after, loss } = self.crash;
            let (loss, seed, again) = (loss.name(), self.plan.seed, kept::keep(image, account));
            format!("{when}: crash after event {after}, loss of {loss}, --seed {seed}; {again}")
        })
    }

    fn crash_while_opening(
        &self,
        opened: &Opened,
        random: &mut Seeded,
        counts: &mut Counts,
    ) -> Result<()> {
        let start = opened.disk.as_ref().context("no model of the disk")?;
        let served = opened.events.iter().position(|event| matches!(event, Event::Begun { .. }));
        let opening = opened.events.get(..served.unwrap_or_default()).unwrap_or_default();
        let mut chosen = choose(crashes(opening), self.plan.recoveries_max, random);
        chosen.sort_by_key(|crash| crash.after);
        let (mut disk, mut position) = (start.clone(), 0);
        let mut seen = HashSet::new();
        for Crash { after, loss } in chosen {
            for event in opening.get(position..after).unwrap_or_default() {
                disk.apply(event)?;
            }
            position = after;
            let image = loss.of(&disk, random);
            if !seen.insert(image.digest()) {
                continue;
            }
            let when = format!("crash after event {after} of the opening, loss of {}", loss.name());
            self.open(&image, None, self.account, &when)?;
            counts.recoveries += 1;
        }
        Ok(())
    }

    /// Data that a client has read must not disappear.
    fn lose_power_after_reading(&self, opened: Opened, counts: &mut Counts) -> Result<()> {
        let mut disk = opened.disk.context("no model of the disk")?;
        for event in &opened.events {
            disk.apply(event)?;
        }
        let image = Loss::Everything.of(&disk, &mut Seeded::new(0));
        let account = Acknowledged::new(opened.entries, Vec::new());
        self.open(&image, None, &account, "loss of power after reading")?;
        counts.reread += 1;
        Ok(())
    }
}
