//! Which journals were begun: what tells a journal that has vanished from one that was given up.
//!
//! fjall begins a journal when the last one is full, and removes it when all that it holds lies in
//! tables. It takes those that it finds for all there are: where one is gone it would go on without
//! the writes in it. So the number of each journal is noted before a write in it is acknowledged,
//! with a revision that lies in those before it. The newest must be there, unless one behind it
//! was begun and not noted yet; one that is gone must have left its last revision in the tables, as
//! far as that is known.
//!
//! ```text
//! 7 639000000000000000      a journal, and a revision before it, 0 where none is known
//! 8 639000000000000123
//! 0123456789abcdef          xxh3 of the lines above
//! ```

use crate::directory::{OpenError, missing, sync_directory};
use lazuli_engine::Revision;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const FILE: &str = "journals";
const FILE_NEW: &str = "journals.new";
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
}

impl JournalRegister {
    /// Compares what was noted with `journals`, those that the store at `store` has, oldest first.
    /// `stored` tells the last revision in its tables.
    pub(crate) fn inspect(
        store: &Path,
        journals: &[u64],
        stored: impl FnOnce() -> Result<Revision, OpenError>,
    ) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io { dir: store.to_path_buf(), source };
        let lines = match fs::read(store.join(FILE)) {
            Ok(bytes) => parse(&bytes).ok_or_else(|| damaged(store))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io_error(error)),
        };
        let mut register = Self { store: store.to_path_buf(), lines, last: Revision(0) };
        register.refuse_vanished(journals, stored)?;
        let newest = journals.last().copied().unwrap_or_default();
        if register.newest() != Some(newest) {
            register.note(newest).map_err(io_error)?;
        }
        Ok(register)
    }

    /// Notes a journal that fjall has begun by now. To be called when a batch that ends with `last`
    /// was written, and before that is acknowledged.
    pub(crate) fn written(&mut self, last: Revision) -> io::Result<()> {
        let next = self.newest().unwrap_or_default() + 1;
        if self.path(next).try_exists()? {
            // What is noted must not outlast what it tells of.
            sync_directory(&self.store)?;
            self.note(next)?;
        }
        self.last = last;
        Ok(())
    }

    fn refuse_vanished(
        &self,
        journals: &[u64],
        stored: impl FnOnce() -> Result<Revision, OpenError>,
    ) -> Result<(), OpenError> {
        let newest = self.newest().unwrap_or_default();
        if journals.last().is_none_or(|last| *last < newest) {
            return Err(missing(&self.store, &self.path(newest)));
        }
        let is_gone = |line: &&Line| {
            let before = line.journal.checked_sub(1);
            before.is_some_and(|before| !journals.contains(&before))
        };
        // One behind the newest was begun and not noted any more. How far the newest went is not
        // known then, but it was full, with writes behind all before it.
        let unnoted = |line: &&Line| !journals.contains(&line.journal);
        if let Some(line) = self.lines.last().filter(unnoted) {
            return match stored()? > line.after {
                true => Ok(()),
                false => Err(missing(&self.store, &self.path(line.journal))),
            };
        }
        // The later the journal, the later the revision.
        let Some(line) = self.lines.iter().rev().find(is_gone) else { return Ok(()) };
        if line.after > stored()? {
            return Err(missing(&self.store, &self.path(line.journal - 1)));
        }
        Ok(())
    }

    fn note(&mut self, journal: u64) -> io::Result<()> {
        let mut lines = self.lines.clone();
        lines.push(Line { journal, after: self.last });
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

    fn newest(&self) -> Option<u64> {
        self.lines.last().map(|line| line.journal)
    }

    fn path(&self, journal: u64) -> PathBuf {
        self.store.join(format!("{journal}.jnl"))
    }
}

fn damaged(store: &Path) -> OpenError {
    let reason = format!("{} is damaged", store.join(FILE).display());
    OpenError::Corrupt { dir: store.to_path_buf(), reason }
}

fn format(lines: &[Line]) -> String {
    let text: String = lines.iter().map(|l| format!("{} {}\n", l.journal, l.after.0)).collect();
    format!("{text}{:016x}\n", xxh3_64(text.as_bytes()))
}

fn parse(bytes: &[u8]) -> Option<Vec<Line>> {
    let text = str::from_utf8(bytes).ok()?;
    let lines = text.lines().rev().skip(1).map(|line| {
        let (journal, after) = line.split_once(' ')?;
        Some(Line { journal: journal.parse().ok()?, after: Revision(after.parse().ok()?) })
    });
    let mut lines: Vec<Line> = lines.collect::<Option<_>>()?;
    lines.reverse();
    (format(&lines) == text).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalEngine, LocalOptions};
    use lazuli_engine::{Commit, Engine, Key, Write};

    /// A store with the journals `found`, in which those of `noted` were begun, each after the
    /// revision of its number, and whose tables hold revisions up to `stored`.
    fn inspect(noted: &[u64], found: &[u64], stored: u64) -> Result<JournalRegister, String> {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<Line> =
            noted.iter().map(|n| Line { journal: *n, after: Revision(*n) }).collect();
        if !noted.is_empty() {
            fs::write(dir.path().join(FILE), format(&lines)).unwrap();
        }
        JournalRegister::inspect(dir.path(), found, || Ok(Revision(stored)))
            .map_err(|e| e.to_string())
    }

    #[track_caller]
    fn check(noted: &[u64], found: &[u64], stored: u64, missing: Option<&str>) {
        match (inspect(noted, found, stored), missing) {
            (Ok(register), None) => assert_eq!(register.newest(), found.last().copied()),
            (Err(error), Some(name)) => {
                assert!(error.ends_with(&format!("/{name} is missing")), "{error}");
            }
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn journal_that_is_not_there_has_left_its_revisions_in_the_tables_or_is_missing() {
        check(&[0], &[0], 0, None);
        check(&[0], &[], 0, Some("0.jnl"));
        check(&[], &[], 0, Some("0.jnl"));
        check(&[], &[5], 0, None);
        check(&[0], &[1], 0, Some("0.jnl"));
        check(&[0], &[1], 1, None);
        check(&[0, 1], &[0, 1], 0, None);
        check(&[0, 1], &[0], 0, Some("1.jnl"));
        check(&[0, 1], &[0, 2], 1, Some("1.jnl"));
        check(&[0, 1], &[0, 2], 2, None);
        check(&[0, 1], &[1], 0, Some("0.jnl"));
        check(&[0, 1], &[1], 1, None);
        check(&[3, 4, 5], &[3, 5], 4, Some("4.jnl"));
        check(&[3, 4, 5], &[3, 5], 5, None);
        check(&[3, 4, 5], &[5, 6], 4, Some("4.jnl"));
    }

    #[test]
    fn journal_is_noted_before_a_write_in_it_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("7.jnl"), "").unwrap();
        let mut register = JournalRegister::inspect(dir.path(), &[7], || Ok(Revision(0))).unwrap();
        register.written(Revision(100)).unwrap();
        fs::write(dir.path().join("8.jnl"), "").unwrap();
        register.written(Revision(200)).unwrap();
        let lines = parse(&fs::read(dir.path().join(FILE)).unwrap()).unwrap();
        let line = |journal, after| Line { journal, after: Revision(after) };
        assert_eq!(lines, [line(7, 0), line(8, 100)]);
    }

    /// A closed store that has given up its first journal, with one write in it; `flush` says whether
    /// that lies in tables.
    async fn without_first_journal(flush: bool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
        let writes = vec![Write::Put(Key::from(b"La".to_vec()), "value".into())];
        let commit = Commit::new(Revision(7), writes);
        let after = engine.commit(commit).await.unwrap();
        if flush {
            engine.store.flush();
        }
        drop(engine);
        let store = dir.path().join("store");
        fs::remove_file(store.join("0.jnl")).unwrap();
        fs::write(store.join("1.jnl"), "").unwrap();
        let lines = [Line { journal: 0, after: Revision(0) }, Line { journal: 1, after }];
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

    #[test]
    fn changed_note_is_damaged() {
        let lines =
            [Line { journal: 1, after: Revision(2) }, Line { journal: 2, after: Revision(9) }];
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
