//! A directory on which a server did what it must not: kept to be tried again, exactly as it was.
//!
//! A recorded run cannot be had again from its seed, as the server's threads do not repeat
//! themselves. What it left on the disk can be kept, with what had to be found there.

use crate::account::{Account, Name, Step, Stored};
use crate::bench::Bench;
use crate::image::Image;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const DATA: &str = "data";
const ACCOUNT: &str = "account.json";

/// Where a directory and what must be found in it were kept, as the command that tries it again.
pub fn keep(image: &Image, account: &Account) -> String {
    match save(image, account) {
        Ok(kept) => format!("try it again: lazuli-disk replay {}", kept.display()),
        Err(error) => format!("it could not be kept: {error:#}"),
    }
}

/// Starts a server on what was kept at `kept`, which stays as it is.
pub fn replay(bench: &Bench, kept: &Path) -> Result<()> {
    let image = Image::load(&kept.join(DATA))?;
    let text = std::fs::read(kept.join(ACCOUNT)).context("read what must be found")?;
    let account: Written = serde_json::from_slice(&text).context("read what must be found")?;
    bench.open(&image, None, &account.into()).map(drop)
}

fn save(image: &Image, account: &Account) -> Result<PathBuf> {
    let kept = tempfile::Builder::new().prefix("lazuli-disk-").tempdir()?.keep();
    image.save(&kept.join(DATA))?;
    let text = serde_json::to_string_pretty(&Written::from(account))?;
    std::fs::write(kept.join(ACCOUNT), text)?;
    Ok(kept)
}

/// An account as JSON has it, which knows no keys but text.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    settled: Vec<(Name, Stored)>,
    doubts: Vec<Vec<(Name, Option<Stored>)>>,
}

impl From<&Account> for Written {
    fn from(account: &Account) -> Self {
        let pairs = |step: &Step| step.clone().into_iter().collect();
        Self {
            settled: account.settled.clone().into_iter().collect(),
            doubts: account.doubts.iter().map(pairs).collect(),
        }
    }
}

impl From<Written> for Account {
    fn from(written: Written) -> Self {
        Self {
            settled: written.settled.into_iter().collect(),
            doubts: written.doubts.into_iter().map(Step::from_iter).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_reads_back() {
        let stored = Stored { etag: Some("W/\"1\"".to_owned()), ..Stored::default() };
        let row = Name::row("T", "r");
        let account = Account {
            settled: [(Name::table("T"), Stored::default()), (row.clone(), stored.clone())].into(),
            doubts: vec![[(row, None)].into(), [(Name::row("T", "s"), Some(stored))].into()],
        };
        let text = serde_json::to_string(&Written::from(&account)).unwrap();
        let read = Account::from(serde_json::from_str::<Written>(&text).unwrap());
        assert_eq!((read.settled, read.doubts), (account.settled, account.doubts));
    }
}
