//! Reads a log (P-14.4).

use super::line::LogLine;
use super::name::Hour;
use crate::blob::{BlobProperties, Container};
use crate::error::Error;
use crate::rest::too_large;
use lazuli_model::Timestamp;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of one hour read into memory at most.
const HOUR_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Decides whether a line is returned.
type Keep = Box<dyn Fn(&LogLine) -> bool + Send>;

/// The lines of a log, hour by hour.
#[must_use = "nothing is read before `try_next`"]
pub struct LogReader {
    container: Container,
    service: String,
    times: Range<Timestamp>,
    next: Hour,
    keep: Option<Keep>,
    ready: VecDeque<LogLine>,
    bytes_max: u64,
}

impl LogReader {
    pub(super) fn new(container: &Container, service: &str, times: Range<Timestamp>) -> Self {
        Self {
            container: container.clone(),
            service: service.to_owned(),
            next: Hour::of(times.start),
            times,
            keep: None,
            ready: VecDeque::new(),
            bytes_max: HOUR_BYTES_MAX,
        }
    }

    /// Only lines for which `keep` is true. Others are read and skipped.
    pub fn filter(self, keep: impl Fn(&LogLine) -> bool + Send + 'static) -> Self {
        Self { keep: Some(Box::new(keep)), ..self }
    }

    /// The lines of an hour are sorted in memory; fails if its blobs are larger than this, 256 MiB by default.
    pub fn hour_bytes_max(self, bytes: u64) -> Self {
        Self { bytes_max: bytes, ..self }
    }

    /// The next line; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<LogLine>, Error> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            if self.times.is_empty() || self.next.start() >= self.times.end {
                return Ok(None);
            }
            let hour = self.next;
            self.ready = self.read_hour(hour).await?.into();
            self.next = hour.next();
        }
    }

    /// All lines; fails if there are more than `max`.
    pub async fn collect_at_most(mut self, max: usize) -> Result<Vec<LogLine>, Error> {
        let mut lines = Vec::new();
        while let Some(line) = self.try_next().await? {
            if lines.len() == max {
                return Err(Error::config(format!("there are more than {max} lines")));
            }
            lines.push(line);
        }
        Ok(lines)
    }

    async fn read_hour(&self, hour: Hour) -> Result<Vec<LogLine>, Error> {
        let mut list = self.container.list().prefix(&hour.prefix(&self.service));
        let (mut lines, mut bytes) = (Vec::new(), 0);
        loop {
            let page = list.page().await?;
            for item in page.blobs {
                let blob = self.container.blob(&item.name)?;
                // Deleted in the meantime, or outside the time range.
                let Some(properties) = blob.head().await? else { continue };
                if !self.may_hold(&properties) {
                    continue;
                }
                bytes += properties.bytes;
                if bytes > self.bytes_max {
                    return Err(too_large(bytes, self.bytes_max));
                }
                let max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
                let Some(found) = blob.get().bytes_max(max).await? else { continue };
                self.add_lines(&found.bytes, &mut lines);
            }
            match page.next {
                Some(next) => list = list.after(&next),
                None => break,
            }
        }
        // Stable: lines of one writer with equal times stay in order.
        lines.sort_by_key(|line: &LogLine| line.at);
        Ok(lines)
    }

    /// Whether a blob may have lines in the time range, by its metadata.
    fn may_hold(&self, properties: &BlobProperties) -> bool {
        let time = |wanted: &str| {
            let mut pairs = properties.metadata.iter();
            let found = pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.and_then(|(_, value)| Timestamp::parse(value))
        };
        time("StartTime").is_none_or(|start| start < self.times.end)
            && time("EndTime").is_none_or(|end| end >= self.times.start)
    }

    fn add_lines(&self, bytes: &[u8], lines: &mut Vec<LogLine>) {
        let text = String::from_utf8_lossy(bytes);
        let parsed = text.lines().filter_map(LogLine::parse);
        let is_wanted = |line: &LogLine| {
            self.times.contains(&line.at) && self.keep.as_ref().is_none_or(|keep| keep(line))
        };
        lines.extend(parsed.filter(is_wanted));
    }
}
