//! Transactions: up to 100 writes to one partition, all or nothing (C-11).

use crate::BoxFuture;
use crate::account::Account;
use crate::call::{Answer, CallOptions, kind_of};
use crate::entity::{ETag, Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorAnswer, ErrorKind};
use crate::key::IntoKey;
use crate::table::{self, Table, encode, entity_path};
use crate::tables;
use crate::write::{self, Proof, WriteVerb};
use crate::write_ids::{Fate, WRITE_IDS, WriteIds};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::limits::{BATCH_OPERATIONS_MAX, REQUEST_BODY_BYTES_MAX};
use lazuli_model::{EntityKey, Guid, TableName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::error_body::ErrorText;
use lazuli_wire::multipart::{BatchWriter, ResponsePart, boundary, parse_batch_response};
use std::collections::HashSet;
use std::future::IntoFuture;
use std::marker::PhantomData;

/// Writes that are collected for one transaction.
#[must_use = "nothing is sent before `commit`"]
pub struct Batch<T> {
    account: Account,
    table: TableName,
    partition: String,
    operations: Vec<Result<Operation, Error>>,
    of: PhantomData<fn(T)>,
}

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
}

impl Operation {
    fn name(&self) -> &'static str {
        self.verb.map_or("delete", WriteVerb::name)
    }
}

/// A transaction that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    etags: Vec<Option<ETag>>,
    proof: Proof,
}

impl Committed {
    /// How it is known.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// The new version of the entity that the operation at `index` wrote; `None` for a deletion, and for
    /// most operations if the answer was lost.
    pub fn etag(&self, index: usize) -> Option<&ETag> {
        self.etags.get(index)?.as_ref()
    }

    /// How many operations there were.
    pub fn len(&self) -> usize {
        self.etags.len()
    }

    /// Whether there was none.
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
            operations: Vec::new(),
            of: PhantomData,
        }
    }

    /// Inserts an entity; the transaction fails if its keys are taken.
    pub fn insert(self, value: &T) -> Self {
        self.write(WriteVerb::Insert, encode(value), None)
    }

    /// Replaces an entity if it has not changed since it was read.
    pub fn replace(self, loaded: &Loaded<T>) -> Self {
        self.write(WriteVerb::Replace, encode(&**loaded), Some(loaded.etag().as_str()))
    }

    /// Replaces an entity unconditionally; it must exist.
    pub fn overwrite(self, value: &T) -> Self {
        self.write(WriteVerb::Overwrite, encode(value), Some("*"))
    }

    /// Inserts or replaces an entity.
    pub fn upsert(self, value: &T) -> Self {
        self.write(WriteVerb::Upsert, encode(value), None)
    }

    /// Inserts an entity, or merges its properties into the existing one.
    pub fn upsert_merge(self, value: &T) -> Self {
        self.write(WriteVerb::UpsertMerge, encode(value), None)
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete(self, loaded: &Loaded<T>) -> Self {
        let key = Ok(loaded.loaded_key().clone());
        self.remove(key, loaded.etag().as_str())
    }

    /// Deletes an entity, which must exist: unlike [`Table::delete_key`], a transaction fails
    /// otherwise.
    pub fn delete_key<K: IntoKey>(self, key: K) -> Self {
        self.remove(key.into_key().map_err(Error::from), "*")
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Sends the transaction. One without operations is carried out at once.
    pub fn commit(self) -> Commit {
        Commit(Box::pin(self.run()))
    }

    fn write(
        mut self,
        verb: WriteVerb,
        encoded: Result<(EntityKey, Properties), Error>,
        if_match: Option<&str>,
    ) -> Self {
        self.operations.push(encoded.map(|(key, properties)| Operation {
            verb: Some(verb),
            key,
            properties,
            if_match: if_match.map(str::to_owned),
            base: WriteIds::default(),
        }));
        self
    }

    fn remove(mut self, key: Result<EntityKey, Error>, etag: &str) -> Self {
        self.operations.push(key.map(|key| Operation {
            verb: None,
            key,
            properties: Properties::default(),
            if_match: Some(etag.to_owned()),
            base: WriteIds::default(),
        }));
        self
    }

    async fn run(self) -> Result<Committed, Error> {
        let (account, table) = (self.account.clone(), self.table.clone());
        let operations = self.checked().map_err(|error| place(error, &table))?;
        let trusts_content = account.0.retry.trusts_content();
        send(&account, &table, operations, None, trusts_content).await
    }

    /// The operations, if they can be one transaction (C-11.1). Nothing is sent before.
    fn checked(self) -> Result<Vec<Operation>, Error> {
        let at = |index: usize, error: Error| {
            error.with(|context| context.hint = Some(format!("operation {index}")))
        };
        let mut checked: Vec<Operation> = Vec::with_capacity(self.operations.len());
        let mut rows: HashSet<String> = HashSet::new();
        for (index, operation) in self.operations.into_iter().enumerate() {
            let operation = operation.map_err(|error| at(index, error))?;
            let fault = if index >= BATCH_OPERATIONS_MAX {
                Some("a transaction has at most 100 operations")
            } else if operation.key.partition.as_str() != self.partition {
                Some("a transaction has one partition")
            } else if !rows.insert(operation.key.row.as_str().to_owned()) {
                Some("a transaction names an entity once")
            } else {
                None
            };
            if let Some(fault) = fault {
                let error = Error::config(fault).at("batch", None, Some(&operation.key));
                return Err(at(index, error));
            }
            checked.push(operation);
        }
        Ok(checked)
    }
}

/// A transaction on its way.
#[must_use = "nothing is sent before `.await`"]
pub struct Commit(BoxFuture<'static, Result<Committed, Error>>);

impl IntoFuture for Commit {
    type Output = Result<Committed, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// Says where it happened.
fn place(error: Error, table: &TableName) -> Error {
    error.at("batch", Some(table.as_str()), None)
}

/// Sends operations that can be one transaction. `own` is an id that the first write is to carry.
pub(crate) async fn send(
    account: &Account,
    table: &TableName,
    mut operations: Vec<Operation>,
    own: Option<Guid>,
    trusts_content: bool,
) -> Result<Committed, Error> {
    let count = operations.len();
    if count == 0 {
        return Ok(Committed { etags: Vec::new(), proof: Proof::Answered });
    }
    let own = own.filter(|own| mark(&mut operations, *own));
    let encoded = encode_batch(account, table, &operations).map_err(|e| place(e, table))?;
    let (content_type, body) = encoded;
    let mut call = tables::write("batch", Method::POST, "/$batch".to_owned(), body.into());
    call.headers.insert(CONTENT_TYPE, content_type);
    let answer = account.exchange(&call).await.map_err(|error| place(error, table))?;
    let is_after_lost = answer.is_after_lost;
    let error = match read_answer(answer, &operations) {
        Ok(etags) => return Ok(Committed { etags, proof: Proof::Answered }),
        Err(error) => place(error, table),
    };
    let is_ours_perhaps = is_after_lost
        && matches!(error.status().map(|status| status.as_u16()), Some(404 | 409 | 412));
    if !is_ours_perhaps {
        return Err(error);
    }
    // All or nothing: what became of one operation became of all (C-13).
    let Some(index) = decisive(&operations) else { return Err(error) };
    let Some(operation) = operations.get(index) else { return Err(error) };
    let found: Option<Loaded<Entity>> =
        table::get(account, table, &operation.key, CallOptions::default())
            .await
            .map_err(|cause| place(write::unknown(cause, "batch"), table))?;
    let done = |proof| {
        let mut etags = vec![None; count];
        if let (Some(slot), Some(found)) = (etags.get_mut(index), &found) {
            *slot = Some(found.etag().clone());
        }
        Ok(Committed { etags, proof })
    };
    match (&found, operation.verb) {
        (None, None) => done(Proof::State),
        (None, Some(_)) | (Some(_), None) => Err(error),
        (Some(row), Some(verb)) => {
            match own.map(|own| row.write_ids().fate_of(own, &operation.base)) {
                Some(Fate::Applied) => done(Proof::WriteIds),
                Some(Fate::NotApplied) => {
                    Err(error.with(|context| context.may_have_been_applied = false))
                }
                Some(Fate::Unknown) => Err(error),
                None if !write::holds(row, &operation.properties, verb) => Err(error),
                None if trusts_content => done(Proof::Content),
                None => Err(error.with_kind(ErrorKind::OutcomeUnknown)),
            }
        }
    }
}

/// The operation whose row tells most: an insert, else another write, else a deletion.
fn decisive(operations: &[Operation]) -> Option<usize> {
    let first = |wanted: fn(&Operation) -> bool| operations.iter().position(wanted);
    first(|operation| operation.properties.has(WRITE_IDS))
        .or_else(|| first(|operation| operation.verb == Some(WriteVerb::Insert)))
        .or_else(|| first(|operation| operation.verb.is_some()))
        .or_else(|| first(|_| true))
}

/// Gives the id of the transaction to one of its writes, best to one of an entity that was read: the ids it
/// had tell also what did not happen. False if there is no write.
fn mark(operations: &mut [Operation], own: Guid) -> bool {
    let read = operations.iter().position(|op| op.verb.is_some() && op.base != WriteIds::default());
    let index = read.or_else(|| operations.iter().position(|op| op.verb.is_some()));
    let Some(operation) = index.and_then(|index| operations.get_mut(index)) else { return false };
    operation.properties.set(WRITE_IDS, operation.base.followed_by(own).to_value());
    true
}

/// The body of the request, and its type.
fn encode_batch(
    account: &Account,
    table: &TableName,
    operations: &[Operation],
) -> Result<(HeaderValue, Vec<u8>), Error> {
    let endpoint = account.0.endpoint(StorageService::Table);
    let base = &endpoint.ok_or_else(|| Error::config("the account has no table endpoint"))?.primary;
    let env = &account.0.env;
    let mut body = Vec::new();
    let (batch_id, change_set_id) = (env.guid().to_string(), env.guid().to_string());
    let mut writer = BatchWriter::request_change_set(&mut body, &batch_id, &change_set_id);
    let content_type = writer.content_type();
    for operation in operations {
        let mut headers: Vec<(&str, &[u8])> = vec![
            ("Accept", b"application/json;odata=minimalmetadata"),
            ("DataServiceVersion", b"3.0;"),
        ];
        let (method, path, body) = match operation.verb {
            Some(verb) => {
                operation.properties.check(&operation.key)?;
                let (path, body) = verb.path_and_body(table, &operation.key, &operation.properties);
                headers.push(("Content-Type", b"application/json"));
                (verb.method(), path, body)
            }
            None => (Method::DELETE, entity_path(table, &operation.key), Vec::new()),
        };
        if method == Method::POST {
            headers.push(("Prefer", b"return-no-content"));
        }
        if let Some(if_match) = &operation.if_match {
            headers.push(("If-Match", if_match.as_bytes()));
        }
        writer.request(method.as_str(), &format!("{base}{path}"), headers, &body);
    }
    writer.finish();
    if body.len() > REQUEST_BODY_BYTES_MAX {
        return Err(Error::config("a transaction has at most 4 MiB"));
    }
    Ok((HeaderValue::try_from(content_type).map_err(Error::protocol)?, body))
}

fn read_answer(answer: Answer, operations: &[Operation]) -> Result<Vec<Option<ETag>>, Error> {
    if answer.status != StatusCode::ACCEPTED {
        return Err(answer.into_error("batch"));
    }
    let content_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = content_type.and_then(boundary);
    let boundary = boundary.ok_or_else(|| Error::protocol("the answer has no boundary"))?;
    let parts = parse_batch_response(&answer.body, boundary).map_err(Error::protocol)?;
    if let Some(failed) = parts.iter().find(|part| part.status >= 300) {
        return Err(failure(failed, &answer, operations));
    }
    if parts.len() != operations.len() {
        return Err(Error::protocol("the answer has another number of parts than the request"));
    }
    let etag = |part: &ResponsePart<'_>| part.headers.get("etag").map(ETag::new);
    Ok(parts.iter().map(etag).collect())
}

/// The error of the one operation that failed the transaction (C-11.2).
fn failure(part: &ResponsePart<'_>, answer: &Answer, operations: &[Operation]) -> Error {
    let mut text = ErrorText::read(part.body).unwrap_or_default();
    let index = text.take_index();
    let status = StatusCode::from_u16(part.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let operation = index.and_then(|index| operations.get(index));
    // The kind of a lone operation helps nobody who does not know which one it was.
    let kind = match kind_of(status, &text.code) {
        kind @ (ErrorKind::TableNotFound | ErrorKind::Throttled) => kind,
        _ => ErrorKind::Batch { index },
    };
    let answered = ErrorAnswer {
        status,
        code: text.code,
        message: text.message,
        request_id: text.request_id,
        details: text.details,
    };
    Error::new(kind).with(|context| {
        context.answer = Some(answered);
        context.key = operation.map(|operation| operation.key.clone());
        context.hint = operation.map(|operation| format!("the operation was {}", operation.name()));
        context.attempts = answer.attempts;
        context.client_request_id = Some(answer.client_request_id.clone());
        context.may_have_been_applied = answer.is_after_lost;
    })
}
