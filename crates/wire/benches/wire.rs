//! What a request costs in the protocol: filter, JSON both ways, signature.
//!
//! `cargo bench -p lazuli-wire`; a name as argument selects one.

#![expect(clippy::unwrap_used, reason = "a benchmark whose input is bad should stop")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lazuli_model::{Filter, Row, Timestamp, ValueRef};
use lazuli_wire::media::MetadataLevel;
use lazuli_wire::odata::filter;
use lazuli_wire::odata::json::{self, Context, EntityBody};
use lazuli_wire::shared_key::{Scheme, SignedRequest, SigningKey};
use std::hint::black_box;

/// About 1 KiB with ten properties of every type, as the load benchmark writes it.
fn entity_json() -> String {
    let (thumbnail, description) = ("A".repeat(160), "quartz and willow ".repeat(31));
    format!(
        "{{\"PartitionKey\":\"customer-000001\",\"RowKey\":\"order-000001\",\"Name\":\"opal basin\",\
         \"City\":\"harbour\",\"Quantity\":817,\"Active\":true,\"Price\":123.455,\
         \"Total@odata.type\":\"Edm.Int64\",\"Total\":\"184467440737\",\
         \"Created@odata.type\":\"Edm.DateTime\",\"Created\":\"2026-11-15T12:30:45.1234567Z\",\
         \"OrderId@odata.type\":\"Edm.Guid\",\"OrderId\":\"a1b2c3d4-1c2d-4e3f-8a9b-0123456789ab\",\
         \"Thumbnail@odata.type\":\"Edm.Binary\",\"Thumbnail\":\"{thumbnail}\",\
         \"Description\":\"{description}\"}}"
    )
}

struct Entity<'a>(EntityBody<'a>);

impl Row for Entity<'_> {
    fn partition_key(&self) -> &str {
        self.0.partition_key.as_deref().unwrap_or_default()
    }

    fn row_key(&self) -> &str {
        self.0.row_key.as_deref().unwrap_or_default()
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        let found = self.0.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_ref())
    }
}

fn filters(c: &mut Criterion) {
    let ten: Vec<_> = (0..10).map(|row| format!("RowKey eq 'order-{row:06}'")).collect();
    let ten = format!("PartitionKey eq 'customer-000001' and ({})", ten.join(" or "));
    let range = "PartitionKey eq 'customer-000001' and RowKey ge 'order-001000' \
                 and RowKey lt 'order-002000'";
    let mut group = c.benchmark_group("filter");
    group.bench_function("parse/range", |b| b.iter(|| filter::parse(black_box(range)).unwrap()));
    group.bench_function("parse/ten-keys", |b| b.iter(|| filter::parse(black_box(&ten)).unwrap()));
    let parsed: Filter = filter::parse("Quantity eq 816 and Price gt 100.0").unwrap();
    let text = entity_json();
    let entity = Entity(json::read_entity(text.as_bytes()).unwrap());
    group.bench_function("matches/property", |b| b.iter(|| parsed.matches(black_box(&entity))));
    group.finish();
}

fn json(c: &mut Criterion) {
    let text = entity_json();
    let entity = json::read_entity(text.as_bytes()).unwrap();
    let mut group = c.benchmark_group("json");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("read", |b| {
        b.iter(|| json::read_entity(black_box(text.as_bytes())).unwrap())
    });
    for (name, level) in
        [("write/minimal", MetadataLevel::Minimal), ("write/none", MetadataLevel::None)]
    {
        let context = Context {
            base: "http://127.0.0.1:10002/devstoreaccount1/",
            account: "devstoreaccount1",
            table: "Bench",
            level,
            minimal_etag: true,
            select: None,
        };
        let mut out = Vec::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                let properties = entity.properties.iter();
                let properties = properties.map(|(name, value)| (&**name, value.as_ref()));
                let (partition, row) = ("customer-000001", "order-000001");
                let timestamp = Timestamp::UNIX_EPOCH;
                json::write_entity(&mut out, &context, partition, row, timestamp, properties);
                black_box(out.len())
            });
        });
    }
    group.finish();
}

fn signature(c: &mut Criterion) {
    let key = SigningKey::from_base64("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6").unwrap();
    let request = SignedRequest {
        method: "GET",
        content_md5: "",
        content_type: "",
        date: "Sun, 15 Nov 2026 12:30:45 GMT",
        account: "devstoreaccount1",
        path: "/devstoreaccount1/Bench(PartitionKey='customer-000001',RowKey='order-000001')",
        comp: None,
    };
    let signature = request.sign(Scheme::SharedKey, &key).to_string();
    let keys = [key];
    c.bench_function("signature/verify", |b| {
        b.iter(|| {
            assert!(black_box(&request).is_signed_by(&keys, Scheme::SharedKey, &signature));
        });
    });
}

criterion_group!(benches, filters, json, signature);
criterion_main!(benches);
