//! `lazuli completions`: scripts for shells, and the manual page (O-9.1).

use crate::exit::Exit;
use crate::output::Output;
use anyhow::{Context, Result};
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli completions bash > lazuli.bash
  lazuli completions man > lazuli.1")]
pub(crate) struct CompletionsArguments {
    /// For which shell; `man` is the manual page
    #[arg(value_name = "SHELL")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Man,
}

impl Format {
    fn shell(self) -> Option<Shell> {
        match self {
            Self::Bash => Some(Shell::Bash),
            Self::Zsh => Some(Shell::Zsh),
            Self::Fish => Some(Shell::Fish),
            Self::PowerShell => Some(Shell::PowerShell),
            Self::Man => None,
        }
    }
}

pub(crate) fn run(arguments: CompletionsArguments, out: Output, mut root: Command) -> Result<Exit> {
    let mut text = Vec::new();
    match arguments.format.shell() {
        Some(shell) => clap_complete::generate(shell, &mut root, "lazuli", &mut text),
        None => clap_mangen::Man::new(root).render(&mut text).context("write the manual page")?,
    }
    out.bytes(&text)?;
    Ok(Exit::Done)
}
