//! Writes OData responses in the negotiated format.

use crate::headers::DataServiceVersion;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use lazuli_model::{EntityKey, TableName, Timestamp, ValueRef};
use lazuli_wire::media::{AtomForm, Format, MetadataLevel};
use lazuli_wire::odata::{Context, Select, atom, json};

/// Expected size of a small response, so that the buffer rarely grows.
const BODY_BYTES_EXPECTED: usize = 2048;
/// Expected size of an entity's URI after the account.
const URI_BYTES_EXPECTED: usize = 128;
/// Expected size of a query page.
const PAGE_BYTES_EXPECTED: usize = 64 * 1024;

/// Writes the result of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Encoder<'a> {
    pub(crate) context: &'a RequestContext<'a>,
    pub(crate) format: Format,
    pub(crate) data_service_version: DataServiceVersion,
}

impl<'a> Encoder<'a> {
    /// The reply for one table or entity.
    fn reply(&self, status: u16, body: Vec<u8>) -> Reply {
        Reply::odata_body(status, self.format.content_type(), self.data_service_version, body)
    }

    /// The reply to a query.
    fn collection_reply(&self, body: Vec<u8>) -> Reply {
        let content_type = self.format.collection_content_type();
        Reply::odata_body(200, content_type, self.data_service_version, body)
    }

    fn envelope(&self, form: AtomForm) -> atom::Envelope {
        atom::Envelope { form, updated: self.context.now }
    }

    pub(crate) fn table(&self, status: u16, select: Option<&Select>, name: &str) -> Reply {
        let mut body = Vec::with_capacity(BODY_BYTES_EXPECTED);
        let RequestContext { base, account, .. } = self.context;
        let (base, account) = (base.as_str(), account.name.as_str());
        match self.format {
            Format::Json(level) => json::write_table(&mut body, base, account, level, select, name),
            Format::Atom(form) => {
                atom::write_table(&mut body, base, account, self.envelope(form), name);
            }
        }
        self.reply(status, body)
    }

    pub(crate) fn tables(self, select: Option<&Select>) -> Tables<'a> {
        let mut body = Vec::with_capacity(BODY_BYTES_EXPECTED);
        let base = self.context.base.as_str();
        let list = match self.format {
            Format::Json(level) => {
                let list = json::TableCollection::begin(&mut body, base, level, select);
                TableList::Json(list, level)
            }
            Format::Atom(form) => {
                let envelope = self.envelope(form);
                TableList::Atom(atom::TableCollection::begin(&mut body, base, envelope))
            }
        };
        Tables { encoder: self, body, list }
    }

    pub(crate) fn entity<'p>(
        &self,
        status: u16,
        table: &TableName,
        select: Option<&Select>,
        key: &EntityKey,
        timestamp: Timestamp,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
    ) -> Reply {
        let mut body = Vec::with_capacity(BODY_BYTES_EXPECTED);
        let out = &mut body;
        let context = self.odata_context(table, select);
        let (pk, rk) = (key.partition.as_str(), key.row.as_str());
        match self.format {
            Format::Json(_) => json::write_entity(out, &context, pk, rk, timestamp, properties),
            Format::Atom(form) => {
                let envelope = self.envelope(form);
                atom::write_entity(out, &context, envelope, pk, rk, timestamp, properties);
            }
        }
        self.reply(status, body)
    }

    pub(crate) fn entities(self, table: &'a TableName, select: Option<&'a Select>) -> Entities<'a> {
        let mut body = Vec::with_capacity(PAGE_BYTES_EXPECTED);
        let context = self.odata_context(table, select);
        let list = match self.format {
            Format::Json(_) => EntityList::Json(json::EntityCollection::begin(&mut body, &context)),
            Format::Atom(form) => {
                let envelope = self.envelope(form);
                EntityList::Atom(atom::EntityCollection::begin(&mut body, &context, envelope))
            }
        };
        let head_bytes = body.len();
        Entities { encoder: self, context, body, list, head_bytes }
    }

    fn odata_context<'c>(&self, table: &'c TableName, select: Option<&'c Select>) -> Context<'c>
    where
        'a: 'c,
    {
        let level = match self.format {
            Format::Json(level) => level,
            Format::Atom(_) => MetadataLevel::Full,
        };
        Context {
            base: self.context.base.as_str(),
            account: self.context.account.name.as_str(),
            table: table.as_str(),
            level,
            minimal_etag: self.context.version.has_minimal_etag(),
            select,
        }
    }
}

/// A list of tables being written.
pub(crate) struct Tables<'a> {
    encoder: Encoder<'a>,
    body: Vec<u8>,
    list: TableList,
}

enum TableList {
    Json(json::TableCollection, MetadataLevel),
    Atom(atom::TableCollection),
}

impl Tables<'_> {
    pub(crate) fn push(&mut self, name: &str) {
        let context = self.encoder.context;
        let (base, account) = (context.base.as_str(), context.account.name.as_str());
        match &mut self.list {
            TableList::Json(list, level) => {
                list.table(&mut self.body, base, account, *level, name);
            }
            TableList::Atom(list) => list.table(&mut self.body, base, account, name),
        }
    }

    pub(crate) fn finish(mut self) -> Reply {
        match self.list {
            TableList::Json(list, _) => list.end(&mut self.body),
            TableList::Atom(list) => list.end(&mut self.body),
        }
        self.encoder.collection_reply(self.body)
    }
}

/// A page of entities being written.
pub(crate) struct Entities<'a> {
    encoder: Encoder<'a>,
    context: Context<'a>,
    body: Vec<u8>,
    list: EntityList,
    /// What precedes the entities.
    head_bytes: usize,
}

enum EntityList {
    Json(json::EntityCollection),
    Atom(atom::EntityCollection),
}

impl Entities<'_> {
    pub(crate) fn push<'p>(
        &mut self,
        pk: &str,
        rk: &str,
        timestamp: Timestamp,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
    ) {
        let Self { context, body, list, .. } = self;
        match list {
            EntityList::Json(list) => list.entity(body, context, pk, rk, timestamp, properties),
            EntityList::Atom(list) => list.entity(body, context, pk, rk, timestamp, properties),
        }
    }

    /// The page, with the number of all entities if it is known and requested.
    pub(crate) fn finish(mut self, count: Option<u64>) -> Reply {
        if let (Some(count), EntityList::Json(list)) = (count, &self.list) {
            list.write_count(&mut self.body, self.head_bytes, count);
        }
        match self.list {
            EntityList::Json(list) => list.end(&mut self.body),
            EntityList::Atom(list) => list.end(&mut self.body, &self.context),
        }
        self.encoder.collection_reply(self.body)
    }
}

/// The absolute URI of the account, followed by what `write` appends.
pub(crate) fn uri(context: &RequestContext<'_>, write: impl FnOnce(&mut Vec<u8>)) -> String {
    let base = context.base.as_str();
    let mut out = Vec::with_capacity(base.len() + URI_BYTES_EXPECTED);
    out.extend_from_slice(base.as_bytes());
    write(&mut out);
    // The base is text, and the writer escapes everything else.
    String::from_utf8(out).unwrap_or_default()
}
