//! Checks of dependencies: licences, duplicates, sources, and known vulnerabilities.
//!
//! cargo-deny is installed under `target/` if the machine has none. The advisory database comes
//! from the network; if it cannot be fetched, the other checks still count.

use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::process::Command;

/// The version to install; another version that is already installed is used as it is.
const VERSION: &str = "0.20.2";

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let deny = Deny::find(workspace)?;
    let mut tally = process::check(deny.command().args(["check", "bans", "licenses", "sources"]));
    tally += match process::run(deny.command().args(["fetch", "db"])) {
        Ok(()) => process::check(deny.command().args(["check", "advisories"])),
        Err(error) => {
            println!("skipped: the advisory database cannot be fetched, so dependencies are NOT");
            println!("checked for known vulnerabilities: {error:#}");
            Tally::SKIPPED
        }
    };
    Ok(tally)
}

/// cargo-deny, and where to run it.
struct Deny<'a> {
    workspace: &'a Workspace,
    program: std::path::PathBuf,
}

impl<'a> Deny<'a> {
    fn find(workspace: &'a Workspace) -> Result<Self> {
        if process::exists("cargo-deny", "--version") {
            return Ok(Self { workspace, program: "cargo-deny".into() });
        }
        let root = workspace.target.join("tools");
        let program = root.join("bin/cargo-deny");
        if !program.is_file() {
            let mut install = workspace.cargo();
            // It runs for seconds, so an optimized build would not pay off.
            install.args(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug"]);
            process::run(install.arg("--quiet").arg("--root").arg(&root))
                .context("install cargo-deny")?;
        }
        Ok(Self { workspace, program })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.workspace.root);
        command
    }
}
