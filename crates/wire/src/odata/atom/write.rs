//! Atom responses, in the two forms of the service (T-2.64a).

use super::super::{Context, Select, double, lexical};
use super::{ATOM, DATA, METADATA, SCHEME};
use crate::media::AtomForm;
use crate::uri::write_entity_uri;
use crate::words::{ascii, below, equal, plain_prefix};
use lazuli_model::{ETag, Timestamp, ValueRef};
use std::borrow::Cow;

/// What all feeds and entries of a response share.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    pub form: AtomForm,
    /// The time of the response, to the second.
    pub updated: Timestamp,
}

/// Writes a single entity: the response to a point read or an insert.
pub fn write_entity<'p>(
    out: &mut Vec<u8>,
    context: &Context<'_>,
    envelope: Envelope,
    partition_key: &str,
    row_key: &str,
    timestamp: Timestamp,
    properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
) {
    let entry = Entry::of_entity(context, envelope, timestamp);
    entry.open_document(out);
    write_entity_content(out, &entry, context, [partition_key, row_key], timestamp, properties);
}

/// Writes the response to Query Entities, one entity at a time.
#[must_use = "the feed is not closed before `end`"]
pub struct EntityCollection(Feed);

impl EntityCollection {
    pub fn begin(out: &mut Vec<u8>, context: &Context<'_>, envelope: Envelope) -> Self {
        Self(Feed::begin(out, context.base, context.table, envelope))
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
        let entry = Entry::of_entity(context, self.0.envelope, timestamp);
        let entry = self.0.open_entry(out, entry);
        write_entity_content(out, &entry, context, [partition_key, row_key], timestamp, properties);
    }

    pub fn end(self, out: &mut Vec<u8>, context: &Context<'_>) {
        self.0.end(out, context.table);
    }
}

/// Writes a single table: the response to Create Table, or to a read of `Tables('name')`.
pub fn write_table(out: &mut Vec<u8>, base: &str, account: &str, envelope: Envelope, name: &str) {
    let entry = Entry::of_table(base, account, envelope);
    entry.open_document(out);
    write_table_content(out, &entry, name);
}

/// Writes the response to Query Tables, one table at a time.
#[must_use = "the feed is not closed before `end`"]
pub struct TableCollection(Feed);

impl TableCollection {
    pub fn begin(out: &mut Vec<u8>, base: &str, envelope: Envelope) -> Self {
        Self(Feed::begin(out, base, TABLES, envelope))
    }

    pub fn table(&mut self, out: &mut Vec<u8>, base: &str, account: &str, name: &str) {
        let entry = Entry::of_table(base, account, self.0.envelope);
        let entry = self.0.open_entry(out, entry);
        write_table_content(out, &entry, name);
    }

    pub fn end(self, out: &mut Vec<u8>) {
        self.0.end(out, TABLES);
    }
}

const TABLES: &str = "Tables";

/// A feed with its title, id and time written, before its entries.
struct Feed {
    envelope: Envelope,
    indent: Indent,
    is_empty: bool,
}

impl Feed {
    fn begin(out: &mut Vec<u8>, base: &str, resource: &str, envelope: Envelope) -> Self {
        write_root(out, "feed", base, envelope.form, None);
        let indent = Indent::of(envelope.form).deeper();
        match envelope.form {
            AtomForm::Indented => {
                write_feed_title(out, indent, resource);
                write_feed_id(out, indent, base, resource);
                write_updated(out, indent, envelope.updated);
            }
            AtomForm::Compact => {
                write_feed_id(out, indent, base, resource);
                write_feed_title(out, indent, resource);
                write_updated(out, indent, envelope.updated);
                write_self_link(out, indent, resource);
            }
        }
        Self { envelope, indent, is_empty: true }
    }

    fn open_entry<'a>(&mut self, out: &mut Vec<u8>, entry: Entry<'a>) -> Entry<'a> {
        let was_empty = std::mem::take(&mut self.is_empty);
        if was_empty && self.envelope.form == AtomForm::Indented {
            write_self_link(out, self.indent, entry.resource);
        }
        line(out, self.indent, &["<entry"]);
        write_etag(out, entry.etag);
        out.push(b'>');
        Entry { indent: self.indent, ..entry }
    }

    /// Atom requires an author: of each entry, or of a feed without entries.
    fn end(self, out: &mut Vec<u8>, resource: &str) {
        if self.is_empty {
            write_author(out, self.indent);
            if self.envelope.form == AtomForm::Indented {
                write_self_link(out, self.indent, resource);
            }
        }
        line(out, Indent::of(self.envelope.form), &["</feed>"]);
    }
}

fn write_feed_title(out: &mut Vec<u8>, indent: Indent, resource: &str) {
    line(out, indent, &["<title type=\"text\">"]);
    write_text(out, resource);
    out.extend_from_slice(b"</title>");
}

fn write_feed_id(out: &mut Vec<u8>, indent: Indent, base: &str, resource: &str) {
    line(out, indent, &["<id>"]);
    write_text(out, base);
    write_text(out, resource);
    out.extend_from_slice(b"</id>");
}

fn write_self_link(out: &mut Vec<u8>, indent: Indent, resource: &str) {
    write_link(out, indent, "self", resource, |out| write_attribute(out, resource));
}

/// An entry for an entity or a table.
struct Entry<'a> {
    base: &'a str,
    account: &'a str,
    /// The name of the table, or of the list of tables.
    resource: &'a str,
    etag: Option<ETag>,
    envelope: Envelope,
    indent: Indent,
}

impl<'a> Entry<'a> {
    fn of_entity(context: &Context<'a>, envelope: Envelope, timestamp: Timestamp) -> Self {
        let Context { base, account, table: resource, .. } = *context;
        let (etag, indent) = (Some(ETag(timestamp)), Indent::of(envelope.form));
        Self { base, account, resource, etag, envelope, indent }
    }

    fn of_table(base: &'a str, account: &'a str, envelope: Envelope) -> Self {
        let indent = Indent::of(envelope.form);
        Self { base, account, resource: TABLES, etag: None, envelope, indent }
    }

    fn open_document(&self, out: &mut Vec<u8>) {
        write_root(out, "entry", self.base, self.envelope.form, self.etag);
    }

    /// Everything within the entry, and its end.
    fn write(
        &self,
        out: &mut Vec<u8>,
        uri: impl Fn(&mut Vec<u8>),
        properties: impl FnOnce(&mut Vec<u8>, Indent),
    ) {
        let indent = self.indent.deeper();
        line(out, indent, &["<id>"]);
        write_text(out, self.base);
        uri(out);
        out.extend_from_slice(b"</id>");
        match self.envelope.form {
            AtomForm::Indented => {
                line(out, indent, &["<title type=\"text\"></title>"]);
                write_updated(out, indent, self.envelope.updated);
                write_author(out, indent);
                write_link(out, indent, "edit", self.resource, uri);
                self.write_category(out, indent);
            }
            AtomForm::Compact => {
                self.write_category(out, indent);
                write_link(out, indent, "edit", self.resource, uri);
                line(out, indent, &["<title />"]);
                write_updated(out, indent, self.envelope.updated);
                write_author(out, indent);
            }
        }
        line(out, indent, &["<content type=\"application/xml\">"]);
        line(out, indent.deeper(), &["<m:properties>"]);
        properties(out, indent.deeper().deeper());
        line(out, indent.deeper(), &["</m:properties>"]);
        line(out, indent, &["</content>"]);
        line(out, self.indent, &["</entry>"]);
    }

    fn write_category(&self, out: &mut Vec<u8>, indent: Indent) {
        line(out, indent, &["<category term=\""]);
        write_attribute(out, self.account);
        out.push(b'.');
        write_attribute(out, self.resource);
        write_all(out, &["\" scheme=\"", SCHEME, "\" />"]);
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
    // A percent-encoded URI contains nothing that XML would escape.
    let uri = |out: &mut Vec<u8>| write_entity_uri(out, context.table, partition_key, row_key);
    entry.write(out, uri, |out, indent| {
        let projection = context.select.and_then(Select::projection);
        if projection.is_none_or(|p| p.partition_key) {
            write_property(out, indent, "PartitionKey", ValueRef::String(partition_key));
        }
        if projection.is_none_or(|p| p.row_key) {
            write_property(out, indent, "RowKey", ValueRef::String(row_key));
        }
        if projection.is_none_or(|p| p.timestamp) {
            write_property(out, indent, "Timestamp", ValueRef::DateTime(timestamp));
        }
        match projection {
            None => properties.for_each(|(name, value)| write_property(out, indent, name, value)),
            Some(projection) => {
                for (name, value) in projection.pick(properties) {
                    match value {
                        Some(value) => write_property(out, indent, name, value),
                        None => {
                            line(out, indent, &["<d:", &element_name(name), " m:null=\"true\" />"]);
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
    entry.write(out, uri, |out, indent| {
        write_property(out, indent, "TableName", ValueRef::String(name));
    });
}

/// Only strings have no `m:type` (T-2.63).
fn write_property(out: &mut Vec<u8>, indent: Indent, name: &str, value: ValueRef<'_>) {
    let name = &*element_name(name);
    line(out, indent, &["<d:", name]);
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

/// A property's name as an element name. A `$select` may contain any name, and the lenient
/// profile stores any: characters that XML does not allow are written as `_xHHHH_`, as in .NET.
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

fn write_root(out: &mut Vec<u8>, name: &str, base: &str, form: AtomForm, etag: Option<ETag>) {
    let standalone = match form {
        AtomForm::Indented => " standalone=\"yes\"?>\r\n<",
        AtomForm::Compact => "?><",
    };
    let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"";
    write_all(out, &[declaration, standalone, name, " xml:base=\""]);
    write_attribute(out, base);
    let prefixed = ["\" xmlns:d=\"", DATA, "\" xmlns:m=\"", METADATA, "\""];
    match form {
        AtomForm::Indented => {
            write_all(out, &prefixed);
            write_etag(out, etag);
            write_all(out, &[" xmlns=\"", ATOM, "\">"]);
        }
        AtomForm::Compact => {
            write_all(out, &["\" xmlns=\"", ATOM]);
            write_all(out, &prefixed);
            write_etag(out, etag);
            out.push(b'>');
        }
    }
}

fn write_etag(out: &mut Vec<u8>, etag: Option<ETag>) {
    if let Some(etag) = etag {
        out.extend_from_slice(b" m:etag=\"");
        write_attribute(out, &etag.to_string());
        out.push(b'"');
    }
}

fn write_updated(out: &mut Vec<u8>, indent: Indent, updated: Timestamp) {
    line(out, indent, &["<updated>"]);
    lexical::write_timestamp(out, Timestamp::from_unix_seconds(updated.unix_seconds()));
    out.extend_from_slice(b"</updated>");
}

fn write_author(out: &mut Vec<u8>, indent: Indent) {
    line(out, indent, &["<author>"]);
    line(out, indent.deeper(), &["<name />"]);
    line(out, indent, &["</author>"]);
}

fn write_link(
    out: &mut Vec<u8>,
    indent: Indent,
    relation: &str,
    title: &str,
    href: impl Fn(&mut Vec<u8>),
) {
    line(out, indent, &["<link rel=\"", relation, "\" title=\""]);
    write_attribute(out, title);
    out.extend_from_slice(b"\" href=\"");
    href(out);
    out.extend_from_slice(b"\" />");
}

/// Where an element begins: right after the previous one, or on its own line.
#[derive(Clone, Copy)]
enum Indent {
    None,
    /// Indented by this many spaces.
    Line(usize),
}

impl Indent {
    const fn of(form: AtomForm) -> Self {
        match form {
            AtomForm::Indented => Self::Line(0),
            AtomForm::Compact => Self::None,
        }
    }

    const fn deeper(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Line(spaces) => Self::Line(spaces + 2),
        }
    }
}

fn line(out: &mut Vec<u8>, indent: Indent, texts: &[&str]) {
    if let Indent::Line(spaces) = indent {
        out.extend_from_slice(b"\r\n");
        out.resize(out.len() + spaces, b' ');
    }
    write_all(out, texts);
}

fn write_all(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Text of an element. Control characters become references, because an XML reader turns a raw
/// carriage return into a line feed.
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
