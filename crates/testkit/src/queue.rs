//! The few queue operations that trials use, and what was acknowledged of queues.
//!
//! The text of a message begins with its *mark*, a unique word. A message is an entry under its
//! queue and its mark, so that a message whose put got no response is recognized too.

use crate::acknowledged::{Entries, Name, Stored};
use crate::http::{Connection, Request, Response};
use crate::table::{Outcome, expect};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Map;

/// Messages that one peek returns; a queue that is read back holds fewer.
pub const PEEK_MAX: usize = 32;

impl Name {
    /// No table has a name with a blank in it.
    pub fn queue(queue: &str) -> Self {
        Self::table(&format!("queue {queue}"))
    }

    pub fn message(queue: &str, mark: &str) -> Self {
        Self::entity(&format!("queue {queue}"), "", mark)
    }
}

/// A message, identified by what changes it: id and receipt.
#[derive(Clone, Debug)]
pub struct Held {
    pub id: String,
    /// As it appears in a URL.
    receipt: String,
}

/// The content of a message's entry.
pub fn stored(text: &str) -> Stored {
    Stored { etag: None, properties: Map::from_iter([("text".to_owned(), text.into())]) }
}

pub fn create(connection: &mut Connection, queue: &str) -> Result<Outcome> {
    let answer = send(connection, "PUT", &format!("/{queue}"), "");
    done(answer, 201, || format!("create queue {queue}"))
}

/// Puts a visible message; returns how to change it.
pub fn put(connection: &mut Connection, queue: &str, text: &str) -> Result<Result<Held, Outcome>> {
    let path = format!("/{queue}/messages?messagettl=-1");
    let answer = match send(connection, "POST", &path, text) {
        Ok(answer) => answer,
        Err(outcome) => return Ok(Err(outcome)),
    };
    expect(&answer, 201, || format!("put into {queue}"))?;
    Ok(Ok(held(&answer.text())?))
}

/// Takes the first visible message, which no one else gets for `seconds`; returns how to change it,
/// and its text.
pub fn get(
    connection: &mut Connection,
    queue: &str,
    seconds: u32,
) -> Result<Result<Option<(Held, String)>, Outcome>> {
    let path = format!("/{queue}/messages?visibilitytimeout={seconds}");
    let answer = match send(connection, "GET", &path, "") {
        Ok(answer) => answer,
        Err(outcome) => return Ok(Err(outcome)),
    };
    expect(&answer, 200, || format!("get a message of {queue}"))?;
    let body = answer.text();
    if !body.contains("<QueueMessage>") {
        return Ok(Ok(None));
    }
    let text = element(&body, "MessageText").with_context(|| format!("no text in {body}"))?;
    Ok(Ok(Some((held(&body)?, text.to_owned()))))
}

/// Gives a message a new text, and makes it visible.
pub fn update(
    connection: &mut Connection,
    queue: &str,
    held: &Held,
    text: &str,
) -> Result<Result<Held, Outcome>> {
    let path = format!("{}&visibilitytimeout=0", held_path(queue, held));
    let answer = match send(connection, "PUT", &path, text) {
        Ok(answer) => answer,
        Err(outcome) => return Ok(Err(outcome)),
    };
    expect(&answer, 204, || format!("update a message of {queue}"))?;
    let receipt = answer.header("x-ms-popreceipt").context("no receipt")?;
    Ok(Ok(Held { receipt: escaped(receipt), id: held.id.clone() }))
}

pub fn delete(connection: &mut Connection, queue: &str, held: &Held) -> Result<Outcome> {
    let answer = send(connection, "DELETE", &held_path(queue, held), "");
    done(answer, 204, || format!("delete a message of {queue}"))
}

pub fn clear(connection: &mut Connection, queue: &str) -> Result<Outcome> {
    let answer = send(connection, "DELETE", &format!("/{queue}/messages"), "");
    done(answer, 204, || format!("clear {queue}"))
}

/// Reads every queue of the account, and every message.
pub fn read_all(connection: &mut Connection) -> Result<Entries> {
    let mut entries = Entries::new();
    let list = read(connection, "/?comp=list")?;
    for part in list.split("<Queue>").skip(1) {
        let queue = element(part, "Name").context("a queue without a name")?;
        entries.insert(Name::queue(queue), Stored::default());
        let path = format!("/{queue}/messages?peekonly=true&numofmessages={PEEK_MAX}");
        let messages = read(connection, &path)?;
        for message in messages.split("<QueueMessage>").skip(1) {
            let text = element(message, "MessageText").context("a message without a text")?;
            let mark = text.split(' ').next().unwrap_or_default();
            let name = Name::message(queue, mark);
            ensure!(entries.insert(name.clone(), stored(text)).is_none(), "{name} came twice");
        }
    }
    Ok(entries)
}

fn read(connection: &mut Connection, path: &str) -> Result<String> {
    match send(connection, "GET", path, "") {
        Ok(answer) if answer.status == 200 => Ok(answer.text()),
        Ok(answer) => bail!("{path}: {} {}", answer.status, answer.text()),
        Err(outcome) => bail!("{path}: {outcome}"),
    }
}

/// Sends a request, with the text of a message if there is one.
fn send(
    connection: &mut Connection,
    method: &str,
    path: &str,
    text: &str,
) -> Result<Response, Outcome> {
    let body = match text {
        "" => String::new(),
        text => format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"),
    };
    let request = Request { body: body.as_bytes(), ..Request::new(method, path) };
    let answer = connection.send(&request).map_err(Outcome::Cut)?;
    let body = answer.text();
    let code = element(&body, "Code").unwrap_or("without a code");
    match (answer.status, code) {
        (503, "ServerBusy") => Err(Outcome::Busy),
        (status @ 500.., code) => Err(Outcome::Failed { status, code: code.to_owned() }),
        _ => Ok(answer),
    }
}

fn done(
    answer: Result<Response, Outcome>,
    status: u16,
    what: impl FnOnce() -> String,
) -> Result<Outcome> {
    match answer {
        Ok(answer) => expect(&answer, status, what),
        Err(outcome) => Ok(outcome),
    }
}

/// The message that a response describes.
fn held(body: &str) -> Result<Held> {
    let of = |name| element(body, name).with_context(|| format!("no {name} in {body}"));
    Ok(Held { id: of("MessageId")?.to_owned(), receipt: escaped(of("PopReceipt")?) })
}

fn held_path(queue: &str, held: &Held) -> String {
    format!("/{queue}/messages/{}?popreceipt={}", held.id, held.receipt)
}

fn escaped(receipt: &str) -> String {
    receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

/// The text of the first element of this name.
fn element<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
