//! The messages of a queue.

use crate::exit::Exit;
use crate::failure::usage;
use crate::input::aside;
use crate::output::Grid;
use crate::session::Session;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use lazuli_client::Timestamp;
use lazuli_client::queue::{Message, MessageEncoding, PeekedMessage, Queue, Receipt};
use serde::Serialize;
use std::io::Read;
use std::time::Duration;

/// The longest body read from standard input: more than the service accepts.
const BODY_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli queues send jobs 'resize 7.png'
  echo '{\"job\":7}' | lazuli queues send jobs - --delay 5 --json")]
pub(crate) struct SendArguments {
    /// Name of the queue
    queue: String,
    /// The body; `-` or nothing reads standard input to its end
    body: Option<String>,
    /// Send the text as it is, not in base64
    #[arg(long)]
    text: bool,
    /// Hide the message at first
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    delay: u64,
    /// How long the message lives: seconds, or `never` [default: 7 days]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<TimeToLive>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli queues receive jobs
  lazuli queues receive jobs --count 32 --visibility 300 --json")]
pub(crate) struct ReceiveArguments {
    /// Name of the queue
    queue: String,
    /// How many messages, 1 to 32
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: usize,
    /// Hide them from other clients for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    visibility: u64,
    /// Delete them once they are printed
    #[arg(long)]
    delete: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli queues peek jobs
  lazuli queues peek jobs --count 32 --json")]
pub(crate) struct PeekArguments {
    /// Name of the queue
    queue: String,
    /// How many messages, 1 to 32
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    count: usize,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli queues update jobs \"$ID\" \"$POP_RECEIPT\" --visibility 60
  lazuli queues update jobs \"$ID\" \"$POP_RECEIPT\" 'resize 8.png' --json")]
pub(crate) struct UpdateArguments {
    /// Name of the queue
    queue: String,
    /// Id of the message
    id: String,
    /// Pop receipt of the message
    pop_receipt: String,
    /// The new body
    body: Option<String>,
    /// Send the text as it is, not in base64
    #[arg(long)]
    text: bool,
    /// Hide the message for this long, from now on
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    visibility: u64,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli queues delete-message jobs \"$ID\" \"$POP_RECEIPT\"
  lazuli queues delete-message jobs \"$ID\" \"$POP_RECEIPT\" --json")]
pub(crate) struct DeleteMessageArguments {
    /// Name of the queue
    queue: String,
    /// Id of the message
    id: String,
    /// Pop receipt of the message
    pop_receipt: String,
}

/// How long a message lives.
#[derive(Clone, Copy, Debug)]
enum TimeToLive {
    Seconds(u64),
    Never,
}

impl std::str::FromStr for TimeToLive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("never", _) => Ok(Self::Never),
            (_, Ok(seconds)) if seconds > 0 => Ok(Self::Seconds(seconds)),
            _ => Err("give seconds, or `never`".to_owned()),
        }
    }
}

/// A message that was sent or updated.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handle<'a> {
    id: &'a str,
    pop_receipt: &'a str,
}

/// A message that was read, one line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pop_receipt: Option<&'a str>,
    dequeue_count: u32,
    inserted: String,
    expires: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_visible: Option<String>,
    encoding: &'static str,
    /// The body, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// The body in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize)]
struct Deleted<'a> {
    id: &'a str,
    deleted: bool,
}

pub(super) async fn send(session: &Session, arguments: SendArguments) -> Result<Exit> {
    let queue = queue(session, &arguments.queue, arguments.text)?;
    let body = match arguments.body {
        Some(text) if text != "-" => text.into_bytes(),
        _ => aside(from_stdin).await??,
    };
    let message = queue.send(body).delay(Duration::from_secs(arguments.delay));
    let message = match arguments.ttl {
        None => message,
        Some(TimeToLive::Never) => message.never_expires(),
        Some(TimeToLive::Seconds(seconds)) => message.time_to_live(Duration::from_secs(seconds)),
    };
    let sent = message.await?;
    let handle = Handle { id: &sent.id, pop_receipt: &sent.receipt.pop_receipt };
    session.out.done(&handle, format_args!("sent {}", sent.id))?;
    Ok(Exit::Done)
}

pub(super) async fn receive(session: &Session, arguments: &ReceiveArguments) -> Result<Exit> {
    let queue = queue(session, &arguments.queue, false)?;
    let visibility = Duration::from_secs(arguments.visibility);
    let messages = queue.receive(arguments.count).visibility(visibility).await?;
    if session.out.is_json() {
        messages.iter().try_for_each(|message| session.out.document(&Line::received(message)))?;
    } else {
        let mut grid = Grid::new(["ID", "POP RECEIPT", "COUNT", "BODY"]).numbers_in(2);
        for message in &messages {
            let count = message.dequeue_count.to_string();
            let receipt = &message.receipt.pop_receipt;
            grid.row([&message.id, receipt, &count, &shown(&message.body)]);
        }
        match arguments.delete {
            true => session.out.whole_grid(&grid)?,
            false => session.out.grid(&grid)?,
        }
    }
    if arguments.delete {
        for message in &messages {
            queue.delete(&message.receipt).await?;
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn peek(session: &Session, arguments: &PeekArguments) -> Result<Exit> {
    let queue = queue(session, &arguments.queue, false)?;
    let messages = queue.peek(arguments.count).await?;
    if session.out.is_json() {
        messages.iter().try_for_each(|message| session.out.document(&Line::peeked(message)))?;
    } else {
        let mut grid = Grid::new(["ID", "INSERTED", "COUNT", "BODY"]).numbers_in(2);
        for message in &messages {
            let (inserted, count) =
                (message.inserted.to_string(), message.dequeue_count.to_string());
            grid.row([&message.id, &inserted, &count, &shown(&message.body)]);
        }
        session.out.grid(&grid)?;
    }
    Ok(Exit::Done)
}

pub(super) async fn update(session: &Session, arguments: UpdateArguments) -> Result<Exit> {
    let queue = queue(session, &arguments.queue, arguments.text)?;
    let receipt = Receipt { id: arguments.id, pop_receipt: arguments.pop_receipt };
    let update = queue.update(&receipt).visibility(Duration::from_secs(arguments.visibility));
    let updated = match arguments.body {
        Some(body) => update.body(body.into_bytes()).await?,
        None => update.await?,
    };
    let handle = Handle { id: &updated.id, pop_receipt: &updated.pop_receipt };
    session.out.either(&handle, || Grid::pairs([("pop receipt", handle.pop_receipt)]))?;
    Ok(Exit::Done)
}

pub(super) async fn delete(session: &Session, arguments: &DeleteMessageArguments) -> Result<Exit> {
    let queue = queue(session, &arguments.queue, false)?;
    let id = &arguments.id;
    let receipt = Receipt { id: id.clone(), pop_receipt: arguments.pop_receipt.clone() };
    queue.delete(&receipt).await?;
    session.out.done(&Deleted { id, deleted: true }, format_args!("deleted {id}"))?;
    Ok(Exit::Done)
}

fn queue(session: &Session, name: &str, is_text: bool) -> Result<Queue> {
    let queue = session.account.queues().queue(name)?;
    Ok(if is_text { queue.plain_text() } else { queue })
}

fn from_stdin() -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut input = std::io::stdin().lock().take(BODY_BYTES_MAX);
    input.read_to_end(&mut body).context("read the body from standard input")?;
    if body.len() as u64 == BODY_BYTES_MAX {
        return Err(usage("the body is too large", "a message has at most 64 KiB"));
    }
    Ok(body)
}

/// A body for people: text, or base64 if it is not text.
fn shown(body: &[u8]) -> String {
    std::str::from_utf8(body).map_or_else(|_| STANDARD.encode(body), str::to_owned)
}

impl<'a> Line<'a> {
    fn received(message: &'a Message) -> Self {
        Self {
            pop_receipt: Some(&message.receipt.pop_receipt),
            next_visible: Some(message.next_visible.to_string()),
            ..Self::new(
                &message.id,
                message.dequeue_count,
                [message.inserted, message.expires],
                message.encoding,
                &message.body,
            )
        }
    }

    fn peeked(message: &'a PeekedMessage) -> Self {
        Self::new(
            &message.id,
            message.dequeue_count,
            [message.inserted, message.expires],
            message.encoding,
            &message.body,
        )
    }

    fn new(
        id: &'a str,
        dequeue_count: u32,
        [inserted, expires]: [Timestamp; 2],
        encoding: MessageEncoding,
        body: &'a [u8],
    ) -> Self {
        let text = std::str::from_utf8(body).ok();
        Self {
            id,
            pop_receipt: None,
            dequeue_count,
            inserted: inserted.to_string(),
            expires: expires.to_string(),
            next_visible: None,
            encoding: match encoding {
                MessageEncoding::Base64 => "base64",
                MessageEncoding::Text => "text",
            },
            body: text,
            body_base64: text.is_none().then(|| STANDARD.encode(body)),
        }
    }
}
