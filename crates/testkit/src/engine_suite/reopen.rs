//! Promises of engines with a directory: acknowledged commits survive reopening.

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use tokio::task::JoinSet;

/// Opens the engine in a directory; dropping it closes it cleanly.
pub type Open<'o> = &'o dyn Fn(&Path) -> Arc<dyn Engine>;

pub fn everything_is_there_after_a_clean_close(open: Open<'_>, dir: &Path) {
    run(async {
        let mut expected = Vec::new();
        for round in 0..3 {
            let engine = open(dir);
            let view = engine.view().await.unwrap();
            assert_eq!(entries(view.as_ref(), everything()).await, expected);
            let many = (0..500).map(|n| put(format!("{round}/{n:03}"), vec![b'v'; 200]));
            write(engine.as_ref(), many).await;
            write(engine.as_ref(), [delete(format!("{round}/000"))]).await;
            write(engine.as_ref(), [modify("counter", Increment)]).await;
            let view = engine.view().await.unwrap();
            expected = entries(view.as_ref(), everything()).await;
        }
    });
}

/// Also for deleted keys, whose revisions are in no entry.
pub fn revisions_increase_across_reopening(open: Open<'_>, dir: &Path) {
    run(async {
        let mut last = Revision(0);
        for clock in [9_000_000, 1000, 0, 5] {
            let engine = open(dir);
            for writes in [[put("k", "v")], [delete("k")]] {
                let commit = Commit { not_before: Revision(clock), ..commit([], writes) };
                let revision = engine.commit(commit).await.unwrap();
                assert!(revision > last, "{revision:?} after {last:?}");
                last = revision;
            }
        }
    });
}

pub fn commits_in_flight_finish_before_a_clean_close(open: Open<'_>, dir: &Path) {
    let acknowledged = run(async {
        let engine = open(dir);
        let mut tasks = JoinSet::new();
        for writer in 0..32 {
            let engine = engine.clone();
            tasks
                .spawn(async move { write(engine.as_ref(), [put(writer.to_string(), "v")]).await });
        }
        drop(engine);
        tasks.join_all().await
    });
    run(async {
        let view = open(dir).view().await.unwrap();
        assert_eq!(entries(view.as_ref(), everything()).await.len(), acknowledged.len());
    });
}

/// The environment variable that tells a child of [`acknowledged_commits_survive_kill`] where to
/// write.
pub const KILLED_WRITER_DIR: &str = "LAZULI_TEST_KILLED_WRITER_DIR";

const KILLED_WRITERS: usize = 8;

/// Kills a process during its commits, again and again: every acknowledged commit is there, none is
/// incomplete, exactly its derived writes are there, its appended values are in commit order, and
/// revisions keep increasing.
///
/// `child` is the name of a test of the same program that calls [`killed_writer`].
pub fn acknowledged_commits_survive_kill(open: Open<'_>, dir: &Path, child: &str, rounds: usize) {
    let mut acknowledged = BTreeMap::new();
    for round in 0..rounds {
        let before = acknowledged.len();
        kill_a_writer(dir, child, 20 + 61 * round, &mut acknowledged);
        assert!(acknowledged.len() > before, "the writer was killed before it wrote");
        run(check_after_kill(open(dir).as_ref(), &acknowledged));
    }
}

/// Reads acknowledgements until there are enough, kills, and reads the remaining ones.
fn kill_a_writer(
    dir: &Path,
    child: &str,
    enough: usize,
    acknowledged: &mut BTreeMap<String, Revision>,
) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([child, "--exact", "--ignored", "--nocapture"])
        .env(KILLED_WRITER_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut seen = 0;
    for line in lines {
        // Output of the test harness, and a line truncated by the kill, are not acknowledgements.
        let line = line.unwrap();
        if let ["ack", name, revision, "."] = line.split(' ').collect::<Vec<_>>().as_slice() {
            acknowledged.insert((*name).to_owned(), Revision(revision.parse().unwrap()));
            seen += 1;
        }
        if seen == enough {
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
}

async fn check_after_kill(engine: &dyn Engine, acknowledged: &BTreeMap<String, Revision>) {
    let view = engine.view().await.unwrap();
    let found = entries(view.as_ref(), KeyRange::prefix(b"Lw")).await;
    let mut triples: BTreeMap<String, Vec<Revision>> = BTreeMap::new();
    for (key, value, revision) in &found {
        let name = String::from_utf8(key[1..].to_vec()).unwrap();
        assert_eq!(name.as_bytes(), value, "a value of another key");
        let (name, _part) = name.rsplit_once('/').unwrap();
        triples.entry(name.to_owned()).or_default().push(*revision);
    }
    for (name, revisions) in &triples {
        assert_eq!(revisions.len(), 3, "{name} is half there");
        assert!(revisions.iter().all(|r| r == &revisions[0]), "{name}: {revisions:?}");
    }
    for (name, revision) in acknowledged {
        let there = triples.get(name).map(|revisions| revisions[0]);
        assert_eq!(there, Some(*revision), "acknowledged {name}");
    }
    let counter = value(engine, "counter").await.map_or(0, |value| number(&value));
    assert_eq!(counter, triples.len() as u64, "the counter and the commits that raised it");
    derived::assert_indexed(engine).await;
    check_log_after_kill(view.as_ref(), &triples).await;
    let newest = found.iter().map(|(_, _, revision)| *revision).max().unwrap();
    assert!(write(engine, [put("newer", "x")]).await > newest);
}

/// The log has one entry for each commit, at the revision of that commit.
async fn check_log_after_kill(view: &dyn View, triples: &BTreeMap<String, Vec<Revision>>) {
    let logged = entries(view, KeyRange::prefix(key(LOG).as_slice())).await;
    let logged: Vec<_> = logged
        .into_iter()
        .map(|(entry, name, _)| {
            let (_, revision, position) = Key::split_appended(&entry).expect("an appended key");
            assert_eq!(position, 0);
            (revision, String::from_utf8(name).unwrap())
        })
        .collect();
    let mut committed: Vec<_> = triples.iter().map(|(name, at)| (at[0], name.clone())).collect();
    committed.sort();
    assert_eq!(logged, committed);
}

/// Where the commits of [`killed_writer`] append their names.
const LOG: &str = "log/";

/// Commits until it is killed. Each commit writes three keys, a counter, a row with its index, and a
/// log entry, and is acknowledged on standard output.
pub fn killed_writer(open: Open<'_>) {
    let Some(dir) = std::env::var_os(KILLED_WRITER_DIR) else {
        return;
    };
    run(async {
        let engine = open(Path::new(&dir));
        let newest = write(engine.as_ref(), [put("started", "x")]).await;
        let out = Arc::new(Mutex::new(std::io::stdout()));
        let mut tasks = JoinSet::new();
        for writer in 0..KILLED_WRITERS {
            let (engine, out) = (engine.clone(), out.clone());
            // The revision makes names differ from those of earlier rounds.
            tasks.spawn(write_for_ever(engine, format!("w{}-{writer}", newest.0), out));
        }
        tasks.join_all().await;
    });
}

async fn write_for_ever(engine: Arc<dyn Engine>, prefix: String, out: Arc<Mutex<std::io::Stdout>>) {
    for n in 0.. {
        let name = format!("{prefix}-{n}");
        let parts = ["a", "b", "c"].map(|part| format!("{name}/{part}"));
        let writes = parts.iter().map(|part| put(part, part.as_bytes()));
        // Only a few rows, so that index entries are added and removed.
        let rest = [
            put(format!("row/{}", n % 3), name.as_bytes()),
            modify("counter", Increment),
            Write::Append(key(LOG), name.clone().into()),
        ];
        let commit = derived::with(derivations::ByValue, commit([], writes.chain(rest)));
        let revision = engine.commit(commit).await.expect("a commit without conditions");
        writeln!(out.lock().unwrap(), "ack {name} {} .", revision.0).unwrap();
    }
}
