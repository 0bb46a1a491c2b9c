//! Logs in blobs (P-14), with the blobs of Azurite.

#![expect(clippy::unwrap_used, reason = "tests may")]
#![expect(clippy::indexing_slicing, reason = "tests may")]

use lazuli_client::patterns::blob_log::{BlobLog, LogLine};
use lazuli_client::prelude::*;
use lazuli_client::{BoxFuture, Env, Environment};
use lazuli_model::{Clock, SystemClock};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{
    Azurite, Fault, FaultyServer, Match, Seeded, TestClock, TestServer, TestServerBuilder, When,
    model,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;
use tokio::sync::Mutex;

const CONTAINER: &str = "applogs";

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn seconds_after(start: Timestamp, seconds: f64) -> Timestamp {
    Timestamp::from_ticks(start.ticks() + (seconds * 1e7) as u64).unwrap()
}

fn log(account: &Account) -> BlobLog {
    BlobLog::new(account, CONTAINER, "queue").unwrap()
}

/// All tests share one Azurite.
async fn prepare(account: &Account) {
    let container = account.blobs().create_if_missing(CONTAINER).await.unwrap();
    for name in blobs(account).await {
        container.blob(&name).unwrap().delete().await.unwrap();
    }
}

async fn blobs(account: &Account) -> Vec<String> {
    let container = account.blobs().container(CONTAINER).unwrap();
    let list = container.list().at_most(10_000).await.unwrap();
    list.blobs.into_iter().map(|blob| blob.name).collect()
}

async fn faulty(servers: &TestServerBuilder) -> FaultyServer {
    let server = servers.clone().clock(TestClock::default()).start_with_faults().await.unwrap();
    prepare(&server.direct()).await;
    server
}

/// All lines of the log, by their first field.
async fn all(log: &BlobLog, hours: &[Timestamp]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for start in hours {
        let lines = log.read(*start..seconds_after(*start, 3600.0));
        for line in lines.collect_at_most(100_000).await.unwrap() {
            *found.entry(line.fields.first().unwrap().clone()).or_default() += 1;
        }
    }
    found
}

#[tokio::test]
async fn logs_are_kept_in_blobs() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    // One process for all tests: it takes seconds to start.
    let servers = TestServer::builder().blob_endpoint(azurite.blob_endpoint());
    lines_go_to_the_blob_of_their_hour(&servers).await;
    two_minutes_of_a_day_open_one_hour(&servers).await;
    writers_that_lose_answers_store_each_line_once(&servers).await;
    a_failed_look_stores_no_line_twice(&servers).await;
    a_blob_that_was_replaced_keeps_its_times(&servers).await;
    a_crash_anywhere_loses_what_was_not_durable(&servers).await;
    the_buffer_is_bounded_and_flushed(&servers).await;
    each_line_is_stored_at_once_if_asked_for(&servers).await;
    old_hours_go(&servers).await;
    random_operations_do_what_a_plain_list_does(&servers).await;
}

#[derive(Clone, Debug)]
enum Operation {
    /// By one of two writers, this many minutes after the start.
    Write(usize, u64),
    Flush(usize),
    /// A writer ends, and another replaces it.
    Replace(usize),
    Read(u64, u64),
    Expire(u64),
}

/// The lines written, and by which writer: the minute, and a unique number.
#[derive(Default)]
struct Plain {
    count: usize,
    waiting: [Vec<(u64, String)>; 2],
    stored: Vec<(u64, String)>,
}

impl Plain {
    fn flush(&mut self, writer: usize) {
        let waiting = std::mem::take(&mut self.waiting[writer]);
        self.stored.extend(waiting);
    }

    fn apply(&mut self, operation: &Operation) -> Vec<(u64, String)> {
        match *operation {
            Operation::Write(writer, minute) => {
                self.count += 1;
                self.waiting[writer].push((minute, self.count.to_string()));
            }
            Operation::Flush(writer) | Operation::Replace(writer) => self.flush(writer),
            Operation::Read(from, to) => {
                let mut read = self.stored.clone();
                read.retain(|(minute, _)| (from..to).contains(minute));
                read.sort();
                return read;
            }
            // Whole hours are deleted.
            Operation::Expire(before) => {
                self.stored.retain(|(minute, _)| (minute / 60 + 1) * 60 > before);
            }
        }
        Vec::new()
    }
}

/// P-0.8.
async fn random_operations_do_what_a_plain_list_does(servers: &TestServerBuilder) {
    let choose = |random: &mut Seeded| {
        let (writer, minute) = (random.below(2), random.below(180) as u64);
        match random.below(8) {
            0..=3 => Operation::Write(writer, minute),
            4 => Operation::Flush(writer),
            5 => Operation::Replace(writer),
            6 => Operation::Expire(minute),
            _ => Operation::Read(minute.min(60), minute.max(90)),
        }
    };
    struct Real {
        account: Account,
        writers: Mutex<([BlobLog; 2], usize)>,
    }
    let setup = async |client: &TestClient| {
        prepare(client).await;
        let writers = Mutex::new(([log(client), log(client)], 0));
        Real { account: client.account.clone(), writers }
    };
    let start = time("2014-07-31T18:00:00Z");
    let at = |minute: u64| seconds_after(start, minute as f64 * 60.0);
    let real = async |real: &Real, operation: &Operation| -> Vec<(u64, String)> {
        let mut guard = real.writers.lock().await;
        let (writers, count) = &mut *guard;
        match *operation {
            Operation::Write(writer, minute) => {
                *count += 1;
                let _ = writers[writer].write_line(LogLine::new(at(minute), [count.to_string()]));
            }
            Operation::Flush(writer) => writers[writer].flush().await.unwrap(),
            Operation::Replace(writer) => {
                let before = std::mem::replace(&mut writers[writer], log(&real.account));
                before.shutdown().await.unwrap();
            }
            Operation::Expire(before) => {
                writers[0].expire(at(before)).await.unwrap();
            }
            Operation::Read(from, to) => {
                let lines = writers[0].read(at(from)..at(to)).collect_at_most(1000).await.unwrap();
                assert!(lines.is_sorted_by_key(|line| line.at));
                let minute = |line: &LogLine| (line.at.ticks() - start.ticks()) / 600_000_000;
                let mut read: Vec<_> =
                    lines.iter().map(|line| (minute(line), line.fields[0].clone())).collect();
                read.sort();
                return read;
            }
        }
        Vec::new()
    };
    let plain = |plain: &mut Plain, operation: &Operation| plain.apply(operation);
    let seeds = chosen_seeds(10);
    model::compare_on(servers, seeds, 30, choose, setup, real, plain).await.unwrap();
}

/// PS-14.1, and its cost.
async fn lines_go_to_the_blob_of_their_hour(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let log = log(&server.account());
    let hour = time("2014-07-31T18:00:00Z");
    for minute in [0.0, 30.0, 59.5] {
        let at = seconds_after(hour, 5.0 + minute * 60.0);
        let _ = log.write_line(LogLine::new(at, ["GetMessage", "a;b", "two\nlines", "a&b \"c\""]));
    }
    server.faults().take();
    log.flush().await.unwrap();
    // The list of the hour, the new blob, its metadata, the lines.
    assert_eq!(server.faults().methods(), ["GET", "PUT", "PUT", "PUT"]);
    assert_eq!(blobs(&server.direct()).await, ["queue/2014/07/31/1800/000000.log"]);
    let at = seconds_after(hour, 6.0);
    server.faults().take();
    log.write_line(LogLine::new(at, ["PutMessage"])).durable().await.unwrap();
    assert_eq!(server.faults().methods(), ["PUT"], "within the times of the blob: the line alone");

    let container = server.direct().blobs().container(CONTAINER).unwrap();
    let blob = container.blob("queue/2014/07/31/1800/000000.log").unwrap();
    let properties = blob.head().await.unwrap().unwrap();
    let metadata: BTreeMap<_, _> = properties.metadata.iter().collect();
    assert_eq!((metadata.len(), metadata["logtype"], metadata["logversion"]), (4, "write", "1.0"));
    assert_eq!(metadata["starttime"], "2014-07-31T18:00:05Z");
    assert!(metadata["endtime"] > "2014-07-31T18:59:00Z", "{metadata:?}");
    // A second writer takes the next counter, and both are read in time order.
    let second = crate::log(&server.account());
    second.write_line(LogLine::new(seconds_after(hour, 5.5), ["Late"])).durable().await.unwrap();
    let names = blobs(&server.direct()).await;
    assert_eq!(names[1], "queue/2014/07/31/1800/000001.log");
    let lines = log.read(hour..seconds_after(hour, 3600.0)).collect_at_most(10).await.unwrap();
    let first: Vec<&str> = lines.iter().map(|line| line.fields[0].as_str()).collect();
    assert_eq!(first, ["GetMessage", "Late", "PutMessage", "GetMessage", "GetMessage"]);
    assert_eq!(lines[0].fields[1..], ["a;b", "two\nlines", "a&b \"c\""]);
    // One blob for each flush, by option.
    let third = crate::log(&server.account()).block_blobs();
    server.faults().take();
    third.write_line(LogLine::new(hour, ["Block"])).durable().await.unwrap();
    assert_eq!(server.faults().methods(), ["GET", "PUT"]);
    third.write_line(LogLine::new(hour, ["Block"])).durable().await.unwrap();
    assert_eq!(blobs(&server.direct()).await.len(), 4);
}

/// PS-14.2, P-14.4.
async fn two_minutes_of_a_day_open_one_hour(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let log = log(&server.direct()).buffer_max(64 * 1024 * 1024);
    let day = time("2014-07-31T00:00:00Z");
    let mut expected = 0;
    let window = time("2014-07-31T15:04:00Z")..time("2014-07-31T15:06:00Z");
    for number in 0..100_000 {
        let at = seconds_after(day, f64::from(number) * 0.864);
        let level = if number % 100 == 7 { "Error" } else { "Info" };
        expected += usize::from(level == "Error" && window.contains(&at));
        let _ = log.write_line(LogLine::new(at, [level.to_owned(), number.to_string()]));
    }
    log.flush().await.unwrap();
    assert_eq!(blobs(&server.direct()).await.len(), 24);
    let reader = crate::log(&server.account());
    server.faults().take();
    let errors = reader.read(window.clone()).filter(|line| line.fields[0] == "Error");
    let errors = errors.collect_at_most(1000).await.unwrap();
    assert_eq!(errors.len(), expected);
    assert!(expected > 0 && errors.iter().all(|line| window.contains(&line.at)));
    let opened = server.faults().take();
    let paths: Vec<_> =
        opened.iter().filter(|e| e.path.contains(".log")).map(|e| &e.path).collect();
    assert!(paths.iter().all(|path| path.contains("/1500/")), "{paths:?}");
    assert_eq!(opened.len(), 3, "a list, the properties, the blob");
    // Blobs of another hour are not opened.
    let _ = reader.write_line(LogLine::new(time("2014-07-31T20:59:00Z"), ["Info"]));
    reader.flush().await.unwrap();
    server.faults().take();
    let early = time("2014-07-31T20:00:00Z")..time("2014-07-31T20:01:00Z");
    reader.read(early).collect_at_most(1000).await.unwrap();
    let opened = server.faults().take();
    let reads = opened.iter().filter(|e| e.method == http::Method::GET && e.path.contains(".log"));
    assert_eq!(reads.count(), 1, "of two blobs the one");
}

/// PS-14.4, P-14.1.
async fn writers_that_lose_answers_store_each_line_once(servers: &TestServerBuilder) {
    let hour = time("2014-07-31T18:00:00Z");
    for is_block in [false, true] {
        let server = faulty(servers).await;
        server.faults().add(Match::any(), When::OneIn(5), Fault::DropReply);
        let account = server.account();
        let writers = (0..4).map(|writer| {
            let log = if is_block { log(&account).block_blobs() } else { log(&account) };
            async move {
                let mut durable = Vec::new();
                for number in 0..20 {
                    let name = format!("{writer}-{number}");
                    let at = seconds_after(hour, f64::from(number));
                    let line = log.write_line(LogLine::new(at, [name.clone()]));
                    if line.durable().await.is_ok() {
                        durable.push(name);
                    }
                }
                // Lines that could not be stored at first are stored in the end.
                while log.flush().await.is_err() {}
                durable
            }
        });
        let durable = futures_util::future::join_all(writers).await.concat();
        assert!(!durable.is_empty());
        server.faults().clear();
        let found = all(&log(&server.direct()), &[hour]).await;
        assert!(durable.iter().all(|name| found.contains_key(name)), "none lost after `durable`");
        assert_eq!(found.len(), 80);
        assert!(found.values().all(|count| *count == 1), "none twice: {found:?}");
    }
}

/// P-14.2: also if the answer about the metadata or the lines was lost, and the version is unknown since.
async fn a_blob_that_was_replaced_keeps_its_times(servers: &TestServerBuilder) {
    let hour = time("2014-07-31T18:00:00Z");
    let at = |minutes: f64| seconds_after(hour, minutes * 60.0);
    for lost_at in [0.0, 10.0] {
        let server = faulty(servers).await;
        let log = log(&server.account());
        log.write_line(LogLine::new(at(0.0), ["first"])).durable().await.unwrap();
        // The second line is within the times of the blob, or not.
        server.faults().add(Match::any(), When::Always, Fault::DropReply);
        let lost = log.write_line(LogLine::new(at(lost_at), ["second"])).durable().await;
        lost.unwrap_err();
        server.faults().clear();
        if lost_at == 0.0 {
            log.flush().await.unwrap();
        }
        // The hour is deleted, and another writer's blob gets the name.
        log.expire(at(60.0)).await.unwrap();
        let other = crate::log(&server.direct());
        other.write_line(LogLine::new(at(30.0), ["other"])).durable().await.unwrap();
        log.write_line(LogLine::new(at(10.0), ["third"])).durable().await.unwrap();
        assert_eq!(blobs(&server.direct()).await.len(), 2);
        let found = other.read(at(29.0)..at(31.0)).collect_at_most(10).await.unwrap();
        assert_eq!(found.len(), 1, "found by the times of its blob");
        let found = all(&other, &[hour]).await;
        assert!(found.contains_key("third") && found.values().all(|count| *count == 1));
    }
}

/// PS-14.4: an error of the request that looks for a block says nothing of the block.
async fn a_failed_look_stores_no_line_twice(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let hour = time("2014-07-31T18:00:00Z");
    let log = log(&server.account());
    log.write_line(LogLine::new(hour, ["first"])).durable().await.unwrap();
    server.faults().add(Match::any(), When::Always, Fault::DropReply);
    log.write_line(LogLine::new(hour, ["second"])).durable().await.unwrap_err();
    server.faults().clear();
    server.faults().add(Match::any().method(http::Method::GET), When::Always, Fault::DropReply);
    log.flush().await.unwrap_err();
    server.faults().clear();
    log.flush().await.unwrap();
    let found = all(&log, &[hour]).await;
    assert_eq!(found, BTreeMap::from([("first".to_owned(), 1), ("second".to_owned(), 1)]));
}

/// PS-14.5, P-0.7.
async fn a_crash_anywhere_loses_what_was_not_durable(servers: &TestServerBuilder) {
    let hour = time("2014-07-31T18:00:00Z");
    let setup = async |client: &TestClient| prepare(client).await;
    let write = async |client: &TestClient, (): &()| {
        let log = log(client);
        for number in 0..3 {
            // The third belongs to the next hour.
            let at = seconds_after(hour, 1700.0 * f64::from(number + 1));
            let line = log.write_line(LogLine::new(at, [number.to_string()]));
            line.durable().await.unwrap();
        }
    };
    let heal = async |client: &TestClient, (): &()| {
        let next = log(client);
        next.write_line(LogLine::new(hour, ["next"])).durable().await.unwrap();
    };
    let check = async |client: &TestClient, (): &(), outcome: Option<()>| {
        let hours = [hour, seconds_after(hour, 3600.0)];
        let found = all(&log(client), &hours).await;
        assert!(found.values().all(|count| *count == 1), "{found:?}");
        assert!(found.contains_key("next"));
        let stored = ["0", "1", "2"].iter().take_while(|name| found.contains_key(**name)).count();
        assert_eq!(stored + 1, found.len(), "a later line is not there without an earlier one");
        assert!(outcome.is_none() || stored == 3);
    };
    let requests = crash::every_point_on(servers, setup, write, heal, check).await.unwrap();
    assert_eq!(requests, 4 + 2 + 4, "the second line makes the times of the blob longer");
}

/// P-14.3, P-14.5.
async fn the_buffer_is_bounded_and_flushed(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let account = server.account();
    let log = log(&account).buffer_max(100).flush_at(50);
    let long = "x".repeat(100);
    assert!(log.write([long.as_str()]).durable().await.is_err());
    assert_eq!((log.dropped(), server.faults().take().len()), (1, 0));
    // When there are enough lines they are stored without a flush, and the rest at the end.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let runner = log.clone().flush_every(Duration::from_secs(3600));
    server.clock().unwrap().hold();
    let run = async {
        let stopped = async {
            let _ = stopped.await;
        };
        runner.run(stopped).await.unwrap();
    };
    let work = async {
        let _ = log.write(["one", &"y".repeat(60)]);
        while blobs(&server.direct()).await.is_empty() {}
        let mut writer = log.writer();
        writer.write_all(b"half a ").unwrap();
        writer.write_all(b"line\nand another").unwrap();
        drop(writer);
        stop.send(()).unwrap();
    };
    tokio::join!(run, work);
    server.clock().unwrap().release();
    let now = server.clock().unwrap().now();
    let start = Timestamp::from_ticks(now.ticks() - 72_000_000_000).unwrap();
    let lines = log.read(start..seconds_after(now, 60.0)).collect_at_most(10).await.unwrap();
    let first: Vec<&str> = lines.iter().map(|line| line.fields[0].as_str()).collect();
    assert_eq!(first, ["one", "half a line", "and another"]);
    assert!(BlobLog::new(&account, CONTAINER, "a/b").is_err());
}

/// A clock on which no pause ends, and none is without time.
struct Waiting;

impl Environment for Waiting {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
    fn random(&self) -> u64 {
        0
    }
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        assert!(!pause.is_zero(), "a loop that never rests");
        Box::pin(std::future::pending())
    }
}

/// P-14.3: `flush_every(0)`.
async fn each_line_is_stored_at_once_if_asked_for(servers: &TestServerBuilder) {
    let server = servers.clone().start().await.unwrap();
    prepare(&server.account()).await;
    let account = server.account_builder().unwrap().env(Env::new(Waiting)).build().unwrap();
    let log = log(&account).flush_every(Duration::ZERO);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let work = async {
        let _ = log.write(["one"]);
        while blobs(&server.account()).await.is_empty() {}
        stop.send(()).unwrap();
    };
    let stopped = async {
        let _ = stopped.await;
    };
    let (run, ()) = tokio::join!(log.run(stopped), work);
    run.unwrap();
}

/// P-14.5.
async fn old_hours_go(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let log = log(&server.direct());
    let first = time("2014-07-31T17:30:00Z");
    for hour in 0..4 {
        let at = seconds_after(first, 3600.0 * f64::from(hour));
        let _ = log.write_line(LogLine::new(at, ["x"]));
    }
    log.flush().await.unwrap();
    assert_eq!(log.expire(time("2014-07-31T19:59:59Z")).await.unwrap(), 2);
    assert_eq!(log.expire(time("2014-07-31T19:59:59Z")).await.unwrap(), 0);
    let left = blobs(&server.direct()).await;
    assert_eq!(left, ["queue/2014/07/31/1900/000000.log", "queue/2014/07/31/2000/000000.log"]);
}
