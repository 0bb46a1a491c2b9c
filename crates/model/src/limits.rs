//! Every documented limit of the Table and Queue services, one named constant each.
//!
//! The source of each is the public REST reference ("Understanding the Table service data model",
//! "Scalability targets") unless the line says otherwise.

/// Table names have 3 to 63 characters.
pub const TABLE_NAME_CHARS_MIN: usize = 3;
/// See [`TABLE_NAME_CHARS_MIN`].
pub const TABLE_NAME_CHARS_MAX: usize = 63;

/// A partition key or row key holds at most 1 KiB of UTF-16: 512 code units.
pub const KEY_UTF16_UNITS_MAX: usize = 512;

/// Properties a client may define on one entity, besides the three system properties.
pub const CUSTOM_PROPERTIES_MAX: usize = 252;

/// Characters in a property name.
pub const PROPERTY_NAME_CHARS_MAX: usize = 255;

/// What our records can hold if the service's own limits do not apply: bytes of a name, and
/// properties of an entity.
pub const STORED_NAME_BYTES_MAX: usize = 4095;
pub const STORED_PROPERTIES_MAX: usize = 65_535;

/// A string value holds at most 64 KiB of UTF-16: 32,768 code units.
pub const STRING_UTF16_UNITS_MAX: usize = 32 * 1024;

/// A binary value holds at most 64 KiB.
pub const BINARY_BYTES_MAX: usize = 64 * 1024;

/// An entity holds at most 1 MiB by the service's own formula, see `entity::size_bytes`.
pub const ENTITY_BYTES_MAX: usize = 1024 * 1024;

/// A request body holds at most 4 MiB.
pub const REQUEST_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Operations in one entity group transaction.
pub const BATCH_OPERATIONS_MAX: usize = 100;

/// Items in one page of a query, and the largest `$top`.
pub const PAGE_ITEMS_MAX: usize = 1000;

/// Milliseconds one page of a query may execute.
pub const QUERY_EXECUTION_MS_MAX: u64 = 5_000;

/// Milliseconds any request may take; also the ceiling of the `timeout` parameter.
pub const REQUEST_MS_MAX: u64 = 30_000;

/// Names in one `$select`.
pub const SELECT_NAMES_MAX: usize = 255;

/// Queue names have 3 to 63 characters.
pub const QUEUE_NAME_CHARS_MIN: usize = 3;
/// See [`QUEUE_NAME_CHARS_MIN`].
pub const QUEUE_NAME_CHARS_MAX: usize = 63;

/// Total bytes of the names and values of a queue's metadata, by analogy with the Blob service.
pub const METADATA_BYTES_MAX: usize = 8 * 1024;

/// Bytes of UTF-8 in the text of a message (Q-6.18, recorded).
pub const MESSAGE_TEXT_BYTES_MAX: usize = 64 * 1024;
/// The same before version 2011-08-18.
pub const MESSAGE_TEXT_BYTES_MAX_2009: usize = 8 * 1024;

/// Messages that one Get Messages or Peek Messages returns (Q-6.25, recorded).
pub const MESSAGES_PER_GET_MAX: usize = 32;

/// Seconds a message may stay invisible: 7 days.
pub const VISIBILITY_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;
/// The same before version 2011-08-18: 2 hours (2.3 of the Queue rules).
pub const VISIBILITY_SECONDS_MAX_2009: u32 = 2 * 60 * 60;
/// Seconds that a message returned by Get Messages stays invisible unless the request says otherwise
///
pub const VISIBILITY_SECONDS_OF_GET: u32 = 30;

/// Seconds a message lives unless the request says otherwise: 7 days.
pub const TIME_TO_LIVE_SECONDS: u64 = 7 * 24 * 60 * 60;
/// The longest time to live before version 2017-07-29.
pub const TIME_TO_LIVE_SECONDS_MAX_2009: u64 = 7 * 24 * 60 * 60;

/// Queues in one page of List Queues, and the default (Q-5.7, recorded).
pub const QUEUES_PER_PAGE_MAX: usize = 5000;

/// UTF-16 units in the name of a blob (B-1.20).
pub const BLOB_NAME_CHARS_MAX: usize = 1024;
/// Path segments in the name of a blob (B-1.20).
pub const BLOB_NAME_SEGMENTS_MAX: usize = 254;
/// Bytes that one Append Block adds before version 2022-11-02 (B-10.5).
pub const APPEND_BLOCK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Blocks of a block blob (B-9.10).
pub const BLOCKS_MAX: usize = 50_000;
/// Seconds of a lease that ends by itself (B-5.3).
pub const LEASE_SECONDS_MIN: u32 = 15;
/// See [`LEASE_SECONDS_MIN`]; also the longest break period.
pub const LEASE_SECONDS_MAX: u32 = 60;

/// Stored access policies of one table or queue.
pub const ACCESS_POLICIES_MAX: usize = 5;

/// Characters in the id of a stored access policy.
pub const ACCESS_POLICY_ID_CHARS_MAX: usize = 64;

/// CORS rules of one service.
pub const CORS_RULES_MAX: usize = 5;

/// Bytes of `x-ms-client-request-id` that are echoed.
pub const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;

/// Minutes a signed request's date may differ from the server's clock, either way.
pub const REQUEST_DATE_SKEW_MINUTES_MAX: u64 = 15;

// The limits below are ours: the service documents none, and we bound everything.

/// Nesting of parentheses and `not` in one `$filter`.
pub const FILTER_DEPTH_MAX: usize = 64;

/// Comparisons in one `$filter`. The reference says 15, the service accepts more; our limit is
/// beyond what a request line of the permitted length can reach.
pub const FILTER_COMPARISONS_MAX: usize = 4096;

/// Literals of one `in`.
pub const FILTER_IN_LITERALS_MAX: usize = 1000;

/// Bytes of entities one page may hold before it ends with a continuation.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Characters of an index name.
pub const INDEX_NAME_CHARS_MIN: usize = 3;
pub const INDEX_NAME_CHARS_MAX: usize = 63;
/// Properties of one index.
pub const INDEX_PROPERTIES_MAX: usize = 4;
/// Indexes of one table.
pub const TABLE_INDEXES_MAX: usize = 16;
/// Hours for which a change feed keeps changes.
pub const FEED_RETENTION_HOURS_MIN: u64 = 1;
pub const FEED_RETENTION_HOURS_MAX: u64 = 8760;
/// Changes in one page of a feed.
pub const FEED_PAGE_CHANGES_MAX: usize = 1000;
/// Bytes of changes after which a page of a feed ends with the transaction.
pub const FEED_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Seconds for which a request may wait for changes.
pub const FEED_WAIT_SECONDS_MAX: u64 = 60;
