//! Measures embedded stores at what the local engine asks of one: durable groups of commits, point
//! reads and scans, with values of 1 KiB. The results are in `docs/decisions/001-local-engine.md`.
//!
//! `cargo run --release [--features rocksdb] -- [NAME...]`, in a directory on the disk to measure.

mod log;
mod stores;

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const WRITERS: u64 = 64;
const WRITE_TIME: Duration = Duration::from_secs(6);
const ROWS: u64 = 300_000;
const READS: u64 = 200_000;
const VALUE_BYTES: usize = 1024;
pub const CACHE_BYTES: usize = 128 * 1024 * 1024;

pub type Row = (Vec<u8>, Vec<u8>);

/// What a store is asked to do.
pub trait Store {
    /// Writes all rows or none; with `durable`, nothing of them is lost with the power any more.
    fn write(&self, rows: Vec<Row>, durable: bool);
    /// The bytes of a value.
    fn get(&self, key: &[u8]) -> Option<usize>;
    /// Rows and bytes of all there is, in order.
    fn scan(&self) -> (u64, usize);
}

type Open = fn(&Path) -> Box<dyn Store + Send>;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    println!(
        "{:22} {:>9} {:>9} {:>11} {:>9} {:>9}",
        "log", "groups/s", "writes/s", "us CPU/write", "p50 ms", "p99 ms"
    );
    for (name, open) in log::LOGS.iter().filter(|(name, _)| wanted(name)) {
        let dir = tempfile::tempdir_in(".").unwrap();
        let log = open(dir.path());
        println!("{name:22} {}", durable_writes(log));
    }
    println!();
    println!(
        "{:10} {:>9} {:>9} {:>11} {:>9} {:>9} | {:>9} {:>9} {:>9} {:>8} {:>8}",
        "store",
        "groups/s",
        "writes/s",
        "us CPU/write",
        "p50 ms",
        "p99 ms",
        "load/s",
        "gets/s",
        "scan/s",
        "disk MB",
        "open ms"
    );
    for (name, open) in stores::STORES.iter().filter(|(name, _)| wanted(name)) {
        let dir = tempfile::tempdir_in(".").unwrap();
        let writes = durable_writes(open(dir.path()));
        let dir = tempfile::tempdir_in(".").unwrap();
        println!("{name:10} {writes} | {}", reads(*open, dir.path()));
    }
}

/// Writers that each wait for their commit, and one committer that takes all that wait as a group.
fn durable_writes(store: Box<dyn Store + Send>) -> String {
    let (sender, jobs) = channel::<(Row, Sender<()>)>();
    let committer = std::thread::spawn(move || commit_groups(&*store, &jobs));
    let (start, cpu) = (Instant::now(), cpu_time());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let sender = sender.clone();
            std::thread::spawn(move || write_until(start + WRITE_TIME, writer, &sender))
        })
        .collect();
    drop(sender);
    let mut waits: Vec<Duration> = writers.into_iter().flat_map(|w| w.join().unwrap()).collect();
    let groups = committer.join().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let cpu = (cpu_time() - cpu).as_micros() as f64 / waits.len() as f64;
    waits.sort();
    let percentile = |p: usize| waits[waits.len() * p / 100].as_secs_f64() * 1000.0;
    format!(
        "{:9.0} {:9.0} {cpu:12.1} {:9.2} {:9.2}",
        f64::from(groups) / seconds,
        waits.len() as f64 / seconds,
        percentile(50),
        percentile(99)
    )
}

fn commit_groups(store: &dyn Store, jobs: &Receiver<(Row, Sender<()>)>) -> u32 {
    let mut groups = 0;
    while let Ok(first) = jobs.recv() {
        let (rows, replies): (Vec<Row>, Vec<Sender<()>>) =
            std::iter::once(first).chain(jobs.try_iter().take(1023)).unzip();
        store.write(rows, true);
        groups += 1;
        for reply in replies {
            let _ = reply.send(());
        }
    }
    groups
}

fn write_until(end: Instant, writer: u64, jobs: &Sender<(Row, Sender<()>)>) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut random = writer;
    while Instant::now() < end {
        let row = (key(next(&mut random)), value(random));
        let (reply, answer) = channel();
        let start = Instant::now();
        jobs.send((row, reply)).unwrap();
        answer.recv().unwrap();
        waits.push(start.elapsed());
    }
    waits
}

/// Loads in random order, then reads with a cache that holds a part.
fn reads(open: Open, dir: &Path) -> String {
    let store = open(dir);
    let start = Instant::now();
    for chunk in 0..ROWS / 1000 {
        let rows = (0..1000).map(|n| (key(scattered(chunk * 1000 + n)), value(n)));
        store.write(rows.collect(), chunk % 20 == 19);
    }
    let load = ROWS as f64 / start.elapsed().as_secs_f64();
    drop(store);
    let start = Instant::now();
    let store = open(dir);
    let opened = start.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(store.scan(), (ROWS, ROWS as usize * VALUE_BYTES));
    let start = Instant::now();
    store.scan();
    let scan = ROWS as f64 / start.elapsed().as_secs_f64();
    let mut random = 7;
    let start = Instant::now();
    for _ in 0..READS {
        assert_eq!(store.get(&key(scattered(next(&mut random) % ROWS))), Some(VALUE_BYTES));
    }
    let gets = READS as f64 / start.elapsed().as_secs_f64();
    format!("{load:9.0} {gets:9.0} {scan:9.0} {:8} {opened:8.0}", disk_megabytes(dir))
}

/// The n-th of distinct numbers in no order.
fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn key(n: u64) -> Vec<u8> {
    format!("L\x01\0\0\0\0\0\0\0\x01partition{:04}\0row{n:020}", n % 1000).into_bytes()
}

/// Half noise and half the same byte: entities compress to about half.
fn value(mut seed: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES / 2 {
        value.extend(next(&mut seed).to_le_bytes());
    }
    value.resize(VALUE_BYTES, b'x');
    value
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// User and system time of this process, as Linux tells it in hundredths of a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// What lies on the disk, without holes.
fn disk_megabytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fn bytes(path: &Path) -> u64 {
        let metadata = path.symlink_metadata().unwrap();
        let below = if metadata.is_dir() {
            std::fs::read_dir(path).unwrap().map(|entry| bytes(&entry.unwrap().path())).sum()
        } else {
            0
        };
        below + metadata.blocks() * 512
    }
    bytes(dir) / 1_000_000
}
