//! The writes of a transaction and the body of its request, which grow together: the size is known after
//! each write (C-11.1, C-11.5).

use crate::account::Account;
use crate::dialect::Dialect;
use crate::entity::{Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{self, CopyMark};
use crate::key::IntoKey;
use crate::table::entity_path;
use crate::write::WriteVerb;
use crate::write_ids::WriteIds;
use bytes::Bytes;
use http::{HeaderValue, Method};
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{EntityKey, RowKey, TableName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::multipart::BatchWriter;
use std::collections::HashSet;

/// One write of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// `None` deletes.
    pub(crate) verb: Option<WriteVerb>,
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
        let if_match = if_match.map(str::to_owned);
        let (base, copies, copy) = (WriteIds::default(), Vec::new(), None);
        Ok(Self { verb: Some(verb), key, properties, if_match, base, copies, copy })
    }

    pub(crate) fn remove(key: EntityKey, etag: &str) -> Self {
        let if_match = Some(etag.to_owned());
        let (properties, base) = (Properties::default(), WriteIds::default());
        Self { verb: None, key, properties, if_match, base, copies: Vec::new(), copy: None }
    }

    /// With the writes of its copies.
    pub(crate) fn with_copies(self, copies: Vec<Self>) -> Self {
        Self { copies, ..self }
    }
}

/// One write, made ready: what [`Batch::write`](crate::Batch::write) and [`Bulk::run`](crate::Bulk::run)
/// take.
///
/// It holds all it needs, so the value it was made from is free again. A value that cannot be encoded is
/// reported when the write is to be sent.
#[derive(Debug)]
pub struct WriteOp(pub(crate) Result<Operation, Error>);

impl WriteOp {
    /// Inserts an entity; fails if its keys are taken.
    pub fn insert<T: TableEntity>(value: &T) -> Self {
        Self(index::operation(WriteVerb::Insert, value, None, None))
    }

    /// Replaces an entity if it has not changed since it was read.
    pub fn replace<T: TableEntity>(loaded: &Loaded<T>) -> Self {
        let etag = Some(loaded.etag().as_str());
        Self(index::operation(WriteVerb::Replace, &**loaded, Some(loaded), etag))
    }

    /// Replaces an entity unconditionally; it must exist.
    pub fn overwrite<T: TableEntity>(value: &T) -> Self {
        Self(index::operation(WriteVerb::Overwrite, value, None, Some("*")))
    }

    /// Inserts or replaces an entity.
    pub fn upsert<T: TableEntity>(value: &T) -> Self {
        Self(index::operation(WriteVerb::Upsert, value, None, None))
    }

    /// Inserts an entity, or merges its properties into the existing one.
    pub fn upsert_merge<T: TableEntity>(value: &T) -> Self {
        Self(index::operation(WriteVerb::UpsertMerge, value, None, None))
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete<T: TableEntity>(loaded: &Loaded<T>) -> Self {
        let remove = Operation::remove(loaded.loaded_key().clone(), loaded.etag().as_str());
        Self(match index::Indexing::of_delete(Some(loaded), None) {
            None => Ok(remove),
            Some(index::Indexing::Known(copies)) => Ok(remove.with_copies(copies)),
            Some(index::Indexing::ReadFirst(_)) => Err(index::blind(remove.key)),
        })
    }

    /// Deletes an entity, which must exist.
    pub fn delete_key<K: IntoKey>(key: K) -> Self {
        let remove = key.into_key().map(|key| Operation::remove(key, "*")).map_err(Error::from);
        let is_indexed = !K::Entity::INDEXES.is_empty();
        Self(
            remove.and_then(
                |remove| if is_indexed { Err(index::blind(remove.key)) } else { Ok(remove) },
            ),
        )
    }
}

/// Why writes cannot be one transaction. Nothing was sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("operation {index}: {reason}")]
pub struct BatchError {
    /// The write, in the order they were added.
    pub index: usize,
    /// What is wrong with it.
    pub reason: BatchFault,
}

/// What is wrong with a write of a transaction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchFault {
    /// It is one too many.
    #[error("a transaction has at most 100 operations")]
    TooManyOperations,
    /// It is of another partition.
    #[error("a transaction has one partition")]
    OtherPartition,
    /// A write before it names the same entity.
    #[error("a transaction names an entity once")]
    NamedTwice,
    /// The request would be larger than the service takes.
    #[error("a transaction has at most 4 MiB, with this write it has {bytes} bytes")]
    TooLarge {
        /// Bytes of the request.
        bytes: usize,
    },
    /// It cannot be written at all.
    #[error("{0}")]
    Write(Box<ErrorKind>),
}

/// The error of a write that a transaction cannot have.
pub(crate) fn refusal(index: usize, reason: BatchFault, key: Option<EntityKey>) -> Error {
    Error::new(ErrorKind::InvalidBatch(BatchError { index, reason }))
        .with(|context| context.key = key)
}

/// A write that a transaction cannot have.
pub(crate) struct Refused {
    pub(crate) operation: Operation,
    pub(crate) fault: BatchFault,
}

/// Writes that can be one transaction, and the body of the request that carries them.
pub(crate) struct ChangeSet {
    dialect: Dialect,
    /// The address that targets begin with.
    base: String,
    table: TableName,
    batch_id: String,
    change_set_id: String,
    /// Not closed yet.
    body: Vec<u8>,
    closing_bytes: usize,
    operations: Vec<Operation>,
    rows: HashSet<RowKey>,
    /// The account, if the writes are still to be encrypted: their sizes are not known then.
    protected: Option<Account>,
}

impl ChangeSet {
    pub(crate) fn new(account: &Account, table: &TableName) -> Result<Self, Error> {
        let endpoint = account.0.endpoint(StorageService::Table);
        let endpoint =
            endpoint.ok_or_else(|| Error::config("the account has no table endpoint"))?;
        let [batch_id, change_set_id] =
            [account.0.env.guid(), account.0.env.guid()].map(|id| id.to_string());
        let mut body = Vec::new();
        let writer = BatchWriter::request_change_set(&mut body, &batch_id, &change_set_id);
        let closing_bytes = writer.closing_bytes();
        Ok(Self {
            dialect: account.dialect(),
            base: endpoint.primary.clone(),
            table: table.clone(),
            batch_id,
            change_set_id,
            body,
            closing_bytes,
            operations: Vec::new(),
            rows: HashSet::new(),
            protected: account.1.is_some().then(|| account.clone()),
        })
    }

    /// The same writes, encrypted.
    async fn sealed(self) -> Result<Self, Error> {
        let Self { table, mut operations, protected: Some(account), .. } = self else {
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
        Self::of(&account.unprotected(), &table, operations)
    }

    /// All of `operations`, in order.
    pub(crate) fn of(
        account: &Account,
        table: &TableName,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Self, Error> {
        let mut changes = Self::new(account, table)?;
        for operation in operations {
            let index = changes.operations.len();
            changes.push(operation).map_err(|refused| {
                let Refused { operation, fault } = *refused;
                refusal(index, fault, Some(operation.key))
            })?;
        }
        Ok(changes)
    }

    /// Bytes of the request's body, as it would be sent now.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.closing_bytes
    }

    /// Adds a write, unless it would make the transaction one that the service refuses.
    pub(crate) fn push(&mut self, mut operation: Operation) -> Result<(), Box<Refused>> {
        let parts = match self.parts(&operation) {
            Ok(parts) => parts,
            Err(fault) => return Err(Box::new(Refused { operation, fault })),
        };
        self.body.extend_from_slice(&parts);
        let copies = std::mem::take(&mut operation.copies);
        for operation in [operation].into_iter().chain(copies) {
            self.rows.insert(operation.key.row.clone());
            self.operations.push(operation);
        }
        Ok(())
    }

    /// Whether a write can be added.
    pub(crate) fn fits(&self, operation: &Operation) -> bool {
        self.parts(operation).is_ok()
    }

    /// The parts of the body that carry `operation` and its copies, if they can be part of this transaction.
    fn parts(&self, operation: &Operation) -> Result<Vec<u8>, BatchFault> {
        if self.operations.len() + operation.copies.len() >= BATCH_OPERATIONS_MAX {
            return Err(BatchFault::TooManyOperations);
        }
        let first = self.operations.first().unwrap_or(operation);
        let mut parts = Vec::new();
        for (index, write) in [operation].into_iter().chain(&operation.copies).enumerate() {
            if first.key.partition != write.key.partition {
                return Err(BatchFault::OtherPartition);
            }
            let mut before = [operation].into_iter().chain(&operation.copies).take(index);
            if self.rows.contains(&write.key.row) || before.any(|other| other.key == write.key) {
                return Err(BatchFault::NamedTwice);
            }
            if self.protected.is_none() {
                let checked = self.dialect.check(&write.key, &write.properties);
                checked.map_err(|error| BatchFault::Write(Box::new(error.kind().clone())))?;
            }
            parts.extend_from_slice(&self.encode(write));
        }
        match self.bytes() + parts.len() {
            bytes if bytes > self.dialect.batch_bytes_max() => Err(BatchFault::TooLarge { bytes }),
            _ => Ok(parts),
        }
    }

    fn encode(&self, operation: &Operation) -> Vec<u8> {
        let mut headers: Vec<(&str, &[u8])> = vec![
            ("Accept", b"application/json;odata=minimalmetadata"),
            ("DataServiceVersion", b"3.0;"),
        ];
        let (method, path, body) = match operation.verb {
            Some(verb) => {
                let key = &operation.key;
                let (path, body) = verb.path_and_body(&self.table, key, &operation.properties);
                headers.push(("Content-Type", b"application/json"));
                (verb.method(), path, body)
            }
            None => (Method::DELETE, entity_path(&self.table, &operation.key), Vec::new()),
        };
        if method == Method::POST {
            headers.push(("Prefer", b"return-no-content"));
        }
        if let Some(if_match) = &operation.if_match {
            headers.push(("If-Match", if_match.as_bytes()));
        }
        let target = format!("{}{path}", self.base);
        let mut part = Vec::new();
        BatchWriter::continue_change_set(&mut part, &self.batch_id, &self.change_set_id).request(
            method.as_str(),
            &target,
            headers,
            &body,
        );
        part
    }

    /// The request, ready to be sent: what is to be encrypted is.
    pub(crate) async fn finish(self) -> Result<Prepared, Error> {
        self.sealed().await?.close()
    }

    fn close(mut self) -> Result<Prepared, Error> {
        let writer =
            BatchWriter::continue_change_set(&mut self.body, &self.batch_id, &self.change_set_id);
        let content_type = HeaderValue::try_from(writer.content_type()).map_err(Error::protocol)?;
        writer.finish();
        let (body, operations) = (self.body.into(), self.operations);
        Ok(Prepared { content_type, body, operations })
    }
}

/// A transaction as it is sent, and the writes it carries.
pub(crate) struct Prepared {
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) operations: Vec<Operation>,
}

/// The writes of a transaction as callers count them: copies with the write of their entity, which they follow.
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
