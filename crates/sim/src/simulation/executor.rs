//! A single-threaded scheduler: the seed chooses the next task, and time passes only when there is
//! nothing to do.

use lazuli_testkit::seed::Seeded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Polls after which a run counts as infinite.
const POLLS_MAX: usize = 2_000_000;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks until all of them have ended.
pub(super) struct Executor {
    tasks: Vec<Option<Task>>,
    handle: Handle,
}

/// The tasks' handle to the executor.
#[derive(Clone)]
pub(super) struct Handle(Arc<Mutex<Shared>>);

struct Shared {
    random: Seeded,
    /// Simulated time.
    now: u64,
    /// Tasks that are ready.
    ready: Vec<usize>,
    /// Tasks spawned since the last poll.
    spawned: Vec<Task>,
    timers: BinaryHeap<Reverse<Timer>>,
    timers_set: u64,
}

struct Timer {
    at: u64,
    /// Orders timers of the same moment.
    number: u64,
    waker: Waker,
}

impl Executor {
    pub(super) fn new(random: Seeded) -> Self {
        let shared = Shared {
            random,
            now: 0,
            ready: Vec::new(),
            spawned: Vec::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
        };
        Self { tasks: Vec::new(), handle: Handle(Arc::new(Mutex::new(shared))) }
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(super) fn run(mut self) -> Result<(), String> {
        for _ in 0..POLLS_MAX {
            self.take_over_spawned();
            let Some(number) = self.choose() else {
                if self.handle.pass_time() {
                    continue;
                }
                return match self.tasks.iter().flatten().count() {
                    0 => Ok(()),
                    left => Err(format!("{left} tasks wait for something that never comes")),
                };
            };
            let Some(Some(task)) = self.tasks.get_mut(number) else { continue };
            let waker = Waker::from(Arc::new(TaskWaker { number, handle: self.handle.clone() }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                && let Some(place) = self.tasks.get_mut(number)
            {
                *place = None;
            }
        }
        Err(format!("no end after {POLLS_MAX} polls"))
    }

    fn take_over_spawned(&mut self) {
        let mut shared = self.handle.shared();
        for task in std::mem::take(&mut shared.spawned) {
            shared.ready.push(self.tasks.len());
            self.tasks.push(Some(task));
        }
    }

    /// A random ready task.
    fn choose(&self) -> Option<usize> {
        let mut shared = self.handle.shared();
        let ready = shared.ready.len();
        if ready == 0 {
            return None;
        }
        let chosen = shared.random.below(ready);
        Some(shared.ready.swap_remove(chosen))
    }
}

impl Handle {
    /// Starts a task; the future returned resolves when it has ended.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let (sender, receiver) = answer();
        let task = async move { sender.send(task.await) };
        self.shared().spawned.push(Box::pin(task));
        receiver
    }

    pub(super) fn now(&self) -> u64 {
        self.shared().now
    }

    /// Waits `ticks` of simulated time; always lets others go first.
    pub(super) fn sleep(&self, ticks: u64) -> impl Future<Output = ()> + Send + 'static {
        let handle = self.clone();
        let at = self.now() + ticks;
        let mut is_set = false;
        poll_fn(move |context| {
            // One timer for each sleep, as a task has one waker: a timer for each poll would wake
            // the task again, and set more.
            if !std::mem::replace(&mut is_set, true) {
                handle.wake_at(at, context.waker().clone());
                return Poll::Pending;
            }
            if handle.now() < at { Poll::Pending } else { Poll::Ready(()) }
        })
    }

    /// The output of `future`, or `None` if it takes longer than `ticks`. Its work may then be half done.
    pub(super) async fn within<T>(&self, ticks: u64, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut deadline = pin!(self.sleep(ticks));
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            deadline.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    fn wake_at(&self, at: u64, waker: Waker) {
        let mut shared = self.shared();
        shared.timers_set += 1;
        let timer = Timer { at, number: shared.timers_set, waker };
        shared.timers.push(Reverse(timer));
    }

    /// Lets time pass until the next timer; `false` if there is none.
    fn pass_time(&self) -> bool {
        let Some(Reverse(timer)) = self.shared().timers.pop() else { return false };
        let mut shared = self.shared();
        shared.now = shared.now.max(timer.at);
        drop(shared);
        timer.waker.wake();
        true
    }

    /// Everything runs on one thread, so this never blocks.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    number: usize,
    handle: Handle,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut shared = self.handle.shared();
        if !shared.ready.contains(&self.number) {
            shared.ready.push(self.number);
        }
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Where a result is put, and the future that waits for it.
struct Sender<T>(Arc<Mutex<Answer<T>>>);

struct Answer<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

fn answer<T: Send>() -> (Sender<T>, impl Future<Output = T> + Send) {
    let place = Arc::new(Mutex::new(Answer { value: None, waker: None }));
    let sender = Sender(place.clone());
    let receiver = poll_fn(move |context| {
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        match place.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                place.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    (sender, receiver)
}

impl<T> Sender<T> {
    fn send(self, value: T) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.value = Some(value);
        if let Some(waker) = place.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which ten tasks of three steps each take their steps.
    fn order(seed: u64) -> Vec<usize> {
        let executor = Executor::new(Seeded::new(seed));
        let steps = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            let (handle, steps) = (executor.handle(), steps.clone());
            drop(executor.handle().spawn(async move {
                for _ in 0..3 {
                    steps.lock().unwrap().push(number);
                    handle.sleep(0).await;
                }
            }));
        }
        executor.run().unwrap();
        let steps = steps.lock().unwrap();
        steps.clone()
    }

    #[test]
    fn a_seed_fixes_the_order_and_another_changes_it() {
        assert_eq!(order(1).len(), 30);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn time_passes_when_nothing_else_can() {
        let executor = Executor::new(Seeded::new(1));
        let handle = executor.handle();
        drop(executor.handle().spawn(async move {
            let slow = handle.sleep(100);
            assert_eq!(handle.within(10, slow).await, None);
            assert_eq!(handle.now(), 10);
            assert_eq!(handle.within(100, handle.sleep(50)).await, Some(()));
            assert_eq!(handle.now(), 60);
        }));
        executor.run().unwrap();
    }

    #[test]
    fn a_task_that_can_never_go_on_is_reported() {
        let executor = Executor::new(Seeded::new(1));
        drop(executor.handle().spawn(std::future::pending::<()>()));
        assert!(executor.run().unwrap_err().contains("never comes"));
    }
}
