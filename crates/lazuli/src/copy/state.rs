//! The file that records the progress of a copy.

use crate::stores;
use anyhow::{Context, Result};
use lazuli_cli::failure::with_hint;
use lazuli_service::transfer::Progress;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

/// The file, and the copy that it belongs to.
pub(super) struct StateFile {
    path: PathBuf,
    from: String,
    to: String,
}

#[derive(Deserialize, Serialize)]
struct State {
    version: u32,
    from: String,
    to: String,
    /// The next key, in hexadecimal.
    next: String,
    entries: u64,
    bytes: u64,
    views: u64,
}

impl StateFile {
    /// Addresses are stored without passwords.
    pub(super) fn new(path: &Path, from: &str, to: &str) -> Self {
        Self { path: path.to_owned(), from: stores::shown(from), to: stores::shown(to) }
    }

    /// How far an earlier copy got; `None` if there was none.
    pub(super) fn load(&self) -> Result<Option<Progress>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", self.shown())),
        };
        let state: Option<State> = serde_json::from_str(&text).ok();
        let state = state.filter(|state| state.version == VERSION);
        let Some(state) = state else {
            return Err(with_hint(
                format!("{} is not the state of a copy", self.shown()),
                "name another file with --state, or delete this one to begin again",
            ));
        };
        if (&state.from, &state.to) != (&self.from, &self.to) {
            return Err(with_hint(
                format!("{} belongs to a copy from {} to {}", self.shown(), state.from, state.to),
                "give the same --from and --to, or another --state file",
            ));
        }
        let State { next, entries, bytes, views, .. } = state;
        let next = unhex(&next).with_context(|| format!("{} is damaged", self.shown()))?;
        Ok(Some(Progress { next, entries, bytes, views }))
    }

    /// Saves by rename, so that the file is always complete, even after a power failure.
    pub(super) fn save(&self, progress: &Progress) -> Result<()> {
        let Progress { next, entries, bytes, views } = progress.clone();
        let (from, to) = (self.from.clone(), self.to.clone());
        let next = next.iter().map(|byte| format!("{byte:02x}")).collect();
        let state = State { version: VERSION, from, to, next, entries, bytes, views };
        let new = PathBuf::from([self.path.as_os_str(), OsStr::new(".new")].join(OsStr::new("")));
        let text = serde_json::to_string(&state).context("write the state")?;
        File::create(&new)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("write {}", self.shown()))
    }

    /// Removes the file after a completed copy.
    pub(super) fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("delete {}", self.shown()))
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_by_the_same_copy_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let file = StateFile::new(&path, "a", "b");
        assert_eq!(file.load().unwrap(), None);
        let progress = Progress { next: vec![b'L', 0, 255], entries: 7, bytes: 9, views: 2 };
        file.save(&progress).unwrap();
        assert_eq!(file.load().unwrap(), Some(progress));
        let other = StateFile::new(&path, "a", "c").load().unwrap_err();
        assert!(other.to_string().contains("from a to b"), "{other}");
        fs::write(&path, "nonsense").unwrap();
        assert!(file.load().is_err());
    }
}
