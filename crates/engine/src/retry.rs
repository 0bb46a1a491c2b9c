//! The one loop that tries again: with a budget, growing pauses, and chance in their length.
//!
//! A commit that met another writer is tried again at once, because most often the other is done by then.
//! If it meets one again, it waits: each time up to twice as long, and for a random part of that, so that
//! two writers that met do not meet again.

use crate::BoxFuture;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// How long to go on trying.
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

/// What trying again takes of the world: time and chance.
pub trait Pace: Send + Sync {
    /// Milliseconds of a clock that never steps back.
    fn now_ms(&self) -> u64;

    /// Any number; each call gives another.
    fn random(&self) -> u64;

    /// Waits for so long. Without a length it only lets others run.
    fn pause(&self, ms: u64) -> BoxFuture<'_, ()>;
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    Done(T),
    Again,
}

/// Attempts until one is done; `None` when the budget is spent.
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

/// The pause after so many failures: none after the first, then at random up to 1, 2, 4, … ms.
fn pause_ms(failures: u32, random: u64, max: u64) -> u64 {
    let Some(doublings) = failures.checked_sub(2) else { return 0 };
    let ceiling = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX).min(max);
    random % ceiling.saturating_add(1)
}

/// The pace of a process that shares its engine with nobody: what was in the way is done once others
/// have run. Its clock stands still, so that only attempts are counted.
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
