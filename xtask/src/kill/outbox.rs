//! Transactions with messages under the kill test: a client inserts an entity and puts a
//! message that names it, in one transaction, until the server is killed. Whatever a later server
//! finds, each entity has its message, each message its entity, and what was acknowledged has both.

use anyhow::{Context, Result, ensure};
use lazuli_testkit::acknowledged::{Entries, read_entities};
use lazuli_testkit::http::Connection;
use lazuli_testkit::outbox::{self, TABLE};
use lazuli_testkit::server::Server;
use lazuli_testkit::table::Outcome;
use std::collections::BTreeSet;

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
        outbox::create(server)?;
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
            let Ok(answer) = outbox::send(&mut connection, &row) else {
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
        let mut connection = outbox::queues(server)?;
        while let Some(row) = outbox::next(&mut connection)? {
            ensure!(self.messages.insert(row.clone()), "message {row} came twice");
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
