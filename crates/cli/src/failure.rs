//! What the user sees when a command fails: the error, its causes, and what to do next; and the exit
//! code for programs.

use crate::entity_text::KEY_RULES;
use crate::exit::Exit;
use crate::output::{Paint, to_stderr};
use anyhow::Error;
use lazuli_client::ErrorKind;
use lazuli_wire::connection_string::StorageService;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::Arc;

/// An error whose message ends with advice, and an exit code. Attach it as context.
#[derive(Debug)]
pub struct Hint {
    /// How the command ends.
    pub exit: Exit,
    /// What failed.
    pub problem: String,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Hint {}

/// An error with advice.
pub fn with_hint(problem: impl Into<String>, advice: impl Into<String>) -> Error {
    ending(Exit::Failed, problem, advice)
}

/// A command line that makes no sense.
pub fn usage(problem: impl Into<String>, advice: impl Into<String>) -> Error {
    ending(Exit::Usage, problem, advice)
}

/// An error that ends the command with a given exit code.
pub(crate) fn ending(exit: Exit, problem: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::new(Hint { exit, problem: problem.into(), advice: advice.into() })
}

/// Prints the error to stderr, with its hint when there is one. If that fails, the exit code still
/// reports it.
pub fn report(error: &Error) {
    report_with(error, Paint::automatic(io::stderr().is_terminal()));
}

pub(crate) fn report_with(error: &Error, paint: Paint) {
    to_stderr(&text(error, paint));
}

/// An error, its causes and its hint on one line, for the log.
pub fn log_line(error: &Error) -> String {
    match error.downcast_ref::<Hint>() {
        Some(hint) => format!("{error:#} ({})", hint.advice),
        None => format!("{error:#}"),
    }
}

/// An error and its causes on one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The exit code that an error means.
pub fn exit_of(error: &Error) -> Exit {
    if let Some(hint) = error.downcast_ref::<Hint>() {
        return hint.exit;
    }
    error.chain().find_map(of_client).map_or(Exit::Failed, exit_of_client)
}

/// The client library's error in a cause. Writes that failed together share theirs.
fn of_client<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a lazuli_client::Error> {
    let shared = || cause.downcast_ref::<Arc<lazuli_client::Error>>().map(|error| &**error);
    cause.downcast_ref().or_else(shared)
}

/// Adds the address that does not answer.
pub(crate) fn at(error: Error, service: StorageService, address: Option<&String>) -> Error {
    let kind = error.chain().find_map(of_client).map(lazuli_client::Error::kind);
    let is_silent = matches!(kind, Some(ErrorKind::Transport | ErrorKind::Timeout));
    let Some(address) = address.filter(|address| is_silent && !address.is_empty()) else {
        return error;
    };
    if service != StorageService::Blob || error.downcast_ref::<Hint>().is_some() {
        return error.context(address.clone());
    }
    let advice = "Lazuli has no blobs: BlobEndpoint of the connection string, or --endpoint, names a blob service";
    let (problem, advice) = (address.clone(), advice.to_owned());
    error.context(Hint { exit: Exit::Unreachable, problem, advice })
}

/// Whether the error is that nobody reads standard output any more.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let of_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref().is_some_and(of_pipe)
}

pub(crate) fn exit_of_client(error: &lazuli_client::Error) -> Exit {
    match error.kind() {
        // What a later attempt met says nothing about the one whose answer was lost.
        ErrorKind::Transport | ErrorKind::Timeout | ErrorKind::OutcomeUnknown => {
            return Exit::Unreachable;
        }
        ErrorKind::Forbidden { .. } | ErrorKind::NotGranted(_) | ErrorKind::Credential => {
            return Exit::Refused;
        }
        ErrorKind::Contended { .. } | ErrorKind::ReceiptLost => return Exit::Conflict,
        ErrorKind::Key(_)
        | ErrorKind::Name(..)
        | ErrorKind::Encode(_)
        | ErrorKind::LimitExceeded(_)
        | ErrorKind::InvalidBatch(_)
        | ErrorKind::Body(_)
        | ErrorKind::TooLarge { .. }
        | ErrorKind::TokenMismatch
        | ErrorKind::WouldScan
        | ErrorKind::Config(_) => return Exit::Usage,
        _ => {}
    }
    match error.status().map(|status| status.as_u16()) {
        Some(401 | 403) => Exit::Refused,
        _ if error.is_not_found() => Exit::NotFound,
        _ if error.is_conflict() || error.is_precondition_failed() => Exit::Conflict,
        _ => Exit::Failed,
    }
}

/// `error: …` and, when there is one, `hint: …`.
fn text(error: &Error, paint: Paint) -> String {
    let mut hint = error.downcast_ref::<Hint>().map(|hint| hint.advice.clone());
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let mut part = cause.to_string();
        if let Some(known) = of_client(cause) {
            part = without_hint(known);
            // Which of many operations met a missing table does not matter.
            let own = known.hint().filter(|_| *known.kind() != ErrorKind::TableNotFound);
            let advice = own.map(str::to_owned).or_else(|| advice_on(known));
            hint = hint.or(advice);
        }
        // Some errors repeat their cause.
        if parts.last().is_none_or(|last| !last.contains(&part)) {
            parts.push(part);
        }
    }
    let problem = format!("{} {}\n", paint.bad("error:"), parts.join(": "));
    let hint = hint.map(|hint| format!("{} {hint}\n", paint.bold("hint:")));
    problem + &hint.unwrap_or_default()
}

/// The text of an error without the hint at its end.
pub(crate) fn without_hint(error: &lazuli_client::Error) -> String {
    let text = error.to_string();
    let end = error.hint().map(|hint| format!(" hint: {hint}"));
    match end.and_then(|end| text.strip_suffix(&end).map(str::to_owned)) {
        Some(text) => text,
        None => text,
    }
}

fn advice_on(error: &lazuli_client::Error) -> Option<String> {
    let advice = match error.kind() {
        ErrorKind::Transport | ErrorKind::Timeout => {
            "`lazuli serve` starts a server on this machine; -c, --endpoint or -p name another one"
        }
        ErrorKind::Forbidden { .. } => {
            "check the account's name and key; `lazuli sas explain` says what a signature permits"
        }
        ErrorKind::ReceiptLost => "receive the message again for a new pop receipt",
        ErrorKind::TableNotFound => "`lazuli tables create NAME` creates a table",
        ErrorKind::Key(_) => KEY_RULES,
        ErrorKind::Name(_, "table") => {
            "a name has 3 to 63 letters and digits of ASCII, a letter first, and is not `tables`"
        }
        ErrorKind::Name(_, "queue" | "container") => {
            "a name has 3 to 63 small letters, digits and single hyphens, none first or last"
        }
        ErrorKind::TokenMismatch => {
            "give --resume the token that the same query printed: same table, filter and properties"
        }
        _ => match error.code() {
            // The server names the request that sets what is missing.
            Some("ResourceNotFound") if error.to_string().contains("comp=lazuli-feed") => {
                "`lazuli feed on NAME` turns the feed of a table on"
            }
            Some("ResourceNotFound") if error.to_string().contains("comp=lazuli-ttl") => {
                "`lazuli ttl set NAME --seconds N`, or --property, lets entities of a table expire"
            }
            Some("QueueNotFound") => "`lazuli queues create NAME` creates a queue",
            Some("ContainerNotFound") => {
                "`lazuli blobs containers create NAME` creates a container"
            }
            _ => return None,
        },
    };
    Some(advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use std::time::Duration;

    #[test]
    fn an_error_is_one_line_and_a_hint() {
        let error = usage("no such colour", "red or blue").context("paint the wall");
        let expect = "error: paint the wall: no such colour\nhint: red or blue\n";
        assert_eq!(text(&error, Paint::OFF), expect);
        assert_eq!(exit_of(&error), Exit::Usage);
        let plain = anyhow::anyhow!("it broke");
        assert_eq!(text(&plain, Paint::OFF), "error: it broke\n");
        assert_eq!(exit_of(&plain), Exit::Failed);
    }

    #[test]
    fn errors_of_the_client_have_their_own_codes() {
        let bad = lazuli_client::Account::from_connection_string("nonsense").unwrap_err();
        let error = Error::new(bad).context("connect");
        assert_eq!(exit_of(&error), Exit::Usage);
        assert!(text(&error, Paint::OFF).starts_with("error: connect: "));
    }

    #[tokio::test]
    async fn what_no_service_takes_is_wrong_usage_in_a_transaction_too() {
        use lazuli_client::{Account, Entity};
        let account = Account::from_connection_string("UseDevelopmentStorage=true").unwrap();
        let table = account.tables().table("People").unwrap();
        let wide = Entity::new("p", "r").with("Text", "x".repeat(40_000));
        let alone = table.insert(&wide).await.unwrap_err();
        let together = table.batch("p").insert(&wide).commit().await.unwrap_err();
        assert_eq!((exit_of_client(&alone), exit_of_client(&together)), (Exit::Usage, Exit::Usage));
    }

    /// Loses the answer to every request.
    struct Silent;

    impl lazuli_client::Transport for Silent {
        fn send(
            &self,
            _: http::Request<bytes::Bytes>,
        ) -> lazuli_client::BoxFuture<'_, SilentAnswer> {
            let source = "lost".into();
            let lost = lazuli_client::TransportError { sent: lazuli_client::Sent::Maybe, source };
            Box::pin(std::future::ready(Err(lost)))
        }
    }

    type SilentAnswer = Result<http::Response<lazuli_client::Body>, lazuli_client::TransportError>;

    /// O-6.5: a write whose answer was lost may be done; it is neither a conflict nor missing.
    #[tokio::test]
    async fn a_write_of_unknown_outcome_got_no_answer() {
        use lazuli_client::{Account, Credential, Entity, Retry};
        let key = Credential::shared_key("acct", "a2V5").unwrap();
        let retry = Retry::default().pauses(Duration::ZERO, Duration::ZERO);
        let account = Account::builder("http://127.0.0.1:1/acct").credential(key).retry(retry);
        let account = account.transport(Silent).build().unwrap();
        let table = account.tables().table("People").unwrap();
        let error = table.insert(&Entity::new("p", "r")).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(exit_of_client(&error), Exit::Unreachable);
    }

    #[test]
    fn a_reader_that_went_away_is_known() {
        let gone = Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("write");
        assert!(is_broken_pipe(&gone) && !is_broken_pipe(&anyhow::anyhow!("other")));
    }

    #[test]
    fn causes_are_told_on_one_line() {
        let error = std::fs::read("/nowhere/at/all").context("read the key").unwrap_err();
        assert!(chain(&*error).starts_with("read the key: "));
        assert!(log_line(&with_hint("a", "b")).ends_with("a (b)"));
    }
}
