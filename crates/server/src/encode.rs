//! Writes OData answers in the negotiated format.

use crate::error::{ApiError, ApiResult};
use crate::reply::Reply;
use crate::request::RequestContext;
use lazuli_model::{EntityKey, TableName, Timestamp, ValueRef};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{Format, MetadataLevel};
use lazuli_wire::odata::{Context, Select, json};

/// Room for a small answer, so that most are written without growing the buffer.
const BODY_BYTES_EXPECTED: usize = 2048;
/// Room for a page of a query.
const PAGE_BYTES_EXPECTED: usize = 64 * 1024;

/// Writes what an operation returns.
#[derive(Clone, Copy)]
pub(crate) struct Encoder<'a> {
    context: &'a RequestContext,
    level: MetadataLevel,
    format: Format,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(context: &'a RequestContext, format: Format) -> ApiResult<Self> {
        match format {
            Format::Json(level) => Ok(Self { context, level, format }),
            Format::Atom => Err(ApiError::from(ErrorCode::AtomFormatNotSupported)),
        }
    }

    pub(crate) fn table(&self, status: u16, name: &str) -> Reply {
        let mut body = Vec::with_capacity(BODY_BYTES_EXPECTED);
        let account = self.context.account.name.as_str();
        json::write_table(&mut body, &self.context.base, account, self.level, name);
        Reply::odata_body(status, self.format.content_type(), body)
    }

    pub(crate) fn tables(self) -> Tables<'a> {
        let mut body = Vec::with_capacity(BODY_BYTES_EXPECTED);
        let list = json::TableCollection::begin(&mut body, &self.context.base, self.level);
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
        let context = self.odata_context(table, select);
        let (partition_key, row_key) = (key.partition.as_str(), key.row.as_str());
        json::write_entity(&mut body, &context, partition_key, row_key, timestamp, properties);
        Reply::odata_body(status, self.format.content_type(), body)
    }

    pub(crate) fn entities(self, table: &'a TableName, select: Option<&'a Select>) -> Entities<'a> {
        let mut body = Vec::with_capacity(PAGE_BYTES_EXPECTED);
        let context = self.odata_context(table, select);
        let list = json::EntityCollection::begin(&mut body, &context);
        Entities { context, content_type: self.format.collection_content_type(), body, list }
    }

    fn odata_context<'c>(&self, table: &'c TableName, select: Option<&'c Select>) -> Context<'c>
    where
        'a: 'c,
    {
        Context {
            base: &self.context.base,
            account: self.context.account.name.as_str(),
            table: table.as_str(),
            level: self.level,
            select,
        }
    }
}

/// A list of tables while it is written.
pub(crate) struct Tables<'a> {
    encoder: Encoder<'a>,
    body: Vec<u8>,
    list: json::TableCollection,
}

impl Tables<'_> {
    pub(crate) fn push(&mut self, name: &str) {
        let Encoder { context, level, .. } = self.encoder;
        let account = context.account.name.as_str();
        self.list.table(&mut self.body, &context.base, account, level, name);
    }

    pub(crate) fn finish(mut self) -> Reply {
        self.list.end(&mut self.body);
        let content_type = self.encoder.format.collection_content_type();
        Reply::odata_body(200, content_type, self.body)
    }
}

/// A page of entities while it is written.
pub(crate) struct Entities<'a> {
    context: Context<'a>,
    content_type: &'static str,
    body: Vec<u8>,
    list: json::EntityCollection,
}

impl Entities<'_> {
    pub(crate) fn push<'p>(
        &mut self,
        partition_key: &str,
        row_key: &str,
        timestamp: Timestamp,
        properties: impl Iterator<Item = (&'p str, ValueRef<'p>)>,
    ) {
        let Self { context, body, list, .. } = self;
        list.entity(body, context, partition_key, row_key, timestamp, properties);
    }

    pub(crate) fn finish(mut self) -> Reply {
        self.list.end(&mut self.body);
        Reply::odata_body(200, self.content_type, self.body)
    }
}

/// The absolute URI that begins with the account's and goes on with what `write` appends.
pub(crate) fn uri(context: &RequestContext, write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(context.base.len() + 64);
    out.extend_from_slice(context.base.as_bytes());
    write(&mut out);
    // The base is text and the writer escapes all else.
    String::from_utf8(out).unwrap_or_default()
}
