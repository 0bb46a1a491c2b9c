//! The register of journals: distinguishes a missing journal from one that is no longer needed.
//!
//! fjall creates a journal when the last one is full, and removes a journal when tables hold all of
//! its content. It assumes that the journals it finds are complete: if one is missing, it would
//! open without the writes in it. So each journal is registered, with the last revision before it,
//! before a write in it is acknowledged.
//!
//! The store learns of a new journal only after the fact, because fjall creates it on its own
//! thread. A journal can be removed only after a flush of the last revision, which fjall does not
//! do by itself: the store requests it when the journal's successor is registered
//! (`Store::make_room`, see also `Store::release_files`). So the newest registered journal always
//! exists, and the last revision of an older one that was removed is in the tables. Data is flushed
//! before that revision.
//!
//! ```text
//! 7 639000000000000000 exact    a journal, and the last revision before it, 0 where there is none
//! 8 639000000000000123 exact
//! 0123456789abcdef              xxh3 of the lines above
//! ```
//!
//! Lines without `exact` are from an older version: the revision is some revision before the
//! journal, and the journal may have been removed before its successor was registered.

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
/// More journals than ever exist at a time.
const LINES_MAX: usize = 16;

/// The journals of an open store.
#[derive(Debug)]
pub(crate) struct JournalRegister {
    store: PathBuf,
    lines: Vec<Line>,
    /// The revision written last.
    last: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    journal: u64,
    /// This revision is in earlier journals or in the tables.
    after: Revision,
    /// Whether `after` is the last revision before the journal, and the journal stays until its
    /// successor is registered.
    is_exact: bool,
}

impl JournalRegister {
    /// Compares the register with `journals`, the existing journals of the store at `store`, oldest
    /// first, and registers the newest. `stored` reads the last revision in the store's tables.
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

    /// Registers a journal that fjall has created since the last call; returns whether there is
    /// one. Call it after writing a batch that ends with `last` and before acknowledging it.
    pub(crate) fn written(&mut self, last: Revision) -> io::Result<bool> {
        let mut has_begun = false;
        while let Some(has_content) = has_content(&self.path(self.next()))? {
            // The line must not be durable before the file.
            sync_directory(&self.store)?;
            // There is one writer, so the new journal contains just this batch.
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
            // From an older version: a successor was created but not registered. The end of the
            // journal is unknown, but it was full, with writes after all earlier ones.
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

    /// Registers the newest journal in the current form, whatever an older version recorded.
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
        // The earlier ones are in the tables.
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

/// Whether a journal contains a batch, if it exists: fjall fills a new one with zeros.
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
mod tests;
