//! Keeps the code and `docs/format.md` in agreement: every example is checked in both directions.

use crate::cluster::{GatewayRecord, LeaseRecord};
use crate::entity::EntityRecord;
use crate::feed::{ChangeRecord, FeedRecord};
use crate::key::queue::{Generation, Position, QueueId};
use crate::queue::{self, MessageRecord, QueueRecord, StoredText};
use crate::settings::{
    self, BuildRecord, ExpiryRecord, IndexState, TableExpiry, TableIndex, TableSettings,
};
use crate::table::{self, CatalogRecord, ReclaimMark};
use crate::{CorruptRecord, FeedId, IndexId, TableId, entity, key};
use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
use lazuli_model::{
    AccessPolicies, AccessPolicy, AccountName, ChangeOperation, EntityKey, Expiry, Feed,
    FeedRetention, Guid, Images, IndexDefinition, MessageId, MessageText, Metadata, QueueName,
    ServiceProperties, TableName, Timestamp, ValueRef,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

const PAGE: &str = include_str!("../../../docs/format.md");
const TABLE: TableId = TableId(7);
const GENERATION: Generation = Generation { queue: QueueId(7), epoch: 2 };

/// The examples of the page: fenced blocks of the language `hex`, by their names.
fn examples() -> BTreeMap<&'static str, Vec<u8>> {
    let mut examples = BTreeMap::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("```hex ") {
            let body = lines.by_ref().take_while(|line| *line != "```");
            let earlier = examples.insert(name, body.flat_map(bytes_of).collect());
            assert_eq!(earlier, None, "{name} stands on the page twice");
        }
    }
    examples
}

/// The bytes of one line: hexadecimal up to two spaces.
fn bytes_of(line: &str) -> Vec<u8> {
    let hex = line.split("  ").next().unwrap();
    hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// What the code writes for the example `name`; the page must show the same.
fn encoded(name: &'static str) -> Vec<u8> {
    match name {
        "entity-key" => key::entity(TABLE, &EntityKey::parse("Sales", "12").unwrap()),
        "entity-key-beyond-ascii" => {
            key::entity(TABLE, &EntityKey::parse("\u{E000}é", "🦀").unwrap())
        }
        "entity-key-empty" => key::entity(TABLE, &EntityKey::parse("", "").unwrap()),
        "row-range-start" => row_range().start,
        "row-range-end" => row_range().end,
        "catalog-key" => key::catalog(&account(), "orders"),
        "access-policies-key" => key::access_policies(TABLE),
        "next-table-id-key" => key::next_table_id(),
        "service-properties-key" => key::service_properties(&account()),
        "reclaim-key" => key::reclaim(TABLE),
        "entity" => entity::encode(entity_properties().into_iter()),
        "entity-empty" => entity::encode(std::iter::empty()),
        "catalog-record" => catalog_record().encode(),
        "next-table-id" => table::encode_next_table_id(TableId(33)),
        "reclaim-mark" => table::encode_reclaim(Timestamp::UNIX_EPOCH),
        "reclaim-mark-swept" => reclaim_mark(true).encode(),
        "chore-lease-key" => key::chore_lease(),
        "gateway-key" => key::gateway("gw-1"),
        "advice-key" => key::advice(&account(), "Orders"),
        "chore-lease" => lease().encode(),
        "gateway" => gateway().encode(),
        "access-policies" => table::encode_access_policies(&access_policies()),
        "service-properties" => table::encode_service_properties(&service_properties()),
        "index-entry-key" => index_entry(),
        "index-entry-values" => index_values(),
        "index-owner-key" => owner_key(),
        "index-build-key" => INDEX.build(),
        "index-dropped-key" => INDEX.dropped(),
        "index-used-key" => INDEX.used(),
        "index-used" => settings::encode_used(Timestamp::UNIX_EPOCH),
        "catalog-record-with-settings" => catalog_record_with_settings().encode(),
        "index-build" => build_record().encode(),
        "index-build-troubled" => troubled_build_record().encode(),
        "index-owner" => settings::encode_owner(b"Sales\x0012"),
        "feed-head-key" => FEED.head(),
        "feed-record-key" => FEED.record(),
        "feed-dropped-key" => FEED.dropped(NEW_YEAR),
        "change" => change().encode(),
        "feed-record" => feed_record().encode(),
        "moment-key" => key::expiry::moment(INDEX, EPOCH_BUCKET, b"Sales\x0012"),
        "expiry-record-key" => key::expiry::record(INDEX),
        "expiry-record" => expiry_record().encode(),
        "queue-catalog-key" => key::queue::catalog(&account(), &queue_name()),
        "message-key" => key::queue::message(GENERATION, position()),
        "message-text-key" => key::queue::text(GENERATION, position().id),
        "messages-reclaim-key" => key::queue::reclaim(GENERATION),
        "queue-service-properties-key" => key::queue::service_properties(&account()),
        "queue-record" => queue_record().encode(),
        "message" => message().encode(),
        "message-with-text-apart" => message_with_text_apart().encode(),
        "message-text" => queue::encode_text(&message_text()),
        other => panic!("{other} stands on the page, and no code writes it"),
    }
}

const EXAMPLES: usize = 51;

#[test]
fn the_page_shows_what_the_code_writes() {
    let examples = examples();
    assert_eq!(examples.len(), EXAMPLES);
    for (name, bytes) in examples {
        assert_eq!(encoded(name), bytes, "{name}");
    }
}

/// Decodes the example `name` of the page.
#[track_caller]
fn check<T: PartialEq + Debug>(
    name: &str,
    decode: impl Fn(&[u8]) -> Result<T, CorruptRecord>,
    expect: T,
) {
    assert_eq!(decode(&examples()[name]), Ok(expect));
}

#[test]
fn keys_of_the_page_decode() {
    let names = |key: &[u8]| {
        let key = key::decode_entity(key)?;
        Ok((key.table, key.partition.into_owned(), key.row.into_owned()))
    };
    check("entity-key", names, (TABLE, "Sales".into(), "12".into()));
    check("entity-key-beyond-ascii", names, (TABLE, "\u{E000}é".into(), "🦀".into()));
    check("entity-key-empty", names, (TABLE, String::new(), String::new()));
    check("reclaim-key", key::decode_reclaim, TABLE);
    check("gateway-key", |key| key::decode_gateway(key).map(str::to_owned), "gw-1".to_owned());
    let table_of = |key: &[u8]| key::decode_advice(&account(), key).map(|name| name.into_owned());
    check("advice-key", table_of, "Orders".to_owned());
    let entity = |key: &[u8]| Ok(key::index::entity_of_entry(key, 1)?.to_vec());
    check("index-entry-key", entity, b"Sales\x0012".to_vec());
    check("index-build-key", key::index::decode_build, INDEX);
    check("index-dropped-key", key::index::decode_dropped, INDEX);
    check("feed-record-key", key::feed::decode_record, FEED);
    check("feed-dropped-key", key::feed::decode_dropped, (FEED, NEW_YEAR));
    check("expiry-record-key", key::expiry::decode_record, INDEX);
    let moment = |key: &[u8]| key::expiry::split_moment(key).map(|(at, entity)| (at, entity.len()));
    check("moment-key", moment, (EPOCH_BUCKET, 8));
    check("message-key", key::queue::decode_message, (GENERATION, position()));
    check("messages-reclaim-key", key::queue::decode_reclaim, GENERATION);
}

#[test]
fn entities_of_the_page_decode() {
    let texts = |bytes: &[u8]| {
        let record = EntityRecord::parse(bytes)?;
        record.verify()?;
        Ok(record.iter().map(|pair| format!("{pair:?}")).collect::<Vec<_>>())
    };
    let expect = entity_properties().map(|pair| format!("{pair:?}"));
    check("entity", texts, expect.to_vec());
    check("entity-empty", texts, Vec::new());
}

#[test]
fn values_of_the_page_decode() {
    check("catalog-record", CatalogRecord::decode, catalog_record());
    check("catalog-record-with-settings", CatalogRecord::decode, catalog_record_with_settings());
    check("index-build", BuildRecord::decode, build_record());
    check("index-build-troubled", BuildRecord::decode, troubled_build_record());
    let owner = |bytes: &[u8]| Ok(settings::decode_owner(bytes)?.to_vec());
    check("index-used", settings::decode_used, Timestamp::UNIX_EPOCH);
    check("index-owner", owner, b"Sales\x0012".to_vec());
    let change = |bytes: &[u8]| ChangeRecord::decode(bytes).map(|change| change.encode());
    check("change", change, self::change().encode());
    check("feed-record", FeedRecord::decode, feed_record());
    check("expiry-record", ExpiryRecord::decode, expiry_record());
    check("next-table-id", table::decode_next_table_id, TableId(33));
    check("reclaim-mark", ReclaimMark::decode, reclaim_mark(false));
    check("reclaim-mark-swept", ReclaimMark::decode, reclaim_mark(true));
    check("chore-lease", LeaseRecord::decode, lease());
    check("gateway", GatewayRecord::decode, gateway());
    check("access-policies", table::decode_access_policies, access_policies());
    check("service-properties", table::decode_service_properties, service_properties());
    check("queue-record", QueueRecord::decode, queue_record());
    check("message", MessageRecord::decode, message());
    check("message-with-text-apart", MessageRecord::decode, message_with_text_apart());
    check("message-text", queue::decode_text, message_text());
}

const INDEX: IndexId = IndexId { table: TABLE, number: 2 };
const ENTRIES: key::index::Entries =
    key::index::Entries { index: INDEX, value_bytes_max: key::index::INDEXED_BYTES_MAX };

const FEED: FeedId = FeedId { table: TABLE, number: 1 };
/// 2025-01-01T00:00:00Z.
const NEW_YEAR: u64 = 638_712_864_000_000_000;

fn change() -> ChangeRecord<'static> {
    const EMPTY: &[u8] = &[1, 0, 0, 0];
    ChangeRecord {
        operation: ChangeOperation::Merge,
        entity: b"Sales\x0012",
        new: Some(EMPTY),
        old: Some((Timestamp::UNIX_EPOCH.ticks(), EMPTY)),
    }
}

fn feed_record() -> FeedRecord {
    let table = TableName::parse("Orders").unwrap();
    FeedRecord { account: account(), table, begun: Timestamp::UNIX_EPOCH, floor: 5 }
}

const EPOCH_BUCKET: u64 = key::expiry::bucket(Timestamp::UNIX_EPOCH);

fn expiry_record() -> ExpiryRecord {
    ExpiryRecord { account: account(), table: TableName::parse("Orders").unwrap() }
}

fn index_entry() -> Vec<u8> {
    let mut key = ENTRIES.prefix([ValueRef::String("a@b")]);
    key.extend_from_slice(b"Sales\x0012");
    key
}

/// One value of each type, as they follow each other in an entry.
fn index_values() -> Vec<u8> {
    let values = [
        ValueRef::Boolean(true),
        ValueRef::Int32(-1),
        ValueRef::Double(0.5),
        ValueRef::Double(f64::NAN),
        ValueRef::DateTime(Timestamp::UNIX_EPOCH),
        ValueRef::Guid(Guid([0x11; 16])),
        ValueRef::Binary(&[0, 1, 0xFF]),
        ValueRef::String("é"),
    ];
    let prefix = ENTRIES.prefix([]).len();
    ENTRIES.prefix(values).split_off(prefix)
}

fn owner_key() -> Vec<u8> {
    key::index::owner(INDEX, [ValueRef::Int32(1)]).unwrap()
}

fn catalog_record_with_settings() -> CatalogRecord {
    let index = TableIndex {
        number: 2,
        definition: IndexDefinition::new("byEmail", &["Email"], true).unwrap(),
        state: IndexState::Ready,
        since: Timestamp::UNIX_EPOCH,
        examined: 5,
        is_automatic: false,
        is_cut_short: false,
    };
    let retention = FeedRetention::from_hours(24).unwrap();
    let settings = TableSettings {
        next_index: 3,
        indexes: vec![index],
        expiry: Some(TableExpiry { number: 1, expiry: Expiry::Seconds(60) }),
        feeds: 1,
        feed: Some(Feed { images: Images::New, retention }),
    };
    CatalogRecord { settings, ..catalog_record() }
}

fn build_record() -> BuildRecord {
    let table = TableName::parse("Orders").unwrap();
    BuildRecord {
        done: 1,
        total: 5,
        count_from: None,
        from: b"L".to_vec(),
        ..BuildRecord::new(account(), table)
    }
}

fn troubled_build_record() -> BuildRecord {
    BuildRecord { trouble: Some("busy".into()), ..build_record() }
}

fn account() -> AccountName {
    AccountName::parse("acct1").unwrap()
}

fn row_range() -> std::ops::Range<Vec<u8>> {
    key::row_range(TABLE, "Sales", Bound::Excluded("12"), Bound::Included("2"))
}

fn reclaim_mark(is_swept: bool) -> ReclaimMark {
    ReclaimMark { dropped: Timestamp::UNIX_EPOCH, is_swept }
}

fn lease() -> LeaseRecord {
    LeaseRecord { holder: "gw-1".into(), beat: 12 }
}

fn gateway() -> GatewayRecord {
    GatewayRecord {
        version: "0.1.0".into(),
        started: Timestamp::UNIX_EPOCH,
        listens: vec![("table".into(), "10.0.0.1:80".into())],
    }
}

fn queue_name() -> QueueName {
    QueueName::parse("orders").unwrap()
}

fn position() -> Position {
    let inserted = Timestamp::parse("1998-02-04T22:13:53.151183Z").unwrap();
    Position { next_visible: Timestamp::UNIX_EPOCH, id: MessageId::new(inserted, 42 << 2) }
}

fn queue_record() -> QueueRecord {
    let metadata = Metadata::parse([("Val1", "test")]).unwrap();
    QueueRecord { generation: GENERATION, metadata }
}

fn message_text() -> MessageText {
    MessageText::new("héllo").unwrap()
}

fn message() -> MessageRecord {
    MessageRecord {
        inserted: Timestamp::UNIX_EPOCH,
        expires: Timestamp::MAX,
        dequeue_count: 3,
        voided: vec![Timestamp::UNIX_EPOCH.plus_seconds(1)],
        text: StoredText::Inline(message_text()),
    }
}

fn message_with_text_apart() -> MessageRecord {
    MessageRecord { dequeue_count: 0, voided: Vec::new(), text: StoredText::Apart, ..message() }
}

fn entity_properties() -> [(&'static str, ValueRef<'static>); 4] {
    let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    [
        ("Name", ValueRef::String("é")),
        ("Age", ValueRef::Int32(23)),
        ("Paid", ValueRef::Boolean(true)),
        ("Id", ValueRef::Guid(guid)),
    ]
}

fn catalog_record() -> CatalogRecord {
    CatalogRecord {
        id: TABLE,
        name: TableName::parse("Orders").unwrap(),
        created: Timestamp::UNIX_EPOCH,
        settings: Default::default(),
    }
}

fn access_policies() -> AccessPolicies {
    let read = AccessPolicy {
        id: "read".into(),
        start: None,
        expiry: Some(Timestamp::UNIX_EPOCH),
        permissions: Some("r".into()),
    };
    let bare = AccessPolicy { id: "bare".into(), start: None, expiry: None, permissions: None };
    AccessPolicies::new(vec![read, bare]).unwrap()
}

fn service_properties() -> ServiceProperties {
    ServiceProperties {
        logging: Logging { read: true, write: false, delete: true, retention: Retention(Some(7)) },
        hour_metrics: Metrics { enabled: true, include_apis: Some(true), ..Metrics::default() },
        minute_metrics: Metrics::default(),
        cors: vec![CorsRule {
            allowed_origins: vec!["*".into()],
            allowed_methods: vec!["GET".into()],
            max_age_seconds: 200,
            ..CorsRule::default()
        }],
    }
}
