//! Keys of secondary indexes; the module above lists them.
//!
//! An entry is the encoded values of the indexed properties, then the keys of its entity. So the
//! entries of one value are in the order of their entities, and an entry needs no value.
//!
//! An encoded value is a tag, which orders the types as filters do (T-4.38), and bytes that order
//! the values of that type. The encoding is *coarse*: different values may share one. Long text and
//! binary are truncated, and numbers of every type are written as the nearest double. Encoding
//! preserves order, so a range of values is a range of entries; the filter is evaluated on what they
//! name.

use super::{
    END, ESCAPE, KIND_ENTITY, LAZULI, TERMINATOR, TableId, push_text, split_table, table_prefix,
};
use crate::CorruptRecord;
use aws_lc_rs::digest::{Context, SHA256};
use lazuli_model::{Operator, ValueRef};
use std::ops::Range;

const KIND_ENTRY: u8 = b'i';
const KIND_UNIQUE: u8 = b'u';
const KIND_BUILD: u8 = b'b';
const KIND_DROPPED: u8 = b'j';
const KIND_USED: u8 = b'w';

const BOOLEAN: u8 = 0x10;
const NUMBER: u8 = 0x20;
/// Equal to nothing and not ordered among numbers, but below text.
const NOT_A_NUMBER: u8 = 0x28;
const DATE_TIME: u8 = 0x30;
const GUID: u8 = 0x40;
const BINARY: u8 = 0x50;
const STRING: u8 = 0x60;

/// Encoded bytes of text and binary, without tag and terminator.
pub const INDEXED_BYTES_MAX: usize = 256;
/// The same in an index whose entries are shortened, so that one with four long values and the
/// longest keys is not longer than [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX).
pub const SHORT_INDEXED_BYTES_MAX: usize = 248;

/// Identifies an index for the life of the store: indexes of a table are numbered, and a number is
/// never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId {
    pub table: TableId,
    pub number: u32,
}

impl IndexId {
    fn prefix(self, kind: u8) -> Vec<u8> {
        let mut key = table_prefix(kind, self.table, size_of::<u32>());
        key.extend_from_slice(&self.number.to_be_bytes());
        key
    }

    fn range(self, kind: u8) -> Range<Vec<u8>> {
        let start = self.prefix(kind);
        let end = [start.as_slice(), &[END]].concat();
        start..end
    }

    /// Every entry of the index.
    pub fn entries(self) -> Range<Vec<u8>> {
        self.range(KIND_ENTRY)
    }

    /// Every owner of a unique value.
    pub fn owners(self) -> Range<Vec<u8>> {
        self.range(KIND_UNIQUE)
    }

    /// The record of the index being built.
    pub fn build(self) -> Vec<u8> {
        self.prefix(KIND_BUILD)
    }

    /// When the index was last used, if it is automatic.
    pub fn used(self) -> Vec<u8> {
        self.prefix(KIND_USED)
    }

    /// The tombstone of the dropped index.
    pub fn dropped(self) -> Vec<u8> {
        self.prefix(KIND_DROPPED)
    }
}

/// Everything that indexes of `table` store, for its drop.
pub fn of_table(table: TableId) -> [Range<Vec<u8>>; 5] {
    [KIND_ENTRY, KIND_UNIQUE, KIND_BUILD, KIND_DROPPED, KIND_USED].map(|kind| {
        let start = table_prefix(kind, table, 1);
        let end = [start.as_slice(), &[END]].concat();
        start..end
    })
}

/// The records of all indexes being built.
pub fn builds() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_BUILD]..vec![LAZULI, KIND_BUILD + 1]
}

/// The tombstones of all dropped indexes.
pub fn dropped() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_DROPPED]..vec![LAZULI, KIND_DROPPED + 1]
}

/// The index that a key within [`builds`] names.
pub fn decode_build(key: &[u8]) -> Result<IndexId, CorruptRecord> {
    decode_id(KIND_BUILD, key).ok_or(CorruptRecord("index build key"))
}

/// The index that a key within [`dropped`] names.
pub fn decode_dropped(key: &[u8]) -> Result<IndexId, CorruptRecord> {
    decode_id(KIND_DROPPED, key).ok_or(CorruptRecord("dropped index key"))
}

fn decode_id(kind: u8, key: &[u8]) -> Option<IndexId> {
    let (table, number) = split_table(kind, key)?;
    Some(IndexId { table, number: u32::from_be_bytes(number.try_into().ok()?) })
}

/// The table of an entity key, and the rest of the key, which names the entity within its table.
pub fn split_entity(key: &[u8]) -> Result<(TableId, &[u8]), CorruptRecord> {
    split_table(KIND_ENTITY, key).ok_or(CorruptRecord("entity key"))
}

/// The inverse of [`split_entity`].
pub fn join_entity(table: TableId, entity: &[u8]) -> Vec<u8> {
    let mut key = table_prefix(KIND_ENTITY, table, entity.len());
    key.extend_from_slice(entity);
    key
}

/// The entries of an index, and how many bytes of a long value they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    pub index: IndexId,
    /// Encoded bytes of text and binary.
    pub value_bytes_max: usize,
}

impl Entries {
    /// The prefix of all entries whose first values are `values`: everything up to the entity, or up
    /// to the next value.
    pub fn prefix<'v>(self, values: impl IntoIterator<Item = ValueRef<'v>>) -> Vec<u8> {
        let mut key = self.index.prefix(KIND_ENTRY);
        values.into_iter().for_each(|value| self.push_value(&mut key, value));
        key
    }

    /// The entries after `prefix` whose next value may satisfy `operator value`; all for `ne`.
    pub fn compared(
        self,
        prefix: Vec<u8>,
        operator: Operator,
        value: ValueRef<'_>,
    ) -> Range<Vec<u8>> {
        let mut at = prefix.clone();
        self.push_value(&mut at, value);
        let after = |mut at: Vec<u8>| {
            at.push(END);
            at
        };
        match operator {
            Operator::Eq => with_prefix(at),
            Operator::Ne => with_prefix(prefix),
            Operator::Gt | Operator::Ge => at..after(prefix),
            Operator::Lt | Operator::Le => prefix..after(at),
        }
    }

    /// The entries after `prefix` whose next value is text that may start with `beginning`.
    pub fn beginning_with(self, mut prefix: Vec<u8>, beginning: &str) -> Range<Vec<u8>> {
        prefix.push(STRING);
        push_cut_text(&mut prefix, beginning, self.value_bytes_max);
        with_prefix(prefix)
    }

    fn push_value(self, out: &mut Vec<u8>, value: ValueRef<'_>) {
        match value {
            ValueRef::Boolean(v) => out.extend_from_slice(&[BOOLEAN, v.into()]),
            ValueRef::Int32(v) => push_number(out, v.into()),
            ValueRef::Int64(v) => push_number(out, v as f64),
            ValueRef::Double(v) => push_number(out, v),
            ValueRef::DateTime(v) => push_fixed(out, DATE_TIME, &v.ticks().to_be_bytes()),
            ValueRef::Guid(v) => push_fixed(out, GUID, &v.0),
            ValueRef::Binary(v) => {
                out.push(BINARY);
                push_cut_binary(out, v, self.value_bytes_max);
                out.push(TERMINATOR);
            }
            ValueRef::String(v) => {
                out.push(STRING);
                push_cut_text(out, v, self.value_bytes_max);
                out.push(TERMINATOR);
            }
        }
    }
}

/// Everything that begins with `prefix`.
pub fn with_prefix(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let end = [prefix.as_slice(), &[END]].concat();
    prefix..end
}

/// The entity that an entry of an index on `values` properties names.
pub fn entity_of_entry(key: &[u8], values: usize) -> Result<&[u8], CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("index entry key");
    let (_, rest) = split_table(KIND_ENTRY, key).ok_or(CORRUPT)?;
    let mut rest = rest.get(size_of::<u32>()..).ok_or(CORRUPT)?;
    for _ in 0..values {
        rest = skip_value(rest).ok_or(CORRUPT)?;
    }
    Ok(rest)
}

/// The key of the owner of unique values; `None` if one of them is equal to nothing.
///
/// It holds a hash of the values in full: two values share it exactly if a filter finds them equal
///
pub fn owner<'v>(
    index: IndexId,
    values: impl IntoIterator<Item = ValueRef<'v>>,
) -> Option<Vec<u8>> {
    let mut hash = Context::new(&SHA256);
    for value in values {
        hash_value(&mut hash, value)?;
    }
    let mut key = index.prefix(KIND_UNIQUE);
    key.extend_from_slice(hash.finish().as_ref());
    Some(key)
}

fn push_fixed(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

/// Sorts as the numbers do: negative ones with all bits inverted, the others with the sign bit set.
fn push_number(out: &mut Vec<u8>, number: f64) {
    const SIGN: u64 = 1 << 63;
    if number.is_nan() {
        return out.push(NOT_A_NUMBER);
    }
    // Turns −0.0 into 0.0, which equals it.
    let bits = (number + 0.0).to_bits();
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    push_fixed(out, NUMBER, &ordered.to_be_bytes());
}

/// As much of the text as fits, character by character.
fn push_cut_text(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let end = out.len() + bytes_max;
    if text.len() <= bytes_max {
        let whole = out.len();
        push_text(out, text);
        if out.len() <= end {
            return;
        }
        out.truncate(whole);
    }
    for character in text.chars() {
        let before = out.len();
        push_text(out, character.encode_utf8(&mut [0; 4]));
        if out.len() > end {
            return out.truncate(before);
        }
    }
}

fn push_cut_binary(out: &mut Vec<u8>, bytes: &[u8], bytes_max: usize) {
    let end = out.len() + bytes_max;
    for &byte in bytes {
        let before = out.len();
        match byte {
            TERMINATOR => out.extend_from_slice(&[ESCAPE, 0x01]),
            ESCAPE => out.extend_from_slice(&[ESCAPE, 0x02]),
            other => out.push(other),
        }
        if out.len() > end {
            return out.truncate(before);
        }
    }
}

/// What follows the value at the beginning of `bytes`.
fn skip_value(bytes: &[u8]) -> Option<&[u8]> {
    let (tag, rest) = bytes.split_first()?;
    let width = match *tag {
        BOOLEAN => 1,
        NUMBER | DATE_TIME => 8,
        NOT_A_NUMBER => 0,
        GUID => 16,
        BINARY | STRING => memchr::memchr(TERMINATOR, rest)? + 1,
        _ => return None,
    };
    rest.get(width..)
}

/// Adds a value to a hash so that equal values add the same; `None` for a NaN.
fn hash_value(hash: &mut Context, value: ValueRef<'_>) -> Option<()> {
    let mut add = |tag: u8, bytes: &[u8]| {
        hash.update(&[tag]);
        hash.update(&(bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    match value {
        ValueRef::Boolean(v) => add(BOOLEAN, &[v.into()]),
        ValueRef::Int32(v) => add(NUMBER, &i64::from(v).to_be_bytes()),
        ValueRef::Int64(v) => add(NUMBER, &v.to_be_bytes()),
        ValueRef::Double(v) if v.is_nan() => return None,
        ValueRef::Double(v) => match whole_number(v) {
            Some(whole) => add(NUMBER, &whole.to_be_bytes()),
            None => add(NOT_A_NUMBER, &v.to_bits().to_be_bytes()),
        },
        ValueRef::DateTime(v) => add(DATE_TIME, &v.ticks().to_be_bytes()),
        ValueRef::Guid(v) => add(GUID, &v.0),
        ValueRef::Binary(v) => add(BINARY, v),
        ValueRef::String(v) => add(STRING, v.as_bytes()),
    }
    Some(())
}

/// The integer that equals `double`.
fn whole_number(double: f64) -> Option<i64> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = double.trunc() == double && (-TWO_TO_63..TWO_TO_63).contains(&double);
    is_whole.then_some(double as i64)
}

#[cfg(test)]
mod tests;
