//! One connection of the soak: what it does, and what was acknowledged to it.

use super::TABLE;
use super::figures::{Figures, Kind};
use crate::writer::Writer;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::{self, Outcome};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows of its partition in the shared table.
const ROWS_MAX: u32 = 200;
/// Rows of its own table.
const OWN_ROWS_MAX: u32 = 40;
/// Maximum pages of one walk through the shared table, and entities per page.
const WALK_PAGES_MAX: usize = 3;
const WALK_TOP: usize = 50;

pub(super) struct Worker {
    number: usize,
    random: Seeded,
    /// Its partition in the shared table.
    shared: Writer,
    /// Its own table, which it creates and deletes repeatedly.
    own: Writer,
    /// Writers with a request of unknown outcome, of shared and own tables. The request may still
    /// be in flight, so nothing else is written there; the end of the soak checks the outcome.
    retired: (Vec<Writer>, Vec<Writer>),
    /// Distinguishes the names of partitions and tables from those of retired writers.
    generation: u32,
}

/// When a connection stops working.
#[derive(Clone, Copy)]
pub(super) enum Until<'a> {
    Over(&'a AtomicBool),
    /// The server is killed: the connection breaks.
    CutOff,
}

impl Until<'_> {
    fn is_over(self) -> bool {
        matches!(self, Self::Over(over) if over.load(Ordering::SeqCst))
    }
}

impl Worker {
    pub(super) fn new(number: usize, mut random: Seeded) -> Self {
        let shared = shared_writer(number, 0, &mut random);
        let own = own_writer(number, 0, &mut random);
        Self { number, random, shared, own, retired: Default::default(), generation: 0 }
    }

    /// Sends one request after the other.
    pub(super) fn work(
        &mut self,
        address: SocketAddr,
        until: Until<'_>,
        figures: &Figures,
    ) -> Result<()> {
        let mut connection = Connection::open(address).context("connect")?;
        while !until.is_over() {
            let kind = self.choose();
            let start = Instant::now();
            match self.act(kind, &mut connection)? {
                Outcome::Done => figures.done(kind, start.elapsed()),
                Outcome::Busy => figures.error("503 ServerBusy"),
                failed @ Outcome::Failed { .. } => {
                    figures.error(&failed.to_string());
                    self.retire();
                }
                Outcome::Cut(_) if matches!(until, Until::CutOff) => return Ok(()),
                Outcome::Cut(error) => bail!("the connection broke: {error}"),
            }
        }
        Ok(())
    }

    /// Reads back everything that was acknowledged, and settles the requests in doubt.
    pub(super) fn compare(&mut self, address: SocketAddr) -> Result<()> {
        let mut connection = Connection::open(address).context("connect")?;
        self.shared.compare(&mut connection)?;
        self.own.compare_with_table(&mut connection)?;
        for writer in &mut self.retired.0 {
            writer.compare(&mut connection)?;
        }
        for writer in &mut self.retired.1 {
            writer.compare_with_table(&mut connection)?;
        }
        Ok(())
    }

    fn choose(&mut self) -> Kind {
        match self.random.below(100) {
            0..=44 => Kind::Write,
            45..=49 => Kind::RefusedWrite,
            50..=79 => Kind::Point,
            80..=87 => Kind::Partition,
            88..=91 => Kind::Walk,
            _ => Kind::Table,
        }
    }

    fn act(&mut self, kind: Kind, connection: &mut Connection) -> Result<Outcome> {
        let is_own = self.own.has_table() && self.random.one_in(4);
        let writer = if is_own { &mut self.own } else { &mut self.shared };
        match kind {
            Kind::Write => writer.write(connection),
            Kind::RefusedWrite => writer.write_refused(connection),
            Kind::Point => writer.read_one(connection),
            Kind::Partition => writer.read_all(connection),
            Kind::Walk => walk(connection),
            Kind::Table => self.own.create_or_delete_table(connection),
        }
    }

    /// Retires each writer with a request of unknown outcome, and starts another one elsewhere.
    fn retire(&mut self) {
        self.generation += 1;
        if self.shared.is_in_doubt() {
            let fresh = shared_writer(self.number, self.generation, &mut self.random);
            self.retired.0.push(std::mem::replace(&mut self.shared, fresh));
        }
        if self.own.is_in_doubt() {
            let fresh = own_writer(self.number, self.generation, &mut self.random);
            self.retired.1.push(std::mem::replace(&mut self.own, fresh));
        }
    }
}

fn shared_writer(number: usize, generation: u32, random: &mut Seeded) -> Writer {
    let partition = format!("{number:03}-{generation}");
    Writer::new(TABLE, partition, ROWS_MAX, Seeded::new(random.next_u64()))
}

fn own_writer(number: usize, generation: u32, random: &mut Seeded) -> Writer {
    let table = format!("Own{number}x{generation}");
    Writer::new(&table, "own".to_owned(), OWN_ROWS_MAX, Seeded::new(random.next_u64()))
}

/// Some pages of the shared table: entities are in order, without duplicates.
fn walk(connection: &mut Connection) -> Result<Outcome> {
    let mut last = (String::new(), String::new());
    let mut continuation = String::new();
    for _ in 0..WALK_PAGES_MAX {
        let path = format!("/{TABLE}()?$top={WALK_TOP}{continuation}");
        let answer = match table::send(connection, &Request::new("GET", &path)) {
            Ok(answer) => answer,
            Err(outcome) => return Ok(outcome),
        };
        table::expect(&answer, 200, || path)?;
        for entity in table::items(&answer.body)? {
            let key = |name: &str| entity.get(name).and_then(Value::as_str).map(str::to_owned);
            let keys = key("PartitionKey").zip(key("RowKey")).context("no keys")?;
            ensure!(last < keys, "{keys:?} comes after {last:?}");
            last = keys;
        }
        let Some(next) = table::next_page(&answer) else { break };
        continuation = format!("&{next}");
    }
    Ok(Outcome::Done)
}
