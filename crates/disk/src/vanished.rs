//! Files and directories that disappear at rest, each in turn.
//!
//! A server refuses to start and names what is missing, or it starts and serves everything stored.
//! It never continues as if the missing data had never existed.

use crate::bench::{Amount, Bench, Ending, Lines, read_all};
use crate::disk::Names;
use crate::flips::kind;
use crate::image::Image;
use crate::kept;
use anyhow::{Context, Result, ensure};
use lazuli_testkit::acknowledged::Acknowledged;
use lazuli_testkit::seed::Seeded;
use std::collections::BTreeMap;
use std::fmt;

/// The results, by the kind of file.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, [usize; 2]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The start was refused, with the name of what is missing.
    Refused,
    /// Everything reads as stored: the file held no data.
    Harmless,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.0.values().flatten().sum();
        write!(f, "{total} files and directories")?;
        for (kind, [refused, harmless]) in &self.0 {
            write!(f, "\n  {kind:24} {refused} refused at the start, {harmless} without effect")?;
        }
        Ok(())
    }
}

/// Removes each file of a directory after a clean stop and after a kill.
pub fn run(bench: &Bench, seed: u64, amount: Amount) -> Result<Counts> {
    let random = Seeded::new(seed);
    let recording = bench.record(Names::Strict, &random, amount).context("record a run")?;
    let mut counts = Counts::default();
    for ending in Ending::ALL {
        let image = recording.image(ending)?;
        let paths: Vec<&String> = image.0.keys().collect();
        each(bench, &image, &paths, &recording.account(), &mut counts)
            .with_context(|| format!("{ending:?}, --seed {seed}"))?;
    }
    Ok(counts)
}

/// Removes each of `paths` from `image`.
pub(crate) fn each(
    bench: &Bench,
    image: &Image,
    paths: &[&String],
    account: &Acknowledged,
    counts: &mut Counts,
) -> Result<()> {
    for path in paths {
        let left = without(image, path);
        let outcome = open(bench, &left, path, account)
            .with_context(|| format!("without {path}; {}", kept::keep(&left, account)))?;
        let by_outcome = counts.0.entry(kind(path)).or_default();
        if let Some(count) = by_outcome.get_mut(outcome as usize) {
            *count += 1;
        }
    }
    Ok(())
}

/// Everything except `path` and what is below it.
fn without(image: &Image, path: &str) -> Image {
    let below = format!("{path}/");
    let left = image.0.iter().filter(|(name, _)| *name != path && !name.starts_with(&below));
    Image(left.map(|(name, content)| (name.clone(), content.clone())).collect())
}

fn open(bench: &Bench, image: &Image, path: &str, account: &Acknowledged) -> Result<Outcome> {
    image.save(&bench.data())?;
    let running = match bench.start(None) {
        Ok(running) => running,
        Err(error) => {
            let text = format!("{error:#}");
            let error: String = text.lines().filter(|line| line.starts_with("error: ")).collect();
            ensure!(
                error.contains(path) && !text.contains("panicked"),
                "the start is refused without the file: {text}"
            );
            return Ok(Outcome::Refused);
        }
    };
    let found = read_all(&mut Lines::to(&running.server)?);
    let log = running.server.log();
    running.server.kill().context("kill the server")?;
    let checked = found.and_then(|found| account.check(&found));
    checked.with_context(|| format!("the server's log ends:\n{log}"))?;
    Ok(Outcome::Harmless)
}
