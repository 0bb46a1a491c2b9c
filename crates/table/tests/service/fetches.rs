//! How much of a store a query by keys holds at once.

use crate::fixture::{compare, mutation};
use lazuli_engine::{
    BoxFuture, Engine, EngineError, Found, Key, MemoryEngine, MemoryOptions, View, Writers,
};
use lazuli_model::{AccountName, Filter, Operator, SystemClock, TableName, Value};
use lazuli_table::{EntityQuery, EntityRef, MutationKind, PlanKind, TableService};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Remembers how much a read of several keys returned at most.
struct Scales {
    below: MemoryEngine,
    most_bytes: AtomicUsize,
}

impl Layer for Scales {
    fn below(&self) -> &dyn Engine {
        &self.below
    }

    fn multi_get<'a>(
        &'a self,
        view: &'a dyn View,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            let found = view.multi_get(keys).await?;
            let bytes = found.iter().flatten().map(|found| found.value.len()).sum();
            self.most_bytes.fetch_max(bytes, Ordering::SeqCst);
            Ok(found)
        })
    }
}

/// The most bytes that a query by keys holds of 32 entities of 900,000 bytes, beside its page.
async fn most_bytes_held(writers: Writers) -> usize {
    const BYTES: usize = 900_000;
    let below = MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() });
    let engine = Arc::new(Layered::new(Scales { below, most_bytes: AtomicUsize::new(0) }));
    let service = TableService::new(engine.clone(), Arc::new(SystemClock));
    let (account, table) = (AccountName::parse("acct1"), TableName::parse("Large"));
    let (account, table) = (account.unwrap(), table.unwrap());
    service.create_table(&account, &table).await.unwrap();
    let part = vec![0_u8; BYTES / 15];
    let names: Vec<String> = (0..15).map(|n| format!("P{n}")).collect();
    let pairs: Vec<_> =
        names.iter().map(|name| (name.as_str(), Value::from(part.clone()))).collect();
    let rows: Vec<String> = (0..32).map(|row| format!("{row:02}")).collect();
    for row in &rows {
        let insert = mutation(MutationKind::Insert, ("p", row), &pairs);
        service.mutate(&account, &table, &insert).await.unwrap();
    }
    let key = |row: &String| {
        compare("PartitionKey", Operator::Eq, "p").and(compare("RowKey", Operator::Eq, row))
    };
    let filter = rows.iter().map(key).reduce(Filter::or);
    let (mut from, mut found) = (None, 0);
    loop {
        let query = EntityQuery { filter: filter.clone(), from, ..EntityQuery::default() };
        let mut sink = |_: EntityRef<'_>| found += 1;
        let end = service.query(&account, &table, query, &mut sink).await.unwrap();
        assert_eq!(end.plan, PlanKind::MultiPoint);
        match end.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(found, rows.len());
    engine.most_bytes.load(Ordering::SeqCst)
}

/// what a query by keys or by an index fetches fits beside its page into its share of memory; over a
/// network the first few are fetched before their size is known.
#[tokio::test]
async fn entities_fetched_by_key_stay_within_bounds() {
    let near = most_bytes_held(Writers::Sole).await;
    assert!(near < 2_000_000, "{near}");
    let far = most_bytes_held(Writers::Many).await;
    assert!(far < 8_000_000, "{far}");
}
