//! Handles the notes that writers leave in a queue before they write (P-2, P-4.5, P-11.2).

use crate::error::{Error, ErrorKind};
use crate::queue::{Message, Queue};
use std::time::Duration;

/// How long a note received by a worker is hidden from others.
const HIDDEN: Duration = Duration::from_secs(60);
/// How long a worker waits when it finds nothing.
const POLL: Duration = Duration::from_secs(5);
/// Notes received per request.
const NOTES_MAX: usize = 32;

/// The outcome for a note.
pub(super) enum Settled {
    /// It is no longer needed.
    Done,
    /// It can be judged only after this time.
    After(Duration),
    /// It belongs to another type's worker: visible to it when it is no longer hidden.
    NotOurs,
    /// It is not a note, for this reason.
    NotANote(String),
}

/// Handles a note. It may run any number of times, even concurrently.
pub(super) trait Settle: Sync {
    fn settle(&self, body: &[u8]) -> impl Future<Output = Result<Settled, Error>> + Send;
}

/// Handles notes until `stop` completes. A note that fails is logged and delivered again, and the others proceed. The
/// worker also continues when the service is unavailable.
pub(super) async fn run(
    queue: &Queue,
    work: &impl Settle,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let env = &queue.account().0.env;
    let mut stop = std::pin::pin!(stop);
    let work = async {
        loop {
            match pass(queue, work).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {
                    tracing::warn!(queue = queue.name(), %error, "notes cannot be received");
                }
                Err(error) => return Err(error),
            }
            env.sleep(POLL).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.as_mut() => Ok(()),
        ended = work => ended,
    }
}

/// Handles all notes that are due, and returns how many there were; or the first error, after trying all.
pub(super) async fn run_until_idle(queue: &Queue, work: &impl Settle) -> Result<u64, Error> {
    let Pass { notes, failed } = pass(queue, work).await?;
    failed.map_or(Ok(notes), Err)
}

/// The outcome for the notes that were due.
#[derive(Default)]
struct Pass {
    notes: u64,
    failed: Option<Error>,
}

/// Terminates: a note that fails stays hidden for a while.
async fn pass(queue: &Queue, work: &impl Settle) -> Result<Pass, Error> {
    let mut pass = Pass::default();
    loop {
        let messages = queue.receive(NOTES_MAX).visibility(HIDDEN).await?;
        if messages.is_empty() {
            return Ok(pass);
        }
        for message in messages {
            if let Err(error) = settle(queue, work, &message).await {
                let (id, dequeues) = (&message.id, message.dequeue_count);
                tracing::warn!(queue = queue.name(), id, dequeues, %error, "a note fails");
                pass.failed.get_or_insert(error);
            }
            pass.notes += 1;
        }
    }
}

async fn settle(queue: &Queue, work: &impl Settle, message: &Message) -> Result<(), Error> {
    let settled = match work.settle(&message.body).await {
        Ok(Settled::Done) => queue.delete(&message.receipt).await.map(drop),
        Ok(Settled::After(time)) => queue.update(&message.receipt).visibility(time).await.map(drop),
        Ok(Settled::NotOurs) => Ok(()),
        Ok(Settled::NotANote(reason)) => {
            tracing::warn!(queue = queue.name(), reason, "a message is not a note");
            Ok(())
        }
        Err(error) => Err(error),
    };
    match settled {
        Err(error) if *error.kind() == ErrorKind::ReceiptLost => Ok(()),
        // It becomes visible again by itself.
        Err(error) if error.is_retryable() => Ok(()),
        settled => settled,
    }
}
