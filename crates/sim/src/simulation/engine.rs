//! The memory engine behind a bad connection: late, busy, conflicting, silent; and with a planted
//! bug, wrong.

mod upkeep;

use super::executor::Handle;
use super::shadow::{self, Shadow};
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits,
    MemoryEngine, Nature, Reclaimed, Revision, Scan, ScanEnd, View, Visitor,
};
use lazuli_testkit::seed::Seeded;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The rate of each fault, per thousand calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// A conflict with another commit.
    pub conflict: usize,
    /// The queue is full.
    pub busy: usize,
    /// The commit happens, but its reply is lost.
    pub lost_answer: usize,
    /// The commit does not happen, and its reply is lost.
    pub lost_commit: usize,
    /// The reply never arrives; the client gives up waiting.
    pub silence: usize,
    /// A read fails.
    pub failed_read: usize,
    /// A view has expired.
    pub expired_view: usize,
    /// A guard is reported as failed.
    pub failed_guard: usize,
    /// The engine reports that it is not healthy.
    pub unhealthy: usize,
    /// Upkeep fails.
    pub failed_tend: usize,
    /// The engine does not close, or does not say so.
    pub failed_close: usize,
}

impl FaultRates {
    /// Each fault is off in half of all runs, so that every combination occurs.
    pub(super) fn random(random: &mut Seeded) -> Self {
        let mut upkeep = random.stream(0);
        let mut upkeep = |max| rate(&mut upkeep, max);
        let mut rate = |max| rate(random, max);
        Self {
            conflict: rate(300),
            busy: rate(100),
            lost_answer: rate(60),
            lost_commit: rate(60),
            silence: rate(30),
            failed_read: rate(40),
            expired_view: rate(60),
            failed_guard: rate(60),
            unhealthy: upkeep(500),
            failed_tend: upkeep(500),
            failed_close: upkeep(500),
        }
    }
}

/// A rate of up to `max`; zero half of the time.
fn rate(random: &mut Seeded, max: usize) -> usize {
    if random.one_in(2) { 0 } else { 1 + random.below(max) }
}

/// A bug that breaks the engine contract, planted in tests of the simulation: if no seed detects
/// it, the simulation cannot find such bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Views show the state before the last commit.
    StaleView,
    /// Commits ignore their checks.
    UncheckedCommit,
    /// Commits ignore their guards.
    UnguardedCommit,
    /// Derived writes are dropped.
    UnderivedCommit,
    /// The derived writes of indexes are dropped.
    UnindexedCommit,
    /// The last of several writes is dropped.
    TornCommit,
    /// Commits are acknowledged and dropped.
    LostCommit,
    /// A commit whose reply was lost happens long after the store was asked about it.
    LateCommit,
    /// Every commit gets the clock as its revision, which may stand still or step back.
    RepeatedRevision,
    /// A scan reads the store once per entry instead of one snapshot.
    TornScan,
}

impl Bug {
    pub const ALL: [Self; 10] = [
        Self::StaleView,
        Self::UncheckedCommit,
        Self::UnguardedCommit,
        Self::UnderivedCommit,
        Self::UnindexedCommit,
        Self::TornCommit,
        Self::LostCommit,
        Self::LateCommit,
        Self::RepeatedRevision,
        Self::TornScan,
    ];
}

/// What happens to one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Conflict,
    Busy,
    GuardFailed,
    LostAnswer,
    LostCommit,
    Silence {
        applied: bool,
    },
    /// For [`Bug::LateCommit`].
    Late,
}

pub(super) struct FaultyEngine {
    inner: Arc<MemoryEngine>,
    line: Line,
    bug: Option<Bug>,
    /// For [`Bug::StaleView`].
    previous: Mutex<Option<Arc<dyn View>>>,
}

/// The state shared by all calls.
#[derive(Clone)]
struct Line {
    handle: Handle,
    random: Arc<Mutex<Seeded>>,
    /// For the faults of upkeep.
    upkeep: Arc<Mutex<Seeded>>,
    rates: FaultRates,
    is_bad: Arc<AtomicBool>,
    crashes: Arc<AtomicUsize>,
}

impl FaultyEngine {
    pub(super) fn new(
        inner: MemoryEngine,
        handle: Handle,
        (rates, bug): (FaultRates, Option<Bug>),
        random: Seeded,
    ) -> Self {
        let upkeep = Arc::new(Mutex::new(random.stream(0)));
        let random = Arc::new(Mutex::new(random));
        let (is_bad, crashes) = Default::default();
        let line = Line { handle, random, upkeep, rates, is_bad, crashes };
        Self { inner: Arc::new(inner), line, bug, previous: Mutex::default() }
    }

    /// The process that uses this engine ends at once: everything on its way to the store is lost.
    pub(super) fn crash(&self) {
        self.line.crashes.fetch_add(1, Ordering::SeqCst);
    }

    /// Turns faults on or off.
    pub(super) fn break_things(&self, is_bad: bool) {
        self.line.is_bad.store(is_bad, Ordering::SeqCst);
    }

    /// Checks that the derived data agrees with the commits.
    pub(super) async fn check_derived(&self) -> Result<(), String> {
        shadow::check(&self.inner).await
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug) && self.line.is_bad()
    }

    /// Plants the bug, if it is one of commits.
    fn spoil(&self, mut commit: Commit) -> Option<Commit> {
        if self.has(Bug::UncheckedCommit) {
            commit.checks.clear();
        }
        if self.has(Bug::UnguardedCommit) {
            commit.guards.clear();
        }
        if self.has(Bug::UnderivedCommit) {
            commit.derive = None;
        }
        if self.has(Bug::TornCommit) && commit.writes.len() > 1 {
            commit.writes.pop();
        }
        (!self.has(Bug::LostCommit)).then_some(commit)
    }

    async fn remember_view(&self) {
        if self.has(Bug::StaleView)
            && let Ok(view) = self.inner.view().await
        {
            *self.previous.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
        }
    }

    fn stale_view(&self) -> Option<Arc<dyn View>> {
        let stale = self.has(Bug::StaleView) && self.line.draw(300);
        let previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner);
        previous.clone().filter(|_| stale)
    }
}

impl Line {
    /// True with this probability per thousand, while faults are on.
    fn draw(&self, rate: usize) -> bool {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = random.below(1000) < rate;
        drawn && self.is_bad()
    }

    fn is_bad(&self) -> bool {
        self.is_bad.load(Ordering::SeqCst)
    }

    fn crashes(&self) -> usize {
        self.crashes.load(Ordering::SeqCst)
    }

    fn below(&self, bound: usize) -> usize {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }

    /// Waits a random, usually short time.
    async fn delay(&self) {
        let ticks = match self.below(8) {
            0..=2 => return,
            3..=5 => self.below(5),
            6 => self.below(50),
            _ => self.below(500),
        };
        self.handle.sleep(ticks as u64).await;
    }

    fn fate(&self, commit: &Commit) -> Fate {
        let rates = self.rates;
        let failed_guard = if commit.guards.is_empty() { 0 } else { rates.failed_guard };
        let fates = [
            (rates.conflict, Fate::Conflict),
            (rates.busy, Fate::Busy),
            (failed_guard, Fate::GuardFailed),
            (rates.lost_answer, Fate::LostAnswer),
            (rates.lost_commit, Fate::LostCommit),
            (rates.silence / 2, Fate::Silence { applied: true }),
            (rates.silence / 2, Fate::Silence { applied: false }),
        ];
        let drawn = fates.into_iter().find(|(rate, _)| self.draw(*rate));
        drawn.map_or(Fate::Answered, |(_, fate)| fate)
    }

    async fn read(&self) -> Result<(), EngineError> {
        self.delay().await;
        match self.draw(self.rates.failed_read) {
            true => Err(EngineError::Unavailable("the line is dead".to_owned())),
            false => Ok(()),
        }
    }

    async fn read_view(&self) -> Result<(), EngineError> {
        self.read().await?;
        match self.draw(self.rates.expired_view) {
            true => Err(EngineError::Expired),
            false => Ok(()),
        }
    }
}

impl Engine for FaultyEngine {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            self.line.read().await?;
            if let Some(view) = self.stale_view() {
                return view.multi_get(keys).await;
            }
            // Each key as of a different moment.
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.extend(self.inner.read(std::slice::from_ref(key)).await?);
                self.line.delay().await;
            }
            Ok(found)
        })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(async {
            self.line.read().await?;
            let view = match self.stale_view() {
                Some(view) => view,
                None => self.inner.view().await?,
            };
            self.line.delay().await;
            let engine = self.has(Bug::TornScan).then(|| self.inner.clone());
            Ok(Arc::new(FaultyView { inner: view, line: self.line.clone(), engine }) as _)
        })
    }

    /// The commit proceeds whether or not anyone still waits for its reply. Each derives an index
    /// and a feed of the entities, in addition to its own derived writes.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let own = commit.derive.filter(|_| !self.has(Bug::UnindexedCommit));
        let commit = Commit { derive: Some(Arc::new(Shadow { own })), ..commit };
        let fate = match self.line.fate(&commit) {
            Fate::LostCommit if self.has(Bug::LateCommit) => Fate::Late,
            fate => fate,
        };
        let journey = Journey {
            fate,
            not_before: commit.not_before,
            repeats_revision: self.has(Bug::RepeatedRevision),
            commit: self.spoil(commit),
            engine: self.inner.clone(),
            crashes: self.line.crashes(),
            line: self.line.clone(),
        };
        let answer = self.line.handle.spawn(journey.travel());
        Box::pin(async move {
            self.remember_view().await;
            if fate == Fate::Late {
                self.line.delay().await;
                return Err(lost());
            }
            match answer.await {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async {
            self.line.read().await?;
            self.inner.reclaim(range).await
        })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            self.line.fail_upkeep(self.line.rates.unhealthy)?;
            self.inner.health().await
        })
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async {
            self.line.fail_upkeep(self.line.rates.failed_tend)?;
            self.inner.tend().await
        })
    }

    /// A failure comes before or after the engine is closed.
    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            self.line.fail_upkeep(self.line.rates.failed_close)?;
            self.inner.close().await?;
            self.line.fail_upkeep(self.line.rates.failed_close)
        })
    }
}

/// One commit's way to the store, and the way of its reply back.
struct Journey {
    fate: Fate,
    not_before: Revision,
    repeats_revision: bool,
    /// `None` if it is to be dropped.
    commit: Option<Commit>,
    engine: Arc<MemoryEngine>,
    /// The number of crashes before it began.
    crashes: usize,
    line: Line,
}

impl Journey {
    /// `None` if no reply ever arrives.
    async fn travel(self) -> Option<Result<Revision, CommitError>> {
        self.line.delay().await;
        match self.fate {
            Fate::Conflict => return Some(Err(CommitError::Conflict)),
            Fate::Busy => return Some(Err(CommitError::Busy)),
            Fate::GuardFailed => {
                return Some(Err(CommitError::GuardFailed { index: 0, found: None }));
            }
            Fate::LostCommit => return Some(Err(lost())),
            Fate::Silence { applied: false } => return None,
            Fate::Late => self.line.handle.sleep(200).await,
            Fate::Answered | Fate::LostAnswer | Fate::Silence { applied: true } => {}
        }
        if self.crashes != self.line.crashes() {
            return None;
        }
        let outcome = match self.commit {
            Some(commit) => self.engine.commit(commit).await,
            None => Ok(self.not_before),
        };
        self.line.delay().await;
        match self.fate {
            Fate::Silence { .. } => None,
            Fate::Answered if self.repeats_revision => Some(outcome.map(|_| self.not_before)),
            Fate::Answered => Some(outcome),
            // The reply of a failed check is lost like that of a commit.
            _ => Some(Err(lost())),
        }
    }
}

fn lost() -> CommitError {
    CommitError::Undetermined("the answer was lost".into())
}

struct FaultyView {
    inner: Arc<dyn View>,
    line: Line,
    /// For [`Bug::TornScan`].
    engine: Option<Arc<MemoryEngine>>,
}

impl View for FaultyView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async {
            self.line.read_view().await?;
            self.inner.get(key).await
        })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async {
            self.line.read_view().await?;
            self.inner.multi_get(keys).await
        })
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async {
            self.line.read_view().await?;
            match &self.engine {
                None => self.inner.scan(scan, visitor).await,
                Some(engine) => torn_scan(engine, &self.line, scan, visitor).await,
            }
        })
    }
}

/// [`Bug::TornScan`]: each entry from another snapshot.
async fn torn_scan(
    engine: &MemoryEngine,
    line: &Line,
    scan: Scan,
    visitor: &mut Visitor<'_>,
) -> Result<ScanEnd, EngineError> {
    let mut rest = scan.range.clone();
    for _ in 0..scan.rows_max {
        line.delay().await;
        let one = Scan { range: rest, rows_max: 1, ..scan };
        match engine.view().await?.scan(one, visitor).await? {
            ScanEnd::More(more) => rest = more,
            end => return Ok(end),
        }
    }
    Ok(ScanEnd::More(rest))
}
