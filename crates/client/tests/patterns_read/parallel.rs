//! P-19.

use crate::fill;
use bytes::Bytes;
use lazuli_client::patterns::partitioned::Partitioned;
use lazuli_client::{Body, BoxFuture, Entity, HttpTransport, Transport, TransportError, iter};
use lazuli_test::TestServer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Holds every request until this many are under way, and counts them.
#[derive(Clone)]
struct Gate {
    inner: Arc<HttpTransport>,
    opens_at: usize,
    state: Arc<Mutex<(usize, usize)>>,
    changed: Arc<Notify>,
}

impl Gate {
    fn new(opens_at: usize) -> Self {
        let inner = Arc::new(HttpTransport::new(Duration::from_secs(10)).unwrap());
        Self { inner, opens_at, state: Arc::default(), changed: Arc::default() }
    }

    fn most(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

impl Transport for Gate {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(async move {
            {
                let mut state = self.state.lock().unwrap();
                state.0 += 1;
                state.1 = state.1.max(state.0);
            }
            self.changed.notify_waiters();
            loop {
                let changed = self.changed.notified();
                if self.most() >= self.opens_at {
                    break;
                }
                changed.await;
            }
            let answer = self.inner.send(request).await;
            self.state.lock().unwrap().0 -= 1;
            answer
        })
    }
}

#[tokio::test]
async fn departments_are_queried_at_once_and_no_more_than_asked_for() {
    // PS-19.1, P-19.1: no request is answered before `concurrency` are under way, so sequential requests would hang.
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("Staff").await.unwrap();
    let departments: Vec<_> = (0..8).map(|n| format!("d{n}")).collect();
    for department in &departments {
        fill(&table, department, 5).await;
    }
    for concurrency in [1, 3, 8] {
        let gate = Gate::new(concurrency);
        let account = server.account_builder().unwrap().transport(gate.clone()).build().unwrap();
        let table = account.tables().table("Staff").unwrap();
        let keys = departments.iter().map(|key| &**key);
        let query = table.query_partitions(keys).concurrency(concurrency);
        let rows = query.collect_at_most(100).await.unwrap();
        assert_eq!((rows.len(), gate.most()), (40, concurrency));
    }
}

#[tokio::test]
async fn ranges_of_workers_cover_a_table_once_while_others_write() {
    // PS-19.2. The full test has 100,000 rows.
    let count = 10 * lazuli_test::crash::chosen_rounds(2000);
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("Many").await.unwrap();
    let row = |n: usize| {
        Entity::new(format!("user-{:04}", n % 1000), format!("{n:06}")).with("Kept", true)
    };
    assert_eq!(table.bulk().upsert(iter((0..count).map(row))).await.unwrap().written, count as u64);

    let writer = table.clone();
    let writes = tokio::spawn(async move {
        for n in 0_usize.. {
            let key = format!("user-{:04}", n * 7919 % 1000);
            writer.upsert(&Entity::new(&*key, format!("new-{n}"))).await.unwrap();
            writer.delete_key((&*key, format!("new-{}", n.saturating_sub(20)))).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let split = Partitioned::new(table.scan().split(16).await.unwrap());
    assert_eq!(split.ranges().len(), 16);
    let split: Partitioned = split.to_string().parse().unwrap();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let (all, mut rows_of_workers) = (count, Vec::new());
    for worker in 0..3 {
        let ranges = split.assign(worker, 3);
        assert!((5..=6).contains(&ranges.len()));
        let mut rows = table.scan().within(ranges).unordered().stream();
        let mut count = 0;
        while let Some(row) = rows.try_next().await.unwrap() {
            if row.value("Kept").is_some() {
                *seen.entry(row.row_key().to_owned()).or_default() += 1;
                count += 1;
            }
        }
        rows_of_workers.push(count);
    }
    writes.abort();
    assert_eq!(seen.len(), count);
    assert!(seen.values().all(|times| *times == 1), "no row is seen twice");
    assert!(rows_of_workers.iter().all(|rows| *rows > all / 10), "{rows_of_workers:?}");
    assert!(split.assign(3, 3).is_empty());
}
