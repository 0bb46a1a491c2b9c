//! Reads writes, groups them, sends the groups, and keeps the report.

use super::group::{Group, Groups};
use super::{BulkFailure, BulkProgress, BulkReport, OnError, Options, Writes};
use crate::BoxFuture;
use crate::account::Account;
use crate::batch::{self, ChangeSet, Operation, Prepared, Trust, WriteOp};
use crate::call::CallOptions;
use crate::error::{Error, ErrorKind};
use crate::throttle::Throttle;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lazuli_model::{EntityKey, PartitionKey, TableName};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Time between two progress reports.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Engine<'s> {
    sender: Arc<Sender>,
    options: Options,
    /// `None` once it has ended.
    input: Option<Writes<'s>>,
    groups: Groups,
    under_way: FuturesUnordered<BoxFuture<'static, Outcome>>,
    /// Partitions with transactions under way, and their number.
    busy: HashMap<PartitionKey, usize>,
    bytes_under_way: usize,
    /// Positions in the input that are not carried out yet, if there are checkpoints.
    open: BTreeSet<u64>,
    /// The last checkpoint.
    durable: u64,
    reported_at: Duration,
    report: BulkReport,
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
enum Event {
    Write(Option<Result<WriteOp, Error>>),
    Done(Box<Outcome>),
    /// The input has nothing right now, and nothing is under way.
    Idle,
}

impl<'s> Engine<'s> {
    pub(super) fn new(
        account: Account,
        table: TableName,
        options: Options,
        input: Writes<'s>,
    ) -> Self {
        let groups = Groups::new(account.clone(), table.clone());
        let sender = Arc::new(Sender {
            throttle: Arc::new(Throttle::new(options.concurrency)),
            on_error: options.on_error,
            skips_changed: options.skips_changed,
            timeout: options.timeout,
            account,
            table,
        });
        Self {
            reported_at: sender.account.0.env.elapsed(),
            sender,
            options,
            input: Some(input),
            groups,
            under_way: FuturesUnordered::new(),
            busy: HashMap::new(),
            bytes_under_way: 0,
            open: BTreeSet::new(),
            durable: 0,
            report: BulkReport::default(),
        }
    }

    pub(super) async fn run(mut self) -> Result<BulkReport, Error> {
        loop {
            if self.input.is_none() {
                self.groups.close_all();
            }
            self.send_groups();
            if self.input.is_none() && self.groups.is_empty() && self.under_way.is_empty() {
                break;
            }
            match std::future::poll_fn(|context| self.poll_event(context)).await {
                Event::Write(Some(write)) => self.take_write(write),
                Event::Write(None) => self.input = None,
                Event::Done(outcome) => self.take_outcome(*outcome),
                Event::Idle => self.groups.close_fullest(|_| true),
            }
            self.tell(false);
            // Without this, input that is always ready would starve connections in the same thread until the buffer is
            // full.
            tokio::task::coop::consume_budget().await;
        }
        self.report.throttled = self.sender.throttle.throttled();
        self.tell(true);
        Ok(self.report)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(Some(outcome)) = self.under_way.poll_next_unpin(context) {
            return Poll::Ready(Event::Done(Box::new(outcome)));
        }
        let reads_on = self.has_room() && !self.is_ahead();
        if let Some(input) = self.input.as_mut().filter(|_| reads_on) {
            if let Poll::Ready(write) = input.as_mut().poll_next(context) {
                return Poll::Ready(Event::Write(write));
            }
            if self.under_way.is_empty() && !self.groups.is_empty() {
                return Poll::Ready(Event::Idle);
            }
        }
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.groups.bytes() + self.bytes_under_way < self.options.buffer_bytes_max
    }

    /// Whether as many transactions are under way as the limit allows, and as many wait. Reading further ahead would
    /// gain nothing and cost memory (C-12.3).
    fn is_ahead(&self) -> bool {
        let requests = self.sender.throttle.requests();
        self.under_way.len() >= requests && self.groups.closed() >= requests
    }

    /// Starts as many transactions as the limit allows.
    fn send_groups(&mut self) {
        while self.under_way.len() < self.sender.throttle.requests() {
            let may_send = |partition: &PartitionKey| {
                self.options.may_reorder || !self.busy.contains_key(partition)
            };
            let mut group = self.groups.take_closed(may_send);
            if group.is_none() && !self.has_room() {
                self.groups.close_fullest(may_send);
                group = self.groups.take_closed(may_send);
            }
            let Some(group) = group else { return };
            *self.busy.entry(group.partition.clone()).or_default() += 1;
            self.bytes_under_way += group.bytes();
            self.under_way.push(Box::pin(Arc::clone(&self.sender).send(group)));
        }
    }

    fn take_write(&mut self, write: Result<WriteOp, Error>) {
        let index = self.report.read;
        self.report.read += 1;
        if self.options.checkpoint.is_some() {
            self.open.insert(index);
        }
        let (operation, is_of_input) = match write {
            Ok(write) => (write.under(self.options.rule), false),
            Err(error) => (Err(error), true),
        };
        let pushed = operation.and_then(|operation| self.groups.push(index, operation));
        if let Err(error) = pushed {
            let key = error.key().cloned();
            self.fail(BulkFailure { index, key, error: Arc::new(error) });
            if is_of_input {
                self.stop();
            }
        }
        let every = self.options.checkpoint.as_ref().map(|(every, _)| *every);
        if every.is_some_and(|every| self.report.read.is_multiple_of(every)) {
            self.groups.close_all();
        }
    }

    fn take_outcome(&mut self, outcome: Outcome) {
        if let Some(count) = self.busy.get_mut(&outcome.partition) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&outcome.partition);
            }
        }
        self.bytes_under_way -= outcome.group_bytes;
        self.report.requests += outcome.requests;
        self.report.bytes += outcome.bytes;
        for (index, fate) in outcome.fates {
            match fate {
                Fate::Written => self.report.written += 1,
                Fate::Skipped => self.report.skipped += 1,
                Fate::Failed(key, error) => {
                    self.fail(BulkFailure { index, key, error });
                    continue;
                }
                Fate::Left => continue,
            }
            self.open.remove(&index);
        }
    }

    fn fail(&mut self, failure: BulkFailure) {
        self.report.failed.push(failure);
        let is_last = self.options.on_error == OnError::Stop
            || self.report.failed.len() >= self.options.failures_max;
        if is_last {
            self.stop();
        }
    }

    /// Stops reading and sending. Transactions under way continue.
    fn stop(&mut self) {
        self.report.stopped = true;
        self.input = None;
        self.groups.clear();
    }

    /// Calls the checkpoint and progress callbacks.
    fn tell(&mut self, is_last: bool) {
        if let Some((every, durable)) = &mut self.options.checkpoint {
            let now = self.open.first().copied().unwrap_or(self.report.read);
            if now >= self.durable + *every || is_last && now > self.durable {
                self.durable = now;
                durable(now);
            }
        }
        let Some(progress) = &mut self.options.progress else { return };
        let now = self.sender.account.0.env.elapsed();
        if is_last || now.saturating_sub(self.reported_at) >= PROGRESS_PAUSE {
            self.reported_at = now;
            let BulkReport { written, requests, bytes, .. } = self.report;
            let failed = self.report.failed.len() as u64;
            progress(&BulkProgress { written, failed, requests, bytes });
        }
    }
}

/// What all transactions share.
struct Sender {
    account: Account,
    table: TableName,
    throttle: Arc<Throttle>,
    on_error: OnError,
    skips_changed: bool,
    timeout: Duration,
}

/// The outcome of a group.
struct Outcome {
    partition: PartitionKey,
    group_bytes: usize,
    requests: u64,
    bytes: u64,
    fates: Vec<(u64, Fate)>,
}

enum Fate {
    Written,
    Skipped,
    Failed(Option<EntityKey>, Arc<Error>),
    /// Not carried out because of another write.
    Left,
}

impl Sender {
    async fn send(self: Arc<Self>, group: Group) -> Outcome {
        let mut outcome = Outcome {
            partition: group.partition.clone(),
            group_bytes: group.bytes(),
            requests: 0,
            bytes: 0,
            fates: Vec::with_capacity(group.indexes.len()),
        };
        let mut indexes = group.indexes;
        let mut changes = Ok(group.changes);
        loop {
            let (operations, error) = match self.send_once(changes, &mut outcome).await {
                Ok(()) => {
                    outcome.fates.extend(indexes.into_iter().map(|index| (index, Fate::Written)));
                    return outcome;
                }
                Err(failed) => *failed,
            };
            if operations.is_empty() {
                // Encoding failed: the account has no table endpoint.
                let error = Arc::new(error);
                let failed = |index| (index, Fate::Failed(None, Arc::clone(&error)));
                outcome.fates.extend(indexes.into_iter().map(failed));
                return outcome;
            }
            let mut writes: Vec<_> = indexes.into_iter().zip(operations).collect();
            let at = error.batch_index().filter(|at| *at < writes.len());
            let at = at.filter(|_| !error.may_have_been_applied());
            let Some(at) = at else {
                // The whole request failed: the connection, the table, the credential.
                let error = Arc::new(error);
                let failed = |(index, operation): (u64, Operation)| {
                    (index, Fate::Failed(Some(operation.key), Arc::clone(&error)))
                };
                outcome.fates.extend(writes.into_iter().map(failed));
                return outcome;
            };
            if self.on_error == OnError::Split && writes.len() > 1 {
                for (index, operation) in writes {
                    self.send_alone(index, operation, &mut outcome).await;
                }
                return outcome;
            }
            let (index, operation) = writes.remove(at);
            let fate = self.fate(operation, error);
            let has_failed = matches!(fate, Fate::Failed(..));
            outcome.fates.push((index, fate));
            if has_failed && self.on_error == OnError::Stop {
                outcome.fates.extend(writes.into_iter().map(|(index, _)| (index, Fate::Left)));
                return outcome;
            }
            if writes.is_empty() {
                return outcome;
            }
            let operations: Vec<_>;
            (indexes, operations) = writes.into_iter().unzip();
            changes = ChangeSet::of(&self.account, &self.table, operations);
        }
    }

    async fn send_alone(&self, index: u64, operation: Operation, outcome: &mut Outcome) {
        let changes = ChangeSet::of(&self.account, &self.table, [operation.clone()]);
        let fate = match self.send_once(changes, outcome).await {
            Ok(()) => Fate::Written,
            Err(failed) => self.fate(operation, failed.1),
        };
        outcome.fates.push((index, fate));
    }

    /// The outcome of a write that failed.
    fn fate(&self, operation: Operation, error: Error) -> Fate {
        let is_changed = error.is_precondition_failed() || error.is_not_found();
        let is_of_row = matches!(error.kind(), ErrorKind::Batch { .. });
        if self.skips_changed && is_of_row && is_changed {
            return Fate::Skipped;
        }
        Fate::Failed(Some(operation.key), Arc::new(error))
    }

    /// Sends a transaction; gives its writes back if it fails.
    async fn send_once(
        &self,
        changes: Result<ChangeSet, Error>,
        outcome: &mut Outcome,
    ) -> Result<(), Box<(Vec<Operation>, Error)>> {
        let prepared = match changes {
            Ok(changes) => changes.finish().await,
            Err(error) => Err(error),
        };
        let prepared: Prepared = prepared.map_err(|error| Box::new((Vec::new(), error)))?;
        let prepared = Prepared { wants_tags: false, ..prepared };
        let throttle = Some(Arc::clone(&self.throttle));
        let timeout = Some(self.timeout);
        let options = CallOptions { throttle, timeout, ..CallOptions::default() };
        outcome.requests += 1;
        outcome.bytes += prepared.body.len() as u64;
        let (account, table) = (&self.account, &self.table);
        match batch::send(account, table, &prepared, Trust::of(account), options).await {
            Ok(_) => {
                self.throttle.speed_up();
                Ok(())
            }
            Err(error) => Err(Box::new((batch::grouped(prepared.operations), error))),
        }
    }
}
