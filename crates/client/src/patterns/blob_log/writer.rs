//! Storing lines: which blob, and where in it (P-14.1, P-14.2).

use super::line::LogLine;
use super::name::{COUNTER_MAX, Hour, blob_name, parse_name};
use crate::blob::{Blob, Container};
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use bytes::Bytes;
use lazuli_model::Timestamp;
use lazuli_model::limits::APPEND_BLOCK_BYTES_MAX;
use std::collections::{BTreeMap, VecDeque};

/// Blocks of an append blob.
const BLOCKS_MAX: u32 = 50_000;
/// Blobs of other hours that stay open for lines that come late.
const OPEN_MAX: usize = 4;
/// Blobs that one block is offered to: each may be deleted while it is open.
const BLOBS_TRIED_MAX: u32 = 4;
const LOG_VERSION: &str = "1.0";
const LOG_TYPE: &str = "write";

/// The one writer of this process: what it has to store, and the blobs that it writes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    blocks: VecDeque<Block>,
    open: BTreeMap<Hour, Open>,
    is_block_blobs: bool,
    /// Lines up to this one are stored when all blocks are.
    last: u64,
    stored: u64,
}

/// Lines of one hour that are stored together.
#[derive(Debug)]
struct Block {
    hour: Hour,
    times: Times,
    bytes: Bytes,
    /// Whether an attempt to store it may have been carried out.
    is_uncertain: bool,
}

/// A blob that this writer alone appends to.
#[derive(Debug)]
struct Open {
    blob: Blob,
    /// Its version after our last request; unknown while a request is under way, or if one was given up.
    etag: Option<ETag>,
    position: u64,
    blocks: u32,
    /// What its metadata say.
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

    /// Takes lines to store; `last` is the number of the last. Lines of one hour become blocks.
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

    /// Stores all blocks. Returns the number of the last line that is stored.
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

    /// A blob of its own for the first block.
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
                    // By an attempt of ours whose answer was lost, or by another writer.
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
            if self.open.get(&block.hour).is_none_or(|open| open.blocks >= BLOCKS_MAX) {
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
                    // What it held of this block, if anything, is gone with it.
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
    /// The blob was deleted while it was open (`expire`, another program), or is not ours alone.
    Lost(Error),
}

impl Open {
    async fn append(&mut self, block: &mut Block) -> Result<Appending, Error> {
        // Before the lines: readers skip a blob by what its metadata say.
        let times = self.times.map_or(block.times, |times| times.and(block.times));
        if self.times != Some(times) {
            let metadata = times.metadata();
            let pairs = metadata.iter().map(|(name, value)| (*name, &**value));
            // Under the version: if this blob was deleted and another writer has created one of its name,
            // the times of that one stay.
            let set = self.blob.set_metadata(pairs);
            let set = match self.etag.take() {
                Some(etag) => set.if_match(&etag).await,
                None => set.await,
            };
            match set {
                Ok(set) => (self.etag, self.times) = (Some(set.etag), Some(times)),
                // Perhaps by an attempt of ours whose answer was lost: then the blob stays as it is.
                Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                    return Ok(Appending::Lost(error));
                }
                Err(error) => return Err(error),
            }
        }
        let end = self.position + block.bytes.len() as u64;
        // A flush that was given up may have stored it.
        let is_there = block.is_uncertain && {
            let found = self.blob.get().range(self.position..end).await;
            matches!(found, Ok(Some(found)) if found.bytes == block.bytes)
        };
        if !is_there {
            block.is_uncertain = true;
            self.etag = None;
            match self.blob.append(block.bytes.clone()).at(self.position).await {
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
            // Another writer's; or ours, and its answer was lost: then it stays empty.
            Err(error) if error.is_conflict() => counter += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The counter after the last of an hour.
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
