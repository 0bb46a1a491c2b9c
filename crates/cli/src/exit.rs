//! Exit codes: one meaning each, for every command (O-6.5).

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// It failed, or the server is not ready.
    Failed = 1,
    /// The command line makes no sense; nothing was sent.
    Usage = 2,
    /// What was asked for does not exist.
    NotFound = 3,
    /// The service refused the credential, or the credential does not permit it.
    Refused = 4,
    /// No server answered.
    Unreachable = 5,
    /// It exists already, or somebody else changed it.
    Conflict = 6,
    /// Part of it was done, and the rest can be.
    Partial = 7,
    /// A check found differences.
    Damaged = 8,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What `lazuli help exit-codes` prints.
pub const EXIT_CODES: &str = "\
The exit codes of every command:

  0    done
  1    failed, or not ready
  2    wrong usage
  3    not found
  4    refused: no permission, or read-only
  5    not reachable
  6    conflict: it exists, or it was changed
  7    done in part; can be resumed
  8    verification found differences or damage
  130  interrupted";
