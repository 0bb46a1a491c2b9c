//! Timestamps in batches: calls that wait at the same time share one request.

use crate::driver::Driver;
use crate::grpc::{Messages, Requests};
use crate::patience::{CALL_MAX, ClientError, Patience};
use crate::proto::driver::{RequestHeader, TsoRequest, TsoResponse};
use crate::timestamp::Timestamp;
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
    /// Sends to the task that asks the driver. The task ends with the runtime that it was started on.
    waiting: Mutex<Option<mpsc::Sender<Waiter>>>,
    /// The greatest timestamp that was given.
    last: AtomicU64,
    /// Why the driver could not be asked, the last time that happened.
    failure: Arc<Mutex<Option<String>>>,
}

impl Oracle {
    pub(crate) fn new(driver: Arc<Driver>) -> Self {
        Self { driver, waiting: Mutex::new(None), last: AtomicU64::new(0), failure: Arc::default() }
    }

    /// A timestamp greater than any given before this call.
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

    /// A timestamp earlier than anything that begins now, without asking for one.
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

/// Connects when a call waits. Waiters of a broken stream are dropped, and ask again.
async fn serve(
    driver: Arc<Driver>,
    mut waiting: mpsc::Receiver<Waiter>,
    failure: Arc<Mutex<Option<String>>>,
) {
    let note = |reason| *failure.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    while let Some(first) = waiting.recv().await {
        let batch = with_others(first, &mut waiting);
        match driver.open_timestamps(count(&batch)).await {
            Ok((header, requests, answers)) => {
                note(None);
                let in_flight = VecDeque::from([batch]);
                Stream { header, requests, answers, in_flight }.serve(&mut waiting).await;
            }
            Err(error) => {
                note(Some(error.to_string()));
                drop(batch);
                while waiting.try_recv().is_ok() {}
            }
        }
        driver.forget_leader().await;
    }
}

/// All that wait now.
fn with_others(first: Waiter, waiting: &mut mpsc::Receiver<Waiter>) -> Vec<Waiter> {
    let others = std::iter::from_fn(|| waiting.try_recv().ok()).take(WAITING_MAX);
    std::iter::once(first).chain(others).collect()
}

fn count(batch: &[Waiter]) -> u32 {
    u32::try_from(batch.len()).unwrap_or(u32::MAX)
}

struct Stream {
    header: RequestHeader,
    requests: Requests,
    answers: Messages,
    /// The waiters of each unanswered request, oldest first.
    in_flight: VecDeque<Vec<Waiter>>,
}

impl Stream {
    /// Runs until the stream breaks, or no caller can wait any more.
    async fn serve(&mut self, waiting: &mut mpsc::Receiver<Waiter>) {
        loop {
            let (busy, full) = (!self.in_flight.is_empty(), self.in_flight.len() >= IN_FLIGHT_MAX);
            tokio::select! {
                waiter = waiting.recv(), if !full => {
                    let Some(first) = waiter else { return };
                    if !self.ask(with_others(first, waiting)) {
                        return;
                    }
                }
                answer = timeout(CALL_MAX, self.answers.next()), if busy => {
                    if self.give(answer.ok().flatten()).is_none() {
                        return;
                    }
                }
            }
        }
    }

    fn ask(&mut self, batch: Vec<Waiter>) -> bool {
        let request = TsoRequest { header: Some(self.header), count: count(&batch) };
        self.in_flight.push_back(batch);
        self.requests.send(&request)
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
            // The waiter may have given up.
            let _ = waiter.send(Timestamp::new(last.physical, logical)?);
        }
        Some(())
    }
}
