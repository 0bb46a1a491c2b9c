//! One connection of the soak: what it does, and what it knows.

use super::TABLE;
use super::figures::{Figures, Kind};
use crate::table::{self, Outcome};
use crate::writer::Writer;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::seed::Seeded;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows of its partition in the shared table.
const ROWS_MAX: u32 = 200;
/// Rows of a table of its own.
const OWN_ROWS_MAX: u32 = 40;
/// Pages that one walk through the shared table takes at most, and entities of each.
const WALK_PAGES_MAX: usize = 3;
const WALK_TOP: usize = 50;

pub(super) struct Worker {
    number: usize,
    random: Seeded,
    /// Its partition in the shared table.
    shared: Writer,
    /// Its own table, which comes and goes.
    own: OwnTable,
    /// Partitions and tables with a request of unknown outcome. It may still be under way, so nobody
    /// goes on from there; what came of it is looked at in the end.
    retired: (Vec<Writer>, Vec<OwnTable>),
    /// Tells partitions and tables from the retired ones.
    generation: u32,
}

/// When a connection stops to work.
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
        let own = OwnTable::new(number, 0);
        Self { number, random, shared, own, retired: Default::default(), generation: 0 }
    }

    /// Does one thing after the other.
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
                Outcome::Failed(what) => {
                    figures.error(&what);
                    self.retire();
                }
                Outcome::Cut(_) if matches!(until, Until::CutOff) => return Ok(()),
                Outcome::Cut(error) => bail!("the connection broke: {error}"),
            }
        }
        Ok(())
    }

    /// Reads back everything it was told; what was in doubt is settled by what is there.
    pub(super) fn compare(&mut self, address: SocketAddr) -> Result<()> {
        let mut connection = Connection::open(address).context("connect")?;
        self.shared.compare(&mut connection)?;
        self.own.compare(&mut connection)?;
        for writer in &mut self.retired.0 {
            writer.compare(&mut connection)?;
        }
        for table in &mut self.retired.1 {
            table.compare(&mut connection)?;
        }
        Ok(())
    }

    fn choose(&mut self) -> Kind {
        match self.random.below(100) {
            0..=44 => Kind::Write,
            45..=49 => Kind::WriteInVain,
            50..=79 => Kind::Point,
            80..=87 => Kind::Partition,
            88..=91 => Kind::Walk,
            _ => Kind::Table,
        }
    }

    fn act(&mut self, kind: Kind, connection: &mut Connection) -> Result<Outcome> {
        let writer = match &mut self.own.state {
            State::Present(own) if self.random.one_in(4) => own,
            _ => &mut self.shared,
        };
        match kind {
            Kind::Write => writer.write(connection),
            Kind::WriteInVain => writer.write_in_vain(connection),
            Kind::Point => writer.read_one(connection),
            Kind::Partition => writer.read_all(connection),
            Kind::Walk => walk(connection),
            Kind::Table => self.own.churn(connection, &mut self.random),
        }
    }

    /// Sets aside whatever has a request of unknown outcome, and begins anew elsewhere.
    fn retire(&mut self) {
        self.generation += 1;
        if self.shared.is_in_doubt() {
            let fresh = shared_writer(self.number, self.generation, &mut self.random);
            self.retired.0.push(std::mem::replace(&mut self.shared, fresh));
        }
        if self.own.is_in_doubt() {
            let fresh = OwnTable::new(self.number, self.generation);
            self.retired.1.push(std::mem::replace(&mut self.own, fresh));
        }
    }
}

fn shared_writer(number: usize, generation: u32, random: &mut Seeded) -> Writer {
    let partition = format!("{number:03}-{generation}");
    Writer::new(TABLE, partition, ROWS_MAX, Seeded::new(random.next_u64()))
}

/// A table that one connection makes and drops, over and over under one name.
struct OwnTable {
    name: String,
    state: State,
}

enum State {
    Absent,
    /// Nobody knows whether it was made; if so, it is empty.
    Making(Writer),
    Present(Writer),
    /// Nobody knows whether it was dropped; if not, it is as it was.
    Dropping(Writer),
}

impl OwnTable {
    fn new(number: usize, generation: u32) -> Self {
        Self { name: format!("Own{number}x{generation}"), state: State::Absent }
    }

    fn is_in_doubt(&self) -> bool {
        match &self.state {
            State::Absent => false,
            State::Present(writer) => writer.is_in_doubt(),
            State::Making(_) | State::Dropping(_) => true,
        }
    }

    /// Makes the table, or drops it.
    fn churn(&mut self, connection: &mut Connection, random: &mut Seeded) -> Result<Outcome> {
        match std::mem::replace(&mut self.state, State::Absent) {
            State::Present(writer) => {
                let outcome = table::drop_table(connection, &self.name)?;
                self.state = match outcome {
                    Outcome::Done => State::Absent,
                    Outcome::Busy => State::Present(writer),
                    Outcome::Failed(_) | Outcome::Cut(_) => State::Dropping(writer),
                };
                Ok(outcome)
            }
            State::Absent => {
                let seed = Seeded::new(random.next_u64());
                let writer = Writer::new(&self.name, "own".to_owned(), OWN_ROWS_MAX, seed);
                let outcome = table::create(connection, &self.name)?;
                self.state = match outcome {
                    Outcome::Done => State::Present(writer),
                    Outcome::Busy => State::Absent,
                    Outcome::Failed(_) | Outcome::Cut(_) => State::Making(writer),
                };
                Ok(outcome)
            }
            State::Making(_) | State::Dropping(_) => bail!("{} is in doubt", self.name),
        }
    }

    /// Compares with what is there. A table made again under its old name is empty: what the one
    /// before it held is known to nobody, and would be noticed.
    fn compare(&mut self, connection: &mut Connection) -> Result<()> {
        let there = exists(connection, &self.name)?;
        self.state = match std::mem::replace(&mut self.state, State::Absent) {
            State::Absent if there => bail!("{} was dropped, and is there", self.name),
            State::Present(_) if !there => bail!("{} was made, and is not there", self.name),
            State::Making(mut writer)
            | State::Present(mut writer)
            | State::Dropping(mut writer)
                if there =>
            {
                writer.compare(connection)?;
                State::Present(writer)
            }
            _ => State::Absent,
        };
        Ok(())
    }
}

fn exists(connection: &mut Connection, table: &str) -> Result<bool> {
    let answer = connection.send(&Request::new("GET", &format!("/Tables('{table}')")))?;
    match answer.status {
        200 => Ok(true),
        404 => Ok(false),
        status => bail!("look for {table}: {status} {}", answer.text()),
    }
}

/// Some pages of the table that everybody writes to: entities come in order, and none twice.
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
        let page: Value = serde_json::from_slice(&answer.body).context("read a page")?;
        for entity in page.get("value").and_then(Value::as_array).context("no value")? {
            let key = |name: &str| entity.get(name).and_then(Value::as_str).map(str::to_owned);
            let keys = key("PartitionKey").zip(key("RowKey")).context("no keys")?;
            ensure!(last < keys, "{keys:?} comes after {last:?}");
            last = keys;
        }
        let next = |name| answer.header(name);
        let (Some(partition), Some(row)) =
            (next("x-ms-continuation-NextPartitionKey"), next("x-ms-continuation-NextRowKey"))
        else {
            break;
        };
        continuation = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
    Ok(Outcome::Done)
}
