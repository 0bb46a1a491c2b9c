//! The entity of the benchmark as a Rust type: for the client library, and for serde_json.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazuli_client::{Guid, TableEntity, Timestamp};
use serde::{Deserialize, Deserializer, de};

/// One entity; `entity.rs` describes it.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(rename_all = "PascalCase")]
#[table(partition = "customer-{customer:06}", row = "order-{order:06}")]
pub(super) struct Order {
    pub(super) customer: u32,
    pub(super) order: u32,
    pub(super) name: String,
    pub(super) city: String,
    pub(super) quantity: i32,
    pub(super) active: bool,
    pub(super) price: f64,
    pub(super) total: i64,
    pub(super) created: Timestamp,
    pub(super) order_id: Guid,
    pub(super) thumbnail: Vec<u8>,
    pub(super) description: String,
}

/// A page of entities, as a program without a client library would read it.
#[derive(Deserialize)]
pub(super) struct PlainPage {
    pub(super) value: Vec<PlainOrder>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(dead_code, reason = "what matters is that they are decoded")]
pub(super) struct PlainOrder {
    #[serde(rename = "odata.etag")]
    etag: String,
    partition_key: String,
    pub(super) row_key: String,
    #[serde(deserialize_with = "timestamp")]
    timestamp: Timestamp,
    name: String,
    city: String,
    quantity: i32,
    active: bool,
    price: f64,
    #[serde(deserialize_with = "int64")]
    total: i64,
    #[serde(deserialize_with = "timestamp")]
    created: Timestamp,
    #[serde(deserialize_with = "guid")]
    order_id: Guid,
    #[serde(deserialize_with = "binary")]
    thumbnail: Vec<u8>,
    description: String,
}

/// Reads a value that is a string on the wire.
fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    parse(text).ok_or_else(|| de::Error::custom("not a value of its type"))
}

fn int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    from_text(deserializer, |text| text.parse().ok())
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    from_text(deserializer, Timestamp::parse)
}

fn guid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Guid, D::Error> {
    from_text(deserializer, Guid::parse)
}

fn binary<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    from_text(deserializer, |text| STANDARD.decode(text).ok())
}
