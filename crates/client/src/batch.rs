//! Transactions: up to 100 writes to one partition, all or nothing (C-11).

mod atomically;
mod change_set;
mod lookup;
#[cfg(not(feature = "queue"))]
mod no_messages;
mod send;

pub use atomically::Atomically;
#[cfg(feature = "patterns")]
pub(crate) use atomically::{Spanning, seal};
use change_set::unwritable;
pub use change_set::{BatchError, BatchFault, WriteOp};
pub(crate) use change_set::{ChangeSet, Operation, Prepared, Refused, grouped, refusal};
#[cfg(feature = "patterns")]
pub(crate) use send::mark;
pub(crate) use send::{Trust, send, send_trusting, send_with_id};

use crate::account::Account;
use crate::call::CallOptions;
use crate::entity::{ETag, Loaded, TableEntity};
use crate::error::Error;
use crate::key::IntoKey;
use crate::options::Request;
#[cfg(feature = "queue")]
use crate::queue as messages;
use crate::shape::Rule;
use crate::table::Table;
use crate::write::{Merge, Proof};
use lazuli_model::TableName;
#[cfg(not(feature = "queue"))]
use no_messages as messages;
use send::place;
use std::marker::PhantomData;

/// Writes that are collected for one transaction.
///
/// ```no_run
/// # use lazuli_client::{Entity, Error, ETag, Table, WriteOp};
/// # async fn run(people: Table, rows: [Entity; 4], seen: ETag) -> Result<(), Error> {
/// let mut batch = people
///     .batch("Sales")
///     .insert(&rows[0])
///     .overwrite(&rows[1])
///     .upsert_merge(&rows[2])
///     .write(WriteOp::replace_if_match(&rows[3], &seen))
///     .write(WriteOp::delete_if_match(("Sales", "00099"), &seen));
/// let more = WriteOp::upsert_merge(&Entity::new("Sales", "00042").with("Age", 35));
/// if batch.fits(&more) {
///     batch = batch.write(more);
/// }
/// batch = batch.write(WriteOp::overwrite(&Entity::new("Sales", "Department").with("People", 5)));
/// match batch.commit().await {
///     Ok(committed) => println!("{:?}", committed.etag(0)),
///     Err(error) => println!("operation {:?}: {error}; nothing was written", error.batch_index()),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before `commit`"]
pub struct Batch<T> {
    account: Account,
    table: TableName,
    partition: String,
    /// The writes, or the first error; writes after an error are only counted.
    changes: Result<ChangeSet, Error>,
    len: usize,
    of: PhantomData<fn(T)>,
}

/// A transaction that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    etags: Vec<Option<ETag>>,
    messages: Vec<messages::SentMessage>,
    proof: Proof,
}

impl Committed {
    fn nothing() -> Self {
        Self { etags: Vec::new(), messages: Vec::new(), proof: Proof::Answered }
    }

    /// How it is known that it was carried out.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// The new version of the entity that the operation at `index` wrote; `None` for a deletion. If the answer was
    /// lost, also `None` for rows that were not checked.
    pub fn etag(&self, index: usize) -> Option<&ETag> {
        self.etags.get(index)?.as_ref()
    }

    /// The messages that [`Atomically::send`] put into queues, in order; empty if the answer was lost.
    #[cfg(feature = "queue")]
    pub fn messages(&self) -> &[messages::SentMessage] {
        &self.messages
    }

    /// The number of writes, not counting messages.
    pub fn len(&self) -> usize {
        self.etags.len()
    }

    /// Whether there were no writes.
    pub fn is_empty(&self) -> bool {
        self.etags.is_empty()
    }
}

impl<T: TableEntity> Batch<T> {
    pub(crate) fn new(table: &Table<T>, partition: &str) -> Self {
        Self {
            account: table.account.clone(),
            table: table.name.clone(),
            partition: partition.to_owned(),
            changes: ChangeSet::new(&table.account, &table.name),
            len: 0,
            of: PhantomData,
        }
    }

    /// Inserts an entity; the transaction fails if its key is taken.
    pub fn insert(self, value: &T) -> Self {
        self.write(WriteOp::insert(value))
    }

    /// Replaces an entity if it has not changed since it was read.
    pub fn replace(self, loaded: &Loaded<T>) -> Self {
        self.write(WriteOp::replace(loaded))
    }

    /// Replaces an entity unconditionally; it must exist.
    pub fn overwrite(self, value: &T) -> Self {
        self.write(WriteOp::overwrite(value))
    }

    /// Inserts or replaces an entity.
    pub fn upsert(self, value: &T) -> Self {
        self.write(WriteOp::upsert(value))
    }

    /// Inserts an entity, or merges its properties into the existing one.
    pub fn upsert_merge(self, value: &T) -> Self {
        self.write(WriteOp::upsert_merge(value))
    }

    /// Sets some properties of an entity, which must exist: `batch.merge(key, |m| m.set("Age", 35))`.
    pub fn merge<K: IntoKey>(
        self,
        key: K,
        change: impl FnOnce(Merge<K::Entity>) -> Merge<K::Entity>,
    ) -> Self {
        let table: Table<T> = Table::new(self.account.clone(), self.table.clone());
        let merge = change(table.merge(key));
        self.write(WriteOp::merge(merge))
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete(self, loaded: &Loaded<T>) -> Self {
        self.write(WriteOp::delete(loaded))
    }

    /// Deletes an entity, which must exist: otherwise the transaction fails, unlike [`Table::delete_key`].
    pub fn delete_key<K: IntoKey>(self, key: K) -> Self {
        self.write(WriteOp::delete_key(key))
    }

    /// Adds a prepared write. If it cannot be part of the transaction, `commit` fails with
    /// [`ErrorKind::InvalidBatch`](crate::ErrorKind::InvalidBatch) before anything is sent.
    pub fn write(mut self, write: WriteOp) -> Self {
        let index = self.len;
        self.len += 1;
        if let Ok(changes) = &mut self.changes
            && let Err(error) = add(changes, &self.partition, index, write.under(Rule::of::<T>()))
        {
            self.changes = Err(error);
        }
        self
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The current size of the request's body; the service accepts 4 MiB. Zero if a write cannot be part of the
    /// transaction.
    pub fn bytes(&self) -> usize {
        self.changes.as_ref().map_or(0, ChangeSet::bytes)
    }

    /// Whether this write can be added, as far as the client can know.
    pub fn fits(&self, write: &WriteOp) -> bool {
        match (&self.changes, &write.operation) {
            (Ok(changes), Ok(operation)) => {
                operation.key.partition.as_str() == self.partition && changes.fits(operation)
            }
            _ => false,
        }
    }

    /// Sends the transaction. Without writes, it succeeds at once and sends nothing.
    pub fn commit(self) -> Commit {
        Request::new(|options| self.run(options))
    }

    async fn run(self, options: CallOptions) -> Result<Committed, Error> {
        let changes = self.changes.map_err(|error| place(error, &self.table))?;
        let prepared = changes.finish().await.map_err(|error| place(error, &self.table))?;
        send(&self.account, &self.table, &prepared, Trust::of(&self.account), options).await
    }
}

/// Adds a write to the transaction of a partition (C-11.1).
fn add(
    changes: &mut ChangeSet,
    partition: &str,
    index: usize,
    write: Result<Operation, Error>,
) -> Result<(), Error> {
    let operation = write.map_err(|error| unwritable(index, &error))?;
    if operation.key.partition.as_str() != partition {
        return Err(refusal(index, BatchFault::OtherPartition, Some(operation.key)));
    }
    changes.push(operation).map_err(|refused| {
        let Refused { operation, fault } = *refused;
        refusal(index, fault, Some(operation.key))
    })
}

/// A transaction that has not been sent yet.
pub type Commit = Request<Committed>;
