//! Every stored key; keys sort in the order of the service.
//!
//! All keys begin with `L`, then a byte for the kind:
//!
//! | kind | then | holds |
//! | --- | --- | --- |
//! | `a` | table or queue id | the access policies of a table or queue |
//! | `b` | table id, index number | the progress of an index being built |
//! | `c` | account, 00, table name | the catalog record of a table |
//! | `d` | queue id, epoch | the tombstone of dropped messages whose space is not yet reclaimed |
//! | `e` | table id, partition key, 00, row key | an entity |
//! | `f` | table id, feed number, revision, place | a change of an entity |
//! | `g` | gateway id | the status of a gateway of a shared store |
//! | `h` | table id, feed number | the head of a feed, which orders its commits on a store with many writers |
//! | `i` | table id, index number, values, partition key, 00, row key | an index entry |
//! | `j` | table id, index number | the tombstone of a dropped index |
//! | `k` | table id, feed number | the record of a feed: since when, and what is dropped |
//! | `l` | | the lease under which one gateway at a time runs the chores |
//! | `m` | queue id, epoch, next-visible time, message id | a message |
//! | `n` | | the next id of a table or queue |
//! | `o` | table id, feed number, revision | the tombstone of dropped changes |
//! | `p` | account | the properties of an account's table service |
//! | `q` | account, 00, queue name | the catalog record of a queue |
//! | `r` | table id | the tombstone of a dropped table whose space is not yet reclaimed |
//! | `s` | account | the properties of an account's queue service |
//! | `t` | queue id, epoch, message id | the text of a message, if it is long |
//! | `u` | table id, index number, hash of values | the owner of unique values |
//! | `v` | account, 00, table name as given | the data behind the advice on a table |
//! | `w` | table id, index number | when an automatic index was last used |
//! | `x` | table id, expiry number, bucket, partition key, 00, row key | the moment at which an entity expires |
//! | `y` | table id, expiry number | the record of an expiry |
//!
//! Ids and times are eight bytes, epochs and index numbers four, big-endian. The keys of an entity and the lower-case
//! name of a table are written as *text*: UTF-8 with each byte replaced by its `utf16_rank`, 00
//! becoming 01 01 and 01 becoming 01 02. Text therefore sorts by UTF-16 code unit (T-3.19), and
//! contains no 00 that could be mistaken for the terminator and no byte above F6.
//!
//! Range bounds accept any text, because filters and continuation tokens can contain any.

pub mod expiry;
pub mod feed;
pub mod index;
pub mod queue;

use crate::CorruptRecord;
use lazuli_model::key::{from_utf16_rank, utf16_rank};
use lazuli_model::limits::KEY_UTF16_UNITS_MAX;
use lazuli_model::{AccountName, EntityKey};
use std::borrow::Cow;
use std::ops::{Bound, Range};

/// No key is longer, and every engine accepts keys of this length: the shared stores accept none longer.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// The first byte of every key. Cluster engines reserve others.
const LAZULI: u8 = b'L';
const KIND_ACCESS_POLICIES: u8 = b'a';
const KIND_CATALOG: u8 = b'c';
const KIND_ENTITY: u8 = b'e';
const KIND_GATEWAY: u8 = b'g';
/// An engine may keep its own record, such as its format, under this kind.
const KIND_OF_ENGINE: u8 = 0;
const KIND_CHORE_LEASE: u8 = b'l';
const KIND_NEXT_TABLE_ID: u8 = b'n';
const KIND_SERVICE_PROPERTIES: u8 = b'p';
const KIND_RECLAIM: u8 = b'r';
const KIND_ADVICE: u8 = b'v';

const TERMINATOR: u8 = 0x00;
const ESCAPE: u8 = 0x01;
/// Appended to a text, gives the position after it: after the text itself and all keys with its
/// terminated form as a prefix, but before every longer text, which continues with at least 01 01.
const AFTER: u8 = 0x01;
/// Greater than every byte of a text.
const END: u8 = 0xFF;
/// Bytes of the longest key as text: three bytes of UTF-8 for each UTF-16 code unit.
const TEXT_BYTES_MAX: usize = 3 * KEY_UTF16_UNITS_MAX;

/// Identifies a table for the life of the store: never reused, even after the table is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// The keys of a stored entity, as [`decode_entity`] finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntityKey<'a> {
    pub table: TableId,
    /// Borrowed unless the key holds a character from U+E000 to U+FFFF.
    pub partition: Cow<'a, str>,
    /// See [`StoredEntityKey::partition`].
    pub row: Cow<'a, str>,
}

/// The key of a table's catalog record.
pub fn catalog(account: &AccountName, lower_name: &str) -> Vec<u8> {
    let mut key = catalog_prefix(account);
    push_text(&mut key, lower_name);
    key
}

/// The catalog records of `account` whose lower-case names lie between `low` and `high`.
pub fn catalog_range(account: &AccountName, low: Bound<&str>, high: Bound<&str>) -> Range<Vec<u8>> {
    text_range(catalog_prefix(account), low, high)
}

/// The key of the access policies of `table`.
pub fn access_policies(table: TableId) -> Vec<u8> {
    table_prefix(KIND_ACCESS_POLICIES, table, 0)
}

/// The key of the next table id.
pub fn next_table_id() -> Vec<u8> {
    vec![LAZULI, KIND_NEXT_TABLE_ID]
}

/// The key of the lease under which one gateway at a time runs the chores.
pub fn chore_lease() -> Vec<u8> {
    vec![LAZULI, KIND_CHORE_LEASE]
}

/// The key of the status of gateway `id`.
pub fn gateway(id: &str) -> Vec<u8> {
    [&[LAZULI, KIND_GATEWAY], id.as_bytes()].concat()
}

/// The status of all gateways.
pub fn gateways() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_GATEWAY]..vec![LAZULI, KIND_GATEWAY + 1]
}

/// Every key.
pub fn all() -> Range<Vec<u8>> {
    vec![LAZULI]..vec![LAZULI + 1]
}

/// Whether a key belongs to an engine or to gateways, rather than to the data.
pub fn is_of_gateways(key: &[u8]) -> bool {
    matches!(key, [LAZULI, KIND_OF_ENGINE | KIND_GATEWAY | KIND_CHORE_LEASE, ..])
}

/// The gateway that a key within [`gateways`] names.
pub fn decode_gateway(key: &[u8]) -> Result<&str, CorruptRecord> {
    let id = key.strip_prefix(&[LAZULI, KIND_GATEWAY]);
    id.and_then(|id| std::str::from_utf8(id).ok()).ok_or(CorruptRecord("gateway key"))
}

/// The key of the properties of an account's table service.
pub fn service_properties(account: &AccountName) -> Vec<u8> {
    [&[LAZULI, KIND_SERVICE_PROPERTIES], account.as_str().as_bytes()].concat()
}

/// The key of the data behind advice on a table of `account`; an empty name means all tables together.
pub fn advice(account: &AccountName, table: &str) -> Vec<u8> {
    let mut key = advice_prefix(account);
    push_text(&mut key, table);
    key
}

/// The data behind advice on the tables of `account`.
pub fn advice_range(account: &AccountName) -> Range<Vec<u8>> {
    text_range(advice_prefix(account), Bound::Unbounded, Bound::Unbounded)
}

/// The table that a key within [`advice_range`] names.
pub fn decode_advice<'k>(
    account: &AccountName,
    key: &'k [u8],
) -> Result<Cow<'k, str>, CorruptRecord> {
    let name = key.strip_prefix(advice_prefix(account).as_slice());
    name.and_then(decode_text).ok_or(CorruptRecord("advice key"))
}

fn advice_prefix(account: &AccountName) -> Vec<u8> {
    [&[LAZULI, KIND_ADVICE], account.as_str().as_bytes(), &[TERMINATOR]].concat()
}

/// The key of the tombstone that requests reclaiming the space of `table`.
pub fn reclaim(table: TableId) -> Vec<u8> {
    table_prefix(KIND_RECLAIM, table, 0)
}

/// All tombstones of dropped tables.
pub fn reclaim_range() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_RECLAIM]..vec![LAZULI, KIND_RECLAIM + 1]
}

/// The table that a key within [`reclaim_range`] names.
pub fn decode_reclaim(key: &[u8]) -> Result<TableId, CorruptRecord> {
    match split_table(KIND_RECLAIM, key) {
        Some((table, [])) => Ok(table),
        _ => Err(CorruptRecord("reclaim key")),
    }
}

/// The key of an entity.
pub fn entity(table: TableId, key: &EntityKey) -> Vec<u8> {
    let (partition, row) = (key.partition.as_str(), key.row.as_str());
    let mut out = table_prefix(KIND_ENTITY, table, partition.len() + 1 + row.len());
    push_text(&mut out, partition);
    out.push(TERMINATOR);
    push_text(&mut out, row);
    out
}

/// The entities of `table` whose partition keys lie between `low` and `high`.
pub fn partition_range(table: TableId, low: Bound<&str>, high: Bound<&str>) -> Range<Vec<u8>> {
    text_range(table_prefix(KIND_ENTITY, table, 0), low, high)
}

/// The entities of one partition whose row keys lie between `low` and `high`.
pub fn row_range(
    table: TableId,
    partition: &str,
    low: Bound<&str>,
    high: Bound<&str>,
) -> Range<Vec<u8>> {
    let mut prefix = table_prefix(KIND_ENTITY, table, partition.len() + 1);
    push_text(&mut prefix, partition);
    prefix.push(TERMINATOR);
    text_range(prefix, low, high)
}

/// Every entity of `table`.
pub fn table_range(table: TableId) -> Range<Vec<u8>> {
    partition_range(table, Bound::Unbounded, Bound::Unbounded)
}

/// The names of the entity stored under `key`.
pub fn decode_entity(key: &[u8]) -> Result<StoredEntityKey<'_>, CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("entity key");
    let (table, texts) = split_table(KIND_ENTITY, key).ok_or(CORRUPT)?;
    let end = memchr::memchr(TERMINATOR, texts).ok_or(CORRUPT)?;
    let (partition, row) = texts.split_at_checked(end).ok_or(CORRUPT)?;
    let (_, row) = row.split_first().ok_or(CORRUPT)?;
    Ok(StoredEntityKey {
        table,
        partition: decode_text(partition).ok_or(CORRUPT)?,
        row: decode_text(row).ok_or(CORRUPT)?,
    })
}

fn catalog_prefix(account: &AccountName) -> Vec<u8> {
    let account = account.as_str().as_bytes();
    [&[LAZULI, KIND_CATALOG], account, &[TERMINATOR]].concat()
}

/// `L`, the kind and the table id, with room for `more` bytes.
fn table_prefix(kind: u8, table: TableId, more: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + size_of::<TableId>() + more + 1);
    key.extend_from_slice(&[LAZULI, kind]);
    key.extend_from_slice(&table.0.to_be_bytes());
    key
}

/// The inverse of [`table_prefix`].
fn split_table(kind: u8, key: &[u8]) -> Option<(TableId, &[u8])> {
    let rest = key.strip_prefix(&[LAZULI, kind])?;
    let (id, rest) = rest.split_first_chunk()?;
    Some((TableId(u64::from_be_bytes(*id)), rest))
}

/// The keys that continue `prefix` with a text between `low` and `high`, and whatever follows it.
fn text_range(prefix: Vec<u8>, low: Bound<&str>, high: Bound<&str>) -> Range<Vec<u8>> {
    let place = |text: &str, last: &[u8]| {
        let mut place = prefix.clone();
        push_text(&mut place, text);
        place.extend_from_slice(last);
        place
    };
    let end = match high {
        Bound::Included(text) => place(text, &[AFTER]),
        Bound::Excluded(text) => place(text, &[]),
        Bound::Unbounded => place("", &[END]),
    };
    let start = match low {
        Bound::Included(text) => place(text, &[]),
        Bound::Excluded(text) => place(text, &[AFTER]),
        Bound::Unbounded => prefix,
    };
    start..end
}

/// Appends `text` in its ordered form.
///
/// Only a range bound can be longer than the longest key; it is cut one byte after that, where it
/// still compares the same with every possible key. So the size of stored keys and range bounds
/// does not depend on what a client sends.
fn push_text(out: &mut Vec<u8>, text: &str) {
    if text.len() <= TEXT_BYTES_MAX && is_itself(text.as_bytes()) {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes().take(TEXT_BYTES_MAX + 1) {
        match byte {
            TERMINATOR => out.extend_from_slice(&[ESCAPE, 0x01]),
            ESCAPE => out.extend_from_slice(&[ESCAPE, 0x02]),
            other => out.push(utf16_rank(other)),
        }
    }
}

/// Whether a text is its own ordered form: nothing to escape, and no byte with another rank. Most
/// texts are. Checks all bytes, which is faster than stopping early.
fn is_itself(bytes: &[u8]) -> bool {
    let has_own_rank = |b: u8| (utf16_rank(b) == b) & (from_utf16_rank(b) == b);
    bytes.iter().fold(true, |all, &b| all & (b > ESCAPE) & has_own_rank(b))
}

/// The inverse of [`push_text`]; `None` if the bytes are not its output.
fn decode_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if is_itself(bytes) {
        return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        text.push(match byte {
            ESCAPE => match rest.next()? {
                0x01 => TERMINATOR,
                0x02 => ESCAPE,
                _ => return None,
            },
            // Never written: 00 is escaped, and the others are replaced by their ranks.
            TERMINATOR | 0xEE | 0xEF => return None,
            other => from_utf16_rank(other),
        });
    }
    String::from_utf8(text).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests;
