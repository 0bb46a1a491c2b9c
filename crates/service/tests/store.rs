//! What services share, on the memory engine.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_engine::{Commit, Key, MemoryEngine, MemoryOptions, Revision, Write, Writers};
use lazuli_layout::table::encode_reclaim;
use lazuli_layout::{TableId, key};
use lazuli_model::service_properties::{Logging, Metrics};
use lazuli_model::{AccountName, Clock, ServicePropertiesPatch, Timestamp};
use lazuli_service::Store;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(Ordering::SeqCst))
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock(AtomicU64::new(0)))
}

fn engine(writers: Writers) -> Arc<MemoryEngine> {
    Arc::new(MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() }))
}

/// Marks that table `id` was dropped at a second.
async fn mark(store: &Store, id: u64, seconds: u64) {
    let dropped = encode_reclaim(Timestamp::from_unix_seconds(seconds));
    let write = Write::Put(Key::from(key::reclaim(TableId(id))), dropped.into());
    store.engine.commit(Commit::new(Revision(0), vec![write])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_is_given_once_however_many_processes_ask() {
    let engine = engine(Writers::Many);
    let stores: Vec<_> = (0..4).map(|_| Store::new(engine.clone(), clock())).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let store: Store = stores.get(task % 4).unwrap().clone();
        tasks.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..50 {
                ids.push(store.next_id().await.unwrap());
            }
            ids
        });
    }
    let mut all = BTreeSet::new();
    while let Some(ids) = tasks.join_next().await {
        for id in ids.unwrap() {
            assert!(all.insert(id), "{id} was given twice");
        }
    }
    assert_eq!(all.len(), 800);
}

/// Only the first 1,024 marks were examined: while they were young, an older one had to wait.
#[tokio::test]
async fn a_settled_mark_is_found_after_any_number_of_young_ones() {
    let store = Store::new(engine(Writers::Sole), clock());
    for id in 0..1500 {
        mark(&store, id, 1_000).await;
    }
    mark(&store, 1500, 10).await;
    let now = Timestamp::from_unix_seconds(1_010);
    let found = store.settled_mark(key::reclaim_range(), now).await.unwrap().unwrap();
    assert_eq!(key::decode_reclaim(&found.key), Ok(TableId(1500)));
    let range = key::table_range(TableId(1500));
    store.reclaim_marked(found, [range]).await.unwrap();
    assert_eq!(store.settled_mark(key::reclaim_range(), now).await.unwrap(), None);
}

#[tokio::test]
async fn patches_of_service_properties_do_not_undo_each_other() {
    let store = Store::new(engine(Writers::Sole), clock());
    let key = || key::service_properties(&AccountName::parse("acct1").unwrap());
    let logging = Logging { write: true, ..Logging::default() };
    let metrics = Metrics { enabled: true, ..Metrics::default() };
    let first = ServicePropertiesPatch { logging: Some(logging.clone()), ..Default::default() };
    let second =
        ServicePropertiesPatch { hour_metrics: Some(metrics.clone()), ..Default::default() };
    let (first, second) = tokio::join!(
        store.set_service_properties(key(), first),
        store.set_service_properties(key(), second),
    );
    first.and(second).unwrap();
    let stored = store.service_properties(key()).await.unwrap();
    assert_eq!((stored.logging, stored.hour_metrics), (logging, metrics));
}
