//! The values of queues: catalog record, message, and the text of a message. Each starts with a
//! version byte. Access policies, service properties and tombstones are the same as for tables.

use crate::CorruptRecord;
use crate::codec::{Reader, Writer};
use crate::key::queue::{Generation, QueueId};
use lazuli_model::{MessageText, Metadata, Timestamp};

const VERSION: u8 = 1;

/// Texts up to this size are stored in the message; longer ones separately, so that moving a
/// message is cheap.
pub const INLINE_TEXT_BYTES_MAX: usize = 512;

/// Maximum number of void receipts recorded in a message.
pub const VOIDED_MAX: usize = 8;

/// The catalog record of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRecord {
    pub generation: Generation,
    pub metadata: Metadata,
}

impl QueueRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.u64(self.generation.queue.0);
        out.u32(self.generation.epoch);
        out.count(self.metadata.iter().len());
        for (name, value) in self.metadata.iter() {
            out.text(name);
            out.text(value);
        }
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("queue record", VERSION, bytes)?;
        let generation = read_generation(&mut reader)?;
        let pairs = reader.list(|reader| Ok((reader.text()?, reader.text()?)))?;
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let metadata = Metadata::parse(pairs).map_err(|_| reader.corrupt())?;
        reader.end()?;
        Ok(Self { generation, metadata })
    }

    /// Only the generation, which is all that message operations need.
    pub fn decode_generation(bytes: &[u8]) -> Result<Generation, CorruptRecord> {
        read_generation(&mut Reader::new("queue record", VERSION, bytes)?)
    }
}

/// A message without the data in its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    pub inserted: Timestamp,
    /// [`Timestamp::MAX`] for a message that does not expire.
    pub expires: Timestamp,
    /// How often Get Messages returned it.
    pub dequeue_count: u32,
    /// Earlier next-visible times of the message that could recur. Receipts name a message by that
    /// time, so a receipt that was issued before must not be issued again. At most
    /// [`VOIDED_MAX`].
    pub voided: Vec<Timestamp>,
    pub text: StoredText,
}

/// Where the text of a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredText {
    Inline(MessageText),
    /// Stored under a separate key.
    Apart,
}

impl StoredText {
    /// Where to store `text`, by its length.
    pub fn of(text: &MessageText) -> Self {
        match text.as_str().len() {
            0..=INLINE_TEXT_BYTES_MAX => Self::Inline(text.clone()),
            _ => Self::Apart,
        }
    }
}

const TEXT_APART: u8 = 1;

impl MessageRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.u8(if self.text == StoredText::Apart { TEXT_APART } else { 0 });
        out.u64(self.inserted.ticks());
        out.u64(self.expires.ticks());
        out.u32(self.dequeue_count);
        out.count(self.voided.len());
        self.voided.iter().for_each(|voided| out.u64(voided.ticks()));
        if let StoredText::Inline(text) = &self.text {
            out.0.extend_from_slice(text.as_str().as_bytes());
        }
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("message", VERSION, bytes)?;
        let flags = reader.u8()?;
        let (inserted, expires) = (reader.timestamp()?, reader.timestamp()?);
        let dequeue_count = reader.u32()?;
        let voided = reader.list(Reader::timestamp)?;
        let text = match flags {
            0 => StoredText::Inline(read_text(&mut reader)?),
            TEXT_APART => StoredText::Apart,
            _ => return Err(reader.corrupt()),
        };
        reader.end()?;
        Ok(Self { inserted, expires, dequeue_count, voided, text })
    }

    /// Only the expiry time of the message.
    pub fn decode_expires(bytes: &[u8]) -> Result<Timestamp, CorruptRecord> {
        let mut reader = Reader::new("message", VERSION, bytes)?;
        reader.u8()?;
        reader.u64()?;
        reader.timestamp()
    }
}

/// A text stored separately from its message.
pub fn encode_text(text: &MessageText) -> Vec<u8> {
    [&[VERSION], text.as_str().as_bytes()].concat()
}

pub fn decode_text(bytes: &[u8]) -> Result<MessageText, CorruptRecord> {
    read_text(&mut Reader::new("message text", VERSION, bytes)?)
}

fn read_generation(reader: &mut Reader<'_>) -> Result<Generation, CorruptRecord> {
    Ok(Generation { queue: QueueId(reader.u64()?), epoch: reader.u32()? })
}

/// The rest, as the text of a message.
fn read_text(reader: &mut Reader<'_>) -> Result<MessageText, CorruptRecord> {
    MessageText::new(reader.rest()?).map_err(|_| reader.corrupt())
}

#[cfg(test)]
mod tests;
