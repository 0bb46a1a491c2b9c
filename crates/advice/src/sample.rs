//! What is known about one request.

use lazuli_model::Timestamp;

/// The kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one entity by its keys.
    Get,
    /// Reads entities by a filter.
    Query,
    /// Inserts an entity.
    Insert,
    /// Replaces an entity.
    Replace,
    /// Changes some properties of an entity.
    Merge,
    /// Writes an entity, whether or not it exists.
    Upsert,
    /// Deletes an entity.
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
    /// One entity, or several, by both keys.
    Point,
    /// A range of row keys.
    Range,
    /// Whole partitions.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// The whole table.
    TableScan,
    /// A secondary index maintained by the server.
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

    /// The table design guide's name for it.
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

/// What is known about a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryFacts<'a> {
    /// What it reads.
    pub class: Class,
    /// A property, not a key, that the filter compares.
    pub property: Option<&'a str>,
    /// Whether the filter compares a time.
    pub is_on_time: bool,
    /// Whether the filter has an `or` of keys.
    pub has_or_of_keys: bool,
    /// Whether the filter names a row key but no partition key.
    pub has_row_alone: bool,
    /// The number of entities returned.
    pub returned: u32,
    /// The number of entities read for them, if known (by a server).
    pub read: Option<u32>,
    /// Whether there are more results: this is a page, and not the last.
    pub has_more: bool,
    /// Consecutive empty pages.
    pub empty_pages: u32,
    /// Those of the empty pages that earlier samples of the same query have reported.
    pub empty_pages_before: u32,
    /// Bytes of the properties that were returned, and of those that were used, if known (by a typed client).
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_used: Option<u64>,
    /// Properties of all returned entities, if whole entities were requested and this is known (by a server).
    pub whole_properties: Option<u64>,
    /// The filter without its literals, and a property that it compares with `eq`, for a server's statistics.
    pub shape: Option<&'a str>,
    /// See `shape`.
    pub lookup: Option<&'a str>,
    /// Whether only the last of the rows that were read were used.
    pub used_last_only: bool,
}

impl QueryFacts<'_> {
    /// A query of which only the class is known.
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

/// The size of a written entity.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeFacts {
    /// Size of the entity.
    pub entity_bytes: usize,
    /// Size of its largest property.
    pub property_bytes: usize,
    /// The number of its properties.
    pub properties: usize,
    /// How full a list in it is, in percent of the limit; zero if it has no list.
    pub list_percent: u8,
}

/// Hashes of an entity's properties: two versions differ in as many places as properties have changed, or fewer.
pub type Fingerprint = [u32; FINGERPRINT_PLACES];

/// See [`Fingerprint`].
pub const FINGERPRINT_PLACES: usize = 64;

/// One request, or one operation of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The time.
    pub at: Timestamp,
    /// The table.
    pub table: &'a str,
    /// The operation.
    pub verb: Verb,
    /// The partition, if the request names one.
    pub partition: Option<&'a str>,
    /// The row, if the request names one.
    pub row: Option<&'a str>,
    /// The status of the response.
    pub status: u16,
    /// The client: any number that distinguishes clients.
    pub client: u64,
    /// Whether it was part of a batch.
    pub is_batched: bool,
    /// Whether it is conditional on the entity's version.
    pub is_conditional: bool,
    /// The type of the entity.
    pub kind: Option<&'a str>,
    /// The type of the entity read before, which gave the key of this read.
    pub key_from: Option<&'a str>,
    /// The index that a read uses, or a write updates.
    pub index: Option<&'a str>,
    /// The number of properties that a replacement changed, if known (by a typed client).
    pub changed_properties: Option<u32>,
    /// The new content of a large entity that was replaced, if known (by a server).
    pub fingerprint: Option<&'a Fingerprint>,
    /// Hashes of string values in the entity that was read, if known (by a server).
    pub values: &'a [u64],
    /// For a query.
    pub query: Option<QueryFacts<'a>>,
    /// For a write.
    pub size: Option<SizeFacts>,
}

impl<'a> Sample<'a> {
    /// A successful request, of which nothing more is known.
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

    /// Sets the keys.
    #[must_use]
    pub const fn with_keys(self, partition: &'a str, row: &'a str) -> Self {
        Self { partition: Some(partition), row: Some(row), ..self }
    }

    /// Sets the facts about a query.
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
