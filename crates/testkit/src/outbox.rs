//! Transactions that insert an entity and put a message that names it.

use crate::http::{BatchResponse, Connection, Operation, Request};
use crate::server::Server;
use crate::{queue, table};
use anyhow::{Context, Result, ensure};
use std::io;

/// The table of the entities.
pub const TABLE: &str = "Outbox";
const QUEUE: &str = "outbox";

/// Creates the table and the queue.
pub fn create(server: &Server) -> Result<()> {
    table::create(&mut server.connect()?, TABLE)?.done()?;
    queue::create(&mut queues(server)?, QUEUE)?.done()
}

/// Inserts entity `row` and puts a message with that text.
pub fn send(connection: &mut Connection, row: &str) -> io::Result<BatchResponse> {
    connection.send_transaction(&[insert(row), put(QUEUE, row)])
}

/// A connection to the queues of a server.
pub fn queues(server: &Server) -> Result<Connection> {
    let address = server.queue().context("the server has no queues")?;
    Ok(Connection::open(address)?.of_queues())
}

/// Checks on two gateways of one store that a transaction through the first is seen as a whole
/// through the second, and that a refused one leaves nothing.
pub fn check_on_gateways(first: &Server, second: &Server) -> Result<()> {
    create(first)?;
    let sent = send(&mut first.connect()?, "1")?;
    ensure!(sent.parts.iter().map(|(status, _)| *status).eq([204, 201]), "{}", sent.body);
    let entity = format!("/{TABLE}(PartitionKey='p',RowKey='1')");
    let found = second.connect()?.send(&Request::new("GET", &entity))?;
    ensure!(found.status == 200, "the entity: {}", found.status);
    let mut messages = queues(second)?;
    ensure!(next(&mut messages)?.as_deref() == Some("1"), "the message is missing");
    // The message comes first, and its entity is there already: neither is written.
    let refused = first.connect()?.send_transaction(&[put(QUEUE, "2"), insert("1")])?;
    ensure!(refused.body.contains("EntityAlreadyExists"), "{}", refused.body);
    ensure!(next(&mut messages)?.is_none(), "half of a transaction has happened");
    Ok(())
}

/// Takes out the next message. It stays hidden for longer than any run, so it does not come back.
pub fn next(messages: &mut Connection) -> Result<Option<String>> {
    const HIDDEN_SECONDS: u32 = 7 * 24 * 3600;
    match queue::get(messages, QUEUE, HIDDEN_SECONDS)? {
        Ok(message) => Ok(message.map(|(_, text)| text)),
        Err(outcome) => outcome.done().map(|()| None),
    }
}

fn insert(row: &str) -> Operation {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    let headers = vec![("Prefer", "return-no-content".to_owned())];
    Operation { method: "POST", path: format!("/{TABLE}"), headers, body }
}

/// Puts a message, as a part of a transaction.
pub fn put(queue: &str, text: &str) -> Operation {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    let headers = vec![("Content-Type", "application/xml".to_owned())];
    Operation { method: "POST", path: format!("/{queue}/messages"), headers, body }
}
