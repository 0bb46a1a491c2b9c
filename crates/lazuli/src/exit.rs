//! Exit codes: one meaning each, for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Unreachable = 5,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What `lazuli help exit-codes` prints.
pub(crate) const EXIT_CODES: &str = "\
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
  130  interrupted by a second signal";
