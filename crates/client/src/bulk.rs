//! Many writes, grouped into transactions that are sent concurrently (C-12). Not atomic.

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

/// Many writes, not sent yet. **Not atomic**: some may be carried out and others not.
///
/// Writes are grouped by partition into transactions of at most 100 writes and 4 MiB, which run concurrently.
/// Writes to one entity keep their order. If the future is dropped, writes under way may or may not have been
/// carried out.
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

/// What happens to a transaction that fails, and to the writes after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// Finishes what is under way and sends nothing else.
    #[default]
    Stop,
    /// Takes the write that failed out of its transaction and sends the rest again.
    Collect,
    /// Sends each write of the transaction alone.
    Split,
}

/// The outcome of many writes.
#[derive(Debug, Default)]
#[must_use = "it says which writes failed"]
#[non_exhaustive]
pub struct BulkReport {
    /// Writes that were read from the input.
    pub read: u64,
    /// Writes that were carried out.
    pub written: u64,
    /// Deletions that [`Bulk::delete_where`] skipped because the entity had changed or gone in the meantime.
    pub skipped: u64,
    /// Transactions that were sent, including failed ones.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Answers that asked to slow down.
    pub throttled: u64,
    /// Writes that failed.
    pub failed: Vec<BulkFailure>,
    /// Whether writes were not sent because others failed.
    pub stopped: bool,
}

impl BulkReport {
    /// The number of writes carried out, if none failed; else the first failure.
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
    /// The position of the write in the input, from zero.
    pub index: u64,
    /// The key of the entity, if known.
    pub key: Option<EntityKey>,
    /// The cause. Writes that failed together share it.
    pub error: Arc<Error>,
}

/// The progress of many writes.
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
    /// Whether entities that have changed or gone are skipped.
    skips_changed: bool,
    /// The rule that the table's type imposes on untyped entities.
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

    /// Concurrent transactions, 16 by default; zero counts as one. A service that throttles gets fewer.
    pub fn concurrency(mut self, transactions: usize) -> Self {
        self.options.concurrency = transactions.max(1);
        self
    }

    /// What happens to a transaction that fails, and to the writes after it.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = on_error;
        self
    }

    /// Encoded bytes of writes that wait or are under way, 32 MiB by default. A larger buffer makes fuller
    /// transactions if the input often switches between partitions.
    ///
    /// A load that is tuned: many small partitions in random order, and rows that may come in any order.
    ///
    /// ```no_run
    /// # use lazuli_client::{Entity, Error, OnError, Table, iter};
    /// # use std::time::Duration;
    /// # async fn run(people: Table, rows: Vec<Entity>, gone: Vec<(String, String)>) -> Result<(), Error> {
    /// let report = people
    ///     .bulk()
    ///     .concurrency(32)
    ///     .buffer_max(128 * 1024 * 1024)
    ///     .reorder_within_partition()
    ///     .on_error(OnError::Collect)
    ///     .failures_max(100)
    ///     .timeout(Duration::from_secs(60))
    ///     .upsert_merge(iter(rows))
    ///     .await?;
    /// println!("{} of {} written, throttled {} times", report.written, report.read, report.throttled);
    /// let keys = gone.iter().map(|(partition, row)| (partition.as_str(), row.as_str()));
    /// let deleted = people.bulk().delete_keys(iter(keys)).await?;
    /// println!("{} deleted", deleted.written);
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer_max(mut self, bytes: usize) -> Self {
        // Without room for one write nothing would ever be sent.
        self.options.buffer_bytes_max = bytes.max(1);
        self
    }

    /// Stops after this many failures, 10,000 by default.
    pub fn failures_max(mut self, failures: usize) -> Self {
        self.options.failures_max = failures.max(1);
        self
    }

    /// How long a transaction may take with all its attempts, five minutes by default: a throttled one is
    /// retried until then.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sends several transactions of one partition concurrently. Writes to one entity may then be
    /// reordered.
    pub fn reorder_within_partition(mut self) -> Self {
        self.options.may_reorder = true;
        self
    }

    /// Calls `durable(n)` when the first `n` writes of the input have all been carried out: about every
    /// `every` writes, and at the end. A load that crashed resumes by skipping the `n` of the last call. A failed
    /// write keeps `n` from passing it.
    pub fn checkpoint(mut self, every: u64, durable: impl FnMut(u64) + Send + 'static) -> Self {
        self.options.checkpoint = Some((every.max(1), Box::new(durable)));
        self
    }

    /// Calls `report` up to four times a second, and at the end.
    pub fn progress(mut self, report: impl FnMut(&BulkProgress) + Send + 'static) -> Self {
        self.options.progress = Some(Box::new(report));
        self
    }

    /// Inserts entities; those whose key is taken fail.
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

    /// Writes of any kind. An error in the input stops the run, like a failed write with [`OnError::Stop`].
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

/// Many writes, ready to run: `.await` sends them.
#[must_use = "nothing is sent before `.await`"]
pub struct BulkRun<'s>(BoxFuture<'s, Result<BulkReport, Error>>);

impl<'s> IntoFuture for BulkRun<'s> {
    type Output = Result<BulkReport, Error>;
    type IntoFuture = BoxFuture<'s, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// Makes a stream of an iterator, for verbs that take streams.
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
