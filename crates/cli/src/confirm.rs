//! Asks for confirmation before something is destroyed (O-9.7).

use crate::failure::{usage, with_hint};
use crate::input::aside;
use crate::output::to_stderr;
use anyhow::{Context, Result};
use clap::Args;
use std::io::{self, BufRead, IsTerminal};

/// The switch of commands that destroy.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

impl Confirmation {
    /// Asks the user to type `name`. Without a terminal it is refused, because there is nobody to ask.
    pub(crate) async fn ask(self, deed: &str, name: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(usage(format!("{deed} must be confirmed"), "--yes confirms it"));
        }
        to_stderr(&format!("{deed} cannot be undone. Type {name} to go on: "));
        let answer = aside(|| {
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer).map(|_| answer)
        });
        check(&answer.await?.context("read the answer")?, name)
    }
}

fn check(answer: &str, name: &str) -> Result<()> {
    match answer.trim_end_matches(['\n', '\r']) == name {
        true => Ok(()),
        false => Err(with_hint("not confirmed; nothing was changed", "--yes confirms it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_confirms() {
        assert!(check("People\n", "People").is_ok() && check("People", "People").is_ok());
        for answer in ["", "\n", "people\n", "y\n", "People \n"] {
            assert!(check(answer, "People").is_err(), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn yes_asks_nothing() {
        assert!(Confirmation { yes: true }.ask("deleting", "People").await.is_ok());
    }
}
