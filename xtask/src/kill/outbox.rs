//! Transactions with messages under the kill test and the faults of shared stores: a client
//! inserts an entity and puts a message that names it, in one transaction. Whenever this is checked, each
//! entity has its message, each message its entity, and every acknowledged transaction has both.

use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::acknowledged::{Entries, read_entities};
use lazuli_testkit::http::Connection;
use lazuli_testkit::outbox::{self, TABLE};
use lazuli_testkit::server::Server;
use lazuli_testkit::table::Outcome;
use std::collections::BTreeSet;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Done,
    /// It got a response of 500 or more.
    Failed,
    /// The connection broke.
    Cut,
}

/// The transactions so far.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    sent: u32,
    acknowledged: BTreeSet<String>,
    /// Messages taken out.
    messages: BTreeSet<String>,
}

impl Outbox {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        outbox::create(server)?;
        Ok(Self::default())
    }

    /// Sends a transaction; its outcome may stay unknown.
    pub(crate) fn send(&mut self, connection: &mut Connection) -> Result<Sent> {
        self.sent += 1;
        let row = format!("{:06}", self.sent);
        let Ok(answer) = outbox::send(connection, &row) else { return Ok(Sent::Cut) };
        let statuses: Vec<u16> = answer.parts.iter().map(|(status, _)| *status).collect();
        if statuses == [204, 201] {
            self.acknowledged.insert(row);
            return Ok(Sent::Done);
        }
        let worst = statuses.iter().copied().fold(answer.status, u16::max);
        ensure!(worst >= 500, "a transaction: {} {}", answer.status, answer.body);
        Ok(Sent::Failed)
    }

    /// Sends transactions one after another until the connection breaks, which is not an error.
    pub(crate) fn send_until_cut_off(
        &mut self,
        mut connection: Connection,
        acknowledge: impl Fn(),
    ) -> Result<()> {
        loop {
            match self.send(&mut connection)? {
                Sent::Done => acknowledge(),
                Sent::Failed => bail!("a transaction failed"),
                Sent::Cut => return Ok(()),
            }
        }
    }

    /// Takes out all messages, and compares them with the entities.
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
