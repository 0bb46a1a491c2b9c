//! Instructions that a client executes for one operation, counted by valgrind's callgrind: this shows a change of one
//! percent even on a busy machine. The profiles are kept with the results.

use super::{Arguments, Bench, Client, Work, report};
use crate::instructions::total;
use crate::report::thousands;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

impl Work {
    /// The number of operations in one count.
    fn counted(self) -> usize {
        match self {
            Self::Point | Self::Insert => 1_000,
            Self::Decode => 20,
            Self::Bulk => 2_000,
        }
    }
}

/// Counts and prints.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let mut text = String::from("instructions                 per op     ratio\n");
    for &work in Work::value_variants() {
        // The load client runs in the benchmark's own process, which also counts and prints.
        let bare = (work.reference() == Client::Bare)
            .then(|| count(bench, Client::Bare, work))
            .transpose()?;
        let lazuli = count(bench, Client::Lazuli, work)?;
        for (client, count) in [(Client::Bare, bare), (Client::Lazuli, Some(lazuli))] {
            let Some(count) = count else { continue };
            let ratio = bare.map_or_else(String::new, |bare| format!("{:.2}x", count / bare));
            let (name, client) = (report::work_name(work), report::client_name(client, work));
            text += &format!("{name:8} {client:13} {:>12} {ratio:>9}\n", thousands(count.round()));
        }
    }
    println!("{text}op: a request; of decode a page of 1,000 entities, of bulk an entity.");
    println!("The profiles are in {}, for callgrind_annotate.", bench.options.out.display());
    Ok(())
}

/// Instructions per operation between the two clock readings.
fn count(bench: &Bench<'_>, client: Client, work: Work) -> Result<f64> {
    let (name, operations) = (report::work_name(work), work.counted());
    let table = bench.table(work, &format!("{}c{}i", work as usize, client as usize))?;
    let profile = format!("client-{name}-{}.callgrind", client as usize);
    let profile = bench.options.out.join(profile);
    let arguments = Arguments::new(client, work, bench.server.address, &table, operations);
    let program = arguments.counted().command()?;
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]);
    command.args(["--zero-before=*Clocks::start", "--dump-before=*Clocks::stop"]);
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    command.arg(program.get_program()).args(program.get_args());
    let output =
        command.output().context("start a client under valgrind, which must be installed")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a client failed: {}", words.trim());
    let mut dump = profile.into_os_string();
    dump.push(".1");
    let dump = PathBuf::from(dump);
    let text = fs::read_to_string(&dump).with_context(|| format!("read {}", dump.display()))?;
    let total = total(&text).with_context(|| format!("no total in {}", dump.display()))?;
    Ok(total as f64 / operations as f64)
}
