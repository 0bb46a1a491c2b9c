//! The register of journals: tells a journal that has vanished from one that is no longer needed.
//!
//! fjall begins a journal when the last one is full, and removes it when tables hold all that it
//! holds. It takes the journals that it finds for all there are: without one that has vanished, it
//! would open without the writes in it. So each journal is registered before a write in it is
//! acknowledged, with the last revision before it.
//!
//! When a journal is begun is known only after the fact, as fjall does it on a thread of its own. To
//! be removed, a journal needs a flush of the last revision, which fjall does not do by itself: the
//! store asks for it when the journal's successor is registered (`Store::make_room`, and see
//! `Store::release_files`). So the newest registered journal is always there, and of those before it
//! one that is not there has left its last revision in the tables. Data is flushed before that
//! revision.
//!
//! ```text
//! 7 639000000000000000 exact    a journal, and the last revision before it, 0 where there is none
//! 8 639000000000000123 exact
//! 0123456789abcdef              xxh3 of the lines above
//! ```
//!
//! Lines without `exact` are of an older program: the revision is one of those before the journal, and
//! the journal may have been removed before its successor was registered.

use crate::directory::{OpenError, missing, sync_directory};
use crate::journal::Journal;
use lazuli_engine::Revision;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const FILE: &str = "journals";
const FILE_NEW: &str = "journals.new";
/// At the end of a line.
const EXACT: &str = " exact";
/// More journals than there ever are at a time.
const LINES_MAX: usize = 16;

/// The journals of an open store.
#[derive(Debug)]
pub(crate) struct JournalRegister {
    store: PathBuf,
    lines: Vec<Line>,
    /// The revision that was written last.
    last: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    journal: u64,
    /// Lies in the journals before, or in the tables.
    after: Revision,
    /// Whether `after` is the last revision before the journal, and the journal stays until its
    /// successor is registered.
    is_exact: bool,
}

impl JournalRegister {
    /// Compares the register with `journals`, those that the store at `store` has, oldest first, and
    /// registers the newest. `stored` reads the last revision in the store's tables.
    pub(crate) fn inspect(
        store: &Path,
        journals: &[Journal],
        stored: impl FnOnce() -> Result<Revision, OpenError>,
    ) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io { dir: store.to_path_buf(), source };
        let lines = match fs::read(store.join(FILE)) {
            Ok(bytes) => parse(&bytes).ok_or_else(|| damaged(store))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io_error(error)),
        };
        let last = last_of(journals);
        let mut register = Self { store: store.to_path_buf(), lines, last };
        register.refuse_vanished(journals, stored)?;
        register.register_newest(journals).map_err(io_error)?;
        Ok(register)
    }

    /// Registers a journal that fjall has begun by now, and returns whether there is one. To be
    /// called when a batch that ends with `last` was written, and before that is acknowledged.
    pub(crate) fn written(&mut self, last: Revision) -> io::Result<bool> {
        let mut has_begun = false;
        while let Some(has_content) = has_content(&self.path(self.next()))? {
            // The line must not outlast the file.
            sync_directory(&self.store)?;
            // One writer alone: what the new journal holds is the batch.
            let after = if has_content { self.last } else { last };
            self.note(Line { journal: self.next(), after, is_exact: true })?;
            has_begun = true;
        }
        self.last = last;
        Ok(has_begun)
    }

    fn refuse_vanished(
        &self,
        journals: &[Journal],
        stored: impl FnOnce() -> Result<Revision, OpenError>,
    ) -> Result<(), OpenError> {
        let is_there = |number: u64| journals.iter().any(|journal| journal.number == number);
        let vanished = |number: u64| Err(missing(&self.store, &self.path(number)));
        let newest = self.newest().unwrap_or_default();
        if journals.last().is_none_or(|last| last.number < newest) {
            return vanished(newest);
        }
        if let Some(line) = self.lines.last().filter(|line| !is_there(line.journal)) {
            // Of an older program: a successor was begun and not registered. How far the journal
            // went is not known, but it was full, with writes after all before it.
            return match !line.is_exact && stored()? > line.after {
                true => Ok(()),
                false => vanished(line.journal),
            };
        }
        // The later the journal, the later the revision.
        let is_gone = |line: &&Line| line.journal.checked_sub(1).is_some_and(|n| !is_there(n));
        match self.lines.iter().rev().find(is_gone) {
            Some(line) if line.after > stored()? => vanished(line.journal - 1),
            _ => Ok(()),
        }
    }

    /// Registers the newest journal as this program does, whatever an older one has noted of it.
    fn register_newest(&mut self, journals: &[Journal]) -> io::Result<()> {
        let (number, older) = match journals.split_last() {
            Some((newest, older)) => (newest.number, older),
            None => return Ok(()),
        };
        let known = self.lines.last().copied().filter(|line| line.journal == number);
        if known.is_some_and(|line| line.is_exact) {
            return Ok(());
        }
        self.lines.retain(|line| line.journal != number);
        // Those before them are in the tables.
        let after = last_of(older);
        self.note(Line { journal: number, after, is_exact: true })
    }

    fn note(&mut self, line: Line) -> io::Result<()> {
        let mut lines = self.lines.clone();
        lines.push(line);
        lines.drain(..lines.len().saturating_sub(LINES_MAX));
        let new = self.store.join(FILE_NEW);
        let mut file = File::create(&new)?;
        file.write_all(format(&lines).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.store.join(FILE))?;
        sync_directory(&self.store)?;
        self.lines = lines;
        Ok(())
    }

    fn next(&self) -> u64 {
        self.newest().unwrap_or_default() + 1
    }

    fn newest(&self) -> Option<u64> {
        self.lines.last().map(|line| line.journal)
    }

    fn path(&self, journal: u64) -> PathBuf {
        self.store.join(format!("{journal}.jnl"))
    }
}

fn last_of(journals: &[Journal]) -> Revision {
    journals.iter().filter_map(|journal| journal.last).max().unwrap_or(Revision(0))
}

fn damaged(store: &Path) -> OpenError {
    let reason = format!("{} is damaged", store.join(FILE).display());
    OpenError::Corrupt { dir: store.to_path_buf(), reason }
}

/// Whether a journal holds a batch, if it is there: fjall makes it with zeros.
fn has_content(path: &Path) -> io::Result<Option<bool>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut first = [0];
    let bytes = file.read(&mut first)?;
    Ok(Some(bytes == 1 && first != [0]))
}

fn format(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let exact = if line.is_exact { EXACT } else { "" };
        format!("{} {}{exact}\n", line.journal, line.after.0)
    };
    let text: String = lines.iter().map(line).collect();
    format!("{text}{:016x}\n", xxh3_64(text.as_bytes()))
}

fn parse(bytes: &[u8]) -> Option<Vec<Line>> {
    let text = str::from_utf8(bytes).ok()?;
    let lines = text.lines().rev().skip(1).map(|line| {
        let (line, is_exact) = match line.strip_suffix(EXACT) {
            Some(line) => (line, true),
            None => (line, false),
        };
        let (journal, after) = line.split_once(' ')?;
        let after = Revision(after.parse().ok()?);
        Some(Line { journal: journal.parse().ok()?, after, is_exact })
    });
    let mut lines: Vec<Line> = lines.collect::<Option<_>>()?;
    lines.reverse();
    (format(&lines) == text).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, LocalEngine, LocalOptions};
    use lazuli_engine::{Commit, Engine, Key, Write};
    use std::time::{Duration, Instant};

    /// Lines of journals that were begun each after the revision of its number.
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
        JournalRegister::inspect(dir.path(), &found, || Ok(Revision(stored)))
            .map_err(|e| e.to_string())
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

    /// What holds for the lines of this program and of older ones.
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
        // Older programs did not keep it so long.
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
        let write =
            |journal: &str, bytes: &[u8]| fs::write(dir.path().join(journal), bytes).unwrap();
        let found = [Journal { number: 7, last: Some(Revision(50)), bytes: 0 }];
        let mut register =
            JournalRegister::inspect(dir.path(), &found, || Ok(Revision(0))).unwrap();
        assert!(!register.written(Revision(100)).unwrap());
        // Begun before the next batch, and after the one that follows.
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
    /// lies in tables.
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

    /// The tables held a revision of the journal, though not its last, and its successor was not
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

    /// Nobody but the store asks for the flush that this needs.
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
        let lines = lines.map(|(journal, after, is_exact)| Line {
            journal,
            after: Revision(after),
            is_exact,
        });
        let sound = format(&lines).into_bytes();
        assert_eq!(parse(&sound).unwrap(), lines);
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes), None, "byte {at}");
        }
        assert_eq!(parse(b""), None);
    }
}
