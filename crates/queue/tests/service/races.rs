//! Many consumers of one queue at once.

use crate::fixture::{Fixture, memory};
use lazuli_engine::{Engine, Writers};
use lazuli_engine_local::{LocalEngine, LocalOptions};
use lazuli_queue::QueueError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const CONSUMERS: usize = 100;

/// Consumers get and delete until every message was got; returns how often the service was busy.
async fn consume(fixture: &Fixture, messages: usize) -> u64 {
    let got = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let (left, busy) = (Arc::new(AtomicUsize::new(messages)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for consumer in 0..CONSUMERS {
        let (fixture, got) = (fixture.clone(), got.clone());
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
    let busy = consume(&fixture, messages).await;
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

/// Spread over a window, consumers that meet are rarely told to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_consumers_of_many_processes_get_each_message_once() {
    let busy = race(memory(Writers::Many), 2000).await;
    assert!(busy <= 20, "{busy}");
}

/// Producers, consumers and a monitor at once: nothing is lost, nothing comes twice, and the count is
/// exact at the end.
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
        consume(&consumers, (producers * each) as usize).await;
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(fixture.count().await, 0);
}

/// A put that races the deletion or the clearing of its queue is before it or finds it gone.
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
