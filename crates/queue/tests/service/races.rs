//! Many consumers of one queue at once.

use crate::fixture::{Fixture, memory};
use lazuli_engine::{Engine, Writers};
use lazuli_engine_local::{LocalEngine, LocalOptions};
use lazuli_model::PutTimes;
use lazuli_model::limits::MESSAGES_PER_GET_MAX;
use lazuli_queue::{QueueBounds, QueueError};
use lazuli_testkit::seed::Seeded;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

const CONSUMERS: usize = 100;

/// Consumers in all `processes` get and delete until every message has been received; returns how often
/// a service was busy.
async fn consume(processes: &[Fixture], messages: usize) -> u64 {
    let got = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let (left, busy) = (Arc::new(AtomicUsize::new(messages)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for consumer in 0..CONSUMERS {
        let (fixture, got) = (processes[consumer % processes.len()].clone(), got.clone());
        let (left, busy) = (left.clone(), busy.clone());
        tasks.spawn(async move {
            while left.load(Ordering::SeqCst) > 0 {
                match fixture.try_to_get(1 + consumer % 3, 3600).await {
                    Ok(received) => {
                        for received in received {
                            let text = received.message.text.as_str().to_owned();
                            *got.lock().unwrap().entry(text).or_default() += 1;
                            left.fetch_sub(1, Ordering::SeqCst);
                            assert_eq!(received.message.dequeue_count, 1);
                            fixture.delete(&received).await.unwrap();
                        }
                    }
                    Err(QueueError::Store(lazuli_service::StoreError::Busy)) => {
                        busy.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => panic!("{error}"),
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let got = got.lock().unwrap();
    assert_eq!(got.len(), messages);
    assert!(got.values().all(|times| *times == 1), "a message was got twice");
    busy.load(Ordering::SeqCst)
}

async fn race(engine: Arc<dyn Engine>, messages: usize) -> u64 {
    let fixture = Fixture::on(engine).await;
    for message in 0..messages {
        fixture.put(&message.to_string()).await;
    }
    let mut processes = vec![fixture.clone()];
    if fixture.service.nature().writers == Writers::Many {
        processes.extend((0..3).map(|_| fixture.elsewhere()));
    }
    // So that everyone sees all messages, whatever ticks the first has issued.
    fixture.clock.advance_seconds(1);
    let busy = consume(&processes, messages).await;
    assert!(fixture.get_texts().await.is_empty());
    fixture.clock.advance_seconds(2);
    assert_eq!(fixture.count().await, 0);
    busy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_consumers_get_each_message_once() {
    assert_eq!(race(memory(Writers::Sole), 3000).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_consumers_get_each_message_once_on_the_local_engine() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    assert_eq!(race(Arc::new(engine), 2000).await, 0);
}

/// Spread over a window, conflicting consumers rarely get a busy error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_consumers_of_many_processes_get_each_message_once() {
    let busy = race(memory(Writers::Many), 2000).await;
    assert!(busy <= 20, "{busy}");
}

/// Every get finds messages: together, the gets ask for exactly as many as exist. The message memory is
/// too small for more than one get, so that each scan finds no more than its own request and one other
/// could take.
async fn no_get_is_empty(engine: Arc<dyn Engine>, gets: usize) {
    let mut fixture = Fixture::on(engine).await;
    let bounds = QueueBounds { ready_bytes_max: 0, ..QueueBounds::default() };
    fixture.service = fixture.service.with_bounds(bounds);
    for message in 0..gets * MESSAGES_PER_GET_MAX {
        fixture.put(&message.to_string()).await;
    }
    fixture.clock.advance_seconds(1);
    let (begun, got) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<BTreeSet<String>>>::default());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONSUMERS {
        let (fixture, begun, got) = (fixture.clone(), begun.clone(), got.clone());
        tasks.spawn(async move {
            while begun.fetch_add(1, Ordering::SeqCst) < gets {
                let received = fixture.get(MESSAGES_PER_GET_MAX, 3600).await;
                assert!(!received.is_empty(), "empty, though messages were visible");
                let mut got = got.lock().unwrap();
                for text in crate::fixture::texts(&received) {
                    assert!(got.insert(text), "a message came twice within its visibility");
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(got.lock().unwrap().len(), gets * MESSAGES_PER_GET_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn a_get_is_not_empty_while_messages_are_visible() {
    no_get_is_empty(memory(Writers::Sole), 400).await;
}

/// Producers, consumers and a monitor at once: nothing is lost, nothing is delivered twice, and the
/// count is exact at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn puts_gets_and_counts_at_once() {
    let fixture = Fixture::new().await;
    let (producers, each) = (20, 100);
    let mut tasks = tokio::task::JoinSet::new();
    for producer in 0..producers {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            for message in 0..each {
                fixture.put(&format!("{producer}-{message}")).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let monitor = fixture.clone();
    tasks.spawn(async move {
        for _ in 0..200 {
            assert!(monitor.count().await <= producers * each);
            tokio::task::yield_now().await;
        }
    });
    let consumers = fixture.clone();
    tasks.spawn(async move {
        consume(&[consumers], (producers * each) as usize).await;
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(fixture.count().await, 0);
}

/// Polls a request at most `polls` times, then drops it.
async fn within<T>(polls: usize, request: impl Future<Output = T>) -> Option<T> {
    let mut request = std::pin::pin!(request);
    let mut polled = 0;
    std::future::poll_fn(move |context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        context.waker().wake_by_ref();
        request.as_mut().poll(context).map(Some)
    })
    .await
}

/// Clients that hang up at any moment, on an engine that finishes what it was sent: every message whose
/// put was answered is delivered until its deletion is answered, and never after.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_requests_lose_nothing_and_bring_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    let fixture = Fixture::on(Arc::new(engine)).await;
    let [put, maybe_deleted, deleted] = [(); 3].map(|()| Arc::<Mutex<BTreeSet<String>>>::default());
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..16_u64 {
        let fixture = fixture.clone();
        let (put, deleted) = (put.clone(), deleted.clone());
        let maybe_deleted = maybe_deleted.clone();
        tasks.spawn(async move {
            let mut choose = Seeded::new(client);
            for step in 0..150 {
                let polls = [1, 2, 3, 5, 20, usize::MAX][choose.below(6)];
                let text = format!("{client}-{step}");
                let times = PutTimes::default();
                if let Some(answer) = within(polls, fixture.try_to_put(&text, times)).await {
                    answer.unwrap();
                    put.lock().unwrap().insert(text);
                }
                let got = within(polls, fixture.try_to_get(2, 1)).await;
                for got in got.into_iter().flat_map(Result::unwrap) {
                    let text = got.message.text.as_str().to_owned();
                    maybe_deleted.lock().unwrap().insert(text.clone());
                    if let Some(Ok(())) = within(polls, fixture.delete(&got)).await {
                        deleted.lock().unwrap().insert(text);
                    }
                }
                fixture.clock.advance_ticks(choose.next_u64() % 1_000_000);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let rest = drain(&fixture).await;
    assert_eq!(rest.len() as u64, fixture.count().await);
    let [put, maybe_deleted, deleted] =
        [put, maybe_deleted, deleted].map(|set| set.lock().unwrap().clone());
    assert!(rest.is_disjoint(&deleted));
    let missing: Vec<_> =
        put.difference(&rest).filter(|text| !maybe_deleted.contains(*text)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!rest.is_empty() && deleted.len() > 100, "{} and {}", rest.len(), deleted.len());
}

/// All messages of the queue, once those in flight are visible again.
async fn drain(fixture: &Fixture) -> BTreeSet<String> {
    let mut rest = BTreeSet::new();
    let mut rounds_without = 0;
    while rounds_without < 3 {
        fixture.clock.advance_seconds(2);
        let got = fixture.get(32, 3600).await;
        rounds_without = if got.is_empty() { rounds_without + 1 } else { 0 };
        for text in crate::fixture::texts(&got) {
            assert!(rest.insert(text));
        }
    }
    rest
}

/// A put that races with the deletion or clearing of its queue happens before it or finds the queue gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn puts_race_clears() {
    let fixture = Fixture::new().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            for _ in 0..100 {
                fixture.put("x").await;
                tokio::task::yield_now().await;
            }
        });
    }
    for _ in 0..20 {
        fixture.clear().await.unwrap();
        tokio::task::yield_now().await;
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let count = fixture.count().await;
    let mut got = 0;
    loop {
        match fixture.get(32, 3600).await.len() as u64 {
            0 => break,
            more => got += more,
        }
    }
    assert_eq!(got, count);
}
