//! A client that sends ordinary requests during the attacks.

use lazuli_testkit::http::{Connection, Request};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Writes an entity and reads it back, over and over.
#[derive(Debug)]
pub struct Witness {
    connection: Connection,
    table: String,
    rounds: u64,
    slowest: Duration,
}

/// How a witness was served.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    pub rounds: u64,
    /// The longest that one round, a write and a read, took.
    pub slowest: Duration,
}

impl Witness {
    /// Creates its own table.
    pub fn new(address: SocketAddr, table: &str) -> io::Result<Self> {
        let mut connection = Connection::open(address)?;
        let body = format!("{{\"TableName\":\"{table}\"}}");
        let answer = connection.send(&Request::new("POST", "/Tables").json(&body))?;
        if answer.status != 201 && answer.status != 409 {
            return Err(refused("create its table", answer.status));
        }
        Ok(Self { connection, table: table.to_owned(), rounds: 0, slowest: Duration::ZERO })
    }

    /// One write and one read; both must be done.
    pub fn work(&mut self) -> io::Result<()> {
        let start = Instant::now();
        let row = self.rounds % 100;
        let path = format!("/{}(PartitionKey='w',RowKey='{row}')", self.table);
        let body = format!("{{\"v\":{}}}", self.rounds);
        let written = self.connection.send(&Request::new("PUT", &path).json(&body))?;
        if written.status != 204 {
            return Err(refused("write", written.status));
        }
        let read = self.connection.send(&Request::new("GET", &path))?;
        if read.status != 200 || !read.text().contains(&format!("\"v\":{}}}", self.rounds)) {
            return Err(refused("read what it wrote", read.status));
        }
        self.rounds += 1;
        self.slowest = self.slowest.max(start.elapsed());
        Ok(())
    }

    pub fn served(&self) -> Served {
        Served { rounds: self.rounds, slowest: self.slowest }
    }
}

fn refused(what: &str, status: u16) -> io::Error {
    io::Error::other(format!("the witness could not {what}: {status}"))
}
