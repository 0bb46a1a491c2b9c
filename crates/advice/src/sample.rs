//! What is known of one request.

use lazuli_model::Timestamp;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One entity by its keys.
    Get,
    /// Entities by a filter.
    Query,
    /// A new entity.
    Insert,
    /// An entity in place of another.
    Replace,
    /// Some properties of an entity.
    Merge,
    /// An entity, whether or not there is one.
    Upsert,
    /// The end of an entity.
    Delete,
}

impl Verb {
    /// Whether it changes anything.
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::Query)
    }
}

/// What a query reads to find its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One entity, or some, by both keys.
    Point,
    /// A range of row keys.
    Range,
    /// Whole partitions.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// The whole table.
    TableScan,
    /// A secondary index that the server keeps.
    Index,
}

impl Class {
    /// Every class.
    pub const ALL: &'static [Self] = &[
        Self::Point,
        Self::Range,
        Self::PartitionScan,
        Self::PartitionRange,
        Self::TableScan,
        Self::Index,
    ];

    /// The guide's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Range => "range",
            Self::PartitionScan => "partition_scan",
            Self::PartitionRange => "partition_range",
            Self::TableScan => "table_scan",
            Self::Index => "index",
        }
    }
}

/// What is known of a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryFacts<'a> {
    /// What it reads.
    pub class: Class,
    /// A property, not a key, that its filter compares.
    pub property: Option<&'a str>,
    /// Whether its filter compares a time.
    pub is_on_time: bool,
    /// Whether its filter has an `or` of keys.
    pub has_or_of_keys: bool,
    /// Whether its filter names a row key and no partition key.
    pub has_row_alone: bool,
    /// Entities that were returned.
    pub returned: u32,
    /// Entities that were read for them, if that is known: a server knows.
    pub read: Option<u32>,
    /// Whether there is more than was returned: a page, and not the last.
    pub has_more: bool,
    /// Pages without entities, one after the other.
    pub empty_pages: u32,
    /// Empty pages in a row that earlier samples of the same query told of.
    pub empty_pages_before: u32,
    /// Bytes of the properties that were returned, and of those that were used: a typed client knows.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_used: Option<u64>,
    /// Properties of all entities that were returned, if whole entities were asked for: a server knows.
    pub whole_properties: Option<u64>,
    /// The filter without its literals, and a property that it compares with `eq`: a server keeps count
    /// of them.
    pub shape: Option<&'a str>,
    /// See `shape`.
    pub lookup: Option<&'a str>,
    /// Whether only the last rows of those that were read were used.
    pub used_last_only: bool,
}

impl QueryFacts<'_> {
    /// A query of which nothing is known but its class.
    pub const fn new(class: Class) -> Self {
        Self {
            class,
            property: None,
            is_on_time: false,
            has_or_of_keys: false,
            has_row_alone: false,
            returned: 0,
            read: None,
            has_more: false,
            empty_pages: 0,
            empty_pages_before: 0,
            bytes: 0,
            bytes_used: None,
            whole_properties: None,
            shape: None,
            lookup: None,
            used_last_only: false,
        }
    }
}

/// The size of an entity that was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeFacts {
    /// Bytes of the entity.
    pub entity_bytes: usize,
    /// Bytes of its largest property.
    pub property_bytes: usize,
    /// How many properties it has.
    pub properties: usize,
    /// Percent of its limit that a list in it has reached; zero if it has none.
    pub list_percent: u8,
}

/// Numbers that stand for the properties of an entity: two of its versions differ in as many places as
/// properties have changed, or fewer.
pub type Fingerprint = [u32; FINGERPRINT_PLACES];

/// See [`Fingerprint`].
pub const FINGERPRINT_PLACES: usize = 64;

/// One request, or one operation of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// When.
    pub at: Timestamp,
    /// Where.
    pub table: &'a str,
    /// What.
    pub verb: Verb,
    /// The partition, if the request names one.
    pub partition: Option<&'a str>,
    /// The row, if the request names one.
    pub row: Option<&'a str>,
    /// The status of the response.
    pub status: u16,
    /// Who: any number that tells callers apart.
    pub client: u64,
    /// Whether it was part of a batch.
    pub is_batched: bool,
    /// Whether it depends on the version of the entity.
    pub is_conditional: bool,
    /// The type of the entity.
    pub kind: Option<&'a str>,
    /// The type of the entity that was read before and gave the key of this read.
    pub key_from: Option<&'a str>,
    /// The index that a read uses, or a write keeps.
    pub index: Option<&'a str>,
    /// Properties that a replacement changed: a typed client knows.
    pub changed_properties: Option<u32>,
    /// What a large entity was replaced with: a server knows.
    pub fingerprint: Option<&'a Fingerprint>,
    /// Hashes of texts in the entity that was read: a server knows.
    pub values: &'a [u64],
    /// Of a query.
    pub query: Option<QueryFacts<'a>>,
    /// Of a write.
    pub size: Option<SizeFacts>,
}

impl<'a> Sample<'a> {
    /// A request that succeeded, of which nothing more is known.
    pub const fn new(at: Timestamp, table: &'a str, verb: Verb) -> Self {
        Self {
            at,
            table,
            verb,
            partition: None,
            row: None,
            status: 200,
            client: 0,
            is_batched: false,
            is_conditional: false,
            kind: None,
            key_from: None,
            index: None,
            changed_properties: None,
            fingerprint: None,
            values: &[],
            query: None,
            size: None,
        }
    }

    /// With keys.
    #[must_use]
    pub const fn with_keys(self, partition: &'a str, row: &'a str) -> Self {
        Self { partition: Some(partition), row: Some(row), ..self }
    }

    /// With what is known of a query.
    #[must_use]
    pub const fn with_query(self, query: QueryFacts<'a>) -> Self {
        Self { query: Some(query), ..self }
    }

    pub(crate) fn second(&self) -> u64 {
        self.at.unix_seconds()
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.status < 400
    }
}
