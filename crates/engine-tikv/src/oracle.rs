//! Timestamps in batches: calls that wait at the same time share one request.

use crate::driver::Driver;
use crate::grpc::{Messages, framed};
use crate::patience::{CALL_MAX, ClientError, Patience};
use crate::proto::driver::{RequestHeader, TsoRequest, TsoResponse};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Calls that may wait for a timestamp; the next ones wait for a place.
const WAITING_MAX: usize = 4096;
/// Requests on the way to the driver.
const IN_FLIGHT_MAX: usize = 8;

type Waiter = oneshot::Sender<Timestamp>;

/// The clock of the cluster.
#[derive(Debug)]
pub(crate) struct Oracle {
    driver: Arc<Driver>,
    /// To the task that asks the driver. It ends with the runtime that it was started on.
    waiting: Mutex<Option<mpsc::Sender<Waiter>>>,
    /// The greatest timestamp that was given.
    last: AtomicU64,
    /// Why the driver could not be asked the last time that it could not.
    failure: Arc<Mutex<Option<String>>>,
}

impl Oracle {
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        Self { driver, waiting: Mutex::new(None), last: AtomicU64::new(0), failure: Arc::default() }
    }

    /// A timestamp greater than every one given before this call.
    pub(crate) async fn now(&self, patience: &mut Patience) -> Result<Timestamp, ClientError> {
        loop {
            let (waiter, given) = oneshot::channel();
            let asked = async {
                self.waiting().send(waiter).await.ok()?;
                given.await.ok()
            };
            if let Ok(Some(timestamp)) = timeout(patience.call_time(), asked).await {
                self.last.fetch_max(timestamp.0, Ordering::Relaxed);
                return Ok(timestamp);
            }
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let why = failure.map(|failure| format!(": {failure}")).unwrap_or_default();
            patience.pause(format!("no timestamp from the placement driver{why}")).await?;
        }
    }

    /// A timestamp that lies before everything that begins now, without asking for one.
    pub(crate) fn past(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::Relaxed))
    }

    fn waiting(&self) -> mpsc::Sender<Waiter> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.as_ref().filter(|waiting| !waiting.is_closed()) {
            Some(waiting) => waiting.clone(),
            None => {
                let (sender, receiver) = mpsc::channel(WAITING_MAX);
                tokio::spawn(serve(self.driver.clone(), receiver, self.failure.clone()));
                *waiting = Some(sender.clone());
                sender
            }
        }
    }
}

/// Connects when somebody waits. Waiters of a broken stream are dropped, and ask again.
async fn serve(
    driver: Arc<Driver>,
    mut waiting: mpsc::Receiver<Waiter>,
    failure: Arc<Mutex<Option<String>>>,
) {
    let note = |reason| *failure.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    while let Some(first) = waiting.recv().await {
        match driver.open_timestamps(IN_FLIGHT_MAX).await {
            Ok((header, requests, answers)) => {
                note(None);
                let mut stream = Stream { header, requests, answers, in_flight: VecDeque::new() };
                stream.serve(first, &mut waiting).await;
            }
            Err(error) => {
                note(Some(error.to_string()));
                drop(first);
                while waiting.try_recv().is_ok() {}
            }
        }
        driver.forget_leader().await;
    }
}

struct Stream {
    header: RequestHeader,
    requests: mpsc::Sender<Bytes>,
    answers: Messages,
    /// The waiters of each request without an answer, oldest first.
    in_flight: VecDeque<Vec<Waiter>>,
}

impl Stream {
    /// Until the stream breaks, or nobody can wait any more.
    async fn serve(&mut self, first: Waiter, waiting: &mut mpsc::Receiver<Waiter>) {
        let mut next = Some(first);
        loop {
            if let Some(first) = next.take() {
                let mut batch = vec![first];
                batch.extend(std::iter::from_fn(|| waiting.try_recv().ok()).take(WAITING_MAX));
                if !self.ask(batch).await {
                    return;
                }
            }
            let (busy, full) = (!self.in_flight.is_empty(), self.in_flight.len() >= IN_FLIGHT_MAX);
            tokio::select! {
                waiter = waiting.recv(), if !full => match waiter {
                    Some(waiter) => next = Some(waiter),
                    None => return,
                },
                answer = timeout(CALL_MAX, self.answers.next()), if busy => {
                    if self.give(answer.ok().flatten()).is_none() {
                        return;
                    }
                }
            }
        }
    }

    async fn ask(&mut self, batch: Vec<Waiter>) -> bool {
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let request = TsoRequest { header: Some(self.header), count };
        self.in_flight.push_back(batch);
        self.requests.send(framed(&request)).await.is_ok()
    }

    /// Hands out the timestamps of an answer; `None` if it does not fit its request.
    fn give(&mut self, answer: Option<TsoResponse>) -> Option<()> {
        let (answer, batch) = (answer?, self.in_flight.pop_front()?);
        let failed = answer.header.is_some_and(|header| header.error.is_some());
        let last = answer.timestamp?;
        if failed || answer.count as usize != batch.len() {
            return None;
        }
        let first = last.logical - i64::from(answer.count) + 1;
        for (logical, waiter) in (first..).zip(batch) {
            // A waiter that has given up needs none.
            let _ = waiter.send(Timestamp::new(last.physical, logical)?);
        }
        Some(())
    }
}
