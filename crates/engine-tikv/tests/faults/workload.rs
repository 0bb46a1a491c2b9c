//! Writers on two processes whose commits cross regions, and the check of what they leave behind.

use crate::common::engine_on;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Direction, Engine, Expect, Key, KeyRange,
    Modify, Revision, Scan, ScanEnd, Visit, Write,
};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::stores::tikv::StandIn;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::task::JoinSet;

const WRITERS: usize = 4;
const ROUNDS: usize = 12;
const COUNTERS: usize = 3;

/// Where regions may begin: the keys of a commit are in up to four of them.
pub(crate) const BORDERS: [&[u8]; 4] = [b"Lcount1", b"Lfeed", b"Lrow", b"Lrow2"];

#[derive(Debug)]
struct Increment;

impl Modify for Increment {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let count = current.map_or(0, |current| number(current.value));
        Ok(Some((count + 1).to_be_bytes().to_vec()))
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

pub(crate) fn key(text: &str) -> Key {
    Key::from(format!("L{text}").into_bytes())
}

/// Inserts a row, counts it, and appends it to a feed.
fn commit(row: &str, counter: usize) -> Commit {
    let writes = vec![
        Write::Modify(key(&format!("count{counter}")), Arc::new(Increment)),
        Write::Put(key(row), counter.to_string().into()),
        Write::Append(key("feed/"), row.to_owned().into()),
    ];
    let absent = Check { key: key(row), expect: Expect::Absent };
    Commit { checks: vec![absent], ..Commit::new(Revision(0), writes) }
}

/// The engine's result for each row.
type Said = BTreeMap<String, Result<Revision, CommitError>>;

/// Runs the writers on two processes; `break_things` breaks one thing for each commit that begins.
/// Then checks what is stored. Returns how many commits have no certain outcome, and how many were refused.
pub(crate) fn survive(
    cluster: &StandIn,
    seed: &Seeded,
    mut break_things: impl FnMut(&mut Seeded) + Send,
) -> (usize, usize) {
    let (begins, begun) = std::sync::mpsc::channel();
    let mut random = seed.stream(99);
    let said = std::thread::scope(|scope| {
        scope.spawn(move || begun.iter().for_each(|()| break_things(&mut random)));
        run(write(cluster, seed, begins))
    });
    cluster.control("reset");
    run(judge(cluster, &said));
    let count = |wanted: fn(&CommitError) -> bool| {
        said.values().filter(|said| said.as_ref().is_err_and(wanted)).count()
    };
    let open = count(|error| matches!(error, CommitError::Undetermined(_)));
    (open, count(|_| true) - open)
}

async fn write(cluster: &StandIn, seed: &Seeded, begins: Sender<()>) -> Said {
    let engines = [Arc::new(engine_on(cluster)), Arc::new(engine_on(cluster))];
    let mut tasks = JoinSet::new();
    for (writer, engine) in (0..WRITERS).zip(engines.iter().cycle().cloned()) {
        let (mut random, begins) = (seed.stream(writer as u64), begins.clone());
        tasks.spawn(async move {
            let mut said = Said::new();
            for round in 0..ROUNDS {
                let row = format!("row{writer}/{round:03}");
                begins.send(()).unwrap();
                let done = engine.commit(commit(&row, random.below(COUNTERS))).await;
                said.insert(row, done);
            }
            said
        });
    }
    let said = tasks.join_all().await.into_iter().flatten().collect();
    for engine in engines {
        engine.close().await.unwrap();
    }
    said
}

/// A new process compares the stored state with the reported results.
async fn judge(cluster: &StandIn, said: &Said) {
    let engine = engine_on(cluster);
    let found = all(&engine, Direction::Forward).await;
    let mut backward = all(&engine, Direction::Backward).await;
    backward.reverse();
    assert_eq!(found, backward, "both directions see the same");
    let rows: BTreeMap<&str, Revision> = found
        .iter()
        .filter(|(key, ..)| key.starts_with(b"Lrow"))
        .map(|(key, _, revision)| (std::str::from_utf8(&key[1..]).unwrap(), *revision))
        .collect();
    for (row, said) in said {
        let there = rows.get(row.as_str()).copied();
        match said {
            Ok(revision) => assert_eq!(there, Some(*revision), "{row} was acknowledged"),
            Err(CommitError::Undetermined(_)) => {}
            Err(CommitError::CheckFailed { .. }) => panic!("{row}: nobody else writes it"),
            Err(error) => assert_eq!(there, None, "{row} was refused: {error}"),
        }
    }
    let fed: Vec<_> = found
        .iter()
        .filter(|(key, ..)| key.starts_with(b"Lfeed"))
        .map(|(_, row, revision)| (std::str::from_utf8(row).unwrap(), *revision))
        .collect();
    let mut expected: Vec<_> = rows.iter().map(|(row, revision)| (*row, *revision)).collect();
    expected.sort_by_key(|(_, revision)| *revision);
    assert_eq!(fed, expected, "each row is in the feed once, at its revision");
    let counted = found.iter().filter(|(key, ..)| key.starts_with(b"Lcount"));
    let counted: u64 = counted.map(|(_, count, _)| number(count)).sum();
    assert_eq!(counted, rows.len() as u64, "each row is counted once");
    assert_eq!(cluster.locks(), 0, "no lock is left after everything was read");
}

/// Every key of ours, read in small scans.
pub(crate) async fn all(
    engine: &dyn Engine,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>, Revision)> {
    let view = engine.view().await.unwrap();
    let mut range = KeyRange::prefix(b"L");
    let mut found = Vec::new();
    loop {
        let scan = Scan { range, direction, rows_max: 7, bytes_max: usize::MAX, rows_expected: 3 };
        let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
            found.push((key.to_vec(), value.to_vec(), revision));
            Visit::Continue
        };
        match view.scan(scan, &mut visit).await.unwrap() {
            ScanEnd::More(rest) => range = rest,
            ScanEnd::Done => return found,
            ScanEnd::Stopped => panic!("nobody stops it"),
        }
    }
}

/// Splits the keys of the workload into regions that different stores lead.
pub(crate) fn spread(cluster: &StandIn) {
    for (number, border) in BORDERS.into_iter().enumerate() {
        cluster.control_at("split", border);
        cluster.lead(border, number % 3 + 1);
    }
}
