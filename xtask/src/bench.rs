//! `cargo xtask bench`: builds server and benchmark in release, and hands the rest over.

use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::process::Command;

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// What the benchmark understands; `--help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    // Apart from each other: built together, the server would get features that it does not ask for.
    let binary = workspace.binary()?;
    process::run(workspace.cargo().args(["build", "--release", "--package", "lazuli-bench"]))?;
    let mut bench = Command::new(workspace.target.join("release/lazuli-bench"));
    bench.arg("--lazuli").arg(binary).arg("--out").arg(workspace.target.join("bench"));
    Ok(process::check(bench.args(&options.arguments)))
}
