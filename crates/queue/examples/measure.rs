//! What the service costs on the local engine, without HTTP: `cargo run --release -p lazuli-queue
//! --example measure [MESSAGES]`. Prints rates, and how long a get takes after so many messages were
//! put and deleted.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people at a terminal")]
#![expect(clippy::indexing_slicing, reason = "as above")]

use lazuli_engine_local::{LocalEngine, LocalOptions};
use lazuli_model::{
    AccountName, MessageText, Metadata, PutTimes, QueueName, SystemClock, VisibilityTimeout,
};
use lazuli_queue::QueueService;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TASKS: usize = 64;
const SAMPLES: usize = 500;

#[derive(Clone)]
struct Client {
    service: QueueService,
    account: AccountName,
}

#[derive(Clone, Copy)]
enum Work {
    Put,
    GetAndDelete,
}

impl Client {
    async fn create(&self, name: &str) -> QueueName {
        let queue = QueueName::parse(name).unwrap();
        let none = Metadata::default();
        self.service.create_queue(&self.account, &queue, &none).await.unwrap();
        queue
    }

    async fn put(&self, queue: &QueueName) {
        let text = MessageText::new("x".repeat(200)).unwrap();
        let times = PutTimes::default();
        self.service.put_message(&self.account, queue, &text, times).await.unwrap();
    }

    /// How long the get took.
    async fn get_and_delete(&self, queue: &QueueName) -> Duration {
        let visibility = VisibilityTimeout::of_get(30).unwrap();
        let Self { service, account } = self;
        let begun = Instant::now();
        let got = service.get_messages(account, queue, 1, visibility).await.unwrap().remove(0);
        let took = begun.elapsed();
        let id = got.message.id;
        service.delete_message(account, queue, id, got.receipt).await.unwrap();
        took
    }

    /// Does `work` so many times by tasks that share `queues`; returns how often a second.
    async fn rate(&self, queues: &[QueueName], times: usize, work: Work) -> f64 {
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (client, queue) = (self.clone(), queues[task % queues.len()].clone());
            tasks.spawn(async move {
                for _ in 0..times / TASKS {
                    match work {
                        Work::Put => client.put(&queue).await,
                        Work::GetAndDelete => drop(client.get_and_delete(&queue).await),
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        times as f64 / begun.elapsed().as_secs_f64()
    }

    /// The 50th and the 99th hundredth of a get with one message in the queue.
    async fn get_latency(&self, queue: &QueueName) -> (Duration, Duration) {
        let mut took = Vec::new();
        for _ in 0..SAMPLES {
            self.put(queue).await;
            took.push(self.get_and_delete(queue).await);
        }
        took.sort_unstable();
        (took[SAMPLES / 2], took[SAMPLES * 99 / 100])
    }
}

#[tokio::main]
async fn main() {
    let messages = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(directory.path(), LocalOptions::default()).unwrap();
    let state = AtomicU64::new(1);
    let random = move || state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
    let client = Client {
        service: QueueService::new(Arc::new(engine), Arc::new(SystemClock), Arc::new(random)),
        account: AccountName::parse("acct1").unwrap(),
    };
    let fresh = client.create("fresh").await;
    println!("get, fresh queue (p50, p99): {:?}", client.get_latency(&fresh).await);
    let one = [client.create("one").await];
    println!("put, one queue: {:.0}/s", client.rate(&one, messages, Work::Put).await);
    let begun = Instant::now();
    let info = client.service.queue_info(&client.account, &one[0]).await.unwrap();
    println!("count of {}: {:?}", info.messages, begun.elapsed());
    let rate = client.rate(&one, messages / TASKS * TASKS, Work::GetAndDelete).await;
    println!("get and delete, one queue: {rate:.0}/s");
    println!("get, used queue (p50, p99): {:?}", client.get_latency(&one[0]).await);
    let mut many = Vec::new();
    for queue in 0..TASKS {
        many.push(client.create(&format!("many-{queue}")).await);
    }
    println!("put, 64 queues: {:.0}/s", client.rate(&many, messages, Work::Put).await);
    let rate = client.rate(&many, messages, Work::GetAndDelete).await;
    println!("get and delete, 64 queues: {rate:.0}/s");
}
