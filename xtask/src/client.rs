//! The suites that test the real binary with official SDKs: one program per SDK.
//!
//! A program lives in `tests/clients/<name>/`, takes the connection string from
//! `LAZULI_CONNECTION_STRING`, prints `test <case> ... ok` (or `FAILED`, or `skipped: <reason>`) for
//! each of its cases, and exits with a non-zero status if one failed. This module installs what a
//! program needs, under the target directory or next to the program, and only if that has changed.

use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY, Server};
use lazuli_testkit::stores::name_space;
use lazuli_testkit::stores::postgres::in_name_space;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Client {
    /// Also the directory under `tests/clients`.
    pub(crate) name: &'static str,
    runtime: Runtime,
}

/// The language of a program, and what runs it.
#[derive(Clone, Copy)]
enum Runtime {
    Python,
    Node,
    Go,
    Java,
    Rust,
}

pub(crate) const PYTHON: Client = Client { name: "python", runtime: Runtime::Python };
pub(crate) const OLD_PYTHON: Client = Client { name: "python-legacy", runtime: Runtime::Python };
pub(crate) const NODE: Client = Client { name: "javascript", runtime: Runtime::Node };

pub(crate) const CLIENTS: &[Client] = &[
    PYTHON,
    NODE,
    Client { name: "python-12.0", runtime: Runtime::Python },
    OLD_PYTHON,
    Client { name: "javascript-legacy", runtime: Runtime::Node },
    Client { name: "go", runtime: Runtime::Go },
    Client { name: "java", runtime: Runtime::Java },
    Client { name: "rust", runtime: Runtime::Rust },
];

/// Separate because of its size.
pub(crate) const AZ: Client = Client { name: "az", runtime: Runtime::Python };

/// Starts a server with an empty data directory and runs the client's program against it.
pub(crate) fn run(workspace: &Workspace, client: &Client) -> Result<Tally> {
    let data = tempfile::tempdir().context("create a data directory")?;
    run_on(workspace, client, ACCOUNT, |_| {
        Server::start(workspace.binary()?, data.path(), &[]).context("start the server")
    })
}

/// Runs the client's program against a gateway on a store, separated from all other tables: in its own
/// schema on PostgreSQL, in its own account on TiKV.
pub(crate) fn run_on_store(workspace: &Workspace, client: &Client, store: &str) -> Result<Tally> {
    let is_tikv = store.starts_with("tikv://");
    let account = is_tikv.then(|| format!("sdk{:016x}", SystemClock.now().ticks()));
    let address = match is_tikv {
        true => store.to_owned(),
        false => in_name_space(store, &name_space()),
    };
    run_on(workspace, client, account.as_deref().unwrap_or(ACCOUNT), |accounts| {
        let mut command = Command::new(workspace.binary()?);
        command.env("LAZULI_ACCOUNTS", accounts);
        Server::start_gateway(command, &address, &[]).context("start the gateway")
    })
}

fn run_on(
    workspace: &Workspace,
    client: &Client,
    account: &str,
    start: impl FnOnce(String) -> Result<Server>,
) -> Result<Tally> {
    if let Some(program) = client.runtime.missing() {
        println!("skipped: {program} is not installed");
        return Ok(Tally::SKIPPED);
    }
    let mut command = client.prepare(workspace).context("install what the client needs")?;
    let server = start(format!("{account}:{ACCOUNT_KEY}"))?;
    command.env("LAZULI_CONNECTION_STRING", server.connection_string_of(account));
    let tally = process::run_counted(&mut command, process::count_case)?;
    if tally.failed > 0 {
        println!("the server's log ends:\n{}", server.log());
    }
    let status = server.terminate().context("stop the server")?;
    anyhow::ensure!(status.success(), "the server ended with {status}");
    Ok(tally)
}

/// The environment of a Python SDK; the README's code runs in the newest one's.
pub(crate) fn python_environment(
    workspace: &Workspace,
    client: &Client,
) -> Result<Option<PathBuf>> {
    match Runtime::Python.missing() {
        Some(_) => Ok(None),
        None => client.python(workspace).map(Some),
    }
}

/// Installs the packages of the newest JavaScript SDK next to its program; false without Node.js.
pub(crate) fn node_packages(workspace: &Workspace) -> Result<bool> {
    match Runtime::Node.missing() {
        Some(_) => Ok(false),
        None => NODE.npm(workspace).map(|()| true),
    }
}

impl Runtime {
    /// The required program that is not installed, if any.
    fn missing(self) -> Option<&'static str> {
        let needed: &[(&str, &str)] = match self {
            Self::Python => &[("python3", "--version")],
            Self::Node => &[("node", "--version"), ("npm", "--version")],
            Self::Go => &[("go", "version")],
            Self::Java => &[("java", "-version"), ("mvn", "--version")],
            Self::Rust => &[],
        };
        let missing = needed.iter().find(|(program, version)| !process::exists(program, version));
        missing.map(|(program, _)| *program)
    }
}

impl Client {
    pub(crate) fn directory(&self, workspace: &Workspace) -> PathBuf {
        workspace.root.join("tests/clients").join(self.name)
    }

    /// The client's own directory for build products and packages.
    fn home(&self, workspace: &Workspace) -> Result<PathBuf> {
        let home = workspace.target.join("clients").join(self.name);
        fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?;
        Ok(home)
    }

    /// Installs and builds; returns the command that runs the cases.
    fn prepare(&self, workspace: &Workspace) -> Result<Command> {
        let directory = self.directory(workspace);
        let mut command = match self.runtime {
            Runtime::Python => {
                let mut command = Command::new(self.python(workspace)?.join("bin/python"));
                command.arg("main.py").env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Runtime::Node => {
                self.npm(workspace)?;
                let mut command = Command::new("node");
                command.arg("main.js");
                command
            }
            Runtime::Go => {
                let program = self.home(workspace)?.join("client");
                let mut build = Command::new("go");
                build.args(["build", "-o"]).arg(&program).arg(".").current_dir(&directory);
                process::run(&mut build)?;
                Command::new(program)
            }
            Runtime::Java => self.maven(workspace)?,
            Runtime::Rust => {
                let home = self.home(workspace)?;
                let mut build = workspace.cargo();
                build.args(["build", "--locked", "--target-dir"]).arg(&home);
                process::run(build.current_dir(&directory))?;
                Command::new(home.join("debug/client"))
            }
        };
        command.current_dir(directory);
        Ok(command)
    }

    /// A virtual environment with the client's requirements.
    fn python(&self, workspace: &Workspace) -> Result<PathBuf> {
        let requirements = self.directory(workspace).join("requirements.txt");
        let environment = self.home(workspace)?.join("venv");
        install_once(&environment, &requirements, || {
            let mut make = Command::new("python3");
            process::run(make.args(["-m", "venv", "--clear"]).arg(&environment))?;
            let mut pip = Command::new(environment.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            process::run(pip.arg("--requirement").arg(&requirements))
        })?;
        Ok(environment)
    }

    /// Packages next to the program, where the runtime looks for them.
    fn npm(&self, workspace: &Workspace) -> Result<()> {
        let directory = self.directory(workspace);
        let modules = directory.join("node_modules");
        install_once(&modules, &directory.join("package-lock.json"), || {
            let mut npm = Command::new("npm");
            npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
            process::run(npm.current_dir(&directory))
        })
    }

    /// Compiles with Maven and asks it for the class path, so that a run needs only Java.
    fn maven(&self, workspace: &Workspace) -> Result<Command> {
        let home = self.home(workspace)?;
        let path_file = home.join("classpath");
        let mut build = Command::new("mvn");
        build
            .args(["--quiet", "--batch-mode", "compile", "dependency:build-classpath"])
            .arg(format!("-DbuildDirectory={}", home.display()))
            .arg(format!("-Dmdep.outputFile={}", path_file.display()));
        process::run(build.current_dir(self.directory(workspace)))?;
        let dependencies = fs::read_to_string(&path_file).context("read the class path")?;
        let mut command = Command::new("java");
        let classes = home.join("classes");
        command.arg("-cp").arg(format!("{}:{}", classes.display(), dependencies.trim()));
        command.arg("Main");
        Ok(command)
    }
}

/// Runs `install` unless `place` was already filled for exactly this list of packages.
fn install_once(place: &Path, list: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted = fs::read(list).with_context(|| format!("read {}", list.display()))?;
    let stamp = place.join("lazuli-installed");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install()?;
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}
