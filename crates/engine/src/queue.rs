//! Serializes the commits of one process that modify the same key, first come first served, instead
//! of letting them conflict in the store, where each conflict costs the loser a round trip and a
//! pause.

use crate::{Commit, CommitError, Key, Write};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The queues of commits that wait for keys.
#[derive(Debug)]
pub struct KeyQueue {
    /// Places in all queues combined.
    places_max: usize,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<Key, VecDeque<Place>>,
    places: usize,
    tickets: u64,
}

#[derive(Debug)]
struct Place {
    ticket: u64,
    waker: Option<Waker>,
}

/// Exclusive use of all keys of a commit, until dropped.
#[must_use = "the turn ends when it is dropped"]
#[derive(Debug)]
pub struct Turn<'q> {
    queue: &'q KeyQueue,
    /// In the order of the keys. The last may still wait.
    places: Vec<(Key, u64)>,
}

impl KeyQueue {
    /// A queue with this many places for keys.
    pub fn new(places_max: usize) -> Self {
        Self { places_max, lines: Mutex::default() }
    }

    /// Waits until no earlier commit of this process modifies a key that `commit` modifies. Keys
    /// are taken in order, so that commits cannot deadlock. Returns [`CommitError::Busy`] if no
    /// place is free.
    pub async fn enter(&self, commit: &Commit) -> Result<Turn<'_>, CommitError> {
        let modified = commit.writes.iter().filter(|write| matches!(write, Write::Modify(..)));
        self.enter_keys(modified.filter_map(Write::key).collect()).await
    }

    /// Waits until no earlier commit of this process uses one of these keys. For a commit that has
    /// conflicted: from now on it conflicts with other processes only.
    pub async fn enter_keys(&self, mut keys: Vec<&Key>) -> Result<Turn<'_>, CommitError> {
        keys.sort();
        keys.dedup();
        let mut turn = Turn { queue: self, places: Vec::with_capacity(keys.len()) };
        for key in keys {
            let ticket = self.join(key)?;
            turn.places.push((key.clone(), ticket));
            self.wait(key, ticket).await;
        }
        Ok(turn)
    }

    fn join(&self, key: &Key) -> Result<u64, CommitError> {
        let mut lines = self.lines();
        if lines.places >= self.places_max {
            return Err(CommitError::Busy);
        }
        lines.places += 1;
        lines.tickets += 1;
        let ticket = lines.tickets;
        lines.by_key.entry(key.clone()).or_default().push_back(Place { ticket, waker: None });
        Ok(ticket)
    }

    async fn wait(&self, key: &Key, ticket: u64) {
        poll_fn(|context| {
            let mut lines = self.lines();
            let Some(line) = lines.by_key.get_mut(key) else { return Poll::Ready(()) };
            if line.front().is_none_or(|first| first.ticket == ticket) {
                return Poll::Ready(());
            }
            if let Some(place) = line.iter_mut().find(|place| place.ticket == ticket) {
                place.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn leave(&self, key: &Key, ticket: u64) {
        let mut lines = self.lines();
        let Some(line) = lines.by_key.get_mut(key) else { return };
        let before = line.len();
        line.retain(|place| place.ticket != ticket);
        let gone = before - line.len();
        let next = line.front_mut().and_then(|first| first.waker.take());
        if line.is_empty() {
            lines.by_key.remove(key);
        }
        lines.places -= gone;
        drop(lines);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// No code under the lock can panic halfway.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for (key, ticket) in self.places.drain(..) {
            self.queue.leave(&key, ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxError, Current, Modify, Revision};
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::Context;

    #[derive(Debug)]
    struct Nothing;

    impl Modify for Nothing {
        fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
            Ok(None)
        }

        fn held_bytes(&self) -> usize {
            0
        }
    }

    fn modifies(keys: &[&str]) -> Commit {
        let modify = |key: &&str| Write::Modify(key.as_bytes().to_vec().into(), Arc::new(Nothing));
        Commit::new(Revision(0), keys.iter().map(modify).collect())
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn commits_of_one_key_take_turns_in_the_order_they_came() {
        let queue = KeyQueue::new(10);
        let (a, b, c) = (modifies(&["k"]), modifies(&["k"]), modifies(&["k"]));
        let first = poll(pin!(queue.enter(&a))).unwrap().unwrap();
        let (mut second, mut third) = (pin!(queue.enter(&b)), pin!(queue.enter(&c)));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(first);
        assert!(poll(third.as_mut()).is_none());
        let turn = poll(second.as_mut()).unwrap().unwrap();
        assert!(poll(third.as_mut()).is_none());
        drop(turn);
        drop(poll(third.as_mut()).unwrap().unwrap());
        assert!(queue.lines().by_key.is_empty());
    }

    #[test]
    fn commits_of_other_keys_and_without_functions_do_not_wait() {
        let queue = KeyQueue::new(10);
        let held = modifies(&["a", "b"]);
        let _held = poll(pin!(queue.enter(&held))).unwrap().unwrap();
        let other = modifies(&["c"]);
        assert!(poll(pin!(queue.enter(&other))).is_some());
        let plain = Commit::new(Revision(0), vec![Write::Delete(b"a".to_vec().into())]);
        assert!(poll(pin!(queue.enter(&plain))).is_some());
    }

    #[test]
    fn keys_given_one_by_one_are_taken_once_and_in_order() {
        let queue = KeyQueue::new(10);
        let modified = modifies(&["a"]);
        let turn = poll(pin!(queue.enter(&modified))).unwrap().unwrap();
        let (a, b): (Key, Key) = (b"a".to_vec().into(), b"b".to_vec().into());
        let mut waits = pin!(queue.enter_keys(vec![&b, &a, &b]));
        assert!(poll(waits.as_mut()).is_none());
        drop(turn);
        drop(poll(waits.as_mut()).unwrap().unwrap());
        assert!(queue.lines().by_key.is_empty());
    }

    #[test]
    fn commits_that_share_several_keys_do_not_wait_for_each_other_in_a_ring() {
        let queue = KeyQueue::new(10);
        let (one, other) = (modifies(&["a", "b"]), modifies(&["b", "a"]));
        let turn = poll(pin!(queue.enter(&one))).unwrap().unwrap();
        let mut waits = pin!(queue.enter(&other));
        assert!(poll(waits.as_mut()).is_none());
        assert!(!queue.lines().by_key.values().any(|line| line.len() > 2));
        drop(turn);
        assert!(poll(waits.as_mut()).is_some());
    }

    #[test]
    fn a_commit_that_is_given_up_leaves_its_line() {
        let queue = KeyQueue::new(10);
        let (a, b, c) = (modifies(&["k"]), modifies(&["k"]), modifies(&["k"]));
        let turn = poll(pin!(queue.enter(&a))).unwrap().unwrap();
        let mut last = pin!(queue.enter(&c));
        {
            let mut given_up = pin!(queue.enter(&b));
            assert!(poll(given_up.as_mut()).is_none() && poll(last.as_mut()).is_none());
        }
        drop(turn);
        assert!(poll(last.as_mut()).is_some());
    }

    #[test]
    fn places_are_bounded() {
        let queue = KeyQueue::new(2);
        let (two, one) = (modifies(&["a", "b"]), modifies(&["c"]));
        let turn = poll(pin!(queue.enter(&two))).unwrap().unwrap();
        let full = poll(pin!(queue.enter(&one))).unwrap();
        assert!(matches!(full, Err(CommitError::Busy)));
        drop(turn);
        assert!(poll(pin!(queue.enter(&one))).unwrap().is_ok());
        assert_eq!(queue.lines().places, 0);
    }
}
