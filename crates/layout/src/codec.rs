//! The primitives of small values: little-endian numbers, and length-prefixed text.

use crate::CorruptRecord;
use lazuli_model::Timestamp;

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A count of items from a request of a few MiB, which fits a u32.
    pub(crate) fn count(&mut self, count: usize) {
        assert!(u32::try_from(count).is_ok(), "a count fits its field");
        self.u32(count as u32);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what a [`Writer`] wrote; errors say `what` was being read.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Starts after the version byte, which must be `version`.
    pub(crate) fn new(
        what: &'static str,
        version: u8,
        bytes: &'a [u8],
    ) -> Result<Self, CorruptRecord> {
        let mut reader = Self { bytes, what };
        if reader.u8()? != version {
            return Err(reader.corrupt());
        }
        Ok(reader)
    }

    pub(crate) fn corrupt(&self) -> CorruptRecord {
        CorruptRecord(self.what)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, CorruptRecord> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, CorruptRecord> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, CorruptRecord> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, CorruptRecord> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, CorruptRecord> {
        Timestamp::from_ticks(self.u64()?).ok_or(self.corrupt())
    }

    pub(crate) fn text(&mut self) -> Result<String, CorruptRecord> {
        let text = self.bytes()?;
        self.utf8(text)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], CorruptRecord> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.bytes.split_at_checked(len).ok_or(self.corrupt())?;
        self.bytes = rest;
        Ok(bytes)
    }

    /// A list after its count. Memory is allocated only as items are read, never for a bogus count.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, CorruptRecord>,
    ) -> Result<Vec<T>, CorruptRecord> {
        let count = self.u32()?;
        (0..count).map(|_| item(self)).collect()
    }

    /// The rest, as text.
    pub(crate) fn rest(&mut self) -> Result<String, CorruptRecord> {
        let text = std::mem::take(&mut self.bytes);
        self.utf8(text)
    }

    /// Fails unless everything has been read.
    pub(crate) fn end(self) -> Result<(), CorruptRecord> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.corrupt()) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptRecord> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(self.corrupt())?;
        self.bytes = rest;
        Ok(*array)
    }

    fn utf8(&self, bytes: &[u8]) -> Result<String, CorruptRecord> {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| self.corrupt())
    }
}
