//! Many writes, grouped into transactions and sent side by side (C-12). Not atomic.

mod engine;
mod group;
mod jobs;

use crate::BoxFuture;
use crate::account::Account;
use crate::batch::WriteOp;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::key::IntoKey;
use crate::shape::Rule;
use crate::table::Table;
use engine::Engine;
use futures_core::Stream;
use futures_util::StreamExt;
use lazuli_model::{EntityKey, TableName};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

const CONCURRENCY: usize = 16;
const BUFFER_BYTES_MAX: usize = 32 * 1024 * 1024;
const FAILURES_MAX: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(300);

/// Many writes that are being described. **Not atomic**: some may be carried out and others not.
///
/// Writes are grouped by partition into transactions of at most 100 writes and 4 MiB, which run side by
/// side. Writes to one entity keep their order. Dropping the future leaves it open which of the writes
/// under way were carried out.
///
/// ```no_run
/// # use lazuli_client::{Entity, Error, OnError, Table, iter};
/// # async fn run(people: Table, rows: Vec<Entity>) -> Result<(), Error> {
/// let report = people.bulk().on_error(OnError::Collect).upsert(iter(rows)).await?;
/// println!("{} written in {} transactions", report.written, report.requests);
/// for failure in &report.failed {
///     println!("row {} of the input: {}", failure.index, failure.error);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before a verb is awaited"]
pub struct Bulk<T> {
    account: Account,
    table: TableName,
    options: Options,
    of: PhantomData<fn(T)>,
}

/// What becomes of a transaction that fails, and of the writes after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// What is under way is finished, nothing else is sent.
    #[default]
    Stop,
    /// The write that failed is taken out of its transaction, the rest is sent again.
    Collect,
    /// Each write of the transaction is sent alone.
    Split,
}

/// What became of many writes.
#[derive(Debug, Default)]
#[must_use = "it says which writes failed"]
#[non_exhaustive]
pub struct BulkReport {
    /// Writes that were read from the input.
    pub read: u64,
    /// Writes that were carried out.
    pub written: u64,
    /// Deletions of entities that had changed or gone meanwhile, by [`Bulk::delete_where`].
    pub skipped: u64,
    /// Transactions that were sent, failed ones too.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Answers that asked to slow down.
    pub throttled: u64,
    /// Writes that failed.
    pub failed: Vec<BulkFailure>,
    /// Whether writes were left because others failed.
    pub stopped: bool,
}

impl BulkReport {
    /// How many writes were carried out, if none failed; else the first failure.
    pub fn into_result(self) -> Result<u64, Arc<Error>> {
        match self.failed.first() {
            Some(failure) => Err(Arc::clone(&failure.error)),
            None => Ok(self.written),
        }
    }
}

/// A write that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BulkFailure {
    /// The write, counted from zero in the order of the input.
    pub index: u64,
    /// The entity, if it is known.
    pub key: Option<EntityKey>,
    /// Why. Writes that failed together share it.
    pub error: Arc<Error>,
}

/// How far many writes have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Writes that were carried out.
    pub written: u64,
    /// Writes that failed.
    pub failed: u64,
    /// Transactions that were sent.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

type Checkpoint = Box<dyn FnMut(u64) + Send>;
type Progress = Box<dyn FnMut(&BulkProgress) + Send>;
type Writes<'s> = Pin<Box<dyn Stream<Item = Result<WriteOp, Error>> + Send + 's>>;

struct Options {
    concurrency: usize,
    on_error: OnError,
    buffer_bytes_max: usize,
    failures_max: usize,
    may_reorder: bool,
    /// Entities that have changed or gone are passed over.
    skips_changed: bool,
    /// What the type of the table asks of entities of any shape.
    rule: Rule,
    timeout: Duration,
    checkpoint: Option<(u64, Checkpoint)>,
    progress: Option<Progress>,
}

impl<T: TableEntity> Bulk<T> {
    pub(crate) fn new(table: &Table<T>) -> Self {
        let options = Options {
            concurrency: CONCURRENCY,
            on_error: OnError::default(),
            buffer_bytes_max: BUFFER_BYTES_MAX,
            failures_max: FAILURES_MAX,
            may_reorder: false,
            skips_changed: false,
            rule: Rule::of::<T>(),
            timeout: TIMEOUT,
            checkpoint: None,
            progress: None,
        };
        let (account, table) = (table.account.clone(), table.name.clone());
        Self { account, table, options, of: PhantomData }
    }

    /// Transactions under way at one time, 16 unless said otherwise; zero is taken for one. A service that
    /// asks to slow down gets fewer.
    pub fn concurrency(mut self, transactions: usize) -> Self {
        self.options.concurrency = transactions.max(1);
        self
    }

    /// What becomes of a transaction that fails, and of the writes after it.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = on_error;
        self
    }

    /// Bytes of writes that wait or are under way, as they are sent: 32 MiB unless said otherwise. More
    /// room makes fuller transactions if the input changes its partition often.
    pub fn buffer_max(mut self, bytes: usize) -> Self {
        self.options.buffer_bytes_max = bytes;
        self
    }

    /// Failures that are collected before it stops, 10,000 unless said otherwise.
    pub fn failures_max(mut self, failures: usize) -> Self {
        self.options.failures_max = failures.max(1);
        self
    }

    /// How long a transaction may take with all its attempts, five minutes unless said otherwise: one that
    /// is throttled is sent again until then.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sends several transactions of one partition at one time. Writes to one entity may then change their
    /// order.
    pub fn reorder_within_partition(mut self) -> Self {
        self.options.may_reorder = true;
        self
    }

    /// Calls `durable(n)` when the first `n` writes of the input have all been carried out: about every
    /// `every` writes, and at the end. A load that crashed resumes by skipping the `n` of the last call. A
    /// write that failed holds `n` at its place.
    pub fn checkpoint(mut self, every: u64, durable: impl FnMut(u64) + Send + 'static) -> Self {
        self.options.checkpoint = Some((every.max(1), Box::new(durable)));
        self
    }

    /// Calls `report` up to four times a second, and at the end.
    pub fn progress(mut self, report: impl FnMut(&BulkProgress) + Send + 'static) -> Self {
        self.options.progress = Some(Box::new(report));
        self
    }

    /// Inserts entities; those whose keys are taken fail.
    pub fn insert<'s>(self, values: impl Stream<Item = T> + Send + 's) -> BulkRun<'s> {
        self.each(values, |value| WriteOp::insert(&value))
    }

    /// Inserts or replaces entities.
    pub fn upsert<'s>(self, values: impl Stream<Item = T> + Send + 's) -> BulkRun<'s> {
        self.each(values, |value| WriteOp::upsert(&value))
    }

    /// Inserts entities, or merges their properties into the existing ones.
    pub fn upsert_merge<'s>(self, values: impl Stream<Item = T> + Send + 's) -> BulkRun<'s> {
        self.each(values, |value| WriteOp::upsert_merge(&value))
    }

    /// Deletes entities; those that do not exist fail.
    pub fn delete_keys<'s, K: IntoKey + 's>(
        self,
        keys: impl Stream<Item = K> + Send + 's,
    ) -> BulkRun<'s> {
        self.each(keys, WriteOp::delete_key)
    }

    /// Writes of any kind. An error of the input stops it as a failed write does with [`OnError::Stop`].
    pub fn run<'s>(
        self,
        writes: impl Stream<Item = Result<WriteOp, Error>> + Send + 's,
    ) -> BulkRun<'s> {
        let engine = Engine::new(self.account, self.table, self.options, Box::pin(writes));
        BulkRun(Box::pin(engine.run()))
    }

    fn each<'s, I>(
        self,
        items: impl Stream<Item = I> + Send + 's,
        write: impl Fn(I) -> WriteOp + Send + 's,
    ) -> BulkRun<'s> {
        self.run(items.map(move |item| Ok(write(item))))
    }
}

/// Many writes on their way.
#[must_use = "nothing is sent before `.await`"]
pub struct BulkRun<'s>(BoxFuture<'s, Result<BulkReport, Error>>);

impl<'s> IntoFuture for BulkRun<'s> {
    type Output = Result<BulkReport, Error>;
    type IntoFuture = BoxFuture<'s, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// A stream of the items of an iterator, for verbs that take streams.
pub fn iter<I: IntoIterator>(items: I) -> Iter<I::IntoIter> {
    Iter(items.into_iter())
}

/// See [`iter`].
#[derive(Clone, Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Iter<I>(I);

impl<I> Unpin for Iter<I> {}

impl<I: Iterator> Stream for Iter<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}
