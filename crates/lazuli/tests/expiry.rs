//! The real binary deletes expired messages by itself, without a request.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_engine::{Direction, Engine, KeyRange, Scan, Visit};
use lazuli_engine_local::{LocalEngine, LocalOptions};
use lazuli_model::{
    AccountName, Clock, MessageText, Metadata, PutTimes, QueueName, TimeToLive, Timestamp,
    VisibilityTimeout,
};
use lazuli_queue::QueueService;
use lazuli_testkit::server::{ACCOUNT, Server};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long an expected event may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Long ago, so that messages expire at once.
struct Past;

impl Clock for Past {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2020-01-01T00:00:00Z").unwrap()
    }
}

fn open(data: &Path) -> Arc<LocalEngine> {
    Arc::new(LocalEngine::open(data, LocalOptions::default()).unwrap())
}

/// Puts messages that live a minute, and one that never expires.
async fn put_messages(engine: Arc<LocalEngine>) {
    let numbers = AtomicU64::new(1);
    let random = Arc::new(move || numbers.fetch_add(1, Ordering::SeqCst));
    let service = QueueService::new(engine, Arc::new(Past), random);
    let (account, queue) =
        (AccountName::parse(ACCOUNT).unwrap(), QueueName::parse("orders").unwrap());
    service.create_queue(&account, &queue, &Metadata::default()).await.unwrap();
    for seconds in [60, 60, 60, -1] {
        let text = MessageText::new(format!("lives {seconds}")).unwrap();
        let life = TimeToLive::parse(seconds).unwrap();
        let times = PutTimes::new(VisibilityTimeout::NONE, life).unwrap();
        service.put_message(&account, &queue, &text, times).await.unwrap();
    }
}

/// The messages that are stored; their keys begin with `Lm` (docs/format.md).
async fn stored_messages(engine: &LocalEngine) -> usize {
    let scan = Scan {
        range: KeyRange::new(*b"Lm", *b"Ln"),
        direction: Direction::Forward,
        rows_max: 100,
        bytes_max: 1 << 20,
        rows_expected: 100,
    };
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8], _| {
        count += 1;
        Visit::Continue
    };
    engine.view().await.unwrap().scan(scan, &mut visit).await.unwrap();
    count
}

/// The commits of the server since its start.
fn commits(server: &Server) -> u64 {
    let (_, metrics) = server.ask_admin("/metrics").unwrap();
    let name = "lazuli_commits_total{outcome=\"done\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

#[test]
fn expired_messages_are_deleted_without_being_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let stored = |engine: Arc<LocalEngine>| {
        let count = runtime.block_on(stored_messages(&engine));
        runtime.block_on(engine.close()).unwrap();
        count
    };
    let engine = open(data.path());
    runtime.block_on(put_messages(engine.clone()));
    assert_eq!(stored(engine), 4);

    let binary = Path::new(env!("CARGO_BIN_EXE_lazuli"));
    let server = Server::start(binary, data.path(), &[]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // Nobody writes, so the first commit is the deletion.
    while commits(&server) == 0 {
        assert!(Instant::now() < deadline, "nothing is deleted");
        std::thread::yield_now();
    }
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    assert_eq!(stored(open(data.path())), 1);
}
