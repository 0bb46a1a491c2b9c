//! Runs the commands of the README, and of the pages that follow it, as printed.
//!
//! A fenced block is checked when an HTML comment stands right before it:
//!
//! | comment | what happens |
//! | --- | --- |
//! | `<!-- check: server -->` | the one line is run in the project's root and must start the server; it stays up for the blocks that follow, of all pages |
//! | `<!-- check: shell -->` | `bash -euo pipefail`, with the Python environment of the client tests and `lazuli` first in the path |
//! | `<!-- check: python -->` | that environment's `python` |
//! | `<!-- check: rust -->` | a separate program, which depends on this client, on tokio, and on nothing else |
//! | `<!-- check: output -->` | must equal what the block before it printed, line by line |
//! | `<!-- check: test -->` | must be one of `cargo xtask`'s own commands; it is parsed, not run |
//!
//! A shell or Python block must succeed, print something, and get no error from the server.
//! The blocks name the well-known ports, so those ports must be free.

use crate::client::{self, PYTHON};
use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The pages in the order in which they are run, against the server that the first one starts.
const PAGES: [&str; 2] = ["README.md", "docs/extensions.md"];

/// The ports that the README names: queues and tables.
const PORTS: [u16; 2] = [10001, 10002];

#[derive(Debug, PartialEq, Eq)]
struct Block {
    page: &'static str,
    kind: String,
    /// The line number of the fence, from one.
    line: usize,
    text: String,
}

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let blocks = all_blocks(&workspace.root)?;
    let Some(environment) = client::python_environment(workspace, &PYTHON)? else {
        println!("skipped: python3 is not installed");
        return Ok(Tally::SKIPPED);
    };
    let taken = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_err();
    if let Some(port) = PORTS.into_iter().find(taken) {
        println!("skipped: port {port}, which the README names, is taken");
        return Ok(Tally::SKIPPED);
    }
    // Built first, so that the check waits only for the start, not for the build.
    workspace.binary()?;
    let mut reader = Reader::new(workspace, &environment)?;
    let mut tally = Tally::default();
    for block in &blocks {
        let outcome = reader.check(block);
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {}:{}:{} ... {verdict}", block.page, block.line, block.kind);
        match outcome {
            Ok(()) => tally += Tally::PASSED,
            Err(error) => {
                println!("{error:#}\n{}", block.text);
                tally += Tally::FAILED;
            }
        }
    }
    Ok(tally)
}

/// The marked blocks of all pages. Every page has some, and the README has every kind.
fn all_blocks(root: &Path) -> Result<Vec<Block>> {
    let mut all = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).with_context(|| format!("read {page}"))?;
        all.extend(blocks(page, &text)?);
        let is_marked = all.iter().any(|block| block.page == page);
        ensure!(is_marked, "{page} has no block marked <!-- check: … -->");
    }
    for needed in ["server", "test", "shell", "python", "rust"] {
        let is_needed = |block: &Block| block.page == PAGES[0] && block.kind == needed;
        let is_there = all.iter().any(is_needed);
        ensure!(is_there, "README.md has no block marked <!-- check: {needed} -->");
    }
    Ok(all)
}

/// Finds the marked blocks of a page, in order.
fn blocks(page: &'static str, text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    while let Some((number, line)) = lines.next() {
        let marker = line.trim().strip_prefix("<!-- check: ");
        let Some(kind) = marker.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.find(|(_, line)| !line.trim().is_empty());
        ensure!(
            fence.is_some_and(|(_, line)| line.starts_with("```")),
            "{page}:{number}: no fenced block follows the marker"
        );
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let text = inside.map(|line| format!("{line}\n")).collect();
        blocks.push(Block { page, kind: kind.to_owned(), line: number + 1, text });
    }
    Ok(blocks)
}

/// Follows the pages from top to bottom.
struct Reader<'a> {
    workspace: &'a Workspace,
    environment: &'a Path,
    data: tempfile::TempDir,
    server: Option<Child>,
    /// What the last block printed.
    output: String,
}

impl<'a> Reader<'a> {
    fn new(workspace: &'a Workspace, environment: &'a Path) -> Result<Self> {
        let data = tempfile::tempdir().context("create a data directory")?;
        Ok(Self { workspace, environment, data, server: None, output: String::new() })
    }

    fn check(&mut self, block: &Block) -> Result<()> {
        match block.kind.as_str() {
            "server" => self.start(&block.text),
            "shell" => self.execute("bash", &["-euo", "pipefail", "-c", &block.text]),
            "python" => self.execute("python", &["-c", &block.text]),
            "rust" => self.rust(&block.text),
            "output" => {
                ensure!(self.output == block.text, "the block before it printed:\n{}", self.output);
                Ok(())
            }
            "test" => is_a_chore(&block.text),
            other => bail!("no such check: {other}"),
        }
    }

    /// Starts the server and waits for its first line, which it prints once it listens.
    fn start(&mut self, text: &str) -> Result<()> {
        ensure!(self.server.is_none(), "a block has started the server already");
        let mut command = Command::new("bash");
        // `exec`, so that killing the child kills the server and not a shell around it.
        command.args(["-c", &format!("exec {text}")]).current_dir(&self.workspace.root);
        command.env("LAZULI_DATA", self.data.path()).env("CARGO_TERM_QUIET", "true");
        let mut child = command.stdout(Stdio::piped()).spawn().context("start the server")?;
        let stdout = child.stdout.take();
        self.server = Some(child);
        let mut lines = BufReader::new(stdout.context("no output")?);
        let mut first = String::new();
        lines.read_line(&mut first).context("read the server's first line")?;
        ensure!(!first.is_empty(), "the server ended without printing a line");
        std::thread::spawn(move || lines.lines().count());
        Ok(())
    }

    /// Builds the program outside the workspace, as a user would, and runs it.
    fn rust(&mut self, text: &str) -> Result<()> {
        let home = self.workspace.target.join("readme");
        fs::create_dir_all(home.join("src")).context("make a package")?;
        let client = self.workspace.root.join("crates/client");
        let manifest = format!(
            "[package]\nname = \"readme\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             lazuli-client = {{ path = {client:?} }}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[workspace]\n"
        );
        fs::write(home.join("Cargo.toml"), manifest).context("write a manifest")?;
        fs::write(home.join("src/main.rs"), text).context("write a program")?;
        // The same versions that everything else is tested with.
        fs::copy(self.workspace.root.join("Cargo.lock"), home.join("Cargo.lock"))
            .context("copy the lock file")?;
        let mut build = self.workspace.cargo();
        build.args(["build", "--target-dir"]).arg(home.join("target")).current_dir(&home);
        process::run(&mut build)?;
        let program = home.join("target/debug/readme");
        self.execute(&program.to_string_lossy(), &[])
    }

    fn execute(&mut self, program: &str, arguments: &[&str]) -> Result<()> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.environment.join("bin");
        let lazuli = self.workspace.binary()?.parent().unwrap_or(Path::new("."));
        let mut command = Command::new(program);
        if program == "python" {
            command = Command::new(bin.join(program));
        }
        let output = command
            .args(arguments)
            .current_dir(self.data.path())
            .env("PATH", format!("{}:{}:{path}", bin.display(), lazuli.display()))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("run {program}"))?;
        self.output = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{}", self.output.trim_end());
        ensure!(output.status.success(), "it ended with {}", output.status);
        ensure!(!self.output.trim().is_empty(), "it printed nothing");
        ensure!(!self.output.contains("odata.error"), "the server refused a request");
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = process::run(Command::new("kill").arg(server.id().to_string()));
            let _ = server.wait();
        }
    }
}

/// Every line is a command that `cargo xtask` knows.
fn is_a_chore(text: &str) -> Result<()> {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let arguments = line.strip_prefix("cargo xtask ").context("not a `cargo xtask` command")?;
        let words = std::iter::once("xtask").chain(arguments.split_whitespace());
        crate::Cli::try_parse_from(words).with_context(|| format!("parse `{line}`"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_are_found() {
        let readme = "# T\n```sh\nno\n```\n<!-- check: shell -->\n\n```sh\na\nb\n```\ntext\n\
                      <!-- check: python -->\n```python\nc\n```\n";
        let found = blocks("README.md", readme).unwrap();
        let seen: Vec<_> = found.iter().map(|b| (b.kind.as_str(), b.text.as_str())).collect();
        assert_eq!(seen, [("shell", "a\nb\n"), ("python", "c\n")]);
    }

    #[test]
    fn a_marker_without_a_block_is_an_error() {
        assert!(blocks("README.md", "<!-- check: shell -->\ntext\n").is_err());
    }

    #[test]
    fn every_page_has_marked_blocks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages: Vec<_> = all_blocks(&root).unwrap().iter().map(|block| block.page).collect();
        assert!(PAGES.iter().all(|page| pages.contains(page)));
    }

    #[test]
    fn chores_are_parsed() {
        assert!(is_a_chore("cargo xtask test\n").is_ok());
        assert!(is_a_chore("cargo xtask nosuch\n").is_err());
        assert!(is_a_chore("cargo test\n").is_err());
    }
}
