//! The content of a journal, read in pieces: a whole journal takes more memory than a small server has.

use super::Batch;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// What is read at a time, unless a batch is larger.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// What is compared with zeros at a time.
const LOOK_BYTES: usize = 256 * 1024;

/// Reads a journal from its beginning, and holds only what was not taken yet.
#[derive(Debug)]
pub(super) struct Content {
    file: File,
    /// Where the bytes begin that were not read yet.
    at: u64,
    /// Where the content ends.
    end: u64,
    window: Vec<u8>,
    /// Bytes of the window that were taken.
    taken: usize,
}

impl Content {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let end = end(&mut file)?;
        file.rewind()?;
        Ok(Self { file, at: 0, end, window: Vec::new(), taken: 0 })
    }

    /// The size of what was taken.
    pub(super) fn taken(&self) -> u64 {
        self.at - self.left().len() as u64
    }

    /// Takes the batch that `read` finds at the start of what is left. If it finds none, the window holds
    /// all that is left.
    pub(super) fn take_batch(
        &mut self,
        read: impl Fn(&[u8]) -> Option<Batch>,
    ) -> io::Result<Option<Batch>> {
        loop {
            if let Some(batch) = read(self.left()) {
                self.taken += batch.bytes;
                return Ok(Some(batch));
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }

    /// What is left.
    pub(super) fn rest(&mut self) -> io::Result<&[u8]> {
        while self.read_more()? {}
        Ok(self.left())
    }

    fn left(&self) -> &[u8] {
        self.window.get(self.taken..).unwrap_or_default()
    }

    /// Returns whether there was more to read. A window that is too small doubles, so that a large batch
    /// is not tried for each piece of it.
    fn read_more(&mut self) -> io::Result<bool> {
        self.window.drain(..self.taken);
        self.taken = 0;
        let more = PIECE_BYTES.max(self.window.len()) as u64;
        let more = more.min(self.end - self.at);
        let read = (&mut self.file).take(more).read_to_end(&mut self.window)? as u64;
        self.at += read;
        match read == more {
            true => Ok(more > 0),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Where the last byte that is not zero ends: fjall allocates journals in advance, and a batch ends with
/// a byte that is not zero.
fn end(file: &mut File) -> io::Result<u64> {
    let zeros = vec![0; LOOK_BYTES];
    let mut piece = vec![0; LOOK_BYTES];
    let (mut at, mut end) = (0, 0);
    loop {
        let length = match file.read(&mut piece) {
            Ok(0) => return Ok(end),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = piece.get(..length).unwrap_or_default();
        // Comparing slices is many times faster than looking at each byte.
        if zeros.get(..length) != Some(bytes) {
            let last = bytes.iter().rposition(|byte| *byte != 0);
            end = at + last.map_or(0, |last| last as u64 + 1);
        }
        at += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of `bytes` that ends with a 3.
    fn batch(bytes: usize) -> Batch {
        Batch { sequence: 0, revision: None, follows_synced: false, is_end: false, bytes }
    }

    /// The number of bytes in the first four, those, then a 3.
    fn parse(bytes: &[u8]) -> Option<Batch> {
        let length = bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize)?;
        (bytes.get(4 + length) == Some(&3)).then(|| batch(4 + length + 1))
    }

    fn written(length: usize) -> Vec<u8> {
        let length_bytes = u32::try_from(length).unwrap().to_le_bytes();
        [length_bytes.as_slice(), &vec![0; length], &[3]].concat()
    }

    /// A whole journal was read into memory at each start, 64 MB of it, whatever `--memory` said.
    #[test]
    fn a_journal_is_read_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.jnl");
        let lengths = [0, 1, PIECE_BYTES, 10, 3 * PIECE_BYTES + 7, 5].repeat(40);
        let mut bytes: Vec<u8> = lengths.iter().flat_map(|length| written(*length)).collect();
        let whole = bytes.len() as u64;
        bytes.extend_from_slice(b"rest");
        bytes.resize(64 * 1024 * 1024, 0);
        std::fs::write(&path, &bytes).unwrap();
        let mut content = Content::open(&path).unwrap();
        for length in lengths {
            let found = content.take_batch(parse).unwrap().unwrap();
            assert_eq!(found.bytes, 4 + length + 1);
            assert!(content.window.capacity() <= 8 * PIECE_BYTES, "{}", content.window.capacity());
        }
        assert!(content.take_batch(parse).unwrap().is_none());
        assert_eq!((content.taken(), content.rest().unwrap()), (whole, b"rest".as_slice()));
    }

    #[test]
    fn a_journal_of_zeros_has_no_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.jnl");
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1] {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            let mut content = Content::open(&path).unwrap();
            assert!(content.take_batch(parse).unwrap().is_none());
            assert_eq!((content.taken(), content.rest().unwrap()), (0, b"".as_slice()));
        }
    }
}
