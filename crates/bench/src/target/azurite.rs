//! Azurite from npm: installed once under the target directory, started as a user would.

use super::{Process, Target, TargetName};
use crate::process::Program;
use crate::workload::Service;
use anyhow::{Context, Result};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The newest version when the published figures were measured.
pub(crate) const VERSION: &str = "3.37.0";

/// The file of the program, or why there is no Azurite.
pub(super) fn install(home: &Path, service: Service) -> Result<Result<PathBuf, String>> {
    for program in ["node", "npm"] {
        if !exists(program) {
            return Ok(Err(format!("{program} is not installed")));
        }
    }
    let package = home.join("node_modules/azurite");
    let main = package.join(match service {
        Service::Table => "dist/src/table/main.js",
        Service::Queue => "dist/src/queue/main.js",
    });
    let manifest = fs::read_to_string(package.join("package.json")).unwrap_or_default();
    if manifest.contains(&format!("\"version\": \"{VERSION}\"")) && main.is_file() {
        return Ok(Ok(main));
    }
    fs::create_dir_all(home).with_context(|| format!("make {}", home.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
        .arg("--prefix")
        .arg(home)
        .arg(format!("azurite@{VERSION}"));
    let status = npm.stdin(Stdio::null()).status().context("run npm")?;
    if !status.success() {
        return Ok(Err(format!("npm cannot install azurite@{VERSION}")));
    }
    Ok(Ok(main))
}

/// With data on disk, without a log of requests, with any header accepted, without telemetry.
pub(super) fn start(main: &Path, data: &Path, service: Service) -> Result<Target> {
    // It does not say which port it took, so it gets one that was free a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let [host_option, port_option] = match service {
        Service::Table => ["--tableHost", "--tablePort"],
        Service::Queue => ["--queueHost", "--queuePort"],
    };
    let mut command = Command::new("node");
    command
        .arg(main)
        .args([host_option, "127.0.0.1", port_option, &port.to_string()])
        .args(["--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry", "--location"])
        .arg(data);
    // The Table service "successfully started", the Queue service "successfully listens".
    let started = |line: &str| line.contains(" successfully ").then_some(address);
    let (program, address) = Program::start(&mut command, started)?;
    let (pid, process) = (program.pid(), Process::Azurite(program));
    Ok(Target { name: TargetName::Azurite, address, pid, process })
}

fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    let answer = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    answer.is_ok_and(|status| status.success())
}
