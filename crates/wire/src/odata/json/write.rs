//! JSON responses, appended to the caller's buffer byte for byte as the service writes them.
//!
//! Every member is written with a comma after it; the end of an object removes the last comma.

use super::super::{Context, Select, double, lexical};
use crate::media::MetadataLevel;
use crate::uri::write_entity_uri;
use crate::words::{below, equal, or_not_ascii, plain_prefix};
use lazuli_model::{ETag, EdmType, Timestamp, ValueRef};

/// Writes a single entity: the response to a point read or an insert.
pub fn write_entity<'p>(
    out: &mut Vec<u8>,
    context: &Context<'_>,
    partition_key: &str,
    row_key: &str,
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    out.push(b'{');
    if context.level != MetadataLevel::None {
        write_metadata(out, context.base, context.table, "/@Element", context.select);
    }
    write_entity_members(out, context, partition_key, row_key, timestamp, properties);
    close_object(out);
}

/// Writes an entity within another document, as in a list of entities.
pub fn write_listed_entity<'p>(
    out: &mut Vec<u8>,
    context: &Context<'_>,
    partition_key: &str,
    row_key: &str,
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    out.push(b'{');
    write_entity_members(out, context, partition_key, row_key, timestamp, properties);
    close_object(out);
}

/// Appends a member to an object that has others, with a comma before it.
pub fn write_text_member(out: &mut Vec<u8>, name: &'static str, value: &str) {
    out.push(b',');
    write_member(out, name, value);
    // The comma that every member has after it.
    out.pop();
}

/// Writes the body of a request: the keys, unless the URL names them, and the properties, annotated
/// where their type would not be inferred.
pub fn write_request<'p>(
    out: &mut Vec<u8>,
    keys: Option<(&str, &str)>,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    out.push(b'{');
    if let Some((partition_key, row_key)) = keys {
        write_member(out, "PartitionKey", partition_key);
        write_member(out, "RowKey", row_key);
    }
    properties.for_each(|(name, value)| write_property(out, MetadataLevel::Minimal, name, value));
    close_object(out);
}

/// Writes the body of Create Table.
pub fn write_table_name(out: &mut Vec<u8>, name: &str) {
    out.push(b'{');
    write_member(out, "TableName", name);
    close_object(out);
}

/// Writes the response to Query Entities, one entity at a time.
#[must_use = "the collection is not closed before `end`"]
pub struct EntityCollection(());

/// The start of a page's list.
const VALUE: &[u8] = b"\"value\":[";

impl EntityCollection {
    pub fn begin(out: &mut Vec<u8>, context: &Context<'_>) -> Self {
        out.push(b'{');
        if context.level != MetadataLevel::None {
            write_metadata(out, context.base, context.table, "", context.select);
        }
        out.extend_from_slice(VALUE);
        Self(())
    }

    /// Adds the number of all entities before the list, which begins at `at`.
    pub fn write_count(&self, out: &mut Vec<u8>, at: usize, count: u64) {
        let member = format!("\"odata.count\":\"{count}\",");
        let at = at.saturating_sub(VALUE.len()).min(out.len());
        out.splice(at..at, member.into_bytes());
    }

    pub fn entity<'p>(
        &mut self,
        out: &mut Vec<u8>,
        context: &Context<'_>,
        partition_key: &str,
        row_key: &str,
        timestamp: Timestamp,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
    ) {
        write_listed_entity(out, context, partition_key, row_key, timestamp, properties);
        out.push(b',');
    }

    pub fn end(self, out: &mut Vec<u8>) {
        close_collection(out);
    }
}

/// Writes a single table: the response to Create Table, or to a read of `Tables('name')`.
pub fn write_table(
    out: &mut Vec<u8>,
    base: &str,
    account: &str,
    level: MetadataLevel,
    select: Option<&Select>,
    name: &str,
) {
    out.push(b'{');
    if level != MetadataLevel::None {
        write_metadata(out, base, "Tables", "/@Element", select);
    }
    write_table_members(out, base, account, level, name);
    close_object(out);
}

/// Writes the response to Query Tables, one table at a time.
#[must_use = "the collection is not closed before `end`"]
pub struct TableCollection(());

impl TableCollection {
    /// A `$select` is echoed, as for entities, but has no effect: tables have one property.
    pub fn begin(
        out: &mut Vec<u8>,
        base: &str,
        level: MetadataLevel,
        select: Option<&Select>,
    ) -> Self {
        out.push(b'{');
        if level != MetadataLevel::None {
            write_metadata(out, base, "Tables", "", select);
        }
        out.extend_from_slice(b"\"value\":[");
        Self(())
    }

    pub fn table(
        &mut self,
        out: &mut Vec<u8>,
        base: &str,
        account: &str,
        level: MetadataLevel,
        name: &str,
    ) {
        out.push(b'{');
        write_table_members(out, base, account, level, name);
        close_object(out);
        out.push(b',');
    }

    pub fn end(self, out: &mut Vec<u8>) {
        close_collection(out);
    }
}

/// Writes an error; `message` is complete, with its `RequestId` and `Time` lines (T-7.1).
pub fn write_error(out: &mut Vec<u8>, code: &str, message: &str) {
    out.extend_from_slice(b"{\"odata.error\":{\"code\":");
    write_string(out, code);
    out.extend_from_slice(b",\"message\":{\"lang\":\"en-US\",\"value\":");
    write_string(out, message);
    out.extend_from_slice(b"}}}");
}

fn write_entity_members<'p>(
    out: &mut Vec<u8>,
    context: &Context<'_>,
    partition_key: &str,
    row_key: &str,
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    let table = context.table;
    if context.level == MetadataLevel::Full {
        write_type_and_id(out, context.base, [context.account, table], |out| {
            write_entity_uri(out, table, partition_key, row_key);
        });
    }
    match context.level {
        MetadataLevel::None => {}
        MetadataLevel::Minimal if !context.minimal_etag => {}
        MetadataLevel::Minimal | MetadataLevel::Full => write_etag(out, timestamp),
    }
    if context.level == MetadataLevel::Full {
        out.extend_from_slice(b"\"odata.editLink\":\"");
        write_entity_uri(out, table, partition_key, row_key);
        out.extend_from_slice(b"\",");
    }
    let projection = context.select.and_then(Select::projection);
    if projection.is_none_or(|p| p.partition_key) {
        write_member(out, "PartitionKey", partition_key);
    }
    if projection.is_none_or(|p| p.row_key) {
        write_member(out, "RowKey", row_key);
    }
    if projection.is_none_or(|p| p.timestamp) {
        write_timestamp(out, context.level, timestamp);
    }
    match projection {
        None => {
            properties.for_each(|(name, value)| write_property(out, context.level, name, value))
        }
        Some(projection) => {
            for (name, value) in projection.pick(properties) {
                match value {
                    Some(value) => write_property(out, context.level, name, value),
                    None => {
                        write_string(out, name);
                        out.extend_from_slice(b":null,");
                    }
                }
            }
        }
    }
}

fn write_table_members(
    out: &mut Vec<u8>,
    base: &str,
    account: &str,
    level: MetadataLevel,
    name: &str,
) {
    let link = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"Tables('");
        write_escaped(out, name);
        out.extend_from_slice(b"')");
    };
    if level == MetadataLevel::Full {
        write_type_and_id(out, base, [account, "Tables"], link);
        out.extend_from_slice(b"\"odata.editLink\":\"");
        link(out);
        out.extend_from_slice(b"\",");
    }
    write_member(out, "TableName", name);
}

/// `odata.metadata`, with the `$select` of the request as a URI shows it (T-2.37): recorded, a space
/// after a comma is `%20`, and an empty `$select=` leaves its name.
fn write_metadata(
    out: &mut Vec<u8>,
    base: &str,
    resource: &str,
    element: &'static str,
    select: Option<&Select>,
) {
    out.extend_from_slice(b"\"odata.metadata\":\"");
    write_escaped(out, base);
    out.extend_from_slice(b"$metadata#");
    write_escaped(out, resource);
    out.extend_from_slice(element.as_bytes());
    if let Some(select) = select {
        out.extend_from_slice(b"&$select=");
        write_fragment(out, select.text());
    }
    out.extend_from_slice(b"\",");
}

/// Text encoded for a URI fragment; nothing remains that JSON would escape.
fn write_fragment(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let hex = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or_default();
    for byte in text.bytes() {
        match byte {
            b'"' | b'%' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {}
            b'!'..=b'~' => {
                out.push(byte);
                continue;
            }
            _ => {}
        }
        out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]);
    }
}

fn write_type_and_id(
    out: &mut Vec<u8>,
    base: &str,
    [account, resource]: [&str; 2],
    link: impl Fn(&mut Vec<u8>),
) {
    out.extend_from_slice(b"\"odata.type\":\"");
    write_escaped(out, account);
    out.push(b'.');
    write_escaped(out, resource);
    out.extend_from_slice(b"\",\"odata.id\":\"");
    write_escaped(out, base);
    link(out);
    out.extend_from_slice(b"\",");
}

fn write_etag(out: &mut Vec<u8>, timestamp: Timestamp) {
    out.extend_from_slice(b"\"odata.etag\":\"");
    ETag(timestamp).write_quoted_by(out, b"\\\"");
    out.extend_from_slice(b"\",");
}

/// Annotated at full metadata only (T-2.29).
fn write_timestamp(out: &mut Vec<u8>, level: MetadataLevel, timestamp: Timestamp) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"Timestamp");
        write_annotation_end(out, EdmType::DateTime);
    }
    out.extend_from_slice(b"\"Timestamp\":");
    write_quoted(out, |out| lexical::write_timestamp(out, timestamp));
    out.push(b',');
}

fn write_property(out: &mut Vec<u8>, level: MetadataLevel, name: &str, value: ValueRef<'_>) {
    out.push(b'"');
    let start = out.len();
    write_escaped(out, name);
    let escaped = start..out.len();
    if level != MetadataLevel::None && is_annotated(value) {
        write_annotation_end(out, value.edm_type());
        out.push(b'"');
        out.extend_from_within(escaped);
    }
    out.extend_from_slice(b"\":");
    write_value(out, value);
    out.push(b',');
}

/// Whether the value alone does not determine the type (T-2.27, T-2.28).
const fn is_annotated(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::String(_) | ValueRef::Boolean(_) | ValueRef::Int32(_) => false,
        ValueRef::Double(value) => !value.is_finite(),
        ValueRef::Int64(_) | ValueRef::DateTime(_) | ValueRef::Guid(_) | ValueRef::Binary(_) => {
            true
        }
    }
}

/// What follows the name of an annotated property.
fn write_annotation_end(out: &mut Vec<u8>, edm_type: EdmType) {
    out.extend_from_slice(b"@odata.type\":\"");
    out.extend_from_slice(edm_type.name().as_bytes());
    out.extend_from_slice(b"\",");
}

fn write_member(out: &mut Vec<u8>, name: &'static str, text: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_string(out, text);
    out.push(b',');
}

fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(text) => write_string(out, text),
        ValueRef::Boolean(true) => out.extend_from_slice(b"true"),
        ValueRef::Boolean(false) => out.extend_from_slice(b"false"),
        ValueRef::Int32(number) => lexical::write_integer(out, number.into()),
        ValueRef::Int64(number) => write_quoted(out, |out| lexical::write_integer(out, number)),
        ValueRef::Double(number) => write_double(out, number),
        ValueRef::DateTime(time) => write_quoted(out, |out| lexical::write_timestamp(out, time)),
        ValueRef::Guid(guid) => write_quoted(out, |out| out.extend_from_slice(&guid.text())),
        ValueRef::Binary(bytes) => write_quoted(out, |out| lexical::write_base64(out, bytes)),
    }
}

/// For text that needs no escape.
fn write_quoted(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    content(out);
    out.push(b'"');
}

fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    } else if double::write_finite(out, value) == double::Spelling::Integral {
        // A client would read an integer (T-3.35).
        out.extend_from_slice(b".0");
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    write_quoted(out, |out| write_escaped(out, text));
}

/// The content of a JSON string. Everything but ASCII is escaped; the delete character counts as
/// ASCII (T-2.35).
fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        let len = unescaped_prefix(rest);
        if len == rest.len() {
            return out.extend_from_slice(rest.as_bytes());
        }
        let (run, tail) = rest.split_at_checked(len).unwrap_or((rest, ""));
        out.extend_from_slice(run.as_bytes());
        let mut chars = tail.chars();
        chars.next().into_iter().for_each(|c| write_escape(out, c));
        rest = chars.as_str();
    }
}

fn unescaped_prefix(text: &str) -> usize {
    plain_prefix(text.as_bytes(), |word| {
        or_not_ascii(word, below(word, b' ') | equal(word, b'"') | equal(word, b'\\'))
    })
}

fn write_escape(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b'"',
        '\\' => b'\\',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{C}' => b'f',
        _ => return write_unicode_escape(out, c),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_unicode_escape(out: &mut Vec<u8>, c: char) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        let nibbles = [12, 8, 4, 0].map(|shift| usize::from(*unit >> shift & 15));
        out.extend(nibbles.iter().filter_map(|nibble| HEX.get(*nibble)));
    }
}

/// Removes the comma after the last member.
fn close_object(out: &mut Vec<u8>) {
    out.pop_if(|last| *last == b',');
    out.push(b'}');
}

fn close_collection(out: &mut Vec<u8>) {
    out.pop_if(|last| *last == b',');
    out.extend_from_slice(b"]}");
}

#[cfg(test)]
mod tests;
