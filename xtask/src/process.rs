//! Runs other programs, shows their output, and counts the tests in it.

use crate::tally::Tally;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Runs a program that must succeed; its output is shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs a program that counts as one test.
pub(crate) fn check(command: &mut Command) -> Tally {
    match run(command) {
        Ok(()) => Tally::PASSED,
        Err(error) => {
            println!("{error:#}");
            Tally::FAILED
        }
    }
}

/// Runs a program, shows its standard output line by line, and adds up what `count` finds there.
pub(crate) fn run_counted(
    command: &mut Command,
    count: impl Fn(&str) -> Option<Tally>,
) -> Result<Tally> {
    let describe = describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {describe}"))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("read from {describe}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally += count(&line).unwrap_or_default();
        }
    }
    let status = child.wait().with_context(|| format!("wait for {describe}"))?;
    Ok(tally.confirmed(status.success()))
}

/// Counts `test result: ok. 3 passed; 0 failed; ...`, one such line per test binary, and the tests
/// that say they are ignored. A test that runs as a child process of another test is not skipped.
pub(crate) fn count_cargo_test(line: &str) -> Option<Tally> {
    let line = line.trim();
    if let Some((_, reason)) = line.strip_prefix("test ")?.split_once(" ... ignored") {
        return (!reason.starts_with(", a child of ")).then_some(Tally::SKIPPED);
    }
    let rest = line.strip_prefix("test result: ")?;
    let number = |what: &str| {
        let before = rest.split(what).next()?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    Some(Tally { passed: number(" passed;")?, failed: number(" failed;")?, skipped: 0 })
}

/// Counts `test name ... ok`, `... FAILED` and `... skipped: reason`, as the client programs print.
pub(crate) fn count_case(line: &str) -> Option<Tally> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    if name.contains(' ') {
        return None;
    }
    match outcome.trim_end() {
        "ok" => Some(Tally::PASSED),
        "FAILED" => Some(Tally::FAILED),
        other => other.starts_with("skipped: ").then_some(Tally::SKIPPED),
    }
}

/// Whether a program can be run at all.
pub(crate) fn exists(program: &str, version: &str) -> bool {
    let answer =
        Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    answer.is_ok_and(|status| status.success())
}

fn describe(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).take(4).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_results_are_read() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        let expected = Tally { passed: 12, failed: 3, skipped: 0 };
        assert_eq!(count_cargo_test(line), Some(expected));
        assert_eq!(count_cargo_test("test foo ... ok"), None);
        assert_eq!(count_cargo_test("test foo ... ignored"), Some(Tally::SKIPPED));
        assert_eq!(count_cargo_test("test foo ... ignored, too slow"), Some(Tally::SKIPPED));
        assert_eq!(count_cargo_test("test foo ... ignored, a child of bar"), None);
    }

    #[test]
    fn cases_are_read() {
        assert_eq!(count_case("test a.b ... ok"), Some(Tally::PASSED));
        assert_eq!(count_case("test a.b ... FAILED"), Some(Tally::FAILED));
        assert_eq!(count_case("test a.b ... skipped: why"), Some(Tally::SKIPPED));
        assert_eq!(count_case("the test a.b ... ok"), None);
        assert_eq!(count_case("test a.b"), None);
    }
}
