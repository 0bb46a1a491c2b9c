//! The suites of the Rust client: its scenarios in one process and against the real binary and Azurite, its
//! examples, its documentation, its packages.

use crate::client::{self, NODE, OLD_PYTHON, PYTHON};
use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use lazuli_testkit::azurite::{self, Azurite};
use lazuli_testkit::server::Server;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// The crates published together (C-1.1), in the order of publication.
const PUBLISHED: [&str; 5] =
    ["lazuli-model", "lazuli-advice", "lazuli-wire", "lazuli-client-derive", "lazuli-client"];

/// Seeds of a crash test, and cancelled futures of CS-25; plain `cargo test` runs fewer. Environment variables
/// of these names override them: the 1,000 seeds of P-0.7 take longer than a merge should wait.
const LENGTHS: [(&str, &str); 2] = [("LAZULI_SEEDS", "100"), ("LAZULI_ROUNDS", "10000")];
/// The same for a service in another process, where the service is what is tested.
const OTHER_PROCESS: (&str, &str) = ("LAZULI_ROUNDS", "500");

/// Cargo's arguments for all features; `release`, like the binary under test.
const RELEASE: [&str; 4] = ["--release", "--all-features", "--package", "lazuli-client"];

#[derive(Clone, Copy)]
pub(crate) enum Part {
    Scenarios,
    Azurite,
    Examples,
    Documentation,
    Packages,
}

impl Part {
    pub(crate) const ALL: [Self; 5] =
        [Self::Scenarios, Self::Azurite, Self::Examples, Self::Documentation, Self::Packages];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scenarios => "client",
            Self::Azurite => "client-azurite",
            Self::Examples => "client-examples",
            Self::Documentation => "client-doc",
            Self::Packages => "client-package",
        }
    }

    pub(crate) fn run(self, workspace: &Workspace) -> Result<Tally> {
        match self {
            Self::Scenarios => scenarios(workspace),
            Self::Azurite => scenarios_on_azurite(workspace),
            Self::Examples => examples(workspace),
            Self::Documentation => Ok(documentation(workspace)),
            Self::Packages => packages(workspace),
        }
    }
}

/// All tests of the client in one process, then the acceptance scenarios against the real
/// binary, with the official clients alongside ours.
fn scenarios(workspace: &Workspace) -> Result<Tally> {
    let mut command = workspace.cargo();
    command.arg("test").args(RELEASE).args(["--no-fail-fast", "--tests"]);
    command.envs(LENGTHS.into_iter().filter(|(name, _)| env::var_os(name).is_none()));
    // Each scenario has its own server, whatever the caller's shell names.
    command.env_remove("LAZULI_CONNECTION_STRING");
    let mut tally = process::run_counted(&mut command, process::count_cargo_test)?;

    let data = tempfile::tempdir().context("create a data directory")?;
    let server = Server::start(workspace.binary()?, data.path(), &[])?;
    let mut command = acceptance(workspace, &server.connection_string());
    for (client, prefix, program) in [
        (&PYTHON, "LAZULI_PYTHON", "interop.py"),
        (&OLD_PYTHON, "LAZULI_OLD_PYTHON", "encryption.py"),
    ] {
        if let Some(environment) = client::python_environment(workspace, client)? {
            command.env(prefix, environment.join("bin/python"));
            command.env(format!("{prefix}_PROGRAM"), client.directory(workspace).join(program));
        }
    }
    if client::node_packages(workspace)? {
        command.env("LAZULI_NODE_PROGRAM", NODE.directory(workspace).join("interop.js"));
    }
    tally += process::run_counted(&mut command, process::count_cargo_test)?;
    Ok(tally)
}

/// The acceptance scenarios against Azurite, whose known faults are listed with them (CS-23).
fn scenarios_on_azurite(workspace: &Workspace) -> Result<Tally> {
    let Some(azurite) = start_azurite(workspace)? else { return Ok(Tally::SKIPPED) };
    let mut command = acceptance(workspace, &azurite.connection_string());
    command.env("LAZULI_PEER", "azurite");
    process::run_counted(&mut command, process::count_cargo_test)
}

fn acceptance(workspace: &Workspace, connection_string: &str) -> Command {
    let mut command = workspace.cargo();
    command.arg("test").args(RELEASE).args(["--no-fail-fast", "--test", "acceptance"]);
    command.env("LAZULI_CONNECTION_STRING", connection_string).envs([OTHER_PROCESS]);
    command
}

fn start_azurite(workspace: &Workspace) -> Result<Option<Azurite>> {
    match azurite::install(&workspace.target.join("clients/azurite"))? {
        Ok(package) => Azurite::start(&package).map(Some).context("start Azurite"),
        Err(reason) => {
            println!("skipped: {reason}");
            Ok(None)
        }
    }
}

/// Runs every example program against a fresh server. Examples that need blobs use Azurite's.
fn examples(workspace: &Workspace) -> Result<Tally> {
    process::run(workspace.cargo().arg("build").args(RELEASE).arg("--examples"))?;
    let data = tempfile::tempdir().context("create a data directory")?;
    let server = Server::start(workspace.binary()?, data.path(), &[])?;
    let azurite = start_azurite(workspace)?;
    let mut connection_string = server.connection_string();
    if let Some(azurite) = &azurite {
        connection_string += &format!("BlobEndpoint={};", azurite.blob_endpoint());
    }
    let directory = workspace.root.join("crates/client/examples");
    let files = fs::read_dir(&directory).context("list the examples")?;
    let files: BTreeSet<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    let mut tally = Tally::default();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let name = file.file_stem().context("name an example")?;
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let needs_blobs = text.lines().take(10).any(|line| line.trim() == "// needs: blob");
        let shown = name.display();
        if needs_blobs && azurite.is_none() {
            println!("test {shown} ... skipped: it needs a blob service");
            tally += Tally::SKIPPED;
            continue;
        }
        let program = workspace.target.join("release/examples").join(name);
        match run_example(&program, &connection_string) {
            Ok(()) => {
                println!("test {shown} ... ok");
                tally += Tally::PASSED;
            }
            Err(error) => {
                println!("test {shown} ... FAILED\n{error:#}");
                tally += Tally::FAILED;
            }
        }
    }
    Ok(tally)
}

/// An example must succeed, and print something.
fn run_example(program: &Path, connection_string: &str) -> Result<()> {
    let work = tempfile::tempdir().context("create a directory to work in")?;
    let mut command = Command::new(program);
    command.current_dir(work.path()).env("LAZULI_CONNECTION_STRING", connection_string);
    let output = command.stdin(Stdio::null()).output().context("run it")?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(output.status.success(), "it ended with {}\n{stdout}\n{stderr}", output.status);
    ensure!(!stdout.trim().is_empty(), "it printed nothing");
    Ok(())
}

/// The documentation of the client's crates must have no warnings.
fn documentation(workspace: &Workspace) -> Tally {
    let mut command = workspace.cargo();
    command.args(["doc", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-D warnings");
    for package in PUBLISHED.into_iter().chain(["lazuli-test"]) {
        command.args(["--package", package]);
    }
    process::check(&mut command)
}

/// The packages can be published together: each is packaged, and builds from the contents of the others. The client's
/// own test `packages` counts its dependencies.
///
/// Cargo could build them itself, but takes a package of the same version from an earlier run for unchanged.
fn packages(workspace: &Workspace) -> Result<Tally> {
    let mut package = workspace.cargo();
    package.args(["package", "--allow-dirty", "--quiet", "--no-verify"]);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    process::run(&mut package)?;

    let home = workspace.target.join("packages");
    if home.exists() {
        fs::remove_dir_all(&home).context("remove the packages of an earlier run")?;
    }
    fs::create_dir_all(&home).context("create a directory for the packages")?;
    let (mut members, mut patches) = (Vec::new(), String::new());
    for name in PUBLISHED {
        let directory = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let file = workspace.target.join(format!("package/{directory}.crate"));
        process::run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&home))?;
        patches += &format!("{name} = {{ path = {directory:?} }}\n");
        members.push(directory);
    }
    let manifest = format!(
        "[workspace]\nmembers = {members:?}\nresolver = \"3\"\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(home.join("Cargo.toml"), manifest).context("write a manifest")?;
    fs::copy(workspace.root.join("Cargo.lock"), home.join("Cargo.lock"))
        .context("copy Cargo.lock")?;
    let mut build = workspace.cargo();
    build.args(["check", "--quiet", "--workspace"]).current_dir(&home);
    build.arg("--target-dir").arg(&workspace.target);
    Ok(process::check(&mut build))
}
