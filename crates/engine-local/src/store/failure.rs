//! Errors of fjall as those of the engine.

use crate::directory::OpenError;
use crate::manifest;
use fjall::LsmError;
use lazuli_engine::EngineError;
use std::fmt;
use std::path::Path;

/// A write or sync that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) error: fjall::Error,
    /// Whether anything may have reached the disk.
    pub(crate) undetermined: bool,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => error.fmt(f),
            // The thread that failed has logged the reason.
            fjall::Error::Poisoned => f.write_str("writing files in the background failed"),
            other => other.fmt(f),
        }
    }
}

impl From<fjall::Error> for WriteFailure {
    fn from(error: fjall::Error) -> Self {
        // fjall checks its poison flag before it touches the journal.
        let undetermined = !matches!(error, fjall::Error::Poisoned);
        Self { error, undetermined }
    }
}

impl From<WriteFailure> for EngineError {
    fn from(failure: WriteFailure) -> Self {
        engine_error(failure.error)
    }
}

pub(crate) fn engine_error(error: fjall::Error) -> EngineError {
    match error {
        fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) => EngineError::Io(e.into()),
        fjall::Error::Poisoned => EngineError::Unavailable("an earlier write failed".into()),
        other => EngineError::Corrupt(other.to_string()),
    }
}

pub(super) fn open_error(dir: &Path, error: fjall::Error) -> OpenError {
    let dir = dir.to_path_buf();
    match error {
        fjall::Error::Locked => OpenError::Locked { dir },
        fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => {
            OpenError::Io { dir, source }
        }
        fjall::Error::InvalidVersion(_) => OpenError::Corrupt {
            reason: format!("{} is damaged", dir.join("store/version").display()),
            dir,
        },
        other => OpenError::Corrupt { dir, reason: other.to_string() },
    }
}

/// Names the file that prevented a store from opening, if known.
pub(super) fn with_file(store: &Path, error: OpenError) -> OpenError {
    let is_damage = match &error {
        OpenError::Corrupt { .. } => true,
        // A position or length read from a damaged file points nowhere.
        OpenError::Io { source, .. } => {
            source.raw_os_error().is_none() || source.kind() == std::io::ErrorKind::InvalidInput
        }
        _ => false,
    };
    let damaged = if is_damage { manifest::damaged_tables(store) } else { Ok(Vec::new()) };
    match damaged.unwrap_or_default().first() {
        None => error,
        Some(damaged) => {
            OpenError::Corrupt { dir: store.to_path_buf(), reason: damaged.to_string() }
        }
    }
}
