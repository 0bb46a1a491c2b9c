//! Transactions across partitions and tables, which only a Lazuli server has (C-11.7, X-4.6).

use super::change_set::{ChangeSet, Operation, WriteOp, unwritable};
use super::messages::{MessagePart, SendMessage};
use super::send::{Trust, mark, place, send};
use super::{Commit, Committed};
use crate::account::Account;
use crate::call::CallOptions;
use crate::entity::{Loaded, TableEntity};
use crate::error::Error;
use crate::extensions::{EXTENSIONS, TRANSACTION};
use crate::key::IntoKey;
use crate::options::Request;
use crate::shape::Rule;
use crate::table::Table;
use crate::tables;
use crate::write::Merge;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::{Guid, TableName};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Account {
    /// Collects writes to any partitions and tables of the account for one transaction: at most 100, and 4 MiB.
    ///
    /// Only Lazuli has such transactions, unless it runs with `--extensions never`. The first one asks the service
    /// whether it has them; if not, nothing is written.
    ///
    /// ```no_run
    /// # use lazuli_client::prelude::*;
    /// # async fn run(account: Account, order: Entity, stock: Loaded<Entity>) -> Result<(), Error> {
    /// let tables = account.tables();
    /// let (orders, stocks) = (tables.table("Orders")?, tables.table("Stocks")?);
    /// account.atomically().insert(&orders, &order).replace(&stocks, &stock).commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn atomically(&self) -> Atomically {
        Atomically { account: self.clone(), writes: Vec::new(), messages: Vec::new() }
    }
}

/// Writes to any partitions and tables, collected for one transaction.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct Atomically {
    account: Account,
    writes: Vec<TableWrite>,
    messages: Vec<SendMessage>,
}

/// A write and its table.
#[derive(Debug)]
struct TableWrite {
    /// The account of the table's handle, with its encryption settings.
    account: Account,
    table: TableName,
    write: Result<Operation, Error>,
}

impl Atomically {
    /// Inserts an entity; the transaction fails if its key is taken.
    pub fn insert<T: TableEntity>(self, table: &Table<T>, value: &T) -> Self {
        self.write(table, WriteOp::insert(value))
    }

    /// Replaces an entity if it has not changed since it was read.
    pub fn replace<T: TableEntity>(self, table: &Table<T>, loaded: &Loaded<T>) -> Self {
        self.write(table, WriteOp::replace(loaded))
    }

    /// Replaces an entity unconditionally; it must exist.
    pub fn overwrite<T: TableEntity>(self, table: &Table<T>, value: &T) -> Self {
        self.write(table, WriteOp::overwrite(value))
    }

    /// Inserts or replaces an entity.
    pub fn upsert<T: TableEntity>(self, table: &Table<T>, value: &T) -> Self {
        self.write(table, WriteOp::upsert(value))
    }

    /// Inserts an entity, or merges its properties into the existing one.
    pub fn upsert_merge<T: TableEntity>(self, table: &Table<T>, value: &T) -> Self {
        self.write(table, WriteOp::upsert_merge(value))
    }

    /// Sets some properties of an entity, which must exist: `.merge(&table, key, |m| m.set("Age", 35))`.
    pub fn merge<T: TableEntity, K: IntoKey>(
        self,
        table: &Table<T>,
        key: K,
        change: impl FnOnce(Merge<K::Entity>) -> Merge<K::Entity>,
    ) -> Self {
        let merge = change(table.merge(key));
        self.write(table, WriteOp::merge(merge))
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete<T: TableEntity>(self, table: &Table<T>, loaded: &Loaded<T>) -> Self {
        self.write(table, WriteOp::delete(loaded))
    }

    /// Deletes an entity, which must exist.
    pub fn delete_key<T: TableEntity, K: IntoKey>(self, table: &Table<T>, key: K) -> Self {
        self.write(table, WriteOp::delete_key(key))
    }

    /// Adds a prepared write. If it cannot be part of the transaction, `commit` fails with
    /// [`ErrorKind::InvalidBatch`](crate::ErrorKind::InvalidBatch) before anything is sent.
    pub fn write<T: TableEntity>(mut self, table: &Table<T>, write: WriteOp) -> Self {
        let (account, table) = (table.account.clone(), table.name.clone());
        let write = write.under(Rule::of::<T>());
        self.writes.push(TableWrite { account, table, write });
        self
    }

    /// Puts a message into a queue of the account, if and only if the writes are carried out:
    /// `.send(mails.send_json(&thanks).delay(minute))`. The timeout of the transaction applies.
    ///
    /// A transaction with messages needs a write too; messages count among its 100 operations, after the writes. One
    /// of its rows stores the id of the transaction (`_WriteIds`), so that a lost answer can be resolved: a message
    /// itself leaves no trace. Without an insert, or a write of a version that was read, the transaction is not
    /// retried, and a lost answer is [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown). If another
    /// client deletes the inserted row before the retry, both row and message are written again: like any message, it
    /// can be delivered twice.
    ///
    /// ```no_run
    /// # use lazuli_client::prelude::*;
    /// # async fn run(account: Account, order: Entity) -> Result<(), Error> {
    /// let (orders, mails) = (account.tables().table("Orders")?, account.queues().queue("mails")?);
    /// account.atomically().insert(&orders, &order).send(mails.send("thank them")).commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "queue")]
    pub fn send(mut self, message: SendMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// The number of writes and messages.
    pub fn len(&self) -> usize {
        self.writes.len() + self.messages.len()
    }

    /// Whether there are no writes and no messages.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.messages.is_empty()
    }

    /// Sends the transaction. An empty one succeeds at once and sends nothing.
    pub fn commit(self) -> Commit {
        Request::new(|options| self.run(options))
    }

    async fn run(self, options: CallOptions) -> Result<Committed, Error> {
        let writes = self.writes.len();
        let mut operations = Vec::with_capacity(writes);
        for (index, write) in self.writes.into_iter().enumerate() {
            let TableWrite { account, table, write } = write;
            if !Arc::ptr_eq(&account.0, &self.account.0) {
                return Err(place(Error::config("a transaction has one account"), &table));
            }
            let invalid = |error: Error| place(unwritable(index, &error), &table);
            let operation = write.map_err(invalid)?;
            operations.push(seal(&account, operation.of_table(&table)).await.map_err(invalid)?);
        }
        let messages = parts(&self.account, self.messages, writes)?;
        if !messages.is_empty() {
            mark(&mut operations);
        }
        let own = self.account.0.env.guid();
        let trust = Trust::of(&self.account);
        let whole = Spanning { operations, messages, own, trust };
        whole.send(&self.account, options).await
    }
}

/// Encrypts a write and those of its index copies.
pub(crate) async fn seal(account: &Account, mut operation: Operation) -> Result<Operation, Error> {
    let env = &account.0.env;
    let mut copies = std::mem::take(&mut operation.copies);
    for write in [&mut operation].into_iter().chain(&mut copies) {
        let Operation { verb: Some(verb), table, key, properties, .. } = write else { continue };
        let name = table.as_ref().map_or("", TableName::as_str);
        account.1.seal(properties, name, key, *verb, env).await?;
    }
    Ok(operation.with_copies(copies))
}

/// The parts of the messages, which follow this many writes.
fn parts(
    account: &Account,
    messages: Vec<SendMessage>,
    writes: usize,
) -> Result<Vec<MessagePart>, Error> {
    if writes == 0 && !messages.is_empty() {
        let error = Error::config("a transaction of messages alone has no write");
        return Err(error.with(|context| context.hint = Some("send them to the queue".into())));
    }
    let part = |(number, message): (usize, SendMessage)| {
        if !Arc::ptr_eq(&message.account().0, &account.0) {
            return Err(Error::config("a transaction has one account"));
        }
        message.into_part().map_err(|error| unwritable(writes + number, &error))
    };
    messages.into_iter().enumerate().map(part).collect()
}

/// Writes that name their tables, and messages, in one transaction.
pub(crate) struct Spanning {
    pub(crate) operations: Vec<Operation>,
    pub(crate) messages: Vec<MessagePart>,
    /// The id of the transaction, for writes to rows that keep ids.
    pub(crate) own: Guid,
    pub(crate) trust: Trust,
}

impl Spanning {
    /// Sends the transaction. Its writes are encrypted already.
    pub(crate) async fn send(
        self,
        account: &Account,
        options: CallOptions,
    ) -> Result<Committed, Error> {
        let Self { operations, messages, own, trust } = self;
        let Some(table) = operations.first().and_then(|operation| operation.table.clone()) else {
            return Ok(Committed::nothing());
        };
        let (account, writes) = (account.unprotected(), operations.len());
        let changes = ChangeSet::new(&account, &table)
            .and_then(|changes| changes.spanning().identified(own).with(operations))
            .and_then(|changes| changes.with_messages(writes, messages));
        let changes = changes.map_err(|error| place(error, &table))?;
        let prepared = changes.finish().await.map_err(|error| place(error, &table))?;
        require(&account).await.map_err(|error| place(error, &table))?;
        send(&account, &table, &prepared, trust, options).await
    }
}

/// Fails unless the service has transactions across partitions. Another service would ignore the header that asks
/// for one, and might carry out only some of the writes. Checked once per account.
async fn require(account: &Account) -> Result<(), Error> {
    let is_known = &account.0.has_spanning_transactions;
    if is_known.load(Ordering::Relaxed) {
        return Ok(());
    }
    let body = Bytes::from_static(b"--probe--\r\n");
    let mut call = tables::write("atomically", Method::POST, "/$batch".to_owned(), body);
    let content_type = HeaderValue::from_static("multipart/mixed; boundary=probe");
    call.headers.insert(CONTENT_TYPE, content_type);
    call.headers.insert(EXTENSIONS, HeaderValue::from_static("on"));
    call.headers.insert(TRANSACTION, HeaderValue::from_static("probe"));
    let error = match account.exchange(&call).await {
        Ok(answer) => answer.into_error("atomically"),
        Err(error) => error,
    };
    // Only a server that knows the header refuses its value.
    if error.code() == Some("InvalidHeaderValue")
        && error.to_string().contains(TRANSACTION.as_str())
    {
        is_known.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let is_without = match error.status() {
        None
        | Some(
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS,
        ) => false,
        // A batch without parts crashes Azurite, which then names no error.
        Some(StatusCode::INTERNAL_SERVER_ERROR) => error.code().is_none(),
        Some(status) => !status.is_server_error(),
    };
    if !is_without {
        return Err(error);
    }
    let error = Error::config("the service has no transactions over partitions and tables");
    Err(error.with(|context| {
        context.hint = Some("a Lazuli server has, unless it runs with --extensions never".into());
    }))
}
