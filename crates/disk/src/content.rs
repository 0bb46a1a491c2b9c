//! The content of one file, with holes.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: usize = 4096;

/// Bytes in pages; a missing page reads as zeros.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    length: u64,
}

impl Content {
    pub fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut content = Self::default();
        let mut buffer = vec![0; 256 * PAGE];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(content);
            }
            let at = content.length;
            content.set_length(at + read as u64);
            let chunks = buffer.get(..read).unwrap_or_default().chunks(PAGE);
            for (chunk, offset) in chunks.zip((at..).step_by(PAGE)) {
                if chunk.iter().any(|byte| *byte != 0) {
                    content.write(offset, chunk);
                }
            }
        }
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.length)?;
        for (page, bytes) in &self.pages {
            let offset = page * PAGE as u64;
            let within = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(PAGE);
            file.write_all_at(bytes.get(..within.min(PAGE)).unwrap_or_default(), offset)?;
        }
        Ok(())
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        self.length = self.length.max(offset + data.len() as u64);
        while !data.is_empty() {
            let within = (offset % PAGE as u64) as usize;
            let (now, later) = data.split_at(data.len().min(PAGE - within));
            let page = self.pages.entry(offset / PAGE as u64);
            let page = page.or_insert_with(|| Box::new([0; PAGE]));
            for (byte, new) in page.iter_mut().skip(within).zip(now) {
                *byte = *new;
            }
            offset += now.len() as u64;
            data = later;
        }
    }

    /// Flips one bit.
    pub fn flip(&mut self, offset: u64, bit: u32) {
        if let Some(byte) = self
            .pages
            .get_mut(&(offset / PAGE as u64))
            .and_then(|page| page.get_mut((offset % PAGE as u64) as usize))
        {
            *byte ^= 1 << bit;
        }
    }

    /// Bytes up to the last non-zero one.
    pub fn written_bytes(&self) -> usize {
        let last = self.written().last();
        last.map_or(0, |(page, bytes)| {
            let within = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
            *page as usize * PAGE + within + 1
        })
    }

    /// Truncates to `length`, or extends with zeros.
    pub fn set_length(&mut self, length: u64) {
        if length < self.length {
            let within = (length % PAGE as u64) as usize;
            self.pages.split_off(&length.div_ceil(PAGE as u64));
            if let Some(page) = self.pages.get_mut(&(length / PAGE as u64)) {
                page.iter_mut().skip(within).for_each(|byte| *byte = 0);
            }
        }
        self.length = length;
    }

    fn written(&self) -> impl Iterator<Item = (&u64, &[u8; PAGE])> {
        let pages = self.pages.iter().map(|(page, bytes)| (page, bytes.as_ref()));
        pages.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0))
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.written().eq(other.written())
    }
}

impl Eq for Content {}

impl Hash for Content {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.length.hash(state);
        self.written().for_each(|page| page.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_what_a_file_would_be() {
        let dir = tempfile::tempdir().unwrap();
        let (real, model) = (dir.path().join("real"), dir.path().join("model"));
        let file = File::create(&real).unwrap();
        let mut content = Content::default();
        for (offset, bytes) in [(0, 10), (4090, 20), (20_000, 9000), (8190, 4)] {
            file.write_all_at(&vec![7; bytes], offset).unwrap();
            content.write(offset, &vec![7; bytes]);
        }
        for length in [21_000, 4095, 30_000] {
            file.set_len(length).unwrap();
            content.set_length(length);
            content.save(&model).unwrap();
            assert_eq!(std::fs::read(&real).unwrap(), std::fs::read(&model).unwrap());
            assert_eq!(Content::load(&real).unwrap(), content);
        }
    }
}
