//! What the catalog record holds of a table's settings: indexes, expiry, change feed.
//!
//! They are part of the catalog record, because the revision of that record guards every write of
//! an entity: a write that was prepared under other settings fails its guard and starts again.

use crate::CorruptRecord;
use crate::codec::{Reader, Writer};
use crate::key::TableId;
use crate::key::index::{Entries, INDEXED_BYTES_MAX, IndexId, SHORT_INDEXED_BYTES_MAX};
use lazuli_model::{
    AccountName, Expiry, Feed, FeedRetention, Images, IndexDefinition, IndexDefinitions, TableName,
    Timestamp,
};

/// The settings of a table. Most tables have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSettings {
    /// The number of the next index. Numbers are never reused.
    pub next_index: u32,
    pub indexes: Vec<TableIndex>,
    pub expiry: Option<TableExpiry>,
    /// How often a feed was turned on: the number of the current feed, or of the last one.
    pub feeds: u32,
    pub feed: Option<Feed>,
}

/// When entities expire, and the number of the index of their expiry moments, unique among indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableExpiry {
    pub number: u32,
    pub expiry: Expiry,
}

impl TableExpiry {
    pub fn id(&self, table: TableId) -> IndexId {
        IndexId { table, number: self.number }
    }
}

/// One declared index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableIndex {
    pub number: u32,
    pub definition: IndexDefinition,
    pub state: IndexState,
    /// When it entered its state.
    pub since: Timestamp,
    /// Entities that its building examined; 0 until it ends.
    pub examined: u64,
    /// Whether the server declared it by itself.
    pub is_automatic: bool,
    /// Whether entries hold [`SHORT_INDEXED_BYTES_MAX`] of a long value, so that they fit into the
    /// keys of every engine. Indexes of four properties set this, unless they were declared before
    /// the option existed.
    pub is_cut_short: bool,
}

/// The state of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Writes maintain it; it does not contain all entities yet.
    Building,
    /// It serves queries.
    Ready,
    /// It could not be built, for this reason. Writes do not maintain it.
    Failed(String),
}

impl TableIndex {
    pub fn id(&self, table: TableId) -> IndexId {
        IndexId { table, number: self.number }
    }

    /// The entries of this index.
    pub fn entries(&self, table: TableId) -> Entries {
        let value_bytes_max = match self.is_cut_short {
            true => SHORT_INDEXED_BYTES_MAX,
            false => INDEXED_BYTES_MAX,
        };
        Entries { index: self.id(table), value_bytes_max }
    }

    /// Whether writes maintain the index.
    pub fn is_maintained(&self) -> bool {
        !matches!(self.state, IndexState::Failed(_))
    }
}

const BUILDING: u8 = 1;
const READY: u8 = 2;
const FAILED: u8 = 3;

const IS_UNIQUE: u8 = 1;
const IS_AUTOMATIC: u8 = 2;
const IS_CUT_SHORT: u8 = 4;

const NEVER: u8 = 0;
const AFTER_SECONDS: u8 = 1;
const BY_PROPERTY: u8 = 2;

const NO_FEED: u8 = 0;

impl TableSettings {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u32(self.next_index);
        out.count(self.indexes.len());
        self.indexes.iter().for_each(|index| put_index(out, index));
        match &self.expiry {
            None => out.u8(NEVER),
            Some(TableExpiry { number, expiry: Expiry::Seconds(seconds) }) => {
                out.u8(AFTER_SECONDS);
                out.u32(*number);
                out.u64(*seconds);
            }
            Some(TableExpiry { number, expiry: Expiry::Property(name) }) => {
                out.u8(BY_PROPERTY);
                out.u32(*number);
                out.text(name);
            }
        }
        out.u32(self.feeds);
        match self.feed {
            None => out.u8(NO_FEED),
            Some(feed) => {
                out.u8(images_code(feed.images));
                out.u16(feed.retention.hours() as u16);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, CorruptRecord> {
        Ok(Self {
            next_index: reader.u32()?,
            indexes: indexes(reader)?,
            expiry: match reader.u8()? {
                NEVER => None,
                AFTER_SECONDS => Some(TableExpiry {
                    number: reader.u32()?,
                    expiry: Expiry::Seconds(reader.u64()?),
                }),
                BY_PROPERTY => Some(TableExpiry {
                    number: reader.u32()?,
                    expiry: Expiry::Property(reader.text()?.into()),
                }),
                _ => return Err(reader.corrupt()),
            },
            feeds: reader.u32()?,
            feed: match reader.u8()? {
                NO_FEED => None,
                code => Some(Feed {
                    images: images_of(code).ok_or(reader.corrupt())?,
                    retention: FeedRetention::from_hours(reader.u16()?.into())
                        .ok_or(reader.corrupt())?,
                }),
            },
        })
    }
}

fn put_index(out: &mut Writer, index: &TableIndex) {
    let definition = &index.definition;
    out.u32(index.number);
    out.text(definition.name().as_str());
    out.count(definition.on().len());
    definition.on().iter().for_each(|property| out.text(property.name()));
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    out.u8(flag(definition.is_unique(), IS_UNIQUE)
        | flag(index.is_automatic, IS_AUTOMATIC)
        | flag(index.is_cut_short, IS_CUT_SHORT));
    match &index.state {
        IndexState::Building => out.u8(BUILDING),
        IndexState::Ready => out.u8(READY),
        IndexState::Failed(reason) => {
            out.u8(FAILED);
            out.text(reason);
        }
    }
    out.u64(index.since.ticks());
    out.u64(index.examined);
}

fn indexes(reader: &mut Reader<'_>) -> Result<Vec<TableIndex>, CorruptRecord> {
    let indexes = reader.list(index)?;
    let definitions = indexes.iter().map(|index| index.definition.clone()).collect();
    IndexDefinitions::new(definitions).map_err(|_| reader.corrupt())?;
    Ok(indexes)
}

fn index(reader: &mut Reader<'_>) -> Result<TableIndex, CorruptRecord> {
    let number = reader.u32()?;
    let name = reader.text()?;
    let on = reader.list(Reader::text)?;
    let flags = reader.u8()?;
    if flags & !(IS_UNIQUE | IS_AUTOMATIC | IS_CUT_SHORT) != 0 {
        return Err(reader.corrupt());
    }
    let definition = IndexDefinition::stored(&name, &on, flags & IS_UNIQUE != 0);
    Ok(TableIndex {
        number,
        definition: definition.map_err(|_| reader.corrupt())?,
        state: match reader.u8()? {
            BUILDING => IndexState::Building,
            READY => IndexState::Ready,
            FAILED => IndexState::Failed(reader.text()?),
            _ => return Err(reader.corrupt()),
        },
        since: reader.timestamp()?,
        examined: reader.u64()?,
        is_automatic: flags & IS_AUTOMATIC != 0,
        is_cut_short: flags & IS_CUT_SHORT != 0,
    })
}

const fn images_code(images: Images) -> u8 {
    match images {
        Images::Keys => 1,
        Images::New => 2,
        Images::Both => 3,
    }
}

const fn images_of(code: u8) -> Option<Images> {
    Some(match code {
        1 => Images::Keys,
        2 => Images::New,
        3 => Images::Both,
        _ => return None,
    })
}

/// The progress of an index being built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRecord {
    pub account: AccountName,
    pub table: TableName,
    /// The first entity, by its key, that has not been examined.
    pub from: Vec<u8>,
    /// Number of entities examined.
    pub done: u64,
    /// Entities of the table when building began, as far as counted.
    pub total: u64,
    /// The first entity that has not been counted; `None` when all are.
    pub count_from: Option<Vec<u8>>,
    /// Why the last step failed, if it did.
    pub trouble: Option<String>,
}

const BUILD_VERSION: u8 = 1;
/// The version of a record that says why the last step failed.
const TROUBLED_BUILD_VERSION: u8 = 2;

impl BuildRecord {
    /// The record of an index whose building begins now.
    pub fn new(account: AccountName, table: TableName) -> Self {
        let (done, total, trouble) = (0, 0, None);
        let count_from = Some(Vec::new());
        Self { account, table, from: Vec::new(), done, total, count_from, trouble }
    }

    pub fn encode(&self) -> Vec<u8> {
        let version = match self.trouble {
            None => BUILD_VERSION,
            Some(_) => TROUBLED_BUILD_VERSION,
        };
        let mut out = Writer(vec![version]);
        out.text(self.account.as_str());
        out.text(self.table.as_str());
        out.bytes(&self.from);
        out.u64(self.done);
        out.u64(self.total);
        out.u8(self.count_from.is_some().into());
        if let Some(from) = &self.count_from {
            out.bytes(from);
        }
        if let Some(trouble) = &self.trouble {
            out.text(trouble);
        }
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let is_troubled = bytes.first() == Some(&TROUBLED_BUILD_VERSION);
        let version = if is_troubled { TROUBLED_BUILD_VERSION } else { BUILD_VERSION };
        let mut reader = Reader::new("index build record", version, bytes)?;
        let record = Self {
            account: AccountName::parse(&reader.text()?).ok_or(reader.corrupt())?,
            table: TableName::parse_any(&reader.text()?).map_err(|_| reader.corrupt())?,
            from: reader.bytes()?.to_vec(),
            done: reader.u64()?,
            total: reader.u64()?,
            count_from: match reader.u8()? {
                0 => None,
                1 => Some(reader.bytes()?.to_vec()),
                _ => return Err(reader.corrupt()),
            },
            trouble: is_troubled.then(|| reader.text()).transpose()?,
        };
        reader.end()?;
        Ok(record)
    }
}

/// The table to which an expiry belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryRecord {
    pub account: AccountName,
    pub table: TableName,
}

const EXPIRY_VERSION: u8 = 1;

impl ExpiryRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![EXPIRY_VERSION]);
        out.text(self.account.as_str());
        out.text(self.table.as_str());
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("expiry record", EXPIRY_VERSION, bytes)?;
        let record = Self {
            account: AccountName::parse(&reader.text()?).ok_or(reader.corrupt())?,
            table: TableName::parse_any(&reader.text()?).map_err(|_| reader.corrupt())?,
        };
        reader.end()?;
        Ok(record)
    }
}

const ENTRY_VERSION: u8 = 1;

/// The value of every index entry: the entry's key says everything.
pub const ENTRY: &[u8] = &[ENTRY_VERSION];

/// When an index was last used.
pub fn encode_used(at: Timestamp) -> Vec<u8> {
    let mut out = Writer(vec![ENTRY_VERSION]);
    out.u64(at.ticks());
    out.0
}

pub fn decode_used(bytes: &[u8]) -> Result<Timestamp, CorruptRecord> {
    let mut reader = Reader::new("last use of an index", ENTRY_VERSION, bytes)?;
    let at = reader.timestamp()?;
    reader.end()?;
    Ok(at)
}

/// The value that names the owner of unique values: the entity's key without its table.
pub fn encode_owner(entity: &[u8]) -> Vec<u8> {
    [&[ENTRY_VERSION], entity].concat()
}

pub fn decode_owner(bytes: &[u8]) -> Result<&[u8], CorruptRecord> {
    bytes.strip_prefix(&[ENTRY_VERSION]).ok_or(CorruptRecord("owner of unique values"))
}

#[cfg(test)]
mod tests;
