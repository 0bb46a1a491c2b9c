//! Time, randomness and sleep, as an argument: tests control all three (C-19.5).

use crate::BoxFuture;
use lazuli_model::{Clock, SystemClock, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the library takes from its surroundings.
///
/// A clock that stands still until a test moves it:
///
/// ```
/// use lazuli_client::{BoxFuture, Env, Environment, Timestamp};
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Manual(Mutex<Duration>);
///
/// impl Environment for Manual {
///     fn now(&self) -> Timestamp {
///         Timestamp::UNIX_EPOCH.plus_seconds(self.elapsed().as_secs())
///     }
///
///     fn elapsed(&self) -> Duration {
///         *self.0.lock().unwrap()
///     }
///
///     fn random(&self) -> u64 {
///         4
///     }
///
///     fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
///         *self.0.lock().unwrap() += pause;
///         Box::pin(async {})
///     }
///
///     /// Only the server takes time, and it takes none.
///     fn timer(&self, _limit: Duration) -> BoxFuture<'static, ()> {
///         Box::pin(std::future::pending())
///     }
/// }
///
/// let test = Env::new(Manual::default());
/// # // A runtime, for its clock.
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # let _entered = runtime.enter();
/// let default = Env::system();
/// ```
pub trait Environment: Send + Sync + 'static {
    /// The time of day, for dates in requests.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment, for deadlines. It never decreases.
    fn elapsed(&self) -> Duration;
    /// A number that is hard enough to guess, for jitter and ids.
    fn random(&self) -> u64;
    /// Completes after `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;
    /// Completes when an operation under way has taken longer than `limit`. The same as `sleep`, except with a test
    /// clock: there `sleep` ends at once, and an exchange takes no time unless the test says so.
    fn timer(&self, limit: Duration) -> BoxFuture<'static, ()> {
        self.sleep(limit)
    }
}

/// The environment of an account. Cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<dyn Environment>);

impl Env {
    /// The system's clocks, tokio's timer, random numbers seeded by the system.
    pub fn system() -> Self {
        Self::new(System { began: tokio::time::Instant::now() })
    }

    /// An environment of your own.
    pub fn new(environment: impl Environment) -> Self {
        Self(Arc::new(environment))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.now()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(pause)
    }

    pub(crate) fn timer(&self, limit: Duration) -> BoxFuture<'static, ()> {
        self.0.timer(limit)
    }

    /// A number below `bound`, which must not be zero.
    #[cfg(feature = "patterns")]
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.0.random() % bound.max(1)
    }

    /// A duration below `max`.
    pub(crate) fn jitter(&self, max: Duration) -> Duration {
        let share = self.0.random() as f64 / u64::MAX as f64;
        max.mul_f64(share.clamp(0.0, 1.0))
    }

    /// A random GUID of version 4.
    pub(crate) fn guid(&self) -> lazuli_model::Guid {
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&self.0.random().to_be_bytes());
        low.copy_from_slice(&self.0.random().to_be_bytes());
        let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
        *version = *version & 0x0F | 0x40;
        *variant = *variant & 0x3F | 0x80;
        lazuli_model::Guid(bytes)
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env(..)")
    }
}

struct System {
    began: tokio::time::Instant,
}

impl Environment for System {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_guids_of_version_4() {
        let text = Env::system().guid().to_string();
        let bytes = text.as_bytes();
        assert_eq!(bytes.len(), 36);
        assert_eq!(bytes[14], b'4', "{text}");
        assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'), "{text}");
    }

    #[test]
    fn jitter_stays_below_its_bound() {
        let env = Env::system();
        for _ in 0..100 {
            assert!(env.jitter(Duration::from_secs(1)) <= Duration::from_secs(1));
        }
        assert_eq!(env.jitter(Duration::ZERO), Duration::ZERO);
    }
}
