//! `cargo xtask bench --indexes`: what indexes save and cost, as ratios of one run (X-3.13).
//!
//! One server of the profile `dist` on its own directory. Costs are CPU time of the server per
//! operation, because the machine may be busy with other work; building is also reported per second.

use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use clap::Parser;
use lazuli_testkit::http::{Connection, Operation, Request};
use lazuli_testkit::indexes;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use lazuli_testkit::table;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Entities of one partition.
const PARTITION_ROWS: u64 = 1_000;
/// Entities that share a city: as many as fit into an `or` of keys, which has at most 15 comparisons.
const CITY_ROWS: u64 = 7;
/// Clients that load, insert and read.
const CLIENTS: u64 = 4;
/// Inserts per second while an index is built.
const PACE: u64 = 1_000;
/// Inserts that are compared, each kind into its own table.
const INSERTS: u64 = 20_000;
const TICKS_PER_SECOND: f64 = 100.0;
const TABLE: &str = "Indexed";

/// `--indexes`, and the options that may follow it.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Measure indexes
    #[arg(long, required = true)]
    indexes: bool,
    /// Entities of the table
    #[arg(long, default_value_t = 1_000_000)]
    entities: u64,
    /// Seconds of each measurement of reads
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let data = tempfile::tempdir().context("create a data directory")?;
    let server = Server::start(workspace.dist_binary()?, data.path(), &["--access-log", "off"])?;
    let (entities, time) = (options.entities, Duration::from_secs(options.seconds.max(1)));
    let bench = Bench { address: server.address(), pid: server.pid(), entities, time };
    bench.fill()?;
    println!(
        "{:44} {:>12} {:>12} {:>9}  goal",
        "CPU of the server, µs", "with", "without", "ratio"
    );
    bench.reads()?;
    bench.inserts()?;
    server.terminate()?;
    Ok(Tally::PASSED)
}

struct Bench {
    address: SocketAddr,
    pid: u32,
    entities: u64,
    time: Duration,
}

/// The cost of some operations.
#[derive(Clone, Copy)]
struct Cost {
    operations: u64,
    cpu: Duration,
}

impl Cost {
    fn us(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }
}

impl Bench {
    fn fill(&self) -> Result<()> {
        let mut connection = Connection::open(self.address)?;
        table::create(&mut connection, TABLE)?.done()?;
        let began = Instant::now();
        let next = AtomicU64::new(0);
        self.clients(|connection, _| {
            loop {
                let first = next.fetch_add(100, Ordering::Relaxed);
                if first >= self.entities {
                    return Ok(());
                }
                let batch: Vec<_> =
                    (first..(first + 100).min(self.entities)).map(|n| insert(TABLE, n)).collect();
                let parts = table::write(connection, &batch)?;
                ensure!(parts.is_ok(), "a batch was refused: {parts:?}");
            }
        })?;
        println!("loaded {} entities in {:.1} s", self.entities, began.elapsed().as_secs_f64());
        Ok(())
    }

    /// Queries by a property: a scan, then by index, compared with reads of as many keys.
    fn reads(&self) -> Result<()> {
        let scan = self.cost(|| {
            let mut connection = Connection::open(self.address)?;
            let path = query(&format!("Email%20eq%20'{}'", email(self.entities / 2)));
            let mut found = 0;
            let page = |body: &[u8]| {
                found += table::items(body)?.len();
                Ok(())
            };
            table::scan(&mut connection, &path, page)?.done()?;
            ensure!(found == 1, "the scan found {found} entities");
            Ok(1)
        })?;
        self.build()?;
        let by_index = self.load(|random| {
            let number = random.below(self.entities as usize) as u64;
            (query(&format!("Email%20eq%20'{}'", email(number))), 1)
        })?;
        println!(
            "{:44} {:12.1} {:12.1} {:9.0}  >= 1,000",
            "Email eq 'x': index, scan",
            by_index.us(),
            scan.us(),
            scan.us() / by_index.us()
        );
        let cities = (self.entities / CITY_ROWS) as usize;
        let by_city = self.load(|random| {
            let city = random.below(cities) as u64;
            (query(&format!("City%20eq%20'{}'", city_name(city))), CITY_ROWS as usize)
        })?;
        let by_keys = self.load(|random| {
            let city = random.below(cities) as u64;
            let key = |n: u64| {
                let (partition, row) = keys(city * CITY_ROWS + n);
                format!("(PartitionKey%20eq%20'{partition}'%20and%20RowKey%20eq%20'{row}')")
            };
            let keys: Vec<_> = (0..CITY_ROWS).map(key).collect();
            (query(&keys.join("%20or%20")), CITY_ROWS as usize)
        })?;
        ratio("7 entities: index, or of keys", by_city, by_keys, "<= 2");
        Ok(())
    }

    /// Builds one index, then another, while inserts continue at a fixed rate.
    fn build(&self) -> Result<()> {
        let mut connection = Connection::open(self.address)?;
        let is_built = AtomicBool::new(false);
        let inserted = AtomicU64::new(0);
        std::thread::scope(|scope| -> Result<()> {
            let inserter = scope.spawn(|| self.insert_at_pace(&is_built, &inserted));
            let outcome = (|| {
                let began = Instant::now();
                let cpu = self.cpu()?;
                let by_email = r#"{"name":"byEmail","on":["Email"]}"#;
                indexes::declare(&mut connection, TABLE, &format!("[{by_email}]"))?.done()?;
                indexes::wait_until_built(&mut connection, TABLE)?;
                let (time, cpu) = (began.elapsed(), self.cpu()? - cpu);
                let by_city = r#"{"name":"byCity","on":["City"]}"#;
                indexes::declare(&mut connection, TABLE, &format!("[{by_email},{by_city}]"))?
                    .done()?;
                indexes::wait_until_built(&mut connection, TABLE)?;
                println!(
                    "built in {:.1} s, {:.1} s of CPU: {:.0} entities/s, {:.0} per second of CPU \
                     (goal >= 150,000/s on two cores, with {PACE} inserts/s)",
                    time.as_secs_f64(),
                    cpu.as_secs_f64(),
                    self.entities as f64 / time.as_secs_f64(),
                    self.entities as f64 / cpu.as_secs_f64(),
                );
                Ok(())
            })();
            is_built.store(true, Ordering::SeqCst);
            inserter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            outcome
        })?;
        println!("inserted meanwhile: {}", inserted.into_inner());
        Ok(())
    }

    /// Inserts at [`PACE`] until told to stop.
    fn insert_at_pace(&self, stop: &AtomicBool, inserted: &AtomicU64) -> Result<()> {
        let began = Instant::now();
        self.clients(|connection, _| {
            while !stop.load(Ordering::SeqCst) {
                let number = inserted.fetch_add(1, Ordering::Relaxed);
                let due = Duration::from_secs_f64(number as f64 / PACE as f64);
                std::thread::park_timeout(due.saturating_sub(began.elapsed()));
                let operation = insert(TABLE, self.entities + number);
                let answer = connection.send_operation(&operation)?;
                ensure!(answer.status == 204, "an insert: {} {}", answer.status, answer.text());
            }
            Ok(())
        })
    }

    /// Inserts into tables without an index, with one, and with four.
    fn inserts(&self) -> Result<()> {
        let four = [
            r#"{"name":"byEmail","on":["Email"]}"#,
            r#"{"name":"byCity","on":["City"]}"#,
            r#"{"name":"byAge","on":["Age"]}"#,
            r#"{"name":"byScore","on":["PartitionKey","Score"]}"#,
        ];
        let cost = |name: &str, indexes: usize| -> Result<Cost> {
            let mut connection = Connection::open(self.address)?;
            table::create(&mut connection, name)?.done()?;
            let declared = four.get(..indexes).unwrap_or_default().join(",");
            indexes::declare(&mut connection, name, &format!("[{declared}]"))?.done()?;
            indexes::wait_until_built(&mut connection, name)?;
            let next = AtomicU64::new(0);
            self.cost(|| {
                self.clients(|connection, _| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= INSERTS {
                            return Ok(());
                        }
                        let status = connection.send_operation(&insert(name, number))?.status;
                        ensure!(status == 204, "an insert was answered {status}");
                    }
                })?;
                Ok(INSERTS)
            })
        };
        // Twice, so that warm-up does not count against the first.
        for round in ["First", "Second"] {
            let plain = cost(&format!("{round}Plain"), 0)?;
            let one = cost(&format!("{round}One"), 1)?;
            let four = cost(&format!("{round}Four"), 4)?;
            ratio("insert: one index, none", one, plain, "<= 1.6");
            ratio("insert: four indexes, none", four, plain, "<= 3");
        }
        Ok(())
    }

    /// Reads paths for a while; each must return this many entities.
    fn load(&self, path: impl Fn(&mut Seeded) -> (String, usize) + Sync) -> Result<Cost> {
        let done = AtomicU64::new(0);
        self.cost(|| {
            let began = Instant::now();
            self.clients(|connection, client| {
                let mut random = Seeded::new(7).stream(client);
                while began.elapsed() < self.time {
                    let (path, expected) = path(&mut random);
                    let answer = connection.send(&Request::new("GET", &path))?;
                    ensure!(answer.status == 200, "{path}: {}", answer.text());
                    let found = table::items(&answer.body)?.len();
                    ensure!(found == expected, "{path} found {found} entities");
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
            Ok(done.load(Ordering::Relaxed))
        })
    }

    /// Runs clients in parallel.
    fn clients(&self, work: impl Fn(&mut Connection, u64) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let work = &work;
            let client =
                |number| scope.spawn(move || work(&mut Connection::open(self.address)?, number));
            let clients: Vec<_> = (0..CLIENTS).map(client).collect();
            clients.into_iter().try_for_each(|client| {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    /// The server's cost of some operations; `work` returns how many there were.
    fn cost(&self, work: impl FnOnce() -> Result<u64>) -> Result<Cost> {
        let before = self.cpu()?;
        let operations = work()?;
        Ok(Cost { operations, cpu: self.cpu()? - before })
    }

    /// CPU time of the server so far, all threads.
    fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name of the program may contain anything, and ends with a parenthesis.
        let (_, fields) = stat.rsplit_once(") ").context("read the times of the server")?;
        let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
        let mut next = || times.next().context("read the times of the server")?.context("a time");
        Ok(Duration::from_secs_f64((next()? + next()?) as f64 / TICKS_PER_SECOND))
    }
}

fn insert(table: &str, number: u64) -> Operation {
    let (partition, row) = keys(number);
    let body = format!(
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Email\":\"{}\",\"City\":\"{}\",\
         \"Age\":{},\"Score\":{},\"Text\":\"{}\"}}",
        email(number),
        city_name(number / CITY_ROWS),
        number % 90,
        number % 9_973,
        "x".repeat(100)
    );
    let headers = vec![("Prefer", "return-no-content".to_owned())];
    Operation { method: "POST", path: format!("/{table}"), headers, body }
}

fn keys(number: u64) -> (String, String) {
    (format!("p{:06}", number / PARTITION_ROWS), format!("{:08}", number))
}

fn email(number: u64) -> String {
    // Not in key order.
    format!("{:08x}@contoso.com", number.wrapping_mul(2_654_435_761) & 0xffff_ffff)
}

fn city_name(city: u64) -> String {
    format!("city{city:07}")
}

fn query(filter: &str) -> String {
    format!("/{TABLE}()?$filter={filter}")
}

fn ratio(what: &str, with: Cost, without: Cost, goal: &str) {
    let (with, without) = (with.us(), without.us());
    println!("{what:44} {with:12.1} {without:12.1} {:9.2}  {goal}", with / without);
}
