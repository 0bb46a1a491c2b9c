//! A clock that only moves during pauses and when the test says so (C-19.5).

use lazuli_client::{BoxFuture, Env, Environment};
use lazuli_model::{Clock, SystemClock, Timestamp};
use lazuli_testkit::seed::Seeded;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Time under the control of the test. Give its [`TestClock::env`] to an account; a [`TestServer`](crate::TestServer)
/// with the same clock agrees with it about dates, expiry and the visibility of messages. Cheap to clone.
///
/// A pause of the client ends at once and advances the clock by its length. An exchange takes no time, unless
/// [`TestClock::advance`] or [`Fault::Delay`](crate::Fault::Delay) says so: pauses of one task do not delay the
/// requests of another.
#[derive(Clone)]
pub struct TestClock(Arc<State>);

struct State {
    began: Timestamp,
    time: watch::Sender<Time>,
    /// Every reading is one tick later than the previous one.
    readings: AtomicU64,
    /// Environments created so far, so that each has its own random numbers.
    environments: AtomicU64,
    seed: u64,
    timers: Mutex<BTreeMap<u64, Duration>>,
    timer_dropped: tokio::sync::Notify,
    pauses: Mutex<Vec<Duration>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Time {
    elapsed: Duration,
    /// The part of it that is not pauses.
    delays: Duration,
    is_held: bool,
    /// Pauses that have not ended.
    pausing: usize,
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new(0)
    }
}

impl TestClock {
    /// A clock that starts at the current time. `seed` determines the random numbers of its environments.
    pub fn new(seed: u64) -> Self {
        Self::beginning(SystemClock.now(), seed)
    }

    /// A clock that starts at this time.
    pub fn at(began: Timestamp) -> Self {
        Self::beginning(began, 0)
    }

    fn beginning(began: Timestamp, seed: u64) -> Self {
        Self(Arc::new(State {
            began,
            time: watch::Sender::default(),
            readings: AtomicU64::new(0),
            environments: AtomicU64::new(0),
            seed,
            timers: Mutex::default(),
            timer_dropped: tokio::sync::Notify::new(),
            pauses: Mutex::default(),
        }))
    }

    /// The environment for an account: this clock, pauses that advance it, random numbers from the seed.
    pub fn env(&self) -> Env {
        let number = self.0.environments.fetch_add(1, Ordering::Relaxed);
        let random = Mutex::new(Seeded::new(self.0.seed).stream(number));
        Env::new(TestEnvironment { clock: self.clone(), random })
    }

    /// The time of day. It never shows the same time twice.
    pub fn now(&self) -> Timestamp {
        let reading = self.0.readings.fetch_add(1, Ordering::Relaxed);
        let ticks = u64::try_from(self.elapsed().as_nanos() / 100).unwrap_or(u64::MAX);
        let ticks = self.0.began.ticks().saturating_add(ticks).saturating_add(reading);
        Timestamp::from_ticks(ticks).unwrap_or(Timestamp::MAX)
    }

    /// How far the clock has advanced.
    pub fn elapsed(&self) -> Duration {
        self.0.time.borrow().elapsed
    }

    /// Advances the clock: pauses that are over by then end, and operations under way have taken that much longer.
    pub fn advance(&self, by: Duration) {
        self.0.time.send_modify(|time| {
            time.elapsed += by;
            time.delays += by;
        });
    }

    /// Advances the clock, and waits until every attempt that has timed out has been abandoned.
    pub async fn pass(&self, by: Duration) {
        self.advance(by);
        loop {
            let dropped = self.0.timer_dropped.notified();
            let delays = self.0.time.borrow().delays;
            if lock(&self.0.timers).values().all(|end| *end > delays) {
                return;
            }
            dropped.await;
        }
    }

    /// From now on, pauses last until [`TestClock::advance`] ends them: for tasks that pause in a loop.
    pub fn hold(&self) {
        self.0.time.send_modify(|time| time.is_held = true);
    }

    /// Makes pauses end at once again, including those under way.
    pub fn release(&self) {
        self.0.time.send_modify(|time| time.is_held = false);
    }

    /// Waits until a task pauses, on a clock that is held.
    pub async fn paused(&self) {
        // The clock owns the sender and outlives this.
        let _ = self.0.time.subscribe().wait_for(|time| time.pausing > 0).await;
    }

    /// The pauses since the last call, in the order in which they began.
    pub fn take_pauses(&self) -> Vec<Duration> {
        std::mem::take(&mut lock(&self.0.pauses))
    }

    async fn pause(self, pause: Duration) {
        let mut time = self.0.time.subscribe();
        let end = self.elapsed() + pause;
        lock(&self.0.pauses).push(pause);
        let pausing = Pausing::begin(&self);
        let _ = time.wait_for(|time| !time.is_held || time.elapsed >= end).await;
        drop(pausing);
        self.0.time.send_modify(|time| time.elapsed = time.elapsed.max(end));
        tokio::task::yield_now().await;
    }

    fn timer(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let end = self.0.time.borrow().delays + limit;
        let number = self.0.environments.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.timers).insert(number, end);
        let timer = Timer { clock: self.clone(), number };
        async move {
            let mut time = timer.clock.0.time.subscribe();
            let _ = time.wait_for(|time| time.delays >= end).await;
            drop(timer);
        }
    }
}

/// Counts a pause until it ends or is dropped.
struct Pausing<'c>(&'c TestClock);

impl<'c> Pausing<'c> {
    fn begin(clock: &'c TestClock) -> Self {
        clock.0.time.send_modify(|time| time.pausing += 1);
        Self(clock)
    }
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.0.0.time.send_modify(|time| time.pausing -= 1);
    }
}

/// A limit on an operation under way. Dropped when it ends or is abandoned.
struct Timer {
    clock: TestClock,
    number: u64,
}

impl Drop for Timer {
    fn drop(&mut self) {
        lock(&self.clock.0.timers).remove(&self.number);
        self.clock.0.timer_dropped.notify_waiters();
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClock").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

struct TestEnvironment {
    clock: TestClock,
    random: Mutex<Seeded>,
}

impl Environment for TestEnvironment {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn random(&self) -> u64 {
        lock(&self.random).next_u64()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.clock.clone().pause(pause))
    }

    fn timer(&self, limit: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.clock.timer(limit))
    }
}

/// Ignores poisoning: a test that failed elsewhere must not fail here too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_pause_moves_the_clock_and_is_no_delay() {
        let clock = TestClock::default();
        let mut timer = clock.timer(SECOND).boxed();
        clock.clone().pause(10 * SECOND).await;
        assert_eq!((clock.elapsed(), clock.take_pauses()), (10 * SECOND, vec![10 * SECOND]));
        assert!((&mut timer).now_or_never().is_none());
        clock.advance(SECOND);
        assert!(timer.now_or_never().is_some());
    }

    #[tokio::test]
    async fn held_pauses_end_when_the_test_says_so() {
        let clock = TestClock::default();
        clock.hold();
        let mut pause = clock.clone().pause(2 * SECOND).boxed();
        assert!((&mut pause).now_or_never().is_none());
        clock.advance(SECOND);
        assert!((&mut pause).now_or_never().is_none());
        clock.advance(SECOND);
        pause.await;
        let other = tokio::spawn(clock.clone().pause(5 * SECOND));
        clock.paused().await;
        clock.release();
        other.await.unwrap();
        assert_eq!(clock.elapsed(), 7 * SECOND);
    }

    #[tokio::test]
    async fn passing_time_waits_for_those_who_are_late() {
        let clock = TestClock::default();
        let timer = clock.timer(SECOND);
        let late = tokio::spawn(timer);
        clock.pass(SECOND).await;
        assert!(lock(&clock.0.timers).is_empty());
        late.await.unwrap();
    }

    #[test]
    fn no_two_readings_are_equal() {
        let clock = TestClock::default();
        let readings: Vec<_> = (0..4).map(|_| clock.now()).collect();
        assert!(readings.is_sorted_by(|a, b| a < b));
        clock.advance(SECOND);
        assert!(clock.now().ticks() - readings[3].ticks() > 10_000_000);
    }
}
