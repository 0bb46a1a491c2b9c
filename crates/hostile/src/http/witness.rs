//! A client that sends ordinary requests during the attacks.

use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::queue;
use lazuli_testkit::table::Outcome;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The witness's own queue.
const QUEUE: &str = "witness";
/// How long a message that it took is its own, in seconds: longer than any round.
const VISIBILITY_SECONDS: u32 = 600;

/// Writes something and reads it back, over and over.
#[derive(Debug)]
pub struct Witness {
    connection: Connection,
    work: Work,
    rounds: u64,
    slowest: Duration,
}

/// What a witness writes.
#[derive(Debug)]
enum Work {
    /// Entities of this table.
    Entities(String),
    /// Messages of its queue.
    Messages,
}

/// How a witness was served.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    pub rounds: u64,
    /// The longest that one round took.
    pub slowest: Duration,
}

impl Witness {
    /// A client of tables; creates its own table.
    pub fn new(address: SocketAddr, table: &str) -> io::Result<Self> {
        let mut connection = Connection::open(address)?;
        let body = format!("{{\"TableName\":\"{table}\"}}");
        let answer = connection.send(&Request::new("POST", "/Tables").json(&body))?;
        if answer.status != 201 && answer.status != 409 {
            return Err(refused("create its table", answer.status));
        }
        Ok(Self::with(connection, Work::Entities(table.to_owned())))
    }

    /// A client of queues; creates its own queue.
    pub fn of_queues(address: SocketAddr) -> io::Result<Self> {
        let mut connection = Connection::open(address)?.of_queues();
        done(queue::create(&mut connection, QUEUE))?;
        Ok(Self::with(connection, Work::Messages))
    }

    const fn with(connection: Connection, work: Work) -> Self {
        Self { connection, work, rounds: 0, slowest: Duration::ZERO }
    }

    /// One round of ordinary requests; all must be done.
    pub fn work(&mut self) -> io::Result<()> {
        let start = Instant::now();
        match &self.work {
            Work::Entities(table) => write_and_read(&mut self.connection, table, self.rounds)?,
            Work::Messages => put_and_take(&mut self.connection, self.rounds)?,
        }
        self.rounds += 1;
        self.slowest = self.slowest.max(start.elapsed());
        Ok(())
    }

    pub fn served(&self) -> Served {
        Served { rounds: self.rounds, slowest: self.slowest }
    }
}

/// One write and one read of an entity.
fn write_and_read(connection: &mut Connection, table: &str, round: u64) -> io::Result<()> {
    let path = format!("/{table}(PartitionKey='w',RowKey='{}')", round % 100);
    let body = format!("{{\"v\":{round}}}");
    let written = connection.send(&Request::new("PUT", &path).json(&body))?;
    if written.status != 204 {
        return Err(refused("write", written.status));
    }
    let read = connection.send(&Request::new("GET", &path))?;
    if read.status != 200 || !read.text().contains(&format!("\"v\":{round}}}")) {
        return Err(refused("read what it wrote", read.status));
    }
    Ok(())
}

/// Puts a message, gets it and deletes it.
fn put_and_take(connection: &mut Connection, round: u64) -> io::Result<()> {
    let put = format!("round {round}");
    answered(queue::put(connection, QUEUE, &put))?;
    match answered(queue::get(connection, QUEUE, VISIBILITY_SECONDS))? {
        Some((held, text)) if text == put => done(queue::delete(connection, QUEUE, &held)),
        other => Err(io::Error::other(format!("the witness put {put:?} and got {other:?}"))),
    }
}

fn done(outcome: anyhow::Result<Outcome>) -> io::Result<()> {
    match outcome.map_err(io::Error::other)? {
        Outcome::Done => Ok(()),
        outcome => Err(io::Error::other(format!("the witness was not served: {outcome}"))),
    }
}

fn answered<T>(answer: anyhow::Result<Result<T, Outcome>>) -> io::Result<T> {
    answer
        .map_err(io::Error::other)?
        .map_err(|outcome| io::Error::other(format!("the witness was not served: {outcome}")))
}

fn refused(what: &str, status: u16) -> io::Error {
    io::Error::other(format!("the witness could not {what}: {status}"))
}
