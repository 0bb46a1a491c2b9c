//! What encoding and decoding an entity costs: key codec, record.
//!
//! `cargo bench -p lazuli-layout`; a name as argument selects one.

#![expect(clippy::unwrap_used, reason = "a benchmark whose input is bad should stop")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lazuli_layout::{EntityRecord, TableId, entity, key};
use lazuli_model::{EntityKey, Guid, Timestamp, ValueRef};
use std::hint::black_box;

fn keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("key");
    // A character from U+E000 on is the one case in which a key cannot be read in place.
    for (name, partition) in [("ascii", "customer-000001"), ("rare", "customer-\u{ff21}-000001")] {
        let entity = EntityKey::parse(partition, "order-000001").unwrap();
        let stored = key::entity(TableId(7), &entity);
        group.bench_function(format!("encode/{name}"), |b| {
            b.iter(|| key::entity(TableId(7), black_box(&entity)))
        });
        group.bench_function(format!("decode/{name}"), |b| {
            b.iter(|| key::decode_entity(black_box(&stored)).map(|key| key.partition.len()))
        });
    }
    group.finish();
}

fn records(c: &mut Criterion) {
    let (thumbnail, description) = ([7; 120], "quartz and willow ".repeat(31));
    // About 1 KiB with ten properties of every type, as the load benchmark writes it.
    let properties = [
        ("Name", ValueRef::String("opal basin")),
        ("City", ValueRef::String("harbour")),
        ("Quantity", ValueRef::Int32(817)),
        ("Active", ValueRef::Boolean(true)),
        ("Price", ValueRef::Double(123.455)),
        ("Total", ValueRef::Int64(184_467_440_737)),
        ("Created", ValueRef::DateTime(Timestamp::UNIX_EPOCH)),
        ("OrderId", ValueRef::Guid(Guid([9; 16]))),
        ("Thumbnail", ValueRef::Binary(&thumbnail)),
        ("Description", ValueRef::String(&description)),
    ];
    let stored = entity::encode(properties.into_iter());
    let mut group = c.benchmark_group("entity");
    group.throughput(Throughput::Bytes(stored.len() as u64));
    group.bench_function("encode", |b| {
        b.iter(|| entity::encode(black_box(&properties).iter().copied()))
    });
    group.bench_function("parse", |b| {
        b.iter(|| EntityRecord::parse(black_box(&stored)).map(|record| record.len()))
    });
    group.bench_function("parse+verify", |b| {
        b.iter(|| EntityRecord::parse(black_box(&stored)).unwrap().verify())
    });
    group.bench_function("parse+find", |b| {
        b.iter(|| {
            let record = EntityRecord::parse(black_box(&stored)).unwrap();
            matches!(record.find("Quantity"), Some(ValueRef::Int32(816)))
        })
    });
    group.bench_function("parse+iterate", |b| {
        b.iter(|| EntityRecord::parse(black_box(&stored)).unwrap().iter().count())
    });
    group.finish();
}

criterion_group!(benches, keys, records);
criterion_main!(benches);
