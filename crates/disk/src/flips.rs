//! Bit flips at rest, in every file of the data directory.
//!
//! A server on such a directory refuses to start and names the file, or it starts: then each read
//! returns what was stored, or an error. It never serves wrong or incomplete data.

use crate::bench::{Amount, Bench, Ending, Lines, Recording, read_all};
use crate::content::Content;
use crate::disk::Names;
use crate::image::Image;
use crate::kept;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::acknowledged::Entries;
use lazuli_testkit::seed::Seeded;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The log message for a journal whose last write is incomplete.
const CUT_OFF: &str = "with an unacknowledged write that a crash cut off";

/// The first flip hits one of this many bits at the end of a file.
const END_BITS: usize = 64 * 8;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub amount: Amount,
    /// Maximum flips per file.
    pub flips_max: usize,
    /// When to stop; each file gets at least one flip.
    pub deadline: Option<Instant>,
}

/// The results of the flips, by the kind of file.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, [usize; 4]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The start was refused, with the name of the file.
    Refused,
    /// A read returned an error.
    Noticed,
    /// Everything reads as stored: the bit has no effect.
    Harmless,
    /// After a kill: the last write was treated as torn by the kill, and the log says so.
    Dropped,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.0.values().flatten().sum();
        write!(f, "{total} flips")?;
        for (kind, [refused, noticed, harmless, dropped]) in &self.0 {
            write!(
                f,
                "\n  {kind:20} {refused} refused at the start, {noticed} noticed by a read, "
            )?;
            write!(f, "{harmless} without effect, {dropped} dropped with a warning")?;
        }
        Ok(())
    }
}

/// Runs the trial; calls `progress` after each flip.
pub fn run(bench: &Bench, plan: &Plan, progress: &dyn Fn(&Counts)) -> Result<Counts> {
    let random = Seeded::new(plan.seed);
    let recording = bench.record(Names::Strict, &random, plan.amount).context("record a run")?;
    let mut counts = Counts::default();
    for ending in Ending::ALL {
        let image = recording.image(ending)?;
        let trial = Trial { bench, plan, recording: &recording, ending, image: &image };
        trial.each_file(&random, &mut counts, progress)?;
    }
    Ok(counts)
}

/// Flips in the directory that one run left.
struct Trial<'t> {
    bench: &'t Bench,
    plan: &'t Plan,
    recording: &'t Recording,
    ending: Ending,
    image: &'t Image,
}

impl Trial<'_> {
    fn each_file(
        &self,
        random: &Seeded,
        counts: &mut Counts,
        progress: &dyn Fn(&Counts),
    ) -> Result<()> {
        let Self { image, plan, ending, .. } = self;
        let files = image.0.iter().filter_map(|(path, content)| Some((path, content.as_ref()?)));
        for (index, (path, content)) in files.enumerate() {
            let mut random = random.stream(500 + index as u64);
            let bits = content.written_bytes() * 8;
            for flips in 0..plan.flips_max.min(bits) {
                let is_late = || plan.deadline.is_some_and(|deadline| Instant::now() > deadline);
                if flips > 0 && is_late() {
                    break;
                }
                // A crash affects the end of a file, so each file gets a flip there.
                let from = if flips == 0 { bits.saturating_sub(END_BITS) } else { 0 };
                let bit = from + random.below(bits - from);
                let flipped = flip(image, path, content, bit);
                let outcome = self.open(&flipped, path).with_context(|| {
                    let again = kept::keep(&flipped, &self.recording.account());
                    let (seed, byte, bit) = (plan.seed, bit / 8, bit % 8);
                    format!(
                        "{ending:?}, bit {bit} of byte {byte} of {path}, --seed {seed}; {again}"
                    )
                })?;
                let by_outcome = counts.0.entry(kind(path)).or_default();
                if let Some(count) = by_outcome.get_mut(outcome as usize) {
                    *count += 1;
                }
                progress(counts);
            }
        }
        Ok(())
    }

    fn open(&self, image: &Image, path: &str) -> Result<Outcome> {
        image.save(&self.bench.data())?;
        let running = match self.bench.start(None) {
            Ok(running) => running,
            Err(error) => return refused(&format!("{error:#}"), path),
        };
        let read = Lines::to(&running.server).and_then(|mut lines| read_all(&mut lines));
        if read.as_ref().is_err_and(is_refusal) {
            let place = running.server.wait_for_log(&place_of_damage(path));
            place.context("the log does not say where")?;
        }
        let log = running.server.log();
        running.server.kill().context("kill the server")?;
        ensure!(!log.contains("panicked"), "the server panicked; its log ends:\n{log}");
        match read {
            Ok(found) => {
                self.look_at(&found, &log).with_context(|| format!("the server's log ends:\n{log}"))
            }
            Err(error) if is_refusal(&error) => Ok(Outcome::Noticed),
            Err(error) => bail!("{error:#}; the server's log ends:\n{log}"),
        }
    }

    /// A journal that was not closed cleanly may lose its last write, with a warning.
    fn look_at(&self, found: &Entries, log: &str) -> Result<Outcome> {
        match self.recording.account().check(found) {
            Ok(_) => Ok(Outcome::Harmless),
            Err(_) if self.ending == Ending::Killed && log.contains(CUT_OFF) => {
                self.recording.account_but_last().check(found).map(|_| Outcome::Dropped)
            }
            Err(error) => Err(error),
        }
    }
}

fn flip(image: &Image, path: &str, content: &Content, bit: usize) -> Image {
    let mut content = content.clone();
    content.flip(bit as u64 / 8, (bit % 8) as u32);
    let mut image = image.clone();
    image.0.insert(path.to_owned(), Some(Arc::new(content)));
    image
}

fn is_refusal(error: &anyhow::Error) -> bool {
    error.to_string().contains(": 500 ")
}

/// A read of damaged data fails immediately; the damage is located in the background.
fn place_of_damage(path: &str) -> String {
    format!("{path} is damaged: it is intact up to byte ")
}

fn refused(text: &str, path: &str) -> Result<Outcome> {
    ensure!(!text.contains("panicked"), "the start panics: {text}");
    let error: String = text.lines().filter(|line| line.starts_with("error: ")).collect();
    let newer = path == "LAZULI" && error.contains("has format");
    ensure!(newer || error.contains(name(path)), "the start is refused without the file: {text}");
    Ok(Outcome::Refused)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Files of one kind differ in digits only.
pub(crate) fn kind(path: &str) -> String {
    let mut kind = String::new();
    for character in path.chars() {
        match character {
            '0'..='9' if kind.ends_with('N') => {}
            '0'..='9' => kind.push('N'),
            other => kind.push(other),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_kind_share_a_name() {
        assert_eq!(kind("store/12.jnl"), "store/N.jnl");
        assert_eq!(kind("store/keyspaces/1/v17"), "store/keyspaces/N/vN");
    }
}
