use super::*;
use crate::{Durability, LocalEngine, LocalOptions};
use lazuli_engine::{Commit, Engine, Key, Write};
use std::time::{Duration, Instant};

/// Lines for journals, each begun after the revision equal to its number.
fn lines(journals: &[u64], is_exact: bool) -> Vec<Line> {
    let line = |n: &u64| Line { journal: *n, after: Revision(*n), is_exact };
    journals.iter().map(line).collect()
}

/// A store with the journals `found` and the register `noted`, whose tables hold revisions up to
/// `stored`.
fn inspect(noted: &[Line], found: &[u64], stored: u64) -> Result<JournalRegister, String> {
    let dir = tempfile::tempdir().unwrap();
    if !noted.is_empty() {
        fs::write(dir.path().join(FILE), format(noted)).unwrap();
    }
    let journal = |n: &u64| Journal { number: *n, last: Some(Revision(*n + 1)), bytes: 0 };
    let found: Vec<Journal> = found.iter().map(journal).collect();
    JournalRegister::inspect(dir.path(), &found, || Ok(Revision(stored))).map_err(|e| e.to_string())
}

#[track_caller]
fn check_line(noted: &[Line], found: &[u64], stored: u64, missing: Option<&str>) {
    match (inspect(noted, found, stored), missing) {
        (Ok(register), None) => {
            let newest = register.lines.last().unwrap();
            assert_eq!((Some(newest.journal), newest.is_exact), (found.last().copied(), true));
        }
        (Err(error), Some(name)) => {
            assert!(error.ends_with(&format!("/{name} is missing")), "{error}");
        }
        (found, _) => panic!("{found:?}"),
    }
}

/// What holds for lines from this version and from older ones.
#[track_caller]
fn check(noted: &[u64], found: &[u64], stored: u64, missing: Option<&str>) {
    check_line(&lines(noted, true), found, stored, missing);
    check_line(&lines(noted, false), found, stored, missing);
}

#[test]
fn journal_that_is_not_there_has_left_its_revisions_in_the_tables_or_is_missing() {
    check(&[0], &[0], 0, None);
    check(&[0], &[], 0, Some("0.jnl"));
    check(&[], &[], 0, Some("0.jnl"));
    check(&[], &[5], 0, None);
    check(&[0], &[1], 0, Some("0.jnl"));
    check(&[0, 1], &[0, 1], 0, None);
    check(&[0, 1], &[0], 0, Some("1.jnl"));
    check(&[0, 1], &[0, 2], 1, Some("1.jnl"));
    check(&[0, 1], &[1], 0, Some("0.jnl"));
    check(&[0, 1], &[1], 1, None);
    check(&[3, 4, 5], &[3, 5], 4, Some("4.jnl"));
    check(&[3, 4, 5], &[3, 5], 5, None);
    check(&[3, 4, 5], &[5, 6], 4, Some("4.jnl"));
}

#[test]
fn newest_journal_stays_until_its_successor_is_registered() {
    check_line(&lines(&[0], true), &[1], 9, Some("0.jnl"));
    check_line(&lines(&[0, 1], true), &[0, 2], 9, Some("1.jnl"));
    // Older versions did not keep it that long.
    check_line(&lines(&[0], false), &[1], 1, None);
    check_line(&lines(&[0, 1], false), &[0, 2], 2, None);
}

#[test]
fn newest_journal_is_registered_with_the_last_revision_before_it() {
    let newest = |noted: &[Line], found: &[u64]| {
        let register = inspect(noted, found, 9).unwrap();
        *register.lines.last().unwrap()
    };
    let exact = |journal, after| Line { journal, after: Revision(after), is_exact: true };
    assert_eq!(newest(&[], &[5]), exact(5, 0));
    assert_eq!(newest(&[], &[5, 6]), exact(6, 6));
    assert_eq!(newest(&lines(&[5, 6], false), &[5, 6]), exact(6, 6));
    assert_eq!(newest(&[exact(6, 3)], &[5, 6]), exact(6, 3));
}

#[test]
fn journal_is_registered_before_a_write_in_it_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let write = |journal: &str, bytes: &[u8]| fs::write(dir.path().join(journal), bytes).unwrap();
    let found = [Journal { number: 7, last: Some(Revision(50)), bytes: 0 }];
    let mut register = JournalRegister::inspect(dir.path(), &found, || Ok(Revision(0))).unwrap();
    assert!(!register.written(Revision(100)).unwrap());
    // Begun before the next batch, and begun after the following one.
    write("8.jnl", &[1, 0]);
    assert!(register.written(Revision(200)).unwrap());
    assert!(!register.written(Revision(300)).unwrap());
    write("9.jnl", &[0, 0]);
    assert!(register.written(Revision(400)).unwrap());
    let lines = parse(&fs::read(dir.path().join(FILE)).unwrap()).unwrap();
    let line = |journal, after| Line { journal, after: Revision(after), is_exact: true };
    assert_eq!(lines, [line(7, 0), line(8, 100), line(9, 400)]);
}

async fn put(engine: &LocalEngine, key: &str) -> Revision {
    let writes = vec![Write::Put(Key::from(key.as_bytes().to_vec()), "value".into())];
    engine.commit(Commit::new(Revision(7), writes)).await.unwrap()
}

/// A closed store whose first journal, with one write in it, is gone; `flush` says whether that
/// write is in the tables.
async fn without_first_journal(flush: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    let after = put(&engine, "La").await;
    if flush {
        engine.store.flush();
    }
    drop(engine);
    let store = dir.path().join("store");
    fs::remove_file(store.join("0.jnl")).unwrap();
    fs::write(store.join("1.jnl"), "").unwrap();
    let lines = [(0, Revision(0)), (1, after)];
    let lines = lines.map(|(journal, after)| Line { journal, after, is_exact: true });
    fs::write(store.join(FILE), format(&lines)).unwrap();
    dir
}

#[tokio::test]
async fn store_opens_without_a_journal_only_when_its_tables_hold_what_was_in_it() {
    let dir = without_first_journal(true).await;
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    assert!(engine.view().await.unwrap().get(b"La").await.unwrap().is_some());
    let dir = without_first_journal(false).await;
    let refusal = LocalEngine::open(dir.path(), LocalOptions::default()).err().unwrap();
    assert!(refusal.to_string().ends_with("/store/0.jnl is missing"), "{refusal}");
}

/// The tables held a revision of the journal, but not its last one, and its successor was not
/// registered: the store opened without the later write.
#[tokio::test]
async fn loss_of_a_journal_whose_successor_has_just_begun_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    put(&engine, "La").await;
    engine.store.flush();
    put(&engine, "Lb").await;
    drop(engine);
    let store = dir.path().join("store");
    fs::remove_file(store.join("0.jnl")).unwrap();
    fs::write(store.join("1.jnl"), "").unwrap();
    let refusal = LocalEngine::open(dir.path(), LocalOptions::default()).err().unwrap();
    assert!(refusal.to_string().ends_with("/store/0.jnl is missing"), "{refusal}");
}

/// Only the store asks for the flush that this needs.
#[tokio::test]
async fn full_journal_is_removed_once_its_successor_is_registered() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { durability: Durability::Memory, ..LocalOptions::default() };
    let engine = LocalEngine::open(dir.path(), options).unwrap();
    let store = dir.path().join("store");
    let give_up = Instant::now() + Duration::from_secs(60);
    // Numbers that do not compress.
    let number = |n: u32| n.wrapping_mul(2_654_435_761).rotate_left(n % 31).to_le_bytes();
    let large: Vec<u8> = (0..1 << 18).flat_map(number).collect();
    while store.join("0.jnl").exists() {
        assert!(Instant::now() < give_up, "the first journal stays");
        let value = if store.join("1.jnl").exists() { b"" } else { large.as_slice() };
        let value = value.to_vec().into();
        let writes = vec![Write::Put(Key::from(b"La".to_vec()), value)];
        engine.commit(Commit::new(Revision(0), writes)).await.unwrap();
    }
    let lines = parse(&fs::read(store.join(FILE)).unwrap()).unwrap();
    assert_eq!(lines.iter().map(|line| line.journal).collect::<Vec<_>>(), [0, 1]);
    drop(engine);
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    assert!(engine.view().await.unwrap().get(b"La").await.unwrap().is_some());
}

#[test]
fn changed_register_is_damaged() {
    let lines = [(1, 2, false), (2, 9, true)];
    let lines =
        lines.map(|(journal, after, is_exact)| Line { journal, after: Revision(after), is_exact });
    let sound = format(&lines).into_bytes();
    assert_eq!(parse(&sound).unwrap(), lines);
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        assert_eq!(parse(&bytes), None, "byte {at}");
    }
    assert_eq!(parse(b""), None);
}
