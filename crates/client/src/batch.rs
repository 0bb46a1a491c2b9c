//! Transactions: up to 100 writes to one partition, all or nothing (C-11).

use crate::BoxFuture;
use crate::account::Account;
use crate::call::{Answer, kind_of};
use crate::entity::{ETag, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorAnswer, ErrorKind};
use crate::key::IntoKey;
use crate::table::{Table, encode, entity_path};
use crate::tables;
use crate::write::WriteVerb;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::limits::{BATCH_OPERATIONS_MAX, REQUEST_BODY_BYTES_MAX};
use lazuli_model::{EntityKey, TableName};
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

struct Operation {
    name: &'static str,
    key: EntityKey,
    method: Method,
    path: String,
    body: Vec<u8>,
    if_match: Option<String>,
}

/// A transaction that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    etags: Vec<Option<ETag>>,
}

impl Committed {
    /// The new version of the entity that the operation at `index` wrote; `None` for a deletion.
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

    /// Adds an entity; one under the same keys fails the transaction.
    pub fn insert(self, value: &T) -> Self {
        self.write(WriteVerb::Insert, encode(value), None)
    }

    /// Writes an entity if nobody has changed it since it was read.
    pub fn replace(self, loaded: &Loaded<T>) -> Self {
        self.write(WriteVerb::Replace, encode(&**loaded), Some(loaded.etag().as_str()))
    }

    /// Writes an entity over what is there; it must be there.
    pub fn overwrite(self, value: &T) -> Self {
        self.write(WriteVerb::Overwrite, encode(value), Some("*"))
    }

    /// Writes an entity, whatever is there.
    pub fn upsert(self, value: &T) -> Self {
        self.write(WriteVerb::Upsert, encode(value), None)
    }

    /// Sets the properties of an entity, whatever is there, and leaves the others.
    pub fn upsert_merge(self, value: &T) -> Self {
        self.write(WriteVerb::UpsertMerge, encode(value), None)
    }

    /// Removes an entity if nobody has changed it since it was read.
    pub fn delete(self, loaded: &Loaded<T>) -> Self {
        let key = Ok(loaded.loaded_key().clone());
        self.remove("delete", key, loaded.etag().as_str())
    }

    /// Removes an entity, which must be there: unlike [`Table::delete_key`], a transaction fails
    /// otherwise.
    pub fn delete_key<K: IntoKey>(self, key: K) -> Self {
        self.remove("delete_key", key.into_key().map_err(Error::from), "*")
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
        let operation = encoded.map(|(key, properties)| {
            let (path, body) = verb.path_and_body(&self.table, &key, &properties);
            let if_match = if_match.map(str::to_owned);
            Operation { name: verb.name(), key, method: verb.method(), path, body, if_match }
        });
        self.operations.push(operation);
        self
    }

    fn remove(mut self, name: &'static str, key: Result<EntityKey, Error>, etag: &str) -> Self {
        let operation = key.map(|key| Operation {
            name,
            method: Method::DELETE,
            path: entity_path(&self.table, &key),
            key,
            body: Vec::new(),
            if_match: Some(etag.to_owned()),
        });
        self.operations.push(operation);
        self
    }

    async fn run(self) -> Result<Committed, Error> {
        let table = self.table.clone();
        let place = |error: Error| error.at("batch", Some(table.as_str()), None);
        let account = self.account.clone();
        let operations = self.checked().map_err(place)?;
        if operations.is_empty() {
            return Ok(Committed { etags: Vec::new() });
        }
        let (content_type, body) = encode_batch(&account, &operations).map_err(place)?;
        let mut call = tables::write("batch", Method::POST, "/$batch".to_owned(), body.into());
        call.headers.insert(CONTENT_TYPE, content_type);
        let answer = account.exchange(&call).await.map_err(place)?;
        read_answer(answer, &operations).map_err(place)
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

/// The body of the request, and its type.
fn encode_batch(
    account: &Account,
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
        if !operation.body.is_empty() {
            headers.push(("Content-Type", b"application/json"));
        }
        if operation.method == Method::POST {
            headers.push(("Prefer", b"return-no-content"));
        }
        if let Some(if_match) = &operation.if_match {
            headers.push(("If-Match", if_match.as_bytes()));
        }
        let target = format!("{base}{}", operation.path);
        writer.request(operation.method.as_str(), &target, headers, &operation.body);
    }
    writer.finish();
    if body.len() > REQUEST_BODY_BYTES_MAX {
        return Err(Error::config("a transaction has at most 4 MiB"));
    }
    Ok((HeaderValue::try_from(content_type).map_err(Error::protocol)?, body))
}

fn read_answer(answer: Answer, operations: &[Operation]) -> Result<Committed, Error> {
    if answer.status != StatusCode::ACCEPTED {
        let error = answer.into_error("batch");
        return Err(error);
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
    Ok(Committed { etags: parts.iter().map(etag).collect() })
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
        context.hint = operation.map(|operation| format!("the operation was {}", operation.name));
        context.attempts = answer.attempts;
        context.client_request_id = Some(answer.client_request_id.clone());
        context.may_have_been_applied = answer.is_after_lost;
    })
}
