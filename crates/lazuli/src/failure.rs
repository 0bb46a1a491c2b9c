//! What the user reads when a command fails: the error, its causes, and what to do next.

use anyhow::Error;
use std::fmt;
use std::io::{self, Write};

/// Advice that ends an error message. Attach it as context.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) problem: String,
    pub(crate) advice: String,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Hint {}

/// An error with advice.
pub(crate) fn with_hint(problem: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::new(Hint { problem: problem.into(), advice: advice.into() })
}

/// Prints the error to stderr, with its hint when there is one. If that fails, the exit code still
/// reports it.
pub(crate) fn report(error: &Error) {
    let hint = error.downcast_ref::<Hint>();
    let hint = hint.map(|hint| format!("hint: {}\n", hint.advice)).unwrap_or_default();
    let _ = io::stderr().write_all(format!("error: {error:#}\n{hint}").as_bytes());
}

/// An error, its causes and its hint on one line, for the log.
pub(crate) fn log_line(error: &Error) -> String {
    match error.downcast_ref::<Hint>() {
        Some(hint) => format!("{error:#} ({})", hint.advice),
        None => format!("{error:#}"),
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
