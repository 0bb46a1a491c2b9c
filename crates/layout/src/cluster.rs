//! The values that gateways of a shared store leave for each other: the lease of the chores, and each
//! gateway's own status. Each starts with a version byte.

use crate::CorruptRecord;
use crate::codec::{Reader, Writer};
use lazuli_model::Timestamp;

const VERSION: u8 = 1;

/// Who runs the chores. The holder rewrites it at each beat, so its revision shows whether the holder
/// is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The id of a gateway; new at each start.
    pub holder: String,
    /// How often the record has been written.
    pub beat: u64,
}

impl LeaseRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.u64(self.beat);
        out.0.extend_from_slice(self.holder.as_bytes());
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("chore lease", VERSION, bytes)?;
        let beat = reader.u64()?;
        Ok(Self { beat, holder: reader.rest()? })
    }
}

/// A gateway's own status. It rewrites the record every few seconds, so its revision shows when the
/// gateway was last alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayRecord {
    /// The version of the program.
    pub version: String,
    pub started: Timestamp,
    /// Where it listens: service name and address.
    pub listens: Vec<(String, String)>,
}

impl GatewayRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.u64(self.started.ticks());
        out.text(&self.version);
        out.count(self.listens.len());
        for (service, address) in &self.listens {
            out.text(service);
            out.text(address);
        }
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("gateway record", VERSION, bytes)?;
        let started = reader.timestamp()?;
        let version = reader.text()?;
        let listens = reader.list(|reader| Ok((reader.text()?, reader.text()?)))?;
        reader.end()?;
        Ok(Self { version, started, listens })
    }
}
