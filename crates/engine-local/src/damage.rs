//! Finds which table is damaged, and where: when a read hits damage, fjall reports neither.
//!
//! ```text
//! table   block*, and their index
//! block   "LSM" 3 │ kind u8 │ xxh3 of the data u128 │ bytes u32 │ bytes unpacked u32 │
//!         xxh3 of all that, its low half's low half, u32 │ data        numbers are little-endian
//! ```

use crate::journal::{number, take};
use crate::manifest;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8] = b"LSM\x03";
const HEAD_BYTES: usize = MAGIC.len() + 1 + 16 + 4 + 4;

/// A damaged table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DamagedTable {
    pub(crate) path: PathBuf,
    /// Offset of the first damaged block.
    pub(crate) offset: usize,
}

impl DamagedTable {
    pub(crate) fn new(path: PathBuf, table: &[u8]) -> Self {
        let mut rest = table;
        while let Some(after) = after_block(rest) {
            rest = after;
        }
        Self { path, offset: table.len() - rest.len() }
    }
}

impl fmt::Display for DamagedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged: it is intact up to byte {}", self.path.display(), self.offset)
    }
}

/// Reports damage found by reads.
#[derive(Debug)]
pub(crate) struct DamageReporter {
    store: PathBuf,
    has_reported: AtomicBool,
}

impl DamageReporter {
    pub(crate) fn new(store: &Path) -> Self {
        Self { store: store.to_path_buf(), has_reported: AtomicBool::new(false) }
    }

    /// Called when a read hits damage. Checks all tables on a separate thread, and logs the damaged
    /// ones. Runs once while a store is open, because it reads the whole store.
    pub(crate) fn met(&self) {
        if self.has_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let store = self.store.clone();
        let started = std::thread::Builder::new().name("damage".into()).spawn(move || {
            match manifest::damaged_tables(&store) {
                Ok(tables) => tables.iter().for_each(|damaged| tracing::error!("{damaged}")),
                Err(error) => tracing::error!("cannot search for damaged tables: {error}"),
            }
        });
        if let Err(error) = started {
            tracing::error!("cannot search for damaged tables: {error}");
        }
    }
}

/// The rest after the first block, if that block is intact.
fn after_block(mut rest: &[u8]) -> Option<&[u8]> {
    let head = rest.get(..HEAD_BYTES)?;
    (take(&mut rest, MAGIC.len())? == MAGIC).then_some(())?;
    take(&mut rest, 1)?;
    let checksum = take(&mut rest, 16)?;
    let bytes = number(&mut rest, 4)?;
    take(&mut rest, 4)?;
    (take(&mut rest, 4)? == xxh3_128(head).to_le_bytes().get(..4)?).then_some(())?;
    let data = take(&mut rest, bytes as usize)?;
    (checksum == xxh3_128(data).to_le_bytes()).then_some(rest)
}
