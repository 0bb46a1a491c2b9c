//! An engine that records what passes through it, and fails on demand.

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Key, KeyRange, Revision, Scan, ScanEnd,
    View, Visitor, Write,
};
use lazuli_testkit::layer::Layer;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What happens to a commit.
pub(crate) enum Fault {
    /// The commit happens, and its answer is lost.
    LoseAnswer,
    /// The commit is lost, and so is its answer.
    LoseCommit,
    /// The commit happens, and its answer never comes.
    HangAfter,
    /// Nothing happens, and no answer comes.
    Hang,
    /// The commit happens when the test says so, and no answer comes.
    Hold,
    Busy,
    Conflict,
    /// Something else happens first.
    After(BoxFuture<'static, ()>),
    /// Something else happens before the answer.
    Before(BoxFuture<'static, ()>),
}

/// Counts what an engine returns and receives.
#[derive(Default)]
pub(crate) struct Seen {
    /// Entries shown to scans.
    pub(crate) shown: AtomicU64,
    /// Deleted keys that scans skipped.
    pub(crate) passed: AtomicU64,
    pub(crate) scans: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Writes of the largest commit.
    pub(crate) writes_max: AtomicU64,
    /// Keys that commits deleted.
    pub(crate) deletes: AtomicU64,
    deleted: Mutex<BTreeSet<Key>>,
}

impl Seen {
    pub(crate) fn reset(&self) {
        let seen = [&self.shown, &self.passed, &self.scans];
        let taken = [&self.commits, &self.writes_max, &self.deletes];
        for counter in seen.into_iter().chain(taken) {
            counter.store(0, Ordering::SeqCst);
        }
    }

    pub(crate) fn of(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    fn committed(&self, commit: &Commit) {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.writes_max.fetch_max(commit.writes.len() as u64, Ordering::SeqCst);
        let mut deleted = self.deleted.lock().unwrap();
        for write in &commit.writes {
            match write {
                Write::Delete(key) => {
                    self.deletes.fetch_add(1, Ordering::SeqCst);
                    deleted.insert(key.clone())
                }
                Write::Put(key, _) => deleted.remove(key),
                Write::Modify(..) | Write::Append(..) => false,
            };
        }
    }

    fn scanned(&self, start: Vec<u8>, end: Vec<u8>) {
        if start < end {
            let passed = self.deleted.lock().unwrap();
            let passed = passed.range(Key::from(start)..Key::from(end)).count();
            self.passed.fetch_add(passed as u64, Ordering::SeqCst);
        }
    }
}

/// An engine, with faults for the next commits, and a nature chosen by the test.
pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Engine>,
    pub(crate) seen: Arc<Seen>,
    faults: Mutex<VecDeque<Fault>>,
    held: Mutex<Vec<Commit>>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        Self { inner, seen: Arc::default(), faults: Mutex::default(), held: Mutex::default() }
    }

    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Applies the held commits whose checks hold now; returns how many there were.
    pub(crate) async fn release(&self) -> usize {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        let mut happened = 0;
        for commit in held {
            happened += usize::from(self.inner.commit(commit).await.is_ok());
        }
        happened
    }
}

impl Layer for Watched {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn scan<'a>(
        &'a self,
        view: &'a dyn View,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move {
            self.seen.scans.fetch_add(1, Ordering::SeqCst);
            let KeyRange { start, end } = scan.range.clone();
            let mut last = None;
            let mut watch = |key: &[u8], value: &[u8], revision: Revision| {
                self.seen.shown.fetch_add(1, Ordering::SeqCst);
                last = Some(key.to_vec());
                visitor(key, value, revision)
            };
            let ended = view.scan(scan, &mut watch).await?;
            let reached = match &ended {
                ScanEnd::Done => end,
                ScanEnd::More(_) | ScanEnd::Stopped => last.unwrap_or_else(|| start.clone()),
            };
            self.seen.scanned(start, reached);
            Ok(ended)
        })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let lost = || Err(CommitError::Undetermined("the line is dead".into()));
        let fault = self.faults.lock().unwrap().pop_front();
        Box::pin(async move {
            self.seen.committed(&commit);
            match fault {
                None => self.inner.commit(commit).await,
                Some(Fault::LoseAnswer) => {
                    self.inner.commit(commit).await?;
                    lost()
                }
                Some(Fault::LoseCommit) => lost(),
                Some(Fault::HangAfter) => {
                    self.inner.commit(commit).await?;
                    std::future::pending().await
                }
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::Hold) => {
                    self.held.lock().unwrap().push(commit);
                    std::future::pending().await
                }
                Some(Fault::Conflict) => Err(CommitError::Conflict),
                Some(Fault::Busy) => Err(CommitError::Busy),
                Some(Fault::Before(second)) => {
                    let answer = self.inner.commit(commit).await;
                    second.await;
                    answer
                }
                Some(Fault::After(first)) => {
                    first.await;
                    self.inner.commit(commit).await
                }
            }
        })
    }
}
