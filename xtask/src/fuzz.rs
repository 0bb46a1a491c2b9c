//! `cargo xtask fuzz`: generated input for every parser.
//!
//! With cargo-fuzz and a nightly compiler, libFuzzer generates it, guided by coverage; without them
//! our own fuzzer does, on stable Rust. Both start from the committed corpus. Inputs that libFuzzer
//! keeps go to `target/fuzz-corpus`.

use crate::process;
use crate::sim::{arguments, program};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::process::Command;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The parser, a name from fuzz/fuzz_targets [default: each in turn]
    target: Option<String>,
    /// Seconds for each parser
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Reproduce an earlier run of our own fuzzer
    #[arg(long)]
    seed: Option<u64>,
    /// Use our own fuzzer even if cargo-fuzz is installed
    #[arg(long)]
    stable: bool,
}

/// Each parser in turn, by our own fuzzer; they share `seconds`.
pub(crate) fn run_each(workspace: &Workspace, seed: u64, seconds: u64) -> Result<Tally> {
    let seconds = (seconds / targets(workspace)?.len().max(1) as u64).max(1);
    run(workspace, &Options { target: None, seconds, seed: Some(seed), stable: true })
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let targets = targets(workspace)?;
    let wanted = |name: &&String| options.target.as_ref().is_none_or(|wanted| wanted == *name);
    let wanted: Vec<&String> = targets.iter().filter(wanted).collect();
    ensure!(!wanted.is_empty(), "no such target; there are {}", targets.join(", "));
    let own = options.stable || options.seed.is_some() || !has_libfuzzer();
    let mut tally = Tally::default();
    for target in wanted {
        tally += match own {
            true => drive(workspace, target, options),
            false => libfuzzer(workspace, target, options)?,
        };
    }
    Ok(tally)
}

fn drive(workspace: &Workspace, target: &str, options: &Options) -> Tally {
    let mut command = program(workspace, "lazuli-hostile");
    command.args(["fuzz", target, "--corpus"]).arg(workspace.root.join("fuzz/corpus"));
    arguments(&mut command, [("--seconds", Some(options.seconds)), ("--seed", options.seed)]);
    process::check(&mut command)
}

fn libfuzzer(workspace: &Workspace, target: &str, options: &Options) -> Result<Tally> {
    let found = workspace.target.join("fuzz-corpus").join(target);
    fs::create_dir_all(&found).context("make a directory for new inputs")?;
    let mut command = nightly();
    command
        .current_dir(&workspace.root)
        .args(["cargo", "fuzz", "run", target])
        .arg(found)
        .arg(workspace.root.join("fuzz/corpus").join(target))
        .arg("--")
        .args(["-max_len=4096", "-print_final_stats=1"])
        .arg(format!("-max_total_time={}", options.seconds));
    Ok(process::check(&mut command))
}

fn has_libfuzzer() -> bool {
    let compiler = nightly().args(["rustc", "-V"]).output();
    process::exists("cargo-fuzz", "-V") && compiler.is_ok_and(|output| output.status.success())
}

/// A command that runs its arguments with the nightly compiler, whichever compiler built this.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly"]).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let files = fs::read_dir(workspace.root.join("fuzz/fuzz_targets")).context("list targets")?;
    let mut names = Vec::new();
    for file in files {
        let path = file.context("list targets")?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
