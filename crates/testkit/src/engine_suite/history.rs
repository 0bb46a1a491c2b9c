//! Random histories: an engine behaves like a `BTreeMap` at every step.

use super::sequential::collect;
use super::*;
use lazuli_engine::{Change, Derive, Derived, Refusal};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::BTreeMap;

pub fn random_histories_match_the_model(make: Make<'_>) {
    // Otherwise files of failing cases would be written next to the caller; the seed in the message
    // is enough.
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let history = proptest::collection::vec(step(), 1..80);
    let outcome = TestRunner::new(config).run(&history, |steps| {
        let fixture = make();
        run(replay(fixture.engine.as_ref(), steps))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit(RandomCommit),
    KeepView,
    Get(Index, Vec<Vec<u8>>),
    Scan(Index, RandomScan),
}

#[derive(Clone, Debug)]
struct RandomCommit {
    not_before: u64,
    guards: Vec<(Vec<u8>, RandomExpect)>,
    checks: Vec<(Vec<u8>, RandomExpect)>,
    writes: BTreeMap<Vec<u8>, RandomWrite>,
    appends: Vec<Vec<u8>>,
    /// Whether a [`Mirror`] is derived.
    is_mirrored: bool,
}

#[derive(Clone, Copy, Debug)]
enum RandomExpect {
    Absent,
    Present,
    AtCurrent,
    AtAnother,
}

#[derive(Clone, Debug)]
enum RandomWrite {
    Put(Vec<u8>),
    Delete,
    Append(Vec<u8>),
    Remove,
    Refuse,
}

#[derive(Clone, Debug)]
struct RandomScan {
    from: Vec<u8>,
    to: Vec<u8>,
    backward: bool,
    rows_max: usize,
    bytes_max: usize,
}

/// Few keys, so that they collide, including prefixes of each other and extreme bytes.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop::sample::select(vec![0x00, 0x01, b'a', b'b', 0xFF]), 0..3)
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..20)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_commit().prop_map(Step::Commit),
        1 => Just(Step::KeepView),
        2 => (any::<Index>(), proptest::collection::vec(any_key(), 1..4))
            .prop_map(|(view, keys)| Step::Get(view, keys)),
        2 => (any::<Index>(), any_scan()).prop_map(|(view, scan)| Step::Scan(view, scan)),
    ]
}

fn any_commit() -> impl Strategy<Value = RandomCommit> {
    let expect = prop_oneof![
        1 => Just(RandomExpect::Absent),
        1 => Just(RandomExpect::Present),
        3 => Just(RandomExpect::AtCurrent),
        1 => Just(RandomExpect::AtAnother),
    ];
    let write = prop_oneof![
        4 => any_value().prop_map(RandomWrite::Put),
        2 => Just(RandomWrite::Delete),
        2 => any_value().prop_map(RandomWrite::Append),
        1 => Just(RandomWrite::Remove),
        1 => Just(RandomWrite::Refuse),
    ];
    let guards = proptest::collection::vec((any_key(), expect.clone()), 0..2);
    let checks = proptest::collection::vec((any_key(), expect), 0..3);
    let writes = proptest::collection::btree_map(any_key(), write, 0..5);
    let appends = proptest::collection::vec(any_value(), 0..3);
    (0..10_000_u64, guards, checks, writes, appends, any::<bool>()).prop_map(
        |(not_before, guards, checks, writes, appends, is_mirrored)| RandomCommit {
            not_before,
            guards,
            checks,
            writes,
            appends,
            is_mirrored,
        },
    )
}

fn any_scan() -> impl Strategy<Value = RandomScan> {
    (any_key(), any_key(), any::<bool>(), 0..6_usize, 0..100_usize).prop_map(
        |(from, to, backward, rows_max, bytes_max)| RandomScan {
            from,
            to,
            backward,
            rows_max,
            bytes_max,
        },
    )
}

/// The state of the map; keys are as stored.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Revision)>;

struct Replay<'e> {
    engine: &'e dyn Engine,
    model: Model,
    /// The last revision that wrote or deleted each key.
    revisions: BTreeMap<Vec<u8>, Revision>,
    /// Open views, each with the state that it must show.
    views: Vec<(Arc<dyn View>, Model)>,
}

async fn replay(engine: &dyn Engine, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut replay =
        Replay { engine, model: Model::new(), revisions: BTreeMap::new(), views: Vec::new() };
    for step in steps {
        match step {
            Step::Commit(commit) => replay.commit(commit).await?,
            Step::KeepView => {
                let view = engine.view().await.unwrap();
                // A lazy view takes its snapshot at the first read.
                view.get(key("").as_slice()).await.unwrap();
                replay.views.push((view, replay.model.clone()));
            }
            Step::Get(view, keys) => replay.get(view, keys).await?,
            Step::Scan(view, scan) => replay.scan(view, scan).await?,
        }
    }
    let view = engine.view().await.unwrap();
    replay.views.push((view, replay.model.clone()));
    for (view, model) in &replay.views {
        prop_assert_eq!(entries(view.as_ref(), everything()).await, all_of(model));
    }
    Ok(())
}

impl Replay<'_> {
    async fn commit(&mut self, random: RandomCommit) -> Result<(), TestCaseError> {
        let checks = |checks: &[(Vec<u8>, RandomExpect)]| {
            checks.iter().map(|(text, expect)| self.check(text, *expect)).collect()
        };
        let writes = random.writes.iter().map(|(text, write)| concrete(text, write));
        let appends = random.appends.iter().map(|value| Write::Append(log(), value.clone().into()));
        let commit = Commit {
            guards: checks(&random.guards),
            checks: checks(&random.checks),
            derive: random.is_mirrored.then(|| Arc::new(Mirror) as _),
            ..Commit::new(Revision(random.not_before), writes.chain(appends).collect())
        };
        let expected = self.expected(&commit, &random);
        match (self.engine.commit(commit).await, expected) {
            (Ok(revision), Ok(())) => self.written(random, revision),
            (
                Err(CommitError::CheckFailed { index, found }),
                Err(CommitError::CheckFailed { index: expected_index, found: expected_found }),
            ) => {
                prop_assert_eq!((index, found), (expected_index, expected_found));
                Ok(())
            }
            (
                Err(CommitError::GuardFailed { index, found }),
                Err(CommitError::GuardFailed { index: expected_index, found: expected_found }),
            ) => {
                prop_assert_eq!((index, found), (expected_index, expected_found));
                Ok(())
            }
            (
                Err(CommitError::Refused { index, .. }),
                Err(CommitError::Refused { index: expected_index, .. }),
            ) => {
                prop_assert_eq!(index, expected_index);
                Ok(())
            }
            (got, expected) => {
                Err(TestCaseError::fail(format!("got {got:?}, expected {expected:?}")))
            }
        }
    }

    fn check(&self, text: &[u8], expect: RandomExpect) -> Check {
        let current = self.model.get(key(text).as_slice()).map_or(Revision(7), |(_, r)| *r);
        let expect = match expect {
            RandomExpect::Absent => Expect::Absent,
            RandomExpect::Present => Expect::Present,
            RandomExpect::AtCurrent => Expect::At(current),
            RandomExpect::AtAnother => Expect::At(Revision(current.0 + 1)),
        };
        check(text, expect)
    }

    /// The result that the contract requires.
    fn expected(&self, commit: &Commit, random: &RandomCommit) -> Result<(), CommitError> {
        if let Some((index, found)) = self.first_failure(&commit.guards) {
            return Err(CommitError::GuardFailed { index, found });
        }
        if let Some((index, found)) = self.first_failure(&commit.checks) {
            return Err(CommitError::CheckFailed { index, found });
        }
        match random.writes.values().position(|write| matches!(write, RandomWrite::Refuse)) {
            Some(index) => Err(CommitError::Refused { index, reason: "refused".into() }),
            None => Ok(()),
        }
    }

    fn first_failure(&self, checks: &[Check]) -> Option<(usize, Option<Revision>)> {
        checks.iter().enumerate().find_map(|(index, check)| {
            let found = self.model.get(check.key.as_slice()).map(|(_, revision)| *revision);
            (!check.expect.holds(found)).then_some((index, found))
        })
    }

    /// Applies the commit with `revision` to the model.
    fn written(&mut self, random: RandomCommit, revision: Revision) -> Result<(), TestCaseError> {
        prop_assert!(revision >= Revision(random.not_before));
        for (text, write) in random.writes {
            let key = key(text).as_slice().to_vec();
            let before = self.revisions.insert(key.clone(), revision);
            prop_assert!(before < Some(revision), "{before:?} before {revision:?}");
            let current = self.model.get(&key).map(|(value, _)| value.clone());
            let value = match write {
                RandomWrite::Put(value) => Some(value),
                RandomWrite::Append(value) => Some([current.unwrap_or_default(), value].concat()),
                RandomWrite::Delete | RandomWrite::Remove | RandomWrite::Refuse => None,
            };
            if random.is_mirrored {
                self.set(mirrored(&key).as_slice().to_vec(), value.clone(), revision);
            }
            self.set(key, value, revision);
        }
        for (position, value) in (0..).zip(random.appends) {
            let key = Key::appended(&log(), revision, position);
            self.set(key.as_slice().to_vec(), Some(value), revision);
        }
        Ok(())
    }

    fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>, revision: Revision) {
        match value {
            Some(value) => self.model.insert(key, (value, revision)),
            None => self.model.remove(&key),
        };
    }

    /// A fresh view, or one of those kept.
    async fn view(&self, which: Index) -> (Arc<dyn View>, Model) {
        match which.index(self.views.len() + 1).checked_sub(1) {
            Some(kept) => self.views[kept].clone(),
            None => (self.engine.view().await.unwrap(), self.model.clone()),
        }
    }

    async fn get(&self, which: Index, texts: Vec<Vec<u8>>) -> Result<(), TestCaseError> {
        let (view, model) = self.view(which).await;
        let keys: Vec<Key> = texts.iter().map(key).collect();
        let found = view.multi_get(&keys).await.unwrap();
        prop_assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            let expected = model.get(key.as_slice()).map(|(value, revision)| Found {
                value: value.clone().into(),
                revision: *revision,
            });
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(view.get(key.as_slice()).await.unwrap(), expected);
        }
        Ok(())
    }

    async fn scan(&self, which: Index, scan: RandomScan) -> Result<(), TestCaseError> {
        let (view, model) = self.view(which).await;
        let range = KeyRange::new(key(scan.from).as_slice(), key(scan.to).as_slice());
        let direction = if scan.backward { Direction::Backward } else { Direction::Forward };
        let mut expected = all_of(&model);
        expected.retain(|(key, ..)| range.contains(key));
        if scan.backward {
            expected.reverse();
        }
        let bounds = (scan.rows_max, scan.bytes_max);
        prop_assert_eq!(collect(view.as_ref(), range, direction, bounds).await, expected);
        Ok(())
    }
}

fn concrete(text: &[u8], write: &RandomWrite) -> Write {
    match write {
        RandomWrite::Put(value) => put(text, value.clone()),
        RandomWrite::Delete => delete(text),
        RandomWrite::Append(value) => modify(text, Append(value.clone())),
        RandomWrite::Remove => modify(text, Remove),
        RandomWrite::Refuse => modify(text, Refuse),
    }
}

/// Where random commits append.
fn log() -> Key {
    key("log")
}

fn mirrored(stored: &[u8]) -> Key {
    key([b"mirror", stored].concat())
}

/// Derives a copy of each written key.
#[derive(Debug)]
struct Mirror;

impl Derive for Mirror {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        for change in changes {
            let key = mirrored(change.key);
            let write = match change.after {
                Some(value) => Write::Put(key, value.to_vec().into()),
                None => Write::Delete(key),
            };
            derived.write(change.index, write);
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn all_of(model: &Model) -> Vec<Entry> {
    model.iter().map(|(key, (value, revision))| (key.clone(), value.clone(), *revision)).collect()
}
