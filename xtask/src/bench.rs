//! `cargo xtask bench`: builds server and benchmark with the release profile `dist`, and runs the
//! benchmark.

use crate::process;
use crate::tally::Tally;
use crate::workspace::{Profile, Workspace};
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::process::Command;

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the benchmark; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    // Built separately: together, the server would get features that it does not request.
    let binary = workspace.dist_binary()?;
    let mut bench = Command::new(workspace.build("lazuli-bench", Profile::Dist)?);
    bench.arg("--lazuli").arg(binary).arg("--out").arg(workspace.target.join("bench"));
    Ok(process::check(bench.args(&options.arguments)))
}
