//! `cargo xtask bench`: builds server and benchmark with the release profile `dist`, and runs the
//! benchmark.

use crate::client::{self, PYTHON};
use crate::process;
use crate::tally::Tally;
use crate::workspace::{Profile, Workspace};
use crate::{bench_indexes, bench_store, bench_tikv};
use anyhow::{Context, Result, bail};
use clap::{Args, Parser};
use std::ffi::OsString;
use std::process::Command;

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the benchmark; `--help` lists them. `--engine postgres|tikv [--seconds N]` measures a
    /// shared store instead, `--indexes [--entities N]` what indexes save and cost
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Seconds of each measurement on a shared store.
const STORE_SECONDS: u64 = 8;

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let words: Vec<_> = options.arguments.iter().filter_map(|word| word.to_str()).collect();
    let loads_here = matches!(words.as_slice(), ["--engine" | "--indexes", ..]);
    if loads_here && cfg!(debug_assertions) {
        return Ok(run_optimized(workspace, options));
    }
    match words.as_slice() {
        ["--engine", "postgres"] => return bench_store::run(workspace, STORE_SECONDS),
        ["--engine", "postgres", "--seconds", seconds] => {
            return bench_store::run(workspace, seconds.parse().context("read --seconds")?);
        }
        ["--engine", "tikv"] => return bench_tikv::run(workspace, STORE_SECONDS),
        ["--engine", "tikv", "--seconds", seconds] => {
            return bench_tikv::run(workspace, seconds.parse().context("read --seconds")?);
        }
        ["--indexes", ..] => {
            let words = std::iter::once("bench").chain(words.iter().copied());
            let options = bench_indexes::Options::try_parse_from(words)?;
            return bench_indexes::run(workspace, &options);
        }
        ["--engine", ..] => bail!("--engine postgres|tikv [--seconds N] takes nothing else"),
        _ => {}
    }
    // Built separately: together, the server would get features that it does not request.
    let binary = workspace.dist_binary()?;
    let mut bench = Command::new(workspace.build("lazuli-bench", Profile::Dist)?);
    bench.arg("--lazuli").arg(binary).arg("--out").arg(workspace.target.join("bench"));
    let measures_client = options.arguments.iter().any(|argument| argument == "--client");
    if measures_client && let Some(python) = client::python_environment(workspace, &PYTHON)? {
        bench.arg("--python").arg(python.join("bin/python"));
    }
    Ok(process::check(bench.args(&options.arguments)))
}

/// Runs this program again, built with optimization. Some measurements run their clients as threads of
/// this program, on the same machine as the server: unoptimized, they use more CPU time than the server.
fn run_optimized(workspace: &Workspace, options: &Options) -> Tally {
    let again = ["run", "--quiet", "--release", "--package", "xtask", "--", "bench"];
    process::check(workspace.cargo().args(again).args(&options.arguments))
}
