//! The poison queue: jobs that failed (P-3.4).

use super::envelope::{Envelope, text_of};
use crate::error::{Error, ErrorKind};
use crate::queue::{Message, Queue};
use bytes::Bytes;
use std::time::Duration;

/// How long messages are hidden during a search.
const SEARCH: Duration = Duration::from_secs(30);
/// Rounds of a search, of 32 messages each.
const ROUNDS: usize = 100;

/// A job that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoisonedJob {
    /// The id of the job, or of the message if it is not a job.
    pub id: String,
    /// Its kind, if it is a job.
    pub kind: Option<String>,
    /// Why the last run failed.
    pub error: Option<String>,
    /// When it was sent, and when it was put into the poison queue, in RFC 3339.
    pub sent: Option<String>,
    /// See `sent`.
    pub poisoned: Option<String>,
    /// How often it had been received.
    pub dequeues: Option<u32>,
    /// The body of the message.
    pub body: Bytes,
}

/// The poison queue of a queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PoisonQueue {
    source: Queue,
    queue: Queue,
}

impl PoisonQueue {
    /// The poison queue of `source`: `<queue>-poison`, unless `name` is given.
    pub fn of(source: &Queue, name: Option<&str>) -> Result<Self, Error> {
        let default = format!("{}-poison", source.name());
        let queue = source.account().queues().queue(name.unwrap_or(&default))?;
        Ok(Self { source: source.clone(), queue })
    }

    /// The first jobs in it, up to 32.
    pub async fn list(&self) -> Result<Vec<PoisonedJob>, Error> {
        match self.queue.peek(32).await {
            Ok(messages) => {
                Ok(messages.into_iter().map(|m| PoisonedJob::new(m.id, m.body)).collect())
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Sends a job again to its original queue. Its dequeue count starts from zero.
    pub async fn requeue(&self, id: &str) -> Result<(), Error> {
        let message = self.take(id).await?;
        let body = match Envelope::parse(&message.body) {
            Ok(mut envelope) => {
                (envelope.poisoned, envelope.dequeues, envelope.error) = (None, None, None);
                envelope.to_body()?.into()
            }
            Err(_) => message.body,
        };
        // Send first, then delete: a crash in between leaves it in both queues, never in neither.
        self.source.send(body).never_expires().await?;
        self.queue.delete(&message.receipt).await.map(drop)
    }

    /// Deletes a job. If it is in a blob, the blob is collected by age.
    pub async fn discard(&self, id: &str) -> Result<(), Error> {
        let message = self.take(id).await?;
        self.queue.delete(&message.receipt).await.map(drop)
    }

    pub(super) async fn put(
        &self,
        message: &Message,
        envelope: Option<Envelope>,
        reason: &str,
    ) -> Result<(), Error> {
        let body = match envelope {
            Some(mut envelope) => {
                envelope.fail(reason);
                envelope.poisoned = Some(text_of(self.queue.account().0.env.now()));
                envelope.dequeues = Some(message.dequeue_count);
                envelope.to_body()?.into()
            }
            // It is not a job, so nothing can be added to it.
            None => {
                tracing::warn!(queue = self.source.name(), id = message.id, reason, "poison");
                message.body.clone()
            }
        };
        let send = |body: Bytes| self.queue.send(body).never_expires();
        match send(body.clone()).await {
            Err(error) if error.code() == Some("QueueNotFound") => {
                self.source.account().queues().create_if_missing(self.queue.name()).await?;
                send(body).await.map(drop)
            }
            sent => sent.map(drop),
        }
    }

    /// Receives the message of a job; others that it receives on the way become visible again at once.
    async fn take(&self, id: &str) -> Result<Message, Error> {
        let mut others = Vec::new();
        let mut found = None;
        for _ in 0..ROUNDS {
            let messages = self.queue.receive(32).visibility(SEARCH).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let job = PoisonedJob::new(message.id.clone(), message.body.clone());
                if found.is_none() && (job.id == id || message.id == id) {
                    found = Some(message);
                } else {
                    others.push(message);
                }
            }
            if found.is_some() {
                break;
            }
        }
        for other in others {
            // If this fails, the message becomes visible by itself.
            let _ = self.queue.update(&other.receipt).await;
        }
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound).at("poisoned job", Some(self.queue.name()), None)
        })
    }
}

impl PoisonedJob {
    fn new(message_id: String, body: Bytes) -> Self {
        match Envelope::parse(&body) {
            Ok(envelope) => Self {
                id: envelope.id,
                kind: Some(envelope.kind),
                error: envelope.error,
                sent: Some(envelope.sent),
                poisoned: envelope.poisoned,
                dequeues: envelope.dequeues,
                body,
            },
            Err(error) => Self {
                id: message_id,
                kind: None,
                error: Some(error),
                sent: None,
                poisoned: None,
                dequeues: None,
                body,
            },
        }
    }
}
