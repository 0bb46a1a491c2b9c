//! The entities that the benchmark loads and writes: about 1 KiB, ten properties of every type.
//!
//! An entity's number determines its content, so a workload knows in advance how many entities each
//! query must find.

use lazuli_testkit::seed::Seeded;
use lazuli_wire::odata::json;
use std::fmt::Write as _;

/// Entities of one partition.
pub(crate) const PARTITION_ROWS: usize = 5_000;
/// One entity in this many, in every partition, has a given `Quantity`.
pub(crate) const QUANTITIES: usize = 1_000;

/// Words, so that the text compresses like real text.
const WORDS: [&str; 32] = [
    "amber", "basin", "cobalt", "delta", "ember", "fjord", "granite", "harbour", "indigo",
    "jasper", "kestrel", "lagoon", "marble", "nectar", "opal", "pebble", "quartz", "river",
    "saffron", "timber", "umber", "valley", "willow", "yarrow", "zephyr", "azure", "beryl",
    "copper", "drift", "estuary", "flint", "gypsum",
];
const DESCRIPTION_BYTES: usize = 680;
const THUMBNAIL_BYTES: usize = 120;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The entities in a table: whole partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dataset {
    pub(crate) partitions: usize,
}

impl Dataset {
    /// At least this many entities, and at least one partition.
    pub(crate) fn of(entities: usize) -> Self {
        Self { partitions: entities.div_ceil(PARTITION_ROWS).max(1) }
    }

    pub(crate) fn entities(self) -> usize {
        self.partitions * PARTITION_ROWS
    }
}

/// The keys of entity `number`. Numbers that follow each other share a partition.
pub(crate) fn key(number: usize) -> (String, String) {
    (partition(number / PARTITION_ROWS), row(number % PARTITION_ROWS))
}

pub(crate) fn partition(number: usize) -> String {
    format!("customer-{number:06}")
}

pub(crate) fn row(number: usize) -> String {
    format!("order-{number:06}")
}

/// The property that filters name. Any 1,000 consecutive entities have each quantity once.
pub(crate) fn quantity(number: usize) -> usize {
    // 7919 and 1000 have no common divisor.
    number.wrapping_mul(7_919) % QUANTITIES
}

/// The JSON of entity `number`; `version` varies the properties that no filter names.
pub(crate) fn body(partition: &str, row: &str, number: usize, version: u64) -> String {
    let mut random = Seeded::new(number as u64).stream(version);
    let mut out = String::with_capacity(1536);
    let _ = write!(
        out,
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\
         \"Name\":\"{} {}\",\"City\":\"{}\",\"Quantity\":{},\"Active\":{},{},\
         \"Total@odata.type\":\"Edm.Int64\",\"Total\":\"{}\",\
         \"Created@odata.type\":\"Edm.DateTime\",\"Created\":\"20{:02}-0{}-1{}T12:30:45.1234567Z\",\
         \"OrderId@odata.type\":\"Edm.Guid\",\"OrderId\":\"{:08x}-1c2d-4e3f-8a9b-{:012x}\",",
        word(&mut random),
        word(&mut random),
        word(&mut random),
        quantity(number),
        random.one_in(2),
        price(&mut random),
        random.next_u64() >> 16,
        random.below(25),
        1 + random.below(9),
        random.below(10),
        random.next_u64() as u32,
        random.next_u64() >> 16,
    );
    out.push_str("\"Thumbnail@odata.type\":\"Edm.Binary\",\"Thumbnail\":\"");
    push_base64(&mut out, &mut random);
    out.push_str("\",\"Description\":\"");
    push_text(&mut out, &mut random, DESCRIPTION_BYTES);
    out.push_str("\"}");
    out
}

/// The JSON that a merge sends: two properties that no filter names.
pub(crate) fn merge_body(number: usize, version: u64) -> String {
    let mut random = Seeded::new(number as u64).stream(version);
    format!("{{\"Active\":{},{}}}", random.one_in(2), price(&mut random))
}

/// The stored size of key and value of entity `number` in Lazuli.
pub(crate) fn stored_bytes(number: usize) -> usize {
    let (partition, row) = key(number);
    let body = body(&partition, &row, number, 0);
    let Ok(entity) = json::read_entity(body.as_bytes()) else { return body.len() };
    let properties = entity.properties.iter().map(|(name, value)| (&**name, value.as_ref()));
    partition.len() + row.len() + lazuli_layout::entity::encode(properties).len()
}

fn price(random: &mut Seeded) -> String {
    format!("\"Price\":{}.{:02}5", random.below(1000), random.below(100))
}

fn word(random: &mut Seeded) -> &'static str {
    WORDS.get(random.below(WORDS.len())).copied().unwrap_or_default()
}

/// Adds words until there are `bytes` of them.
pub(crate) fn push_text(out: &mut String, random: &mut Seeded, bytes: usize) {
    let end = out.len() + bytes;
    while out.len() < end {
        out.push_str(word(random));
        out.push(' ');
    }
    out.truncate(end);
}

/// Random bytes, already as the text that carries them: four characters for each three.
fn push_base64(out: &mut String, random: &mut Seeded) {
    for _ in 0..THUMBNAIL_BYTES / 3 * 4 {
        out.push(char::from(BASE64.get(random.below(64)).copied().unwrap_or(b'A')));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_has_ten_properties_of_every_type_in_a_kibibyte() {
        for number in [0, 1, 4_999, 123_456] {
            let (partition, row) = key(number);
            let body = body(&partition, &row, number, 0);
            let entity = json::read_entity(body.as_bytes()).unwrap();
            assert_eq!(entity.partition_key.as_deref(), Some(partition.as_str()));
            assert_eq!(entity.properties.len(), 10);
            let types: std::collections::HashSet<_> =
                entity.properties.iter().map(|(_, value)| value.as_ref().edm_type()).collect();
            assert_eq!(types.len(), 8);
            let stored = stored_bytes(number);
            assert!((960..1088).contains(&stored), "{stored} bytes are stored");
        }
    }

    #[test]
    fn a_thousand_entities_hold_each_quantity_once() {
        let found: std::collections::HashSet<_> = (3_000..4_000).map(quantity).collect();
        assert_eq!(found.len(), QUANTITIES);
    }

    #[test]
    fn a_merge_leaves_the_quantity_alone() {
        let body = merge_body(7, 1);
        let entity = json::read_entity(body.as_bytes()).unwrap();
        let names: Vec<_> = entity.properties.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["Active", "Price"]);
    }
}
