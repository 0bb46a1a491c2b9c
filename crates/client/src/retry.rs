//! When a request is retried (C-13.1 to C-13.3).

use crate::env::Env;
use crate::transport::Sent;
use http::StatusCode;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often and how soon a request is retried.
///
/// ```
/// use lazuli_client::{Retry, Sent};
/// use std::time::Duration;
///
/// let patient = Retry::default().attempts(10).pauses(Duration::from_secs(1), Duration::from_secs(30));
/// let once = Retry::none();
/// // Retries only what certainly was not carried out, twice.
/// let careful = Retry::custom(|failed| {
///     (failed.sent == Sent::No && failed.attempts <= 2).then_some(Duration::from_millis(100))
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Retry {
    attempts: u32,
    pause: Duration,
    pause_max: Duration,
    strict: bool,
    custom: Option<Custom>,
}

/// A policy from the caller.
#[derive(Clone)]
struct Custom(Arc<Policy>);

type Policy = dyn Fn(&Failed) -> Option<Duration> + Send + Sync;

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom(..)")
    }
}

/// A request that failed in a way that may be transient (C-13.2).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// Requests sent so far for the operation, including this one.
    pub attempts: u32,
    /// The status of the response; `None` if none came.
    pub status: Option<StatusCode>,
    /// Whether the service may have seen a request that got no response.
    pub sent: Sent,
    /// The pause that the service requested.
    pub retry_after: Option<Duration>,
}

impl Default for Retry {
    /// Five attempts; random pauses of at most 200 ms, 400 ms and so on.
    fn default() -> Self {
        Self {
            attempts: 5,
            pause: Duration::from_millis(200),
            pause_max: Duration::from_secs(10),
            strict: false,
            custom: None,
        }
    }
}

impl Retry {
    /// One attempt, no retries.
    pub fn none() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// A custom policy: returns the pause before the next attempt, or `None` to give up. It is only called for failures
    /// that may be transient (C-13.2); the deadline of the operation and the retry budget of the account still apply.
    pub fn custom(policy: impl Fn(&Failed) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self { custom: Some(Custom(Arc::new(policy))), ..Self::default() }
    }

    /// At most this many attempts, including the first; zero counts as one.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// The upper bound of the first pause, which doubles after each attempt, and that of all pauses.
    #[must_use]
    pub fn pauses(self, first: Duration, max: Duration) -> Self {
        Self { pause: first, pause_max: max, ..self }
    }

    /// If the answer to a write was lost, never takes equal content as proof that it was carried out
    /// (C-13.7).
    #[must_use]
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }

    pub(crate) fn trusts_content(&self) -> bool {
        !self.strict
    }

    /// The pause before the next attempt: the one that the service requested, else a random one up to a bound that
    /// doubles. `None` if there are no attempts left.
    pub(crate) fn pause_after(&self, failed: &Failed, env: &Env) -> Option<Duration> {
        if let Some(Custom(policy)) = &self.custom {
            return policy(failed);
        }
        if failed.attempts >= self.attempts {
            return None;
        }
        Some(self.backoff(failed, env))
    }

    /// The pause, whether or not there is another attempt.
    pub(crate) fn backoff(&self, failed: &Failed, env: &Env) -> Duration {
        let doublings = failed.attempts.saturating_sub(1).min(16);
        let bound = self.pause.saturating_mul(1 << doublings).min(self.pause_max);
        failed.retry_after.unwrap_or_else(|| env.jitter(bound))
    }
}

/// Tokens that the retries of all requests of an account consume, so that a failing server does not get five
/// times its load.
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicU32);

/// What a retry costs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Price {
    Ordinary = 5,
    /// After a request that took long to fail.
    Timeout = 10,
}

impl RetryBudget {
    const FULL: u32 = 500;

    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(Self::FULL))
    }

    /// Takes tokens; false if there are too few.
    pub(crate) fn take(&self, price: Price) -> bool {
        let take = |tokens: u32| tokens.checked_sub(price as u32);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns a token after a success.
    pub(crate) fn earn(&self) {
        let give = |tokens: u32| (tokens < Self::FULL).then_some(tokens + 1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_retries_and_recovers_by_success() {
        // C-13.3.
        let budget = RetryBudget::new();
        let taken = (0..).take_while(|_| budget.take(Price::Ordinary)).count();
        assert_eq!(taken, 100);
        (0..9).for_each(|_| budget.earn());
        assert!(!budget.take(Price::Timeout) && budget.take(Price::Ordinary));
    }

    #[test]
    fn pauses_double_up_to_their_bound() {
        // C-13.1.
        let retry = Retry::default().attempts(31);
        let env = Env::system();
        let pause = |retry: &Retry, attempts| {
            let failed = Failed { attempts, status: None, sent: Sent::No, retry_after: None };
            retry.pause_after(&failed, &env)
        };
        for (attempts, bound) in [(1, 200), (2, 400), (3, 800), (30, 10_000)] {
            assert!(pause(&retry, attempts) <= Some(Duration::from_millis(bound)));
        }
        assert_eq!((pause(&retry, 31), pause(&Retry::none(), 1)), (None, None));
        let twice = Retry::custom(|failed| (failed.attempts < 2).then_some(Duration::ZERO));
        assert_eq!((pause(&twice, 1), pause(&twice, 2)), (Some(Duration::ZERO), None));
    }
}
