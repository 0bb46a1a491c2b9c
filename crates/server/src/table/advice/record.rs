//! One request as the advice sees it: recorded while the request is served, so as cheaply as possible, and
//! examined later.

use crate::auth::accounts::Account;
use crate::http::request::RequestContext;
use lazuli_advice::{
    Class, FINGERPRINT_PLACES, FilterFacts, Fingerprint, QueryFacts, Sample, SizeFacts, Verb,
};
use lazuli_model::entity::size_bytes;
use lazuli_model::key_text::fnv1a;
use lazuli_model::{EntityKey, Filter, IfMatch, TableName, Timestamp, ValueRef};
use lazuli_table::{Mutation, MutationKind, PlanKind, QueryEnd};
use lazuli_wire::odata::filter::print_shape;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// Above this body size, the entity's size is computed; below, the body's size is close enough.
const SIZED_BYTES: usize = 2 * 1024;
/// Minimum size of entities whose versions are compared (ADV-18).
const LARGE_BYTES: usize = 4 * 1024;
/// Maximum texts of a read entity that may be keys of another, and their bytes (ADV-16).
const VALUES_MAX: usize = 4;
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 2..=40;
/// A query that walks a range of at least this many rows to its end, and takes only rows of the last
/// tenth, wants the newest (ADV-23).
const WALKED_ROWS: u64 = 20;

/// A request on entities.
pub(super) struct Record {
    pub(super) at: Timestamp,
    pub(super) account: Arc<Account>,
    pub(super) table: TableName,
    client: IpAddr,
    what: What,
}

enum What {
    Entity(Box<OnEntity>),
    Query(Box<Queried>),
}

/// A request on one entity.
struct OnEntity {
    verb: Verb,
    key: EntityKey,
    status: u16,
    is_batched: bool,
    is_conditional: bool,
    /// Bytes and properties of an entity that was read as a whole.
    whole: Option<(u64, u64)>,
    values: Vec<u64>,
    size: Option<SizeFacts>,
    fingerprint: Option<Box<Fingerprint>>,
}

/// A page of a query.
struct Queried {
    filter: Option<Filter>,
    class: Class,
    returned: u32,
    read: u32,
    has_more: bool,
    used_last_only: bool,
    bytes: u64,
    whole_properties: Option<u64>,
}

/// A page that was read, without its filter.
pub(crate) struct Page<'a> {
    pub(crate) end: &'a QueryEnd,
    /// Bytes of the response.
    pub(crate) bytes: usize,
    /// Properties of all entities returned, if whole entities were requested.
    pub(crate) whole_properties: Option<u64>,
}

impl Record {
    fn new(context: &RequestContext<'_>, table: &TableName, what: What) -> Self {
        Self {
            at: context.now,
            account: context.account.clone(),
            table: table.clone(),
            client: context.client,
            what,
        }
    }

    /// A read of an entity by its keys; whole, unless properties were selected.
    pub(super) fn read(
        context: &RequestContext<'_>,
        table: &TableName,
        key: &EntityKey,
        properties: &[(&str, ValueRef<'_>)],
        whole_bytes: Option<usize>,
    ) -> Self {
        let text = |value: &ValueRef<'_>| match value {
            ValueRef::String(text) if VALUE_BYTES.contains(&text.len()) => {
                Some(fnv1a(text.as_bytes()))
            }
            _ => None,
        };
        let texts = properties.iter().filter_map(|(_, value)| text(value));
        let whole = whole_bytes.map(|bytes| (bytes as u64, properties.len() as u64));
        let (is_batched, is_conditional) = (false, false);
        let what = What::Entity(Box::new(OnEntity {
            verb: Verb::Get,
            key: key.clone(),
            status: 200,
            is_batched,
            is_conditional,
            whole,
            values: texts.take(VALUES_MAX).collect(),
            size: None,
            fingerprint: None,
        }));
        Self::new(context, table, what)
    }

    /// A change of an entity, with the status of its response and the bytes of its body.
    pub(super) fn written(
        context: &RequestContext<'_>,
        table: &TableName,
        mutation: &Mutation<'_>,
        (status, body_bytes, is_batched): (u16, usize, bool),
    ) -> Self {
        let conditional = |if_match: IfMatch| matches!(if_match, IfMatch::Version(_));
        let (verb, is_conditional) = match mutation.kind() {
            MutationKind::Insert => (Verb::Insert, false),
            MutationKind::InsertOrReplace | MutationKind::InsertOrMerge => (Verb::Upsert, false),
            MutationKind::Replace(if_match) => (Verb::Replace, conditional(if_match)),
            MutationKind::Merge(if_match) => (Verb::Merge, conditional(if_match)),
            MutationKind::Delete(if_match) => (Verb::Delete, conditional(if_match)),
        };
        let size = (verb != Verb::Delete).then(|| size(mutation, body_bytes));
        let is_whole = !matches!(
            mutation.kind(),
            MutationKind::Merge(_) | MutationKind::InsertOrMerge | MutationKind::Delete(_)
        );
        let is_large = size.is_some_and(|size| size.entity_bytes >= LARGE_BYTES);
        let what = What::Entity(Box::new(OnEntity {
            verb,
            key: mutation.key().clone(),
            status,
            is_batched,
            is_conditional,
            whole: None,
            values: Vec::new(),
            size,
            fingerprint: (is_whole && is_large).then(|| fingerprint(mutation)),
        }));
        Self::new(context, table, what)
    }

    /// A page of a query.
    pub(super) fn queried(
        context: &RequestContext<'_>,
        table: &TableName,
        filter: Option<Filter>,
        page: &Page<'_>,
    ) -> Self {
        let QueryEnd { ref next, plan, rows_read, rows_returned, rows_skipped, .. } = *page.end;
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let is_walk = matches!(
            plan,
            PlanKind::RowRange | PlanKind::Partition | PlanKind::PartitionRange | PlanKind::Table
        );
        let is_at_end = rows_read >= WALKED_ROWS && rows_skipped >= rows_read / 10 * 9;
        let what = What::Query(Box::new(Queried {
            filter,
            class: class(plan),
            returned: number(rows_returned),
            read: number(rows_read),
            has_more: next.is_some(),
            used_last_only: is_walk && rows_returned > 0 && next.is_none() && is_at_end,
            bytes: page.bytes as u64,
            whole_properties: page.whole_properties,
        }));
        Self::new(context, table, what)
    }

    /// Returns the request as a sample. `empty_before` gets the shape of a query and whether its page is
    /// empty, and returns how many empty pages preceded it.
    pub(super) fn show(
        &self,
        table: &str,
        empty_before: impl FnOnce(&str, bool) -> u32,
        look: impl FnOnce(&Sample<'_>),
    ) {
        let client = match self.client {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => fnv1a(&address.octets()),
        };
        match &self.what {
            What::Entity(entity) => {
                let query = entity.whole.map(|(bytes, properties)| QueryFacts {
                    returned: 1,
                    bytes,
                    whole_properties: Some(properties),
                    ..QueryFacts::new(Class::Point)
                });
                let sample = Sample {
                    client,
                    status: entity.status,
                    is_batched: entity.is_batched,
                    is_conditional: entity.is_conditional,
                    query,
                    size: entity.size,
                    fingerprint: entity.fingerprint.as_deref(),
                    values: &entity.values,
                    ..Sample::new(self.at, table, entity.verb)
                };
                let key = &entity.key;
                look(&sample.with_keys(key.partition.as_str(), key.row.as_str()));
            }
            What::Query(query) => {
                let facts = FilterFacts::of(query.filter.as_ref());
                let shape = query.filter.as_ref().map(print_shape).unwrap_or_default();
                let is_empty = query.returned == 0 && query.has_more;
                let shown = QueryFacts {
                    property: facts.property.as_deref(),
                    is_on_time: facts.is_on_time,
                    // An index here serves what would be a scan on Azure.
                    has_or_of_keys: facts.has_or_of_keys,
                    has_row_alone: facts.has_row_alone,
                    returned: query.returned,
                    read: Some(query.read),
                    has_more: query.has_more,
                    empty_pages: is_empty.into(),
                    empty_pages_before: empty_before(&shape, is_empty),
                    bytes: query.bytes,
                    whole_properties: query.whole_properties,
                    shape: Some(&shape),
                    lookup: facts.lookup.as_deref(),
                    used_last_only: query.used_last_only,
                    ..QueryFacts::new(query.class)
                };
                let sample = Sample::new(self.at, table, Verb::Query).with_query(shown);
                look(&Sample { client, partition: facts.partition.as_deref(), ..sample });
            }
        }
    }

    /// Whether entities were changed.
    pub(super) fn is_write(&self) -> bool {
        match &self.what {
            What::Entity(entity) => entity.verb.is_write() && entity.status < 400,
            What::Query(_) => false,
        }
    }
}

/// What a plan reads, in the advice's terms.
fn class(plan: PlanKind) -> Class {
    match plan {
        PlanKind::Point | PlanKind::MultiPoint => Class::Point,
        PlanKind::RowRange => Class::Range,
        PlanKind::Partition => Class::PartitionScan,
        PlanKind::PartitionRange => Class::PartitionRange,
        PlanKind::Table => Class::TableScan,
        PlanKind::Index => Class::Index,
    }
}

fn size(mutation: &Mutation<'_>, body_bytes: usize) -> SizeFacts {
    let properties = mutation.properties();
    let sized = SizeFacts { properties: properties.len(), ..SizeFacts::default() };
    if body_bytes < SIZED_BYTES {
        return SizeFacts { entity_bytes: body_bytes, ..sized };
    }
    let of_value = |value: ValueRef<'_>| match value {
        ValueRef::String(text) => 2 * text.encode_utf16().count(),
        ValueRef::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    SizeFacts {
        entity_bytes: size_bytes(mutation.key(), properties.iter()),
        property_bytes: properties.iter().map(|(_, value)| of_value(value)).max().unwrap_or(0),
        ..sized
    }
}

/// A number for each property, in a slot chosen by its name; it does not reveal values.
fn fingerprint(mutation: &Mutation<'_>) -> Box<Fingerprint> {
    let mut places = Box::new([0; FINGERPRINT_PLACES]);
    for (name, value) in mutation.properties().iter() {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        match value {
            ValueRef::String(text) => text.hash(&mut hasher),
            ValueRef::Boolean(value) => value.hash(&mut hasher),
            ValueRef::Int32(value) => value.hash(&mut hasher),
            ValueRef::Int64(value) => value.hash(&mut hasher),
            ValueRef::Double(value) => value.to_bits().hash(&mut hasher),
            ValueRef::DateTime(value) => value.ticks().hash(&mut hasher),
            ValueRef::Guid(value) => value.to_string().hash(&mut hasher),
            ValueRef::Binary(bytes) => bytes.hash(&mut hasher),
        }
        let place = fnv1a(name.as_bytes()) as usize % FINGERPRINT_PLACES;
        if let Some(place) = places.get_mut(place) {
            *place ^= hasher.finish() as u32;
        }
    }
    places
}
