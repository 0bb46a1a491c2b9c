//! Transactions with messages under the kill test: a client inserts an entity and puts a
//! message that names it, in one transaction, until the server is killed. Whatever a later server
//! finds, each entity has its message, each message its entity, and what was acknowledged has both.

use anyhow::{Context, Result, ensure};
use lazuli_testkit::acknowledged::{Entries, read_entities};
use lazuli_testkit::http::{Connection, Operation};
use lazuli_testkit::server::Server;
use lazuli_testkit::table::Outcome;
use lazuli_testkit::{queue, table};
use std::collections::BTreeSet;

const TABLE: &str = "Outbox";
const QUEUE: &str = "outbox";
/// Longer than any run: a message that was taken out does not come back.
const HIDDEN_SECONDS: u32 = 7 * 24 * 3600;

/// The transactions so far.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    sent: u32,
    acknowledged: BTreeSet<String>,
    /// Messages that were taken out.
    messages: BTreeSet<String>,
}

impl Outbox {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        table::create(&mut server.connect()?, TABLE)?.done()?;
        queue::create(&mut queues(server)?, QUEUE)?.done()?;
        Ok(Self::default())
    }

    /// Sends transactions one after another until the connection breaks, which is not an error.
    pub(crate) fn send_until_cut_off(
        &mut self,
        mut connection: Connection,
        acknowledge: impl Fn(),
    ) -> Result<()> {
        loop {
            self.sent += 1;
            let row = format!("{:06}", self.sent);
            let Ok(answer) = connection.send_transaction(&[insert(&row), put(&row)]) else {
                return Ok(());
            };
            let is_done = answer.parts.iter().map(|(status, _)| *status).eq([204, 201]);
            ensure!(is_done, "a transaction: {} {}", answer.status, answer.body);
            self.acknowledged.insert(row);
            acknowledge();
        }
    }

    /// Takes all messages out, and compares them with the entities.
    pub(crate) fn check(&mut self, server: &Server) -> Result<()> {
        let mut connection = queues(server)?;
        loop {
            match queue::get(&mut connection, QUEUE, HIDDEN_SECONDS)? {
                Ok(Some((_, row))) => {
                    ensure!(self.messages.insert(row.clone()), "message {row} came twice");
                }
                Ok(None) => break,
                Err(outcome) => outcome.done()?,
            }
        }
        let rows = rows(&mut server.connect()?)?;
        let alone: Vec<_> = rows.symmetric_difference(&self.messages).collect();
        ensure!(alone.is_empty(), "half of a transaction has happened: {alone:?}");
        let lost: Vec<_> = self.acknowledged.difference(&rows).collect();
        ensure!(lost.is_empty(), "transactions are lost: {lost:?}");
        Ok(())
    }
}

fn rows(connection: &mut Connection) -> Result<BTreeSet<String>> {
    let mut found = Entries::new();
    match read_entities(connection, TABLE, &format!("/{TABLE}()"), &mut found)? {
        Outcome::Done => {}
        outcome => outcome.done().context("read the entities of transactions")?,
    }
    Ok(found.into_keys().filter_map(|name| Some(name.entity?.row)).collect())
}

fn insert(row: &str) -> Operation {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    let headers = vec![("Prefer", "return-no-content".to_owned())];
    Operation { method: "POST", path: format!("/{TABLE}"), headers, body }
}

fn put(row: &str) -> Operation {
    let body = format!("<QueueMessage><MessageText>{row}</MessageText></QueueMessage>");
    let headers = vec![("Content-Type", "application/xml".to_owned())];
    Operation { method: "POST", path: format!("/{QUEUE}/messages"), headers, body }
}

fn queues(server: &Server) -> Result<Connection> {
    let address = server.queue().context("the server has no queues")?;
    Ok(Connection::open(address)?.of_queues())
}
