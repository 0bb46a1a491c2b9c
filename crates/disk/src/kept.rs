//! A directory on which a server failed: kept unchanged, so that the trial can be repeated.
//!
//! A seed does not reproduce a recorded run, because thread timing varies. But the resulting
//! directory can be kept, together with its expected content.

use crate::bench::Bench;
use crate::image::Image;
use anyhow::{Context, Result};
use lazuli_testkit::acknowledged::{Acknowledged, Name, Step, Stored};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const DATA: &str = "data";
const ACCOUNT: &str = "account.json";

/// Keeps a directory and its expected content; returns the command that repeats the trial.
pub fn keep(image: &Image, account: &Acknowledged) -> String {
    match save(image, account) {
        Ok(kept) => format!("repeat with: lazuli-disk replay {}", kept.display()),
        Err(error) => format!("it could not be kept: {error:#}"),
    }
}

/// Starts a server on a copy of the kept directory `kept`.
pub fn replay(bench: &Bench, kept: &Path) -> Result<()> {
    let image = Image::load(&kept.join(DATA))?;
    let text = std::fs::read(kept.join(ACCOUNT)).context("read what must be found")?;
    let account: Written = serde_json::from_slice(&text).context("read what must be found")?;
    bench.open(&image, None, &account.into()).map(drop)
}

fn save(image: &Image, account: &Acknowledged) -> Result<PathBuf> {
    let kept = tempfile::Builder::new().prefix("lazuli-disk-").tempdir()?.keep();
    image.save(&kept.join(DATA))?;
    let text = serde_json::to_string_pretty(&Written::from(account))?;
    std::fs::write(kept.join(ACCOUNT), text)?;
    Ok(kept)
}

/// What was acknowledged, as JSON, where only text can be a key.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    settled: Vec<(Name, Stored)>,
    doubts: Vec<Vec<(Name, Option<Stored>)>>,
}

impl From<&Acknowledged> for Written {
    fn from(account: &Acknowledged) -> Self {
        let pairs = |step: &Step| step.clone().into_iter().collect();
        Self {
            settled: account.settled.clone().into_iter().collect(),
            doubts: account.doubts.iter().map(pairs).collect(),
        }
    }
}

impl From<Written> for Acknowledged {
    fn from(written: Written) -> Self {
        let doubts = written.doubts.into_iter().map(Step::from_iter);
        Self::new(written.settled.into_iter().collect(), doubts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_reads_back() {
        let stored = Stored { etag: Some("W/\"1\"".to_owned()), ..Stored::default() };
        let row = Name::entity("T", "p", "r");
        let account = Acknowledged::new(
            [(Name::table("T"), Stored::default()), (row.clone(), stored.clone())].into(),
            vec![[(row, None)].into(), [(Name::entity("T", "p", "s"), Some(stored))].into()],
        );
        let text = serde_json::to_string(&Written::from(&account)).unwrap();
        let read = Acknowledged::from(serde_json::from_str::<Written>(&text).unwrap());
        assert_eq!((read.settled, read.doubts), (account.settled, account.doubts));
    }
}
