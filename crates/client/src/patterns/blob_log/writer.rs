//! Stores lines: in which blob, and where in it (P-14.1, P-14.2).

use super::line::LogLine;
use super::name::{COUNTER_MAX, Hour, blob_name, parse_name};
use crate::blob::{Blob, Container};
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use bytes::Bytes;
use http::StatusCode;
use lazuli_model::Timestamp;
use lazuli_model::limits::APPEND_BLOCK_BYTES_MAX;
use std::collections::{BTreeMap, VecDeque};

/// Blocks of an append blob.
const BLOCKS_MAX: u32 = 50_000;
/// Blobs of other hours that stay open for late lines.
const OPEN_MAX: usize = 4;
/// Blobs that are tried for one block: each may be deleted while it is open.
const BLOBS_TRIED_MAX: u32 = 4;
const LOG_VERSION: &str = "1.0";
const LOG_TYPE: &str = "write";

/// The only writer of this process: the blocks it has to store, and its open blobs.
#[derive(Debug, Default)]
pub(super) struct Writer {
    blocks: VecDeque<Block>,
    open: BTreeMap<Hour, Open>,
    is_block_blobs: bool,
    /// Lines up to this one are stored once all blocks are.
    last: u64,
    stored: u64,
}

/// Lines of one hour, stored together.
#[derive(Debug)]
struct Block {
    hour: Hour,
    times: Times,
    bytes: Bytes,
    /// Whether an attempt to store it may have been carried out.
    is_uncertain: bool,
}

/// A blob that only this writer appends to.
#[derive(Debug)]
struct Open {
    blob: Blob,
    /// Its version after our last request; unknown while a request is under way, or if one was cancelled.
    etag: Option<ETag>,
    position: u64,
    blocks: u32,
    /// The times in its metadata.
    times: Option<Times>,
}

/// The first and the last time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    start: Timestamp,
    end: Timestamp,
}

impl Times {
    fn and(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// T-9.33.
    fn metadata(self) -> [(&'static str, String); 4] {
        let text = |time: Timestamp| time.text(&mut [0; Timestamp::TEXT_BYTES_MAX]).to_owned();
        [
            ("StartTime", text(self.start)),
            ("EndTime", text(self.end)),
            ("LogVersion", LOG_VERSION.to_owned()),
            ("LogType", LOG_TYPE.to_owned()),
        ]
    }
}

impl Writer {
    pub(super) fn use_block_blobs(&mut self) {
        self.is_block_blobs = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Takes lines to store, up to number `last`. Lines of one hour become blocks.
    pub(super) fn take(
        &mut self,
        lines: Vec<(LogLine, usize)>,
        last: u64,
        hour_of: impl Fn(Timestamp) -> Hour,
    ) {
        let mut hours: BTreeMap<Hour, (String, Times)> = BTreeMap::new();
        for (line, bytes) in lines {
            let hour = hour_of(line.at);
            let times = Times { start: line.at, end: line.at };
            let (text, known) = hours.entry(hour).or_insert_with(|| (String::new(), times));
            if text.len() + bytes > APPEND_BLOCK_BYTES_MAX && !text.is_empty() {
                let full = std::mem::take(text);
                let times = std::mem::replace(known, times);
                self.blocks.push_back(Block::new(hour, times, full));
            }
            line.write(text);
            *known = known.and(times);
        }
        let blocks = hours.into_iter().map(|(hour, (text, times))| Block::new(hour, times, text));
        self.blocks.extend(blocks);
        self.last = last;
    }

    /// Stores all blocks. Returns the number of the last stored line.
    pub(super) async fn store(
        &mut self,
        container: &Container,
        service: &str,
    ) -> Result<u64, Error> {
        while !self.blocks.is_empty() {
            match self.is_block_blobs {
                true => self.put_first(container, service).await?,
                false => self.append_first(container, service).await?,
            }
            self.blocks.pop_front();
        }
        self.stored = self.last;
        Ok(self.stored)
    }

    /// Stores the first block in a new blob.
    async fn put_first(&mut self, container: &Container, service: &str) -> Result<(), Error> {
        let Some(block) = self.blocks.front_mut() else { return Ok(()) };
        let mut counter = next_counter(container, service, block.hour).await?;
        if block.is_uncertain && is_stored(container, service, block, counter).await? {
            return Ok(());
        }
        loop {
            let blob = container.blob(&counted(service, block.hour, counter)?)?;
            let metadata = block.times.metadata();
            let pairs = metadata.iter().map(|(name, value)| (*name, &**value));
            block.is_uncertain = true;
            match blob.put(block.bytes.clone()).if_absent().metadata(pairs).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() && error.may_have_been_applied() => {
                    // It was created by an attempt of ours whose answer was lost, or by another writer.
                    if holds(&blob, &block.bytes).await? {
                        return Ok(());
                    }
                    counter += 1;
                }
                Err(error) if error.is_conflict() => counter += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends the first block to the blob of its hour.
    async fn append_first(&mut self, container: &Container, service: &str) -> Result<(), Error> {
        let Some(block) = self.blocks.front_mut() else { return Ok(()) };
        let mut tried = 0;
        loop {
            tried += 1;
            if !self.open.get(&block.hour).is_some_and(|open| open.can_take(block)) {
                let open = create(container, service, block.hour).await?;
                if self.open.len() >= OPEN_MAX {
                    self.open.pop_first();
                }
                self.open.insert(block.hour, open);
            }
            let Some(open) = self.open.get_mut(&block.hour) else { return Ok(()) };
            match open.append(block).await? {
                Appending::Done => return Ok(()),
                Appending::Lost(error) => {
                    self.open.remove(&block.hour);
                    // Anything it had of this block was deleted with it.
                    block.is_uncertain = false;
                    if tried == BLOBS_TRIED_MAX {
                        return Err(error);
                    }
                }
            }
        }
    }
}

enum Appending {
    Done,
    /// The blob was deleted while it was open (`expire`, another program), or another writer uses it.
    Lost(Error),
}

impl Open {
    /// The times of this blob once it has the block.
    fn times_with(&self, block: &Block) -> Times {
        self.times.map_or(block.times, |times| times.and(block.times))
    }

    /// Whether the block may go into this blob. One whose version is unknown may have been deleted, and created
    /// again by another writer: its metadata stay as they are.
    fn can_take(&self, block: &Block) -> bool {
        let is_within = self.times == Some(self.times_with(block));
        self.blocks < BLOCKS_MAX && (is_within || self.etag.is_some())
    }

    async fn append(&mut self, block: &mut Block) -> Result<Appending, Error> {
        // Written before the lines, because readers skip a blob by its metadata.
        let times = self.times_with(block);
        if self.times != Some(times) {
            let metadata = times.metadata();
            let pairs = metadata.iter().map(|(name, value)| (*name, &**value));
            // Conditional: if this blob was deleted and another writer has created one with the same name, that blob
            // keeps its times.
            let Some(etag) = self.etag.take() else {
                return Ok(Appending::Lost(Error::new(ErrorKind::PreconditionFailed)));
            };
            match self.blob.set_metadata(pairs).if_match(&etag).await {
                Ok(set) => (self.etag, self.times) = (Some(set.etag), Some(times)),
                // An attempt of ours whose answer was lost may have created it: then the blob stays as it is.
                Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                    return Ok(Appending::Lost(error));
                }
                Err(error) => return Err(error),
            }
        }
        let end = self.position + block.bytes.len() as u64;
        // A flush that was cancelled may have stored it.
        let stored = match block.is_uncertain {
            true => self.version_with(block, end).await?,
            false => None,
        };
        if stored.is_some() {
            self.etag = stored;
        } else {
            block.is_uncertain = true;
            let append = self.blob.append(block.bytes.clone()).at(self.position);
            let append = match self.etag.take() {
                Some(etag) => append.if_match(&etag),
                None => append,
            };
            match append.await {
                Ok(appended) => self.etag = Some(appended.etag),
                Err(error) if error.is_not_found() => return Ok(Appending::Lost(error)),
                Err(error) if error.is_precondition_failed() && !error.may_have_been_applied() => {
                    return Ok(Appending::Lost(error));
                }
                Err(error) => return Err(error),
            }
        }
        self.position = end;
        self.blocks += 1;
        Ok(Appending::Done)
    }

    /// The version of the blob, if the block is stored in it up to `end`.
    async fn version_with(&self, block: &Block, end: u64) -> Result<Option<ETag>, Error> {
        match self.blob.get().range(self.position..end).await {
            Ok(found) => Ok(found
                .filter(|found| found.bytes == block.bytes)
                .map(|found| found.properties.etag)),
            // The blob ends before.
            Err(error) if error.status() == Some(StatusCode::RANGE_NOT_SATISFIABLE) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Block {
    fn new(hour: Hour, times: Times, text: String) -> Self {
        Self { hour, times, bytes: text.into(), is_uncertain: false }
    }
}

/// Creates the next append blob of an hour (P-14.2).
async fn create(container: &Container, service: &str, hour: Hour) -> Result<Open, Error> {
    let mut counter = next_counter(container, service, hour).await?;
    loop {
        let blob = container.blob(&counted(service, hour, counter)?)?;
        match blob.create_append().if_absent().content_type("text/plain").await {
            Ok(created) => {
                let etag = Some(created.etag);
                return Ok(Open { blob, etag, position: 0, blocks: 0, times: None });
            }
            // It belongs to another writer; or it is ours and the answer was lost: then it stays empty.
            Err(error) if error.is_conflict() => counter += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The counter after the last one of an hour.
async fn next_counter(container: &Container, service: &str, hour: Hour) -> Result<u32, Error> {
    let mut list = container.list().prefix(&hour.prefix(service));
    let mut next = 0;
    loop {
        let page = list.page().await?;
        let counters = page.blobs.iter().filter_map(|blob| parse_name(service, &blob.name));
        next = counters.map(|(_, counter)| counter + 1).fold(next, Ord::max);
        match page.next {
            Some(marker) => list = list.after(&marker),
            None => return Ok(next),
        }
    }
}

fn counted(service: &str, hour: Hour, counter: u32) -> Result<String, Error> {
    let name = blob_name(service, hour, counter);
    if counter > COUNTER_MAX {
        return Err(Error::new(ErrorKind::Name(name, "blob of a log")));
    }
    Ok(name)
}

/// Whether an earlier attempt stored a block in one of the last blobs of its hour.
async fn is_stored(
    container: &Container,
    service: &str,
    block: &Block,
    next: u32,
) -> Result<bool, Error> {
    for counter in (0..next).rev().take(16) {
        if holds(&container.blob(&counted(service, block.hour, counter)?)?, &block.bytes).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn holds(blob: &Blob, bytes: &Bytes) -> Result<bool, Error> {
    Ok(blob.get().await?.is_some_and(|found| found.bytes == *bytes))
}
