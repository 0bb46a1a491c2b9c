//! Writers of a table with every kind of derived data (two indexes, a change feed, expiring entities), and
//! of transactions with messages.
//!
//! Each writer owns a partition, so it knows what every response must be: an unexpected 409, 412 or 404 ends
//! the run. A request of unknown outcome ends the partition, because it may still happen, and its writer
//! continues with a new one. Once the fault and its effects are over, everything is compared: what was
//! acknowledged exists, what is in doubt happened entirely or not at all, every index agrees with the
//! entities, the feed replays to them, and no message is without its entity.

use super::gateways::Cluster;
use super::load::client_pause;
use crate::kill::outbox::{Outbox, Sent};
use crate::writer::Writer;
use anyhow::{Context, Result};
use lazuli_testkit::http::Connection;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::Outcome;
use lazuli_testkit::{acknowledged, expiry, feeds, indexes, table};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

const TABLE: &str = "FaultDerived";
/// Indexes on numbers that writers replace and merge; the second on numbers that are each written once.
const INDEXES: &str = r#"[{"name":"byReplaced","on":["replaced"]},{"name":"byMerged","on":["PartitionKey","merged"],"unique":true}]"#;
/// The index that is rebuilt during the fault.
pub(crate) const REBUILT: &str = "byReplaced";
const WRITERS: usize = 3;
/// Rows of one partition: few, so that entities are changed again and again.
const ROWS: u32 = 30;
/// The gateway used before and after; no fault affects it.
const SOUND: usize = 1;

/// What was done, to be compared after the fault.
#[derive(Default)]
pub(crate) struct Derived {
    /// Each has its own partition. All but the last of each client end in doubt.
    writers: Vec<Writer>,
    outbox: Option<Outbox>,
    pub(crate) writes: u64,
    pub(crate) doubts: u64,
}

/// Creates the tables. The index still has to be built, which takes longer than most faults.
pub(crate) fn set_up(cluster: &Cluster, with_messages: bool) -> Result<Derived> {
    let server = cluster.server(SOUND)?;
    let mut connection = server.connect()?;
    table::create(&mut connection, TABLE)?.done()?;
    indexes::declare(&mut connection, TABLE, INDEXES)?.done()?;
    feeds::turn_on(&mut connection, TABLE)?.done()?;
    expiry::turn_on(&mut connection, TABLE)?.done()?;
    let outbox = with_messages.then(|| Outbox::new(server)).transpose()?;
    Ok(Derived { outbox, ..Derived::default() })
}

/// Makes the server rebuild the first index from the beginning.
pub(crate) fn rebuild_index(cluster: &Cluster) -> Result<()> {
    indexes::rebuild(&mut cluster.server(SOUND)?.connect()?, TABLE, REBUILT)?.done()
}

impl Derived {
    /// Writes until `is_over`.
    pub(crate) fn write(
        mut self,
        addresses: &[SocketAddr],
        random: &Seeded,
        is_over: &AtomicBool,
    ) -> Result<Self> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..WRITERS)
                .map(|number| {
                    let random = random.stream(number as u64);
                    scope.spawn(move || Client::new(addresses, number, random).run(is_over))
                })
                .collect();
            if let Some(outbox) = &mut self.outbox {
                send_messages(outbox, addresses, is_over)?;
            }
            for client in clients {
                let done =
                    client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                self.writes += done.writes;
                self.doubts += done.writers.len() as u64 - 1;
                self.writers.extend(done.writers);
            }
            Ok(self)
        })
    }

    /// Compares everything. Waits until the indexes are built.
    pub(crate) fn compare(&mut self, cluster: &Cluster) -> Result<()> {
        let server = cluster.server(SOUND)?;
        let mut connection = server.connect()?;
        for writer in &mut self.writers {
            writer.compare(&mut connection).context("writes with derived ones")?;
        }
        if let Some(outbox) = &mut self.outbox {
            outbox.check(server)?;
        }
        cluster.pass_time_of_store();
        indexes::verify(&mut connection, TABLE)?;
        let stored = acknowledged::read_all(&mut connection)?;
        feeds::replay(&mut connection, TABLE, &stored)
    }
}

/// A client that writes through one gateway until that fails, then through the next.
struct Client<'a> {
    addresses: &'a [SocketAddr],
    number: usize,
    asked: usize,
    random: Seeded,
    writers: Vec<Writer>,
    writes: u64,
}

impl<'a> Client<'a> {
    fn new(addresses: &'a [SocketAddr], number: usize, random: Seeded) -> Self {
        let (writers, writes) = (Vec::new(), 0);
        Self { addresses, number, asked: number, random, writers, writes }
    }

    fn new_writer(&self) -> Writer {
        let generation = self.writers.len();
        let partition = format!("client-{}-{generation}", self.number);
        Writer::new(TABLE, partition, ROWS, self.random.stream(generation as u64)).expiring()
    }

    fn run(mut self, is_over: &AtomicBool) -> Result<Self> {
        let mut writer = self.new_writer();
        while !is_over.load(Ordering::SeqCst) {
            if let Ok(mut connection) = connect(self.addresses, self.asked) {
                self.use_connection(&mut connection, &mut writer, is_over)?;
            }
            if writer.is_in_doubt() {
                self.writers.push(writer);
                writer = self.new_writer();
            }
            self.asked += 1;
            client_pause();
        }
        self.writers.push(writer);
        Ok(self)
    }

    /// Writes until an outcome is unknown, or the connection is no longer usable.
    fn use_connection(
        &mut self,
        connection: &mut Connection,
        writer: &mut Writer,
        is_over: &AtomicBool,
    ) -> Result<()> {
        while !is_over.load(Ordering::SeqCst) {
            let outcome = match self.random.below(8) {
                0 => writer.read_one(connection)?,
                1 => writer.read_all(connection)?,
                2 => writer.write_refused(connection)?,
                _ => writer.write(connection)?,
            };
            match outcome {
                Outcome::Done => self.writes += 1,
                Outcome::Busy => {}
                Outcome::Cut(_) | Outcome::Failed { .. } => return Ok(()),
            }
            client_pause();
        }
        Ok(())
    }
}

fn send_messages(
    outbox: &mut Outbox,
    addresses: &[SocketAddr],
    is_over: &AtomicBool,
) -> Result<()> {
    let mut asked = 0;
    while !is_over.load(Ordering::SeqCst) {
        if let Ok(mut connection) = connect(addresses, asked) {
            while !is_over.load(Ordering::SeqCst) && outbox.send(&mut connection)? != Sent::Cut {
                client_pause();
            }
        }
        asked += 1;
        client_pause();
    }
    Ok(())
}

fn connect(addresses: &[SocketAddr], asked: usize) -> Result<Connection> {
    let index = asked.checked_rem(addresses.len()).context("there is no gateway")?;
    Ok(Connection::open(*addresses.get(index).context("there is no gateway")?)?)
}
