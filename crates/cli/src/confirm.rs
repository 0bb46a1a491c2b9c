//! Asks before something is destroyed (O-9.7).

use crate::exit::Exit;
use crate::failure::{ending, usage};
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
    /// Asks the user to type `name`. Without a terminal there is nobody to ask, and so it is refused.
    pub(crate) fn ask(self, deed: &str, name: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(usage(format!("{deed} must be confirmed"), "--yes confirms it"));
        }
        to_stderr(&format!("{deed} cannot be undone. Type {name} to go on: "));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).context("read the answer")?;
        match answer.trim() == name {
            true => Ok(()),
            false => {
                Err(ending(Exit::Failed, "not confirmed; nothing was changed", "--yes confirms it"))
            }
        }
    }
}
