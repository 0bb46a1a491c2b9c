//! The writes of a transaction and the body of its request, built together: the size is known after each write
//! (C-11.1, C-11.5).

use super::messages::MessagePart;
use crate::account::Account;
use crate::call::text_value;
use crate::dialect::Dialect;
use crate::entity::{ETag, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{self, CopyMark};
use crate::key::IntoKey;
use crate::shape::{Rule, is_indexed, is_listed, unlisted};
use crate::table::write_entity_path;
use crate::write::{Merge, WriteVerb};
use crate::write_ids::{WRITE_IDS, WriteIds};
use bytes::Bytes;
use http::{HeaderValue, Method};
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{EntityKey, Guid, TableName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::multipart::BatchRequest;
use std::ops::Range;

/// One write of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// `None` deletes.
    pub(crate) verb: Option<WriteVerb>,
    /// The table, if the transaction spans several; otherwise the transaction's table applies.
    pub(crate) table: Option<TableName>,
    pub(crate) key: EntityKey,
    pub(crate) properties: Properties,
    pub(crate) if_match: Option<String>,
    /// The ids that the entity had when it was read.
    pub(crate) base: WriteIds,
    /// Writes of the copies that indexes keep of the entity.
    pub(crate) copies: Vec<Self>,
    /// The index whose copy this writes, if it is not the entity itself.
    pub(crate) copy: Option<CopyMark>,
}

impl Operation {
    pub(crate) fn name(&self) -> &'static str {
        self.verb.map_or("delete", WriteVerb::name)
    }

    pub(crate) fn write(
        verb: WriteVerb,
        encoded: Result<(EntityKey, Properties), Error>,
        if_match: Option<&str>,
    ) -> Result<Self, Error> {
        let (key, properties) = encoded?;
        let properties = verb.stored(properties);
        let if_match = if_match.map(str::to_owned);
        let (base, copies, copy) = (WriteIds::default(), Vec::new(), None);
        Ok(Self { verb: Some(verb), table: None, key, properties, if_match, base, copies, copy })
    }

    pub(crate) fn remove(key: EntityKey, etag: &str) -> Self {
        let if_match = Some(etag.to_owned());
        let (properties, base) = (Properties::default(), WriteIds::default());
        let (table, copies, copy) = (None, Vec::new(), None);
        Self { verb: None, table, key, properties, if_match, base, copies, copy }
    }

    /// Sets the table of this write and of its copies, except those of an index in another table.
    pub(crate) fn of_table(mut self, table: &TableName) -> Self {
        self.copies.iter_mut().filter(|copy| copy.table.is_none()).for_each(|copy| {
            copy.table = Some(table.clone());
        });
        Self { table: Some(table.clone()), ..self }
    }

    /// Adds the writes of its copies.
    pub(crate) fn with_copies(self, copies: Vec<Self>) -> Self {
        Self { copies, ..self }
    }
}

/// One prepared write, for [`Batch::write`](crate::Batch::write) and [`Bulk::run`](crate::Bulk::run).
///
/// It does not borrow the value it was made from. If the value cannot be encoded, that is reported when the write
/// is to be sent.
#[derive(Debug)]
pub struct WriteOp {
    pub(crate) operation: Result<Operation, Error>,
    /// Whether its entity is untyped.
    is_dynamic: bool,
}

impl WriteOp {
    /// Inserts an entity; fails if its key is taken.
    pub fn insert<T: TableEntity>(value: &T) -> Self {
        Self::of(WriteVerb::Insert, value, None, None)
    }

    /// Replaces an entity if it has not changed since it was read.
    pub fn replace<T: TableEntity>(loaded: &Loaded<T>) -> Self {
        let etag = Some(loaded.etag().as_str());
        Self::of(WriteVerb::Replace, &**loaded, Some(loaded), etag)
    }

    /// Replaces an entity if it is of this version.
    pub fn replace_if_match<T: TableEntity>(value: &T, etag: &ETag) -> Self {
        Self::of(WriteVerb::Replace, value, None, Some(etag.as_str()))
    }

    /// Replaces an entity unconditionally; it must exist.
    pub fn overwrite<T: TableEntity>(value: &T) -> Self {
        Self::of(WriteVerb::Overwrite, value, None, Some("*"))
    }

    /// Inserts or replaces an entity.
    pub fn upsert<T: TableEntity>(value: &T) -> Self {
        Self::of(WriteVerb::Upsert, value, None, None)
    }

    /// Inserts an entity, or merges its properties into the existing one.
    pub fn upsert_merge<T: TableEntity>(value: &T) -> Self {
        Self::of(WriteVerb::UpsertMerge, value, None, None)
    }

    /// Sets some properties of an entity: `WriteOp::merge(table.merge(key).set("Age", 35))`. The merge's own request
    /// options (timeout, headers) are ignored in favour of the transaction's.
    pub fn merge<T: TableEntity>(merge: Merge<T>) -> Self {
        Self { operation: merge.into_operation(), is_dynamic: T::IS_DYNAMIC }
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete<T: TableEntity>(loaded: &Loaded<T>) -> Self {
        let remove = Operation::remove(loaded.loaded_key().clone(), loaded.etag().as_str());
        let operation = match index::Indexing::of_delete(Some(loaded), None) {
            _ if is_listed::<T>() => Err(unlisted()),
            None => Ok(remove),
            Some(index::Indexing::Known(copies)) => Ok(remove.with_copies(copies)),
            Some(index::Indexing::ReadFirst(_)) => Err(index::blind(remove.key)),
        };
        Self { operation, is_dynamic: loaded.shape().is_dynamic }
    }

    /// Deletes an entity, which must exist.
    pub fn delete_key<K: IntoKey>(key: K) -> Self {
        Self::removal(key, "*")
    }

    /// Deletes an entity if it is of this version.
    pub fn delete_if_match<K: IntoKey>(key: K, etag: &ETag) -> Self {
        Self::removal(key, etag.as_str())
    }

    fn removal<K: IntoKey>(key: K, etag: &str) -> Self {
        let remove = key.into_key().map(|key| Operation::remove(key, etag)).map_err(Error::from);
        let operation = remove.and_then(|remove| match () {
            () if is_listed::<K::Entity>() => Err(unlisted()),
            () if is_indexed::<K::Entity>() => Err(index::blind(remove.key)),
            () => Ok(remove),
        });
        Self { operation, is_dynamic: K::Entity::IS_DYNAMIC }
    }

    fn of<T: TableEntity>(
        verb: WriteVerb,
        value: &T,
        loaded: Option<&Loaded<T>>,
        if_match: Option<&str>,
    ) -> Self {
        let operation = index::operation(verb, value, loaded, if_match);
        Self { operation, is_dynamic: value.shape().is_dynamic }
    }

    /// The write, in a table whose type imposes this rule on untyped entities.
    pub(crate) fn under(self, rule: Rule) -> Result<Operation, Error> {
        let mut operation = self.operation?;
        let checked = if self.is_dynamic { rule.check() } else { rule.check_counts() };
        checked.map_err(|error| error.with(|context| context.key = Some(operation.key.clone())))?;
        operation.properties.settle(rule.secrets, self.is_dynamic);
        Ok(operation)
    }
}

/// Why writes cannot be one transaction. Nothing was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("operation {index}: {reason}")]
pub struct BatchError {
    /// The write's position, in the order of adding.
    pub index: usize,
    /// What is wrong with it.
    pub reason: BatchFault,
}

/// What is wrong with a write of a transaction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchFault {
    /// There are too many writes.
    #[error("a transaction has at most 100 operations")]
    TooManyOperations,
    /// It is in another partition.
    #[error("a transaction has one partition, unless it is one of Account::atomically")]
    OtherPartition,
    /// An earlier write names the same entity.
    #[error("a transaction names an entity once")]
    NamedTwice,
    /// The request would be larger than the service accepts.
    #[error("a transaction has at most 4 MiB, with this write it has {bytes} bytes")]
    TooLarge {
        /// Bytes of the request.
        bytes: usize,
    },
    /// It cannot be written at all.
    #[error("{0}")]
    Write(Box<ErrorKind>),
}

/// The error of a write that cannot be part of a transaction.
pub(crate) fn refusal(index: usize, reason: BatchFault, key: Option<EntityKey>) -> Error {
    Error::new(ErrorKind::InvalidBatch(BatchError { index, reason }))
        .with(|context| context.key = key)
}

/// The error of a write that cannot be written at all, in a transaction or alone. It keeps the key and the hint.
pub(crate) fn unwritable(index: usize, error: &Error) -> Error {
    let reason = BatchFault::Write(Box::new(error.kind().clone()));
    let hint = error.hint().map(str::to_owned);
    refusal(index, reason, error.key().cloned()).with(|context| context.hint = hint)
}

/// A write that cannot be part of a transaction.
pub(crate) struct Refused {
    pub(crate) operation: Operation,
    pub(crate) fault: BatchFault,
}

/// Writes that can be one transaction, and the body of its request.
pub(crate) struct ChangeSet {
    dialect: Dialect,
    /// The prefix of all target addresses.
    base: String,
    table: TableName,
    request: BatchRequest,
    /// The id of the transaction, for the rows that keep write ids.
    own: Guid,
    /// Without its closing boundary.
    body: Vec<u8>,
    operations: Vec<Operation>,
    /// They follow the writes in the body.
    messages: Vec<MessagePart>,
    /// The head of an insert in the body. All inserts into one table have the same head.
    insert_head: Option<Range<usize>>,
    /// The index of the write with the greatest row key.
    greatest: usize,
    /// Whether the writes may be in several partitions and tables.
    spans: bool,
    /// The account, if the writes have yet to be encrypted: until then their sizes are unknown.
    protected: Option<Account>,
}

impl ChangeSet {
    pub(crate) fn new(account: &Account, table: &TableName) -> Result<Self, Error> {
        let endpoint = account.0.endpoint(StorageService::Table);
        let endpoint =
            endpoint.ok_or_else(|| Error::config("the account has no table endpoint"))?;
        let own = account.0.env.guid();
        let change_set_id = account.0.env.guid().to_string();
        let request = BatchRequest::new(&own.to_string(), &change_set_id);
        let mut body = Vec::new();
        request.begin(&mut body);
        Ok(Self {
            dialect: account.dialect(),
            base: endpoint.primary.clone(),
            table: table.clone(),
            request,
            own,
            body,
            operations: Vec::new(),
            messages: Vec::new(),
            insert_head: None,
            greatest: 0,
            spans: false,
            protected: account.1.is_some().then(|| account.clone()),
        })
    }

    /// The same writes, encrypted.
    async fn sealed(self) -> Result<Self, Error> {
        let Self { table, mut operations, own, protected: Some(account), .. } = self else {
            return Ok(self);
        };
        for (index, operation) in operations.iter_mut().enumerate() {
            let Operation { verb: Some(verb), key, properties, .. } = operation else { continue };
            let env = &account.0.env;
            let sealed = account.1.seal(properties, table.as_str(), key, *verb, env).await;
            sealed.map_err(|error| {
                let reason = BatchFault::Write(Box::new(error.kind().clone()));
                refusal(index, reason, Some(key.clone()))
            })?;
        }
        Self::new(&account.unprotected(), &table)?.identified(own).with(operations)
    }

    /// Sets the id of the transaction, by which the caller will look for it.
    pub(crate) fn identified(self, own: Guid) -> Self {
        Self { own, ..self }
    }

    /// A change set of all `operations`, in order.
    pub(crate) fn of(
        account: &Account,
        table: &TableName,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Self, Error> {
        Self::new(account, table)?.with(operations)
    }

    /// Allows writes to several partitions and tables.
    pub(crate) fn spanning(self) -> Self {
        Self { spans: true, ..self }
    }

    /// Adds messages after all writes. `first` is the number of the first message.
    pub(crate) fn with_messages(
        mut self,
        first: usize,
        messages: Vec<MessagePart>,
    ) -> Result<Self, Error> {
        for (number, message) in messages.into_iter().enumerate() {
            let refused = |fault| refusal(first + number, fault, None);
            if self.operations.len() + self.messages.len() >= BATCH_OPERATIONS_MAX {
                return Err(refused(BatchFault::TooManyOperations));
            }
            let target = |out: &mut Vec<u8>| out.extend_from_slice(message.target.as_bytes());
            let headers = [("Content-Type", &b"application/xml"[..])];
            let body = |out: &mut Vec<u8>| out.extend_from_slice(&message.body);
            self.request.part(&mut self.body, Method::POST.as_str(), target, headers, body);
            let bytes = self.bytes();
            if bytes > self.dialect.batch_bytes_max() {
                return Err(refused(BatchFault::TooLarge { bytes }));
            }
            self.messages.push(message);
        }
        Ok(self)
    }

    pub(crate) fn with(
        self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Self, Error> {
        let mut changes = self;
        for operation in operations {
            let index = changes.operations.len();
            changes.push(operation).map_err(|refused| {
                let Refused { operation, fault } = *refused;
                refusal(index, fault, Some(operation.key))
            })?;
        }
        Ok(changes)
    }

    /// The current size of the request's body.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.request.closing_bytes()
    }

    /// Makes room for a body of this size.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    /// Adds a write, unless the service would then refuse the transaction.
    pub(crate) fn push(&mut self, mut operation: Operation) -> Result<(), Box<Refused>> {
        self.mark(&mut operation);
        if let Err(fault) = self.admit(&operation) {
            return Err(Box::new(Refused { operation, fault }));
        }
        let before = self.body.len();
        let mut body = std::mem::take(&mut self.body);
        let head = match (&self.insert_head, operation.verb) {
            (Some(head), Some(WriteVerb::Insert)) if operation.copies.is_empty() => {
                self.request.part_like(&mut body, head.clone(), |out| {
                    WriteVerb::Insert.write_body(out, &operation.key, &operation.properties);
                });
                None
            }
            _ => self.encode(&mut body, &operation),
        };
        self.body = body;
        let bytes = self.bytes();
        if bytes > self.dialect.batch_bytes_max() {
            self.body.truncate(before);
            return Err(Box::new(Refused { operation, fault: BatchFault::TooLarge { bytes } }));
        }
        // In a transaction across tables, the next insert may go to another table.
        if self.insert_head.is_none() && !self.spans && operation.verb == Some(WriteVerb::Insert) {
            self.insert_head = head;
        }
        let copies = std::mem::take(&mut operation.copies);
        self.note(operation);
        copies.into_iter().for_each(|copy| self.note(copy));
        Ok(())
    }

    /// Writes the id of the transaction into a row that keeps ids (C-13.6).
    fn mark(&self, operation: &mut Operation) {
        let kept = operation.properties.ids_kept();
        if kept > 0 && operation.verb.is_some() {
            let ids = operation.base.followed_within(self.own, kept);
            operation.properties.set(WRITE_IDS, ids.to_value());
        }
    }

    fn note(&mut self, operation: Operation) {
        let greatest = self.operations.get(self.greatest);
        if greatest.is_none_or(|greatest| greatest.key.row < operation.key.row) {
            self.greatest = self.operations.len();
        }
        self.operations.push(operation);
    }

    /// Whether a write can be added.
    pub(crate) fn fits(&self, operation: &Operation) -> bool {
        let bytes = || {
            let mut parts = Vec::new();
            let mut marked = operation.clone();
            self.mark(&mut marked);
            self.encode(&mut parts, &marked);
            self.bytes() + parts.len()
        };
        self.admit(operation).is_ok() && bytes() <= self.dialect.batch_bytes_max()
    }

    /// Whether `operation` and its copies can be part of this transaction, regardless of size.
    fn admit(&self, operation: &Operation) -> Result<(), BatchFault> {
        if self.operations.len() + operation.copies.len() >= BATCH_OPERATIONS_MAX {
            return Err(BatchFault::TooManyOperations);
        }
        let first = self.operations.first().unwrap_or(operation);
        for (index, write) in with_copies(operation).enumerate() {
            if !self.spans && first.key.partition != write.key.partition {
                return Err(BatchFault::OtherPartition);
            }
            // Here it is in the body, but it is still a header: it must not contain a line break.
            if let Some(if_match) = &write.if_match {
                let checked = text_value(if_match).map(drop);
                checked.map_err(|error| BatchFault::Write(Box::new(error.kind().clone())))?;
            }
            let mut before = with_copies(operation).take(index);
            if self.names(write) || before.any(|other| self.is_same(other, write)) {
                return Err(BatchFault::NamedTwice);
            }
            if self.protected.is_none() {
                let checked = self.dialect.check(&write.key, &write.properties);
                checked.map_err(|error| BatchFault::Write(Box::new(error.kind().clone())))?;
            }
        }
        Ok(())
    }

    /// Whether an earlier write names the entity. Usually writes come in key order: then comparing with the greatest is
    /// enough.
    fn names(&self, write: &Operation) -> bool {
        let greatest = self.operations.get(self.greatest);
        greatest.is_some_and(|greatest| {
            write.key.row <= greatest.key.row
                && self.operations.iter().any(|known| self.is_same(known, write))
        })
    }

    /// Whether two writes name the same entity.
    fn is_same(&self, a: &Operation, b: &Operation) -> bool {
        a.key.row == b.key.row
            && (!self.spans
                || a.key.partition == b.key.partition
                    && self.table_of(a).lower() == self.table_of(b).lower())
    }

    fn table_of<'a>(&'a self, operation: &'a Operation) -> &'a TableName {
        operation.table.as_ref().unwrap_or(&self.table)
    }

    /// Appends the parts of the body that carry `operation` and its copies, and returns where the head of the first is.
    fn encode(&self, out: &mut Vec<u8>, operation: &Operation) -> Option<Range<usize>> {
        let mut heads = with_copies(operation).map(|write| self.encode_one(out, write));
        let first = heads.next();
        heads.for_each(drop);
        first
    }

    fn encode_one(&self, out: &mut Vec<u8>, operation: &Operation) -> Range<usize> {
        let Operation { verb, key, properties, if_match, .. } = operation;
        let table = self.table_of(operation);
        let method = verb.map_or(Method::DELETE, WriteVerb::method);
        let is_insert = *verb == Some(WriteVerb::Insert);
        let headers = [
            Some(("Accept", &b"application/json;odata=minimalmetadata"[..])),
            Some(("DataServiceVersion", b"3.0;")),
            verb.map(|_| ("Content-Type", &b"application/json"[..])),
            is_insert.then_some(("Prefer", b"return-no-content")),
            if_match.as_ref().map(|if_match| ("If-Match", if_match.as_bytes())),
        ];
        let target = |out: &mut Vec<u8>| {
            out.extend_from_slice(self.base.as_bytes());
            match verb {
                Some(verb) => verb.write_path(out, table, key),
                None => write_entity_path(out, table, key),
            }
        };
        let begin = out.len();
        let mut end = begin;
        let body = |out: &mut Vec<u8>| {
            end = out.len();
            if let Some(verb) = verb {
                verb.write_body(out, key, properties);
            }
        };
        self.request.part(out, method.as_str(), target, headers.into_iter().flatten(), body);
        begin..end
    }

    /// Encrypts the writes and closes the request.
    pub(crate) async fn finish(self) -> Result<Prepared, Error> {
        self.sealed().await?.close()
    }

    fn close(mut self) -> Result<Prepared, Error> {
        let content_type = self.request.content_type();
        let content_type = HeaderValue::try_from(content_type).map_err(Error::protocol)?;
        self.request.finish(&mut self.body);
        let Self { body, operations, messages, own, spans, .. } = self;
        let body = body.into();
        Ok(Prepared { content_type, body, operations, messages, own, wants_tags: true, spans })
    }
}

/// A transaction ready to be sent, and its writes.
pub(crate) struct Prepared {
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) operations: Vec<Operation>,
    /// The messages that it puts into queues.
    pub(crate) messages: Vec<MessagePart>,
    /// The id of the transaction, for rows that keep write ids.
    pub(crate) own: Guid,
    /// Whether the caller wants the new versions.
    pub(crate) wants_tags: bool,
    /// Whether it spans partitions or tables; a header says so.
    pub(crate) spans: bool,
}

impl Prepared {
    /// Whether it must not be retried once it may have been carried out: nothing in it would make a second execution
    /// fail, and its messages would be sent twice. An insert fails the second time, and so does a write of a known
    /// version.
    pub(crate) fn is_once(&self) -> bool {
        let fails_again = |operation: &Operation| {
            let is_insert = operation.verb == Some(WriteVerb::Insert);
            is_insert || operation.if_match.as_deref().is_some_and(|version| version != "*")
        };
        !self.messages.is_empty() && !self.operations.iter().any(fails_again)
    }
}

/// A write, followed by those of its copies.
fn with_copies(operation: &Operation) -> impl Iterator<Item = &Operation> {
    [operation].into_iter().chain(&operation.copies)
}

/// The writes of a transaction as callers count them: copies, which follow their entity, are part of its write.
pub(crate) fn grouped(operations: Vec<Operation>) -> Vec<Operation> {
    let mut grouped: Vec<Operation> = Vec::with_capacity(operations.len());
    for operation in operations {
        match (operation.copy, grouped.last_mut()) {
            (Some(_), Some(entity)) => entity.copies.push(operation),
            _ => grouped.push(operation),
        }
    }
    grouped
}
