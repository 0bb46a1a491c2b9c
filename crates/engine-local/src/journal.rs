//! Checks fjall's journals before fjall reads them: drops a torn last batch, and reports damage.
//!
//! fjall ends a journal at the first record that it cannot read. After a crash that is right: the
//! last batch may be incomplete, and it was never acknowledged. After damage it is wrong: all later
//! batches would be lost silently. And if a batch has its end but not its content, because the
//! device wrote one before the other, fjall refuses to open at all.
//!
//! So each batch is checked here. A broken batch is either the last one written, and is truncated;
//! or it is followed by an intact batch that was written when everything before it was durable, and
//! then it is damage.
//!
//! A journal that was not closed cleanly is rewritten. Data from a killed process may be only in
//! the page cache; after a failed sync it may stay there, because the system drops the error and
//! lets later syncs succeed. Data that is read and served must be durable.
//!
//! ```text
//! batch   start item* end
//! start   1 │ items u32 │ sequence number u64
//! item    2 │ value type u8 │ compression │ keyspace u64 │ key bytes u16 │ value bytes u32 │
//!         stored bytes u32 │ key │ stored value          compression: one byte, 0 none, 1 lz4
//! end     3 │ xxh3 of the items u64 │ "FJL" 3             numbers are little-endian
//! ```

mod content;

use crate::directory::{OpenError, sync_directory};
use crate::store::{follows_synced, last_revision};
use content::{Content, PIECE_BYTES};
use lazuli_engine::Revision;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const END_MAGIC: &[u8] = b"FJL\x03";
/// Upper bound on the difference between sequence numbers of successive batches: fjall counts
/// batches, flushes and compactions.
const SEQUENCE_STEP_MAX: u64 = 1 << 32;

/// A journal of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) number: u64,
    /// The last revision in it, if any.
    pub(crate) last: Option<Revision>,
    /// The size of its batches.
    pub(crate) bytes: u64,
}

/// Checks the journals of the store at `store`, and returns them, oldest first.
pub(crate) fn inspect(store: &Path) -> Result<Vec<Journal>, OpenError> {
    let io_error = |source| OpenError::Io { dir: store.to_path_buf(), source };
    let journals = list(store).map_err(io_error)?;
    let mut inspected = Vec::new();
    let mut last = None;
    for (index, (number, path)) in journals.iter().enumerate() {
        let mut content = Content::open(path).map_err(io_error)?;
        let batches = WholeBatches::read(&mut content, last).map_err(io_error)?;
        last = batches.last;
        let whole = content.taken();
        let rest = content.rest().map_err(io_error)?;
        let is_broken = !rest.is_empty();
        // A journal is synced before the next one is created.
        let is_sealed = index + 1 < journals.len();
        if is_broken && (is_sealed || synced_batch_follows(rest)) {
            return Err(damaged(store, path, whole));
        }
        if is_broken {
            tracing::warn!(
                "{} ends at byte {whole} with an unacknowledged write that a crash cut off; \
                 dropping it",
                path.display()
            );
        }
        if is_broken || !is_sealed && !batches.is_ended {
            rewrite(store, path, whole).map_err(io_error)?;
        }
        inspected.push(Journal { number: *number, last: batches.revision, bytes: whole });
    }
    Ok(inspected)
}

/// The journals, oldest first.
fn list(store: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|extension| extension == "jnl")
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

fn damaged(store: &Path, path: &Path, offset: u64) -> OpenError {
    let reason = format!("{} is damaged at byte {offset}, before other writes", path.display());
    OpenError::Corrupt { dir: store.to_path_buf(), reason }
}

/// Replaces a journal by its first `bytes`, atomically.
fn rewrite(store: &Path, path: &Path, bytes: u64) -> io::Result<()> {
    // fjall ignores other suffixes, in case a file is left over.
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    // Not by `io::copy`: the file system may then share what is on the disk instead of writing what was read.
    let mut source = File::open(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let piece = piece.get_mut(..length).unwrap_or_default();
        source.read_exact(piece)?;
        file.write_all(piece)?;
        left -= length as u64;
    }
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_directory(store)
}

/// The intact batches at the start of a journal.
struct WholeBatches {
    /// The sequence number of the last one.
    last: Option<u64>,
    /// The last revision in them.
    revision: Option<Revision>,
    /// Whether the last one was written by a clean close, or there are no batches.
    is_ended: bool,
}

impl WholeBatches {
    /// Takes them from `journal`.
    fn read(journal: &mut Content, mut last: Option<u64>) -> io::Result<Self> {
        let (mut revision, mut is_ended) = (None, true);
        while let Some(batch) =
            journal.take_batch(|bytes| Batch::read(bytes).filter(|batch| batch.follows(last)))?
        {
            last = Some(batch.sequence);
            revision = batch.revision.or(revision);
            is_ended = batch.is_end;
        }
        Ok(Self { last, revision, is_ended })
    }
}

/// Whether an intact batch that was written after durable ones begins somewhere in `rest`. It may
/// begin at the first byte: if the sequence number of the previous batch is damaged, this batch
/// seems out of order.
fn synced_batch_follows(rest: &[u8]) -> bool {
    let starts = rest.iter().enumerate().filter(|(_, byte)| **byte == START);
    let mut batches = starts.filter_map(|(at, _)| Batch::read(rest.get(at..)?));
    batches.any(|batch| batch.follows_synced)
}

/// One intact batch.
struct Batch {
    sequence: u64,
    revision: Option<Revision>,
    follows_synced: bool,
    /// Whether it changes nothing, like the one that a clean close writes.
    is_end: bool,
    /// Its size.
    bytes: usize,
}

impl Batch {
    /// The batch at the start of `journal`.
    fn read(journal: &[u8]) -> Option<Self> {
        let mut rest = journal;
        (take(&mut rest, 1)? == [START]).then_some(())?;
        let items = number(&mut rest, 4)?;
        let sequence = number(&mut rest, 8)?;
        let content = rest;
        let (mut synced, mut revision) = (false, None);
        for _ in 0..items {
            let (key, value) = item(&mut rest)?;
            synced |= follows_synced(key, value);
            revision = last_revision(key, value).or(revision);
        }
        let content = content.get(..content.len() - rest.len())?;
        (take(&mut rest, 1)? == [END]).then_some(())?;
        let checksum = number(&mut rest, 8)?;
        (take(&mut rest, END_MAGIC.len())? == END_MAGIC).then_some(())?;
        let is_whole = checksum == xxh3_64(content);
        let is_end = items == 1 && synced;
        let bytes = journal.len() - rest.len();
        is_whole.then_some(Self { sequence, revision, follows_synced: synced, is_end, bytes })
    }

    /// The checksum does not cover the sequence number.
    fn follows(&self, last: Option<u64>) -> bool {
        last.is_none_or(|last| self.sequence > last && self.sequence - last < SEQUENCE_STEP_MAX)
    }
}

fn item<'j>(rest: &mut &'j [u8]) -> Option<(&'j [u8], &'j [u8])> {
    (take(rest, 1)? == [ITEM]).then_some(())?;
    let _value_type_compression_keyspace = take(rest, 1 + 1 + 8)?;
    let key_bytes = number(rest, 2)?;
    let _value_bytes = number(rest, 4)?;
    let stored_bytes = number(rest, 4)?;
    let key = take(rest, key_bytes as usize)?;
    Some((key, take(rest, stored_bytes as usize)?))
}

pub(crate) fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let taken = take(rest, bytes)?;
    Some(taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

pub(crate) fn take<'j>(rest: &mut &'j [u8], bytes: usize) -> Option<&'j [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests;
