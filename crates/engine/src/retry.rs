//! The one retry loop: a budget, and exponential back-off with jitter.
//!
//! A commit that conflicts with another writer is first retried immediately, because the other has
//! usually finished by then. After that the maximum pause doubles each time, and the actual pause
//! is a random part of it, so that two writers do not conflict again.

use crate::BoxFuture;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// How long to keep trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub attempts_max: u32,
    /// No attempt begins later than this after the first one failed.
    pub ms_max: u64,
    /// The second pause is at most 1 ms, the next at most 2 ms, and so on up to this.
    pub pause_ms_max: u64,
}

impl Budget {
    pub const DEFAULT: Self = Self { attempts_max: 32, ms_max: 5_000, pause_ms_max: 32 };
}

/// What retries need from the environment: time and randomness.
pub trait Pace: Send + Sync {
    /// Milliseconds of a clock that never steps back.
    fn now_ms(&self) -> u64;

    /// A random number, different for each call.
    fn random(&self) -> u64;

    /// Waits this long. With zero it only yields.
    fn pause(&self, ms: u64) -> BoxFuture<'_, ()>;
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    Done(T),
    Again,
}

/// Tries until an attempt is done; `None` when the budget is spent.
pub async fn retry<T, F>(
    pace: &dyn Pace,
    budget: Budget,
    mut attempt: impl FnMut() -> F,
) -> Option<T>
where
    F: Future<Output = Attempt<T>>,
{
    if let Attempt::Done(done) = attempt().await {
        return Some(done);
    }
    let started = pace.now_ms();
    for failures in 1..budget.attempts_max {
        pace.pause(pause_ms(failures, pace.random(), budget.pause_ms_max)).await;
        if pace.now_ms().saturating_sub(started) > budget.ms_max {
            return None;
        }
        if let Attempt::Done(done) = attempt().await {
            return Some(done);
        }
    }
    None
}

/// The pause after this many failures: none after the first, then random up to 1, 2, 4, … ms.
fn pause_ms(failures: u32, random: u64, max: u64) -> u64 {
    let Some(doublings) = failures.checked_sub(2) else { return 0 };
    let ceiling = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX).min(max);
    random % ceiling.saturating_add(1)
}

/// The pace of a process that is the only writer: a conflicting commit is done once other tasks
/// have run. Its clock stands still, so only attempts count.
#[derive(Clone, Copy, Debug, Default)]
pub struct GiveWay;

impl Pace for GiveWay {
    fn now_ms(&self) -> u64 {
        0
    }

    fn random(&self) -> u64 {
        0
    }

    fn pause(&self, _: u64) -> BoxFuture<'_, ()> {
        Box::pin(give_way())
    }
}

/// Lets other tasks run once, whatever the runtime.
pub async fn give_way() {
    let mut has_given_way = false;
    poll_fn(|context| {
        if has_given_way {
            return Poll::Ready(());
        }
        has_given_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
