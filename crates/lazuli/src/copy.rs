//! `lazuli copy`: all data of one store to another, resumable and verified (O-12).

mod report;
mod state;

use crate::pace::RuntimePace;
use crate::stores;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use lazuli_cli::Exit;
use lazuli_cli::failure::{self, usage, with_hint};
use lazuli_engine::Engine;
use lazuli_model::SystemClock;
use lazuli_service::transfer::{Comparison, Progress, Step, Transfer, compare, is_empty};
use report::Report;
use state::StateFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

/// How often the state is saved.
const SAVE_EVERY: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Debug)]
pub(crate) struct CopyArguments {
    /// What to copy: a data directory, or the address of a store (postgres://…, tikv://…)
    #[arg(long, value_name = "STORE")]
    from: String,

    /// Where to: a data directory, or the address of a store; it must be empty
    #[arg(long, value_name = "STORE")]
    to: String,

    /// File that records the progress: an interrupted copy continues when it is run again with the same
    /// file
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Whether to compare both stores entry by entry at the end
    #[arg(long, value_enum, default_value_t = Verify::Full)]
    verify: Verify,

    /// Read the source and say how much there is to copy
    #[arg(long)]
    dry_run: bool,

    /// File with the password of the source
    #[arg(long, value_name = "FILE")]
    from_password_file: Option<PathBuf>,

    /// File with the password of the target
    #[arg(long, value_name = "FILE")]
    to_password_file: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verify {
    None,
    Full,
}

/// Runs the copy and prints its summary.
pub(crate) fn run(arguments: &CopyArguments) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("wait for Ctrl-C")?;
                Ok(Exit::Interrupted)
            }
            outcome = copy(arguments) => outcome,
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn copy(arguments: &CopyArguments) -> Result<Exit> {
    let CopyArguments { from, to, .. } = arguments;
    let passwords = (&arguments.from_password_file, &arguments.to_password_file);
    if from == to {
        return Err(usage("source and target are the same store", "name another with --to"));
    }
    let source = stores::open(from, stores::Role::Source, passwords.0.as_deref()).await?.engine;
    let report = Report::new(arguments.quiet, arguments.json);
    if arguments.dry_run {
        let (entries, bytes) = measure(source, &report).await?;
        report.planned(entries, bytes);
        return Ok(Exit::Done);
    }
    let target = stores::open(to, stores::Role::Target, passwords.1.as_deref()).await?.engine;
    let mut state = arguments.state.as_ref().map(|path| StateFile::new(path, from, to));
    let noted = state.as_ref().map(StateFile::load).transpose()?.flatten();
    if noted.is_none() && !is_empty(&*target).await.context("read the target")? {
        failure::report(&with_hint(
            format!("{} is not empty", stores::shown(to)),
            "copy to an empty store, or continue an earlier copy with its --state file",
        ));
        return Ok(Exit::Conflict);
    }
    let began = Instant::now();
    let progress = noted.unwrap_or_default();
    // Saved before the target has any data: whenever the copy is interrupted, its state shows that the data is ours.
    if let Some(state) = &state {
        state.save(&progress)?;
    }
    let clock = Arc::new(SystemClock);
    let transfer = Transfer::new(source.clone(), target.clone(), clock, progress);
    let mut transfer = transfer.with_pace(Arc::new(RuntimePace::new()));
    let copied = transfer_all(&mut transfer, state.as_mut(), &report).await;
    if let Some(state) = &state {
        state.save(&transfer.progress)?;
    }
    if let Err(error) = copied {
        failure::report(&error);
        return Ok(if state.is_some() { Exit::Partial } else { Exit::Failed });
    }
    let compared = match arguments.verify {
        Verify::None => None,
        Verify::Full => {
            let watch = |entries| report.comparing(entries, transfer.progress.entries);
            Some(compare(&*source, &*target, hash, watch).await.context("compare the stores")?)
        }
    };
    target.close().await.context("close the target")?;
    source.close().await.context("close the source")?;
    // Without its state, a repeated copy cannot report its outcome.
    report.copied(&transfer.progress, compared.as_ref(), began.elapsed());
    if let Some(state) = state {
        state.remove()?;
    }
    let differences = compared.as_ref().map_or(0, Comparison::differences);
    Ok(if differences == 0 { Exit::Done } else { Exit::Damaged })
}

async fn transfer_all(
    transfer: &mut Transfer,
    mut state: Option<&mut StateFile>,
    report: &Report,
) -> Result<()> {
    let mut saved = Instant::now();
    loop {
        let step = transfer.step().await?;
        report.copying(&transfer.progress);
        if step == Step::Done {
            return Ok(());
        }
        if saved.elapsed() >= SAVE_EVERY
            && let Some(state) = state.as_deref_mut()
        {
            state.save(&transfer.progress)?;
            saved = Instant::now();
        }
    }
}

/// The entries and bytes of a store, found by comparing it with nothing.
async fn measure(engine: Arc<dyn Engine>, report: &Report) -> Result<(u64, u64)> {
    let nowhere = lazuli_engine::MemoryEngine::default();
    let sized = |key: &[u8], value: &[u8]| (key.len() + value.len()) as u128;
    let watch = |entries| report.copying(&Progress { entries, ..Progress::default() });
    let all = compare(&*engine, &nowhere, sized, watch).await.context("read the source")?;
    Ok((all.missing, u64::try_from(all.sums.0).unwrap_or(u64::MAX)))
}

/// The hash of an entry.
fn hash(key: &[u8], value: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.digest128()
}
