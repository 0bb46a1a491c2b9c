//! Targets for the storage formats: input from a damaged disk, and what a client can make us store.

use crate::Target;
use lazuli_layout::{EntityRecord, cluster, entity, key, table};
use lazuli_model::{EntityKey, Properties, key::compare};

pub(crate) const KEY: Target = Target {
    name: "key",
    run: stored_key,
    words: &[
        "Le",
        "\0\0\0\0\0\0\0\u{1}",
        "Lr",
        "\0",
        "\u{1}\u{1}",
        "\u{1}\u{2}",
        "a",
        "é",
        "\u{FFFF}",
    ],
};

/// Only bytes that we would write are read, and the order of bytes is the order of keys.
fn stored_key(input: &[u8]) {
    let _ = key::decode_reclaim(input);
    if let Ok(stored) = key::decode_entity(input)
        && let Ok(model) = EntityKey::parse(&stored.partition, &stored.row)
    {
        assert_eq!(key::entity(stored.table, &model), input, "one spelling for each key");
    }
    let text = String::from_utf8_lossy(input);
    let mut texts = text.splitn(4, '\u{0}');
    let mut next = || texts.next().unwrap_or_default();
    let (one, other) = ((next(), next()), (next(), next()));
    let parse = |(partition, row)| EntityKey::parse(partition, row);
    if let (Ok(first), Ok(second)) = (parse(one), parse(other)) {
        let table = lazuli_layout::TableId(7);
        let order = compare(one.0, other.0).then_with(|| compare(one.1, other.1));
        assert_eq!(key::entity(table, &first).cmp(&key::entity(table, &second)), order);
    }
}

pub(crate) const RECORD: Target = Target {
    name: "record",
    run: stored_record,
    words: &[
        "\u{1}\0",
        "\u{1}\0\u{1}\0",
        "\u{1}\u{10}\u{1}\0\0\0",
        "\u{1}\0\u{4}\0\0\0",
        "a",
        "\u{7f}",
    ],
};

/// A record is read entirely or refused, and survives a round trip.
fn stored_record(input: &[u8]) {
    let _ = table::CatalogRecord::decode(input);
    let _ = table::decode_next_table_id(input);
    let _ = table::ReclaimMark::decode(input);
    let _ = cluster::LeaseRecord::decode(input);
    let _ = cluster::GatewayRecord::decode(input);
    let _ = key::decode_gateway(input);
    let _ = table::decode_access_policies(input);
    let _ = table::decode_service_properties(input);
    let Ok(record) = EntityRecord::parse(input) else { return };
    let shown = record.iter().count();
    let sound = record.verify().is_ok();
    assert_eq!(sound, shown == record.len(), "what is not sound is not all shown");
    if sound {
        // In an invalid record, two properties may have one name, and the first no value.
        assert!(record.iter().all(|(name, _)| record.find(name).is_some()));
        assert_eq!(entity::encode(record.iter()), input, "one spelling for each record");
    }
}

/// Storable properties survive a round trip.
pub(crate) fn stores(properties: &Properties<'_>) {
    let bytes = entity::encode(properties.iter());
    let Ok(record) = EntityRecord::parse(&bytes) else { panic!("corrupt as written: {bytes:?}") };
    assert_eq!(format!("{:?}", record.verify()), "Ok(())");
    let shown: Vec<_> = record.iter().map(|pair| format!("{pair:?}")).collect();
    let given: Vec<_> = properties.iter().map(|pair| format!("{pair:?}")).collect();
    assert_eq!(shown, given);
}
