//! The worker: receives messages, runs their jobs, and keeps them hidden in the meantime (P-3.2 to P-3.4).

use super::envelope::Envelope;
use super::poison::PoisonQueue;
use super::{Job, JobError, Run};
use crate::BoxFuture;
use crate::blob::Container;
use crate::error::{Error, ErrorKind};
use crate::queue::{Message, Queue, Receipt};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// The pause before the first retry of a failed job; it doubles (P-3.3).
const BACKOFF: Duration = Duration::from_secs(5);
const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// The first pause of a worker that finds no messages; it doubles up to the poll interval.
const IDLE: Duration = Duration::from_millis(100);

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkReport {
    /// Jobs that finished.
    pub done: u64,
    /// Runs that failed and will be retried.
    pub failed: u64,
    /// Jobs that were put into the poison queue.
    pub poisoned: u64,
    /// Runs that were cancelled because another worker has the message.
    pub lost: u64,
}

/// Runs the jobs of a queue.
#[must_use = "a worker does nothing before `run`"]
pub struct Worker {
    queue: Queue,
    jobs: HashMap<&'static str, Box<dyn Runnable>>,
    visibility: Duration,
    dequeues_max: u32,
    concurrency: usize,
    poll: Duration,
    poison: Option<String>,
    large: Option<Container>,
    deliveries: u32,
}

impl Worker {
    /// A worker without jobs.
    pub fn new(queue: &Queue) -> Self {
        Self {
            queue: queue.clone(),
            jobs: HashMap::new(),
            visibility: Duration::from_secs(30),
            dequeues_max: 5,
            concurrency: 16,
            poll: Duration::from_secs(5),
            poison: None,
            large: None,
            deliveries: 1,
        }
    }

    /// Runs jobs of this kind.
    pub fn job<J: Job>(mut self, context: J::Context) -> Self {
        self.jobs.insert(J::KIND, Box::new(Kind::<J>(Arc::new(context))));
        self
    }

    /// How long a message stays hidden if its worker crashes: 2 s to 7 days, 30 s by default. While a job runs, the
    /// worker renews this at half of the time.
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility: visibility.max(Duration::from_secs(2)), ..self }
    }

    /// How often a job is tried before it goes to the poison queue: 5 times by default.
    pub fn dequeues_max(self, dequeues: u32) -> Self {
        Self { dequeues_max: dequeues.max(1), ..self }
    }

    /// Concurrent jobs: 16 by default.
    pub fn concurrency(self, jobs: usize) -> Self {
        Self { concurrency: jobs.max(1), ..self }
    }

    /// The longest pause of a worker that finds no messages: 5 s by default.
    pub fn poll(self, interval: Duration) -> Self {
        Self { poll: interval.max(IDLE), ..self }
    }

    /// The name of the poison queue: `<queue>-poison` by default.
    pub fn poison(self, name: &str) -> Self {
        Self { poison: Some(name.to_owned()), ..self }
    }

    /// The container of jobs that do not fit into a message.
    pub fn large_jobs_in(mut self, container: &Container) -> Self {
        self.large = Some(container.clone());
        self
    }

    /// For tests: runs every job twice, as if its message had been delivered twice.
    pub fn deliver_twice(self) -> Self {
        Self { deliveries: 2, ..self }
    }

    /// Runs until `stop` completes, then finishes the jobs it has started. Fails if the queue cannot be read for a
    /// reason that is not transient.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<WorkReport, Error> {
        self.work(stop, false).await
    }

    /// Runs until no message is visible, then returns.
    pub async fn run_until_idle(&self) -> Result<WorkReport, Error> {
        self.work(std::future::pending(), true).await
    }

    /// The poison queue.
    pub fn poison_queue(&self) -> Result<PoisonQueue, Error> {
        PoisonQueue::of(&self.queue, self.poison.as_deref())
    }

    async fn work(
        &self,
        stop: impl Future<Output = ()>,
        until_idle: bool,
    ) -> Result<WorkReport, Error> {
        let mut stop = pin!(stop);
        let mut report = WorkReport::default();
        let signals = Signals::default();
        let mut events = FuturesUnordered::new();
        let (mut running, mut idle) = (0, Duration::ZERO);
        let mut is_taking = false;
        loop {
            // Receive no more messages than can be run: others would stay hidden without anybody renewing that.
            let free = self.concurrency.saturating_sub(running);
            if free > 0 && !is_taking && !signals.is_stopping() {
                events.push(Either::Left(self.take(free.min(32), idle, running > 0, &signals)));
                is_taking = true;
            }
            let event = match select(stop.as_mut(), events.next()).await {
                Either::Left(((), _)) => break,
                Either::Right((event, _)) => event,
            };
            match event {
                Some(Event::Taken(Ok(messages))) if !messages.is_empty() => {
                    (is_taking, idle) = (false, Duration::ZERO);
                    running += messages.len();
                    let handle = |message| Either::Right(self.handle(message));
                    events.extend(messages.into_iter().map(handle));
                }
                Some(Event::Taken(Ok(_))) if until_idle && running == 0 => return Ok(report),
                Some(Event::Taken(Ok(_))) => {
                    (is_taking, idle) = (false, (idle * 2).clamp(IDLE, self.poll));
                }
                Some(Event::Taken(Err(error))) if is_passing(&error) => {
                    tracing::warn!(queue = self.queue.name(), %error, "the queue cannot be read");
                    (is_taking, idle) = (false, self.poll);
                }
                Some(Event::Taken(Err(error))) => return Err(error),
                Some(Event::Ended(ending)) => {
                    report.count(ending);
                    running -= 1;
                    // It may have hidden more messages.
                    signals.wake.notify_one();
                }
                None => return Ok(report),
            }
        }
        signals.stop();
        // Messages received in the meantime are run too.
        while let Some(event) = events.next().await {
            match event {
                Event::Taken(Ok(messages)) => {
                    events.extend(messages.into_iter().map(|m| Either::Right(self.handle(m))));
                }
                Event::Taken(Err(_)) => {}
                Event::Ended(ending) => report.count(ending),
            }
        }
        Ok(report)
    }

    /// Receives messages after a pause, which ends early when a job ends.
    async fn take(&self, count: usize, pause: Duration, is_busy: bool, signals: &Signals) -> Event {
        let env = &self.queue.account().0.env;
        if !pause.is_zero() {
            // While jobs run, a test clock advances by what they do.
            let rest = if is_busy { env.timer(pause) } else { env.sleep(pause) };
            select(rest, pin!(signals.wake.notified())).await;
        }
        match signals.is_stopping() {
            true => Event::Taken(Ok(Vec::new())),
            false => Event::Taken(self.queue.receive(count).visibility(self.visibility).await),
        }
    }

    /// Runs the job of a message, and deletes, hides or poisons it.
    async fn handle(&self, message: Message) -> Event {
        Event::Ended(self.settle(message).await)
    }

    async fn settle(&self, message: Message) -> Ending {
        let mut envelope = match Envelope::parse(&message.body) {
            Ok(envelope) => envelope,
            Err(reason) => return self.poisoned(&message, None, &reason).await,
        };
        // Check the count before the run: a job that crashes its worker never gets past it (P-3.4).
        if message.dequeue_count > self.dequeues_max {
            let reason = envelope.error.clone();
            let reason = reason.unwrap_or_else(|| "its workers died".to_owned());
            return self.poisoned(&message, Some(envelope), &reason).await;
        }
        let Some((outcome, receipt)) = self.run_hidden(&envelope, &message).await else {
            return Ending::Lost;
        };
        let settled = match &outcome {
            Ok(()) => self.queue.delete(&receipt).await.map(drop),
            Err(JobError::Never(reason)) => {
                let message = Message { receipt, ..message };
                return self.poisoned(&message, Some(envelope), reason).await;
            }
            Err(error @ JobError::Retry(_)) => {
                tracing::warn!(kind = envelope.kind, id = envelope.id, %error, "a job failed");
                envelope.fail(&error.to_string());
                self.put_back(&receipt, &envelope, message.dequeue_count).await
            }
        };
        match (settled, outcome) {
            (Ok(()), Ok(())) => {
                self.delete_blob(&envelope).await;
                Ending::Done
            }
            (Ok(()), Err(_)) => Ending::Failed,
            (Err(error), _) => {
                // The message comes back by itself, or another worker has it.
                tracing::warn!(kind = envelope.kind, id = envelope.id, %error, "a receipt is void");
                Ending::Lost
            }
        }
    }

    /// Runs a job while its message is kept hidden. `None` if the message is lost: the job is dropped
    /// at its current await.
    async fn run_hidden(
        &self,
        envelope: &Envelope,
        message: &Message,
    ) -> Option<(Result<(), JobError>, Receipt)> {
        let (end, ended) = oneshot::channel();
        let job = pin!(self.run_job(envelope, message.dequeue_count));
        let hide = pin!(self.keep_hidden(message.receipt.clone(), ended));
        match select(job, hide).await {
            Either::Left((outcome, hide)) => {
                // An update under way makes the receipt void: wait for it.
                drop(end);
                Some((outcome, hide.await?))
            }
            Either::Right(_) => None,
        }
    }

    async fn run_job(&self, envelope: &Envelope, dequeue_count: u32) -> Result<(), JobError> {
        let Some(kind) = self.jobs.get(&*envelope.kind) else {
            // Another worker may have this kind.
            let reason = format!("no job of kind {:?} is known here", envelope.kind);
            return Err(Error::config(reason).into());
        };
        let job = match (&envelope.job, &envelope.blob) {
            (Some(job), _) => job.clone(),
            (None, Some(blob)) => self.read_blob(blob).await?,
            (None, None) => return Err(JobError::never("the message holds no job")),
        };
        let run = Run {
            job_id: envelope.id.clone(),
            dequeue_count,
            account: self.queue.account().clone(),
        };
        for _ in 0..self.deliveries {
            kind.run(job.clone(), run.clone()).await?;
        }
        Ok(())
    }

    async fn read_blob(&self, name: &str) -> Result<serde_json::Value, JobError> {
        let Some(container) = &self.large else {
            return Err(Error::config("the worker does not know where large jobs are").into());
        };
        let Some(found) = container.blob(name)?.get().await? else {
            return Err(JobError::never(format!("the blob {name:?} of the job does not exist")));
        };
        serde_json::from_slice(&found.bytes).map_err(|error| JobError::never(error.to_string()))
    }

    /// Keeps the message hidden until the job has ended. Returns the last receipt, or `None` if that is no longer
    /// possible.
    async fn keep_hidden(
        &self,
        mut receipt: Receipt,
        mut ended: oneshot::Receiver<()>,
    ) -> Option<Receipt> {
        let env = &self.queue.account().0.env;
        let half = self.visibility / 2;
        let mut pause = half;
        let mut hidden_until = env.elapsed() + self.visibility;
        loop {
            if let Either::Left(_) = select(&mut ended, env.timer(pause)).await {
                return Some(receipt);
            }
            match self.queue.update(&receipt).visibility(self.visibility).timeout(half).await {
                Ok(next) => {
                    receipt = next;
                    pause = half;
                    hidden_until = env.elapsed() + self.visibility;
                }
                Err(error) if *error.kind() == ErrorKind::ReceiptLost => return None,
                // An update that may have been carried out has made the receipt void.
                Err(error) if error.may_have_been_applied() => return None,
                Err(_) if env.elapsed() >= hidden_until => return None,
                Err(_) => pause = self.visibility / 8,
            }
        }
    }

    /// Makes the message visible after a pause, with the error in it.
    async fn put_back(
        &self,
        receipt: &Receipt,
        envelope: &Envelope,
        dequeue_count: u32,
    ) -> Result<(), Error> {
        let doublings = dequeue_count.saturating_sub(1).min(16);
        let backoff = BACKOFF.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        let update = self.queue.update(receipt).visibility(backoff).body(envelope.to_body()?);
        update.await.map(drop)
    }

    /// Puts a message into the poison queue, then deletes it: a crash in between leaves it in both.
    async fn poisoned(
        &self,
        message: &Message,
        envelope: Option<Envelope>,
        reason: &str,
    ) -> Ending {
        let moved = async {
            self.poison_queue()?.put(message, envelope, reason).await?;
            self.queue.delete(&message.receipt).await
        };
        match moved.await {
            Ok(_) => Ending::Poisoned,
            Err(error) => {
                tracing::warn!(%error, "a message cannot be put into the poison queue");
                Ending::Lost
            }
        }
    }

    /// The job is done even if this fails: blobs that are left are collected by age.
    async fn delete_blob(&self, envelope: &Envelope) {
        let (Some(container), Some(name)) = (&self.large, &envelope.blob) else { return };
        let deleted = async { container.blob(name)?.delete().await };
        if let Err(error) = deleted.await {
            tracing::warn!(blob = name, %error, "the blob of a job that is done stays");
        }
    }
}

/// An event that a worker waits for.
enum Event {
    Taken(Result<Vec<Message>, Error>),
    Ended(Ending),
}

#[derive(Default)]
struct Signals {
    is_stopping: AtomicBool,
    /// Ends a pause.
    wake: Notify,
}

impl Signals {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// How a message was handled.
#[derive(Clone, Copy)]
enum Ending {
    Done,
    Failed,
    Poisoned,
    Lost,
}

impl WorkReport {
    fn count(&mut self, ending: Ending) {
        let number = match ending {
            Ending::Done => &mut self.done,
            Ending::Failed => &mut self.failed,
            Ending::Poisoned => &mut self.poisoned,
            Ending::Lost => &mut self.lost,
        };
        *number += 1;
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &Error) -> bool {
    error.is_retryable()
        || matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Protocol(_))
}

/// A kind of job, with its type erased.
trait Runnable: Send + Sync {
    fn run(&self, job: serde_json::Value, run: Run) -> BoxFuture<'_, Result<(), JobError>>;
}

struct Kind<J: Job>(Arc<J::Context>);

impl<J: Job> Runnable for Kind<J> {
    fn run(&self, job: serde_json::Value, run: Run) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(async move {
            let job: J = serde_json::from_value(job)
                .map_err(|error| JobError::never(format!("not a job of its kind: {error}")))?;
            job.run(&self.0, &run).await
        })
    }
}
