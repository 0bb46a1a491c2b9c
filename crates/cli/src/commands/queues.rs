//! `lazuli queues`: queues and their messages.

mod messages;

use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::ending;
use crate::noun::{print_deleted, print_names};
use crate::output::grouped;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the queues of an account
    #[command(after_help = "Examples:
  lazuli queues list
  lazuli queues list --prefix jo --json")]
    List {
        /// Only queues whose names begin with this
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
    },
    /// Create a queue, unless it exists
    #[command(after_help = "Examples:
  lazuli queues create jobs
  lazuli queues create letters --json")]
    Create {
        /// Name of the queue
        queue: String,
    },
    /// Delete a queue with all its messages
    #[command(after_help = "Examples:
  lazuli queues delete old --yes
  lazuli queues delete nothing --if-present --yes")]
    Delete {
        /// Name of the queue
        queue: String,
        /// Succeed if the queue does not exist
        #[arg(long)]
        if_present: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Print the approximate number of messages in a queue, hidden ones included
    #[command(after_help = "Examples:
  lazuli queues count jobs
  lazuli queues count jobs --json")]
    Count {
        /// Name of the queue
        queue: String,
    },
    /// Delete all messages of a queue
    #[command(after_help = "Examples:
  lazuli queues clear jobs --yes
  lazuli queues clear jobs --yes --json")]
    Clear {
        /// Name of the queue
        queue: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Send a message
    #[command(visible_alias = "put")]
    Send(messages::SendArguments),
    /// Receive messages: they are hidden for a while, and become visible again unless deleted
    #[command(visible_alias = "get")]
    Receive(messages::ReceiveArguments),
    /// Look at messages without taking them
    Peek(messages::PeekArguments),
    /// Change the body of a received message, or when it becomes visible again
    Update(messages::UpdateArguments),
    /// Delete a received message
    DeleteMessage(messages::DeleteMessageArguments),
}

#[derive(Serialize)]
struct Named<'a> {
    queue: &'a str,
}

#[derive(Serialize)]
struct Counted<'a> {
    queue: &'a str,
    messages: u64,
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::List { prefix } => list(session, &prefix).await,
        Verb::Create { queue } => create(session, &queue).await,
        Verb::Delete { queue, if_present, confirmation } => {
            delete(session, &queue, if_present, confirmation).await
        }
        Verb::Count { queue } => count(session, &queue).await,
        Verb::Clear { queue, confirmation } => clear(session, &queue, confirmation).await,
        Verb::Send(arguments) => messages::send(session, arguments).await,
        Verb::Receive(arguments) => messages::receive(session, &arguments).await,
        Verb::Peek(arguments) => messages::peek(session, &arguments).await,
        Verb::Update(arguments) => messages::update(session, arguments).await,
        Verb::DeleteMessage(arguments) => messages::delete(session, &arguments).await,
    }
}

async fn list(session: &Session, prefix: &str) -> Result<Exit> {
    let names = session.account.queues().list(prefix).await?;
    print_names(&session.out, "queues", "QUEUE", &names)?;
    Ok(Exit::Done)
}

async fn create(session: &Session, queue: &str) -> Result<Exit> {
    session.account.queues().create_if_missing(queue).await?;
    session.out.done(&Named { queue }, format_args!("{queue} is there"))?;
    Ok(Exit::Done)
}

async fn delete(
    session: &Session,
    queue: &str,
    if_present: bool,
    confirmation: Confirmation,
) -> Result<Exit> {
    let queues = session.account.queues();
    // Refuse an invalid name before asking.
    queues.queue(queue)?;
    confirmation.ask(&format!("deleting the queue {queue} with all its messages"), queue).await?;
    let deleted = queues.delete_if_present(queue).await?;
    if !deleted && !if_present {
        let problem = format!("there is no queue {queue}");
        return Err(ending(Exit::NotFound, problem, "`lazuli queues list` lists them"));
    }
    print_deleted(&session.out, "queue", queue, deleted)?;
    Ok(Exit::Done)
}

async fn count(session: &Session, queue: &str) -> Result<Exit> {
    let messages = session.account.queues().queue(queue)?.approximate_count().await?;
    match session.out.is_json() {
        true => session.out.document(&Counted { queue, messages })?,
        false => session.out.bytes(format!("{}\n", grouped(messages)).as_bytes())?,
    }
    Ok(Exit::Done)
}

async fn clear(session: &Session, name: &str, confirmation: Confirmation) -> Result<Exit> {
    let queue = session.account.queues().queue(name)?;
    confirmation.ask(&format!("deleting all messages of {name}"), name).await?;
    queue.clear().await?;
    session.out.done(&Named { queue: name }, format_args!("cleared {name}"))?;
    Ok(Exit::Done)
}
