//! Azurite from npm: installed once under the target directory, started as a user would.

use super::{Process, Target, TargetName};
use crate::process::Program;
use crate::workload::Service;
use anyhow::{Context, Result};
use lazuli_testkit::azurite;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's file, or why Azurite is not available.
pub(super) fn install(home: &Path, service: Service) -> Result<Result<PathBuf, String>> {
    let package = azurite::install(home).context("install Azurite")?;
    Ok(package.map(|package| {
        package.join(match service {
            Service::Table => "dist/src/table/main.js",
            Service::Queue => "dist/src/queue/main.js",
        })
    }))
}

/// With data on disk, without a log of requests, with any header accepted, without telemetry.
pub(super) fn start(main: &Path, data: &Path, service: Service) -> Result<Target> {
    let address = azurite::free_port()?;
    let [host_option, port_option] = match service {
        Service::Table => ["--tableHost", "--tablePort"],
        Service::Queue => ["--queueHost", "--queuePort"],
    };
    let mut command = Command::new("node");
    command
        .arg(main)
        .args([host_option, "127.0.0.1", port_option, &address.port().to_string()])
        .args(["--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry", "--location"])
        .arg(data);
    // The Table service "successfully started", the Queue service "successfully listens".
    let started = |line: &str| line.contains(" successfully ").then_some(address);
    let (program, address) = Program::start(&mut command, started)?;
    let (pid, process) = (program.pid(), Process::Azurite(program));
    Ok(Target { name: TargetName::Azurite, address, pid, process })
}
