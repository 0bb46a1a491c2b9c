//! Time that engines spend on commits, for their callers.
//!
//! An engine is called through many layers, none of which knows the request. But a commit ends while
//! its caller is polled, on the thread that polls it: so the engine records the time on that thread,
//! and the caller collects it after each poll. Neither takes a lock or allocates.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static COMMITTING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Records that a commit took this long, from call to result.
pub fn record_commit(took: Duration) {
    COMMITTING.set(COMMITTING.get() + took);
}

/// Runs `poll`, and adds to `spent` what it recorded.
#[inline]
pub fn collect_commits<T>(spent: &mut Duration, poll: impl FnOnce() -> T) -> T {
    let outer = COMMITTING.take();
    let outcome = poll();
    let inner = COMMITTING.replace(outer);
    // Most polls commit nothing.
    if !inner.is_zero() {
        *spent += inner;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_belongs_to_the_poll_in_which_a_commit_ended() {
        const SECOND: Duration = Duration::from_secs(1);
        let (mut outer, mut inner) = (Duration::ZERO, Duration::ZERO);
        collect_commits(&mut outer, || {
            record_commit(SECOND);
            collect_commits(&mut inner, || {
                record_commit(2 * SECOND);
                record_commit(3 * SECOND);
            });
            record_commit(10 * SECOND);
        });
        collect_commits(&mut outer, || {});
        assert_eq!((outer, inner), (11 * SECOND, 5 * SECOND));
    }
}
