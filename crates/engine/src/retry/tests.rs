use super::*;
use std::sync::Mutex;
use std::task::{Context, Waker};

/// A pace whose time passes only in pauses.
#[derive(Default)]
struct Recorded {
    random: u64,
    ms_per_attempt: u64,
    state: Mutex<(u64, Vec<u64>)>,
}

impl Recorded {
    fn pauses(&self) -> Vec<u64> {
        self.state.lock().unwrap().1.clone()
    }
}

impl Pace for Recorded {
    fn now_ms(&self) -> u64 {
        self.state.lock().unwrap().0
    }

    fn random(&self) -> u64 {
        self.random
    }

    fn pause(&self, ms: u64) -> BoxFuture<'_, ()> {
        let mut state = self.state.lock().unwrap();
        state.0 += ms + self.ms_per_attempt;
        state.1.push(ms);
        Box::pin(std::future::ready(()))
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}

/// Succeeds at this attempt.
fn tries(pace: &dyn Pace, budget: Budget, succeeds_at: u32) -> (Option<u32>, u32) {
    let mut attempts = 0;
    let outcome = block_on(retry(pace, budget, || {
        attempts += 1;
        let done = attempts == succeeds_at;
        std::future::ready(if done { Attempt::Done(attempts) } else { Attempt::Again })
    }));
    (outcome, attempts)
}

#[test]
fn success_at_once_takes_no_time_and_no_chance() {
    struct Untouched;
    impl Pace for Untouched {
        fn now_ms(&self) -> u64 {
            unreachable!("the clock is not looked at")
        }
        fn random(&self) -> u64 {
            unreachable!("nothing is drawn")
        }
        fn pause(&self, _: u64) -> BoxFuture<'_, ()> {
            unreachable!("nobody waits")
        }
    }
    assert_eq!(tries(&Untouched, Budget::DEFAULT, 1), (Some(1), 1));
}

#[test]
fn pauses_double_up_to_their_bound() {
    let pace = Recorded { random: u64::MAX - 1, ..Recorded::default() };
    let budget = Budget { attempts_max: 10, ms_max: u64::MAX, pause_ms_max: 32 };
    assert_eq!(tries(&pace, budget, 99), (None, 10));
    let most = |failures, max| (0..1000).map(|random| pause_ms(failures, random, max)).max();
    let pauses: Vec<_> = (1..10).map(|failures| most(failures, 32).unwrap()).collect();
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 32, 32]);
    assert!(pace.pauses().iter().zip(pauses).all(|(paused, most)| *paused <= most));
    assert_eq!(pause_ms(u32::MAX, 7, 5), 1);
}

#[test]
fn chance_decides_the_length_of_a_pause() {
    let lengths = |random| pause_ms(7, random, 32);
    assert_eq!([0, 1, 32, 33, 34].map(lengths), [0, 1, 32, 0, 1]);
}

#[test]
fn attempts_end_with_the_budget() {
    let budget = Budget { attempts_max: 3, ..Budget::DEFAULT };
    assert_eq!(tries(&GiveWay, budget, 3), (Some(3), 3));
    assert_eq!(tries(&GiveWay, budget, 4), (None, 3));
}

#[test]
fn no_attempt_begins_after_the_time_is_up() {
    let pace = Recorded { ms_per_attempt: 2_000, ..Recorded::default() };
    assert_eq!(tries(&pace, Budget::DEFAULT, 99), (None, 3));
}
