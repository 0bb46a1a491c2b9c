//! Atom answers.
//!
//! `updated` is the time of the answer, which every feed and entry shows to the second.

use super::super::{Context, Select, double, lexical};
use super::{ATOM, DATA, METADATA, SCHEME};
use crate::uri::write_entity_uri;
use crate::words::{ascii, below, equal, plain_prefix};
use lazuli_model::{ETag, Timestamp, ValueRef};
use std::borrow::Cow;

/// Writes a lone entity: the answer to a point read or an insert.
pub fn write_entity<'p>(
    out: &mut Vec<u8>,
    context: &Context<'_>,
    updated: Timestamp,
    partition_key: &str,
    row_key: &str,
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    let entry = Entry::of_entity(context, updated, timestamp);
    entry.open_document(out);
    write_entity_content(out, &entry, context, [partition_key, row_key], timestamp, properties);
}

/// Writes the answer to Query Entities, one entity at a time.
#[must_use = "the feed is not closed before `end`"]
pub struct EntityCollection(Feed);

impl EntityCollection {
    pub fn begin(out: &mut Vec<u8>, context: &Context<'_>, updated: Timestamp) -> Self {
        Self(Feed::begin(out, context.base, context.table, updated))
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
        let entry = Entry::of_entity(context, self.0.updated, timestamp);
        let entry = self.0.open_entry(out, entry);
        write_entity_content(out, &entry, context, [partition_key, row_key], timestamp, properties);
    }

    pub fn end(self, out: &mut Vec<u8>, context: &Context<'_>) {
        self.0.end(out, context.table);
    }
}

/// Writes a lone table: the answer to Create Table, or to a read of `Tables('name')`.
pub fn write_table(out: &mut Vec<u8>, base: &str, account: &str, updated: Timestamp, name: &str) {
    let entry = Entry::of_table(base, account, updated);
    entry.open_document(out);
    write_table_content(out, &entry, name);
}

/// Writes the answer to Query Tables, one table at a time.
#[must_use = "the feed is not closed before `end`"]
pub struct TableCollection(Feed);

impl TableCollection {
    pub fn begin(out: &mut Vec<u8>, base: &str, updated: Timestamp) -> Self {
        Self(Feed::begin(out, base, TABLES, updated))
    }

    pub fn table(&mut self, out: &mut Vec<u8>, base: &str, account: &str, name: &str) {
        let entry = Entry::of_table(base, account, self.0.updated);
        let entry = self.0.open_entry(out, entry);
        write_table_content(out, &entry, name);
    }

    pub fn end(self, out: &mut Vec<u8>) {
        self.0.end(out, TABLES);
    }
}

const TABLES: &str = "Tables";

/// A feed that has its title, id and time, and awaits its entries.
struct Feed {
    updated: Timestamp,
    is_empty: bool,
}

impl Feed {
    fn begin(out: &mut Vec<u8>, base: &str, resource: &str, updated: Timestamp) -> Self {
        write_root(out, "feed", base, None);
        line(out, 1, &["<title type=\"text\">"]);
        write_text(out, resource);
        out.extend_from_slice(b"</title>");
        line(out, 1, &["<id>"]);
        write_text(out, base);
        write_text(out, resource);
        out.extend_from_slice(b"</id>");
        write_updated(out, 1, updated);
        Self { updated, is_empty: true }
    }

    fn open_entry<'a>(&mut self, out: &mut Vec<u8>, mut entry: Entry<'a>) -> Entry<'a> {
        if std::mem::take(&mut self.is_empty) {
            write_link(out, 1, "self", entry.resource, |out| write_attribute(out, entry.resource));
        }
        entry.depth = 1;
        line(out, entry.depth, &["<entry"]);
        write_etag(out, entry.etag);
        out.push(b'>');
        entry
    }

    fn end(self, out: &mut Vec<u8>, resource: &str) {
        if self.is_empty {
            // Atom wants an author: of each entry, or else of the feed.
            write_author(out, 1);
            write_link(out, 1, "self", resource, |out| write_attribute(out, resource));
        }
        line(out, 0, &["</feed>"]);
    }
}

/// What an entry says of itself, whether it stands for an entity or a table.
struct Entry<'a> {
    base: &'a str,
    account: &'a str,
    /// The name of the table, or of the list of tables.
    resource: &'a str,
    etag: Option<ETag>,
    updated: Timestamp,
    /// How far it is indented.
    depth: usize,
}

impl<'a> Entry<'a> {
    fn of_entity(context: &Context<'a>, updated: Timestamp, timestamp: Timestamp) -> Self {
        let Context { base, account, table: resource, .. } = *context;
        Self { base, account, resource, etag: Some(ETag(timestamp)), updated, depth: 0 }
    }

    fn of_table(base: &'a str, account: &'a str, updated: Timestamp) -> Self {
        Self { base, account, resource: TABLES, etag: None, updated, depth: 0 }
    }

    fn open_document(&self, out: &mut Vec<u8>) {
        write_root(out, "entry", self.base, self.etag);
    }

    /// Everything within the entry, and its end.
    fn write(
        &self,
        out: &mut Vec<u8>,
        uri: impl Fn(&mut Vec<u8>),
        properties: impl FnOnce(&mut Vec<u8>, usize),
    ) {
        let depth = self.depth + 1;
        line(out, depth, &["<id>"]);
        write_text(out, self.base);
        uri(out);
        out.extend_from_slice(b"</id>");
        line(out, depth, &["<title type=\"text\"></title>"]);
        write_updated(out, depth, self.updated);
        write_author(out, depth);
        write_link(out, depth, "edit", self.resource, uri);
        line(out, depth, &["<category term=\""]);
        write_attribute(out, self.account);
        out.push(b'.');
        write_attribute(out, self.resource);
        write_all(out, &["\" scheme=\"", SCHEME, "\" />"]);
        line(out, depth, &["<content type=\"application/xml\">"]);
        line(out, depth + 1, &["<m:properties>"]);
        properties(out, depth + 2);
        line(out, depth + 1, &["</m:properties>"]);
        line(out, depth, &["</content>"]);
        line(out, self.depth, &["</entry>"]);
    }
}

fn write_entity_content<'p>(
    out: &mut Vec<u8>,
    entry: &Entry<'_>,
    context: &Context<'_>,
    [partition_key, row_key]: [&str; 2],
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    // Percent-encoding leaves nothing in the URI that XML would escape.
    let uri = |out: &mut Vec<u8>| write_entity_uri(out, context.table, partition_key, row_key);
    entry.write(out, uri, |out, depth| {
        let projection = context.select.and_then(Select::projection);
        if projection.is_none_or(|p| p.partition_key) {
            write_property(out, depth, "PartitionKey", ValueRef::String(partition_key));
        }
        if projection.is_none_or(|p| p.row_key) {
            write_property(out, depth, "RowKey", ValueRef::String(row_key));
        }
        if projection.is_none_or(|p| p.timestamp) {
            write_property(out, depth, "Timestamp", ValueRef::DateTime(timestamp));
        }
        match projection {
            None => properties.for_each(|(name, value)| write_property(out, depth, name, value)),
            Some(projection) => {
                for (name, value) in projection.pick(properties) {
                    match value {
                        Some(value) => write_property(out, depth, name, value),
                        None => {
                            line(out, depth, &["<d:", &element_name(name), " m:null=\"true\" />"]);
                        }
                    }
                }
            }
        }
    });
}

fn write_table_content(out: &mut Vec<u8>, entry: &Entry<'_>, name: &str) {
    let uri = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"Tables('");
        write_attribute(out, name);
        out.extend_from_slice(b"')");
    };
    entry.write(out, uri, |out, depth| {
        write_property(out, depth, "TableName", ValueRef::String(name));
    });
}

/// Only strings go without `m:type` (T-2.63).
fn write_property(out: &mut Vec<u8>, depth: usize, name: &str, value: ValueRef<'_>) {
    let name = &*element_name(name);
    line(out, depth, &["<d:", name]);
    match value {
        ValueRef::String(text) if text.starts_with(is_space) || text.ends_with(is_space) => {
            out.extend_from_slice(b" xml:space=\"preserve\"");
        }
        ValueRef::String(_) => {}
        _ => write_all(out, &[" m:type=\"", value.edm_type().name(), "\""]),
    }
    out.push(b'>');
    write_value(out, value);
    write_all(out, &["</d:", name, ">"]);
}

/// A property's name as that of an element. A `$select` may ask for any name, and in the lenient
/// profile any is stored: what XML cannot hold is written `_xHHHH_`, as .NET does.
fn element_name(name: &str) -> Cow<'_, str> {
    let holds = |index: usize, c: char| match c {
        '_' => true,
        '-' | '.' => index > 0,
        c if c.is_ascii() => c.is_ascii_alphabetic() || (index > 0 && c.is_ascii_digit()),
        c => !c.is_whitespace() && !c.is_control(),
    };
    if name.char_indices().all(|(index, c)| holds(index, c)) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() + 16);
    for (index, c) in name.char_indices() {
        match holds(index, c) {
            true => encoded.push(c),
            false => encoded.push_str(&format!("_x{:04X}_", u32::from(c))),
        }
    }
    Cow::Owned(encoded)
}

fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(text) => write_text(out, text),
        ValueRef::Boolean(true) => out.extend_from_slice(b"true"),
        ValueRef::Boolean(false) => out.extend_from_slice(b"false"),
        ValueRef::Int32(number) => lexical::write_integer(out, number.into()),
        ValueRef::Int64(number) => lexical::write_integer(out, number),
        ValueRef::Double(number) if number.is_nan() => out.extend_from_slice(b"NaN"),
        ValueRef::Double(f64::INFINITY) => out.extend_from_slice(b"INF"),
        ValueRef::Double(f64::NEG_INFINITY) => out.extend_from_slice(b"-INF"),
        ValueRef::Double(number) => {
            double::write_finite(out, number);
        }
        ValueRef::DateTime(time) => lexical::write_timestamp(out, time),
        ValueRef::Guid(guid) => out.extend_from_slice(&guid.text()),
        ValueRef::Binary(bytes) => lexical::write_base64(out, bytes),
    }
}

fn write_root(out: &mut Vec<u8>, name: &str, base: &str, etag: Option<ETag>) {
    let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>";
    write_all(out, &[declaration, "\r\n<", name, " xml:base=\""]);
    write_attribute(out, base);
    write_all(out, &["\" xmlns:d=\"", DATA, "\" xmlns:m=\"", METADATA, "\""]);
    write_etag(out, etag);
    write_all(out, &[" xmlns=\"", ATOM, "\">"]);
}

fn write_etag(out: &mut Vec<u8>, etag: Option<ETag>) {
    if let Some(etag) = etag {
        out.extend_from_slice(b" m:etag=\"");
        write_attribute(out, &etag.to_string());
        out.push(b'"');
    }
}

fn write_updated(out: &mut Vec<u8>, depth: usize, updated: Timestamp) {
    line(out, depth, &["<updated>"]);
    lexical::write_timestamp(out, Timestamp::from_unix_seconds(updated.unix_seconds()));
    out.extend_from_slice(b"</updated>");
}

fn write_author(out: &mut Vec<u8>, depth: usize) {
    line(out, depth, &["<author>"]);
    line(out, depth + 1, &["<name />"]);
    line(out, depth, &["</author>"]);
}

fn write_link(
    out: &mut Vec<u8>,
    depth: usize,
    relation: &str,
    title: &str,
    href: impl Fn(&mut Vec<u8>),
) {
    line(out, depth, &["<link rel=\"", relation, "\" title=\""]);
    write_attribute(out, title);
    out.extend_from_slice(b"\" href=\"");
    href(out);
    out.extend_from_slice(b"\" />");
}

/// Begins a line, indented by `depth` times two spaces.
fn line(out: &mut Vec<u8>, depth: usize, texts: &[&str]) {
    out.extend_from_slice(b"\r\n");
    out.resize(out.len() + 2 * depth, b' ');
    write_all(out, texts);
}

fn write_all(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Text of an element. Control characters become references, so that a reader, who would turn a
/// carriage return into a line feed, gets them back.
fn write_text(out: &mut Vec<u8>, text: &str) {
    write_escaped(out, text, b'&');
}

/// The value of an attribute between double quotes.
fn write_attribute(out: &mut Vec<u8>, text: &str) {
    write_escaped(out, text, b'"');
}

/// `quote` is escaped too.
fn write_escaped(out: &mut Vec<u8>, text: &str, quote: u8) {
    let special = |word| {
        let markup = equal(word, b'&') | equal(word, b'<') | equal(word, b'>');
        ascii(word, markup | equal(word, quote) | below(word, b' '))
    };
    let mut rest = text.as_bytes();
    loop {
        let len = plain_prefix(rest, special);
        let (run, tail) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        out.extend_from_slice(run);
        let Some((&byte, tail)) = tail.split_first() else {
            return;
        };
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            // White space stays as it is in the text of an element.
            b'\t' | b'\n' if quote != b'"' => out.push(byte),
            control => out.extend_from_slice(format!("&#x{control:X};").as_bytes()),
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests;
