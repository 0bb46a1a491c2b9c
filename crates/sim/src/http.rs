//! Sends the requests of a history over HTTP, and reads the responses.

use crate::gateways::Gateways;
use crate::history::{
    Change, ChangeKind, Condition, EntityId, INDEXES, Index as TableIndex, IndexUpkeep,
    LIFE_SECONDS, Refusal, Request, Response, SLOT_NAMES, Scan, Slots, Stored, Version,
};
use lazuli_model::{ETag, IfMatch, Timestamp};
use lazuli_testkit::http::{self, Connection, Operation, error_code};
use lazuli_wire::continuation;
use serde_json::Value;
use std::fmt::Write;
use std::io;

/// A client of one table.
pub(crate) struct HttpClient {
    gateways: Gateways,
    table: String,
    connection: Option<Connection>,
}

/// A response that none of our requests should get.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) request: Request,
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl std::fmt::Display for Unexpected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} was answered {}: {}", self.request, self.status, self.body)
    }
}

impl std::error::Error for Unexpected {}

impl HttpClient {
    pub(crate) fn new(gateways: Gateways, table: &str) -> Self {
        Self { gateways, table: table.to_owned(), connection: None }
    }

    /// Sends a request. If the connection breaks, the outcome is unknown, and the next request
    /// opens a new one, to the next gateway.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Response, Unexpected> {
        let answer = match self.exchange(request) {
            Ok(answer) => answer,
            Err(_) => {
                self.connection = None;
                self.gateways.turn();
                return Ok(Response::Unknown);
            }
        };
        answer.read(request).ok_or_else(|| answer.unexpected(request))
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Answer> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.gateways.connect()?),
        };
        match sent(&self.table, request) {
            Sent::Lone(operation) => connection.send_operation(&operation).map(Answer::Lone),
            Sent::Batch(operations) => connection.send_batch(&operations).map(Answer::Batch),
        }
    }
}

/// What goes over the wire for a request.
pub(crate) enum Sent {
    Lone(Operation),
    Batch(Vec<Operation>),
}

pub(crate) fn sent(table: &str, request: &Request) -> Sent {
    Sent::Lone(match request {
        Request::Get(entity) => plain("GET", entity_path(table, *entity)),
        Request::Change(change) => operation(table, change),
        Request::Scan(scan) => plain("GET", scan_path(table, scan)),
        Request::CreateTable => {
            let body = format!("{{\"TableName\":\"{table}\"}}");
            Operation { body, ..plain("POST", "/Tables".to_owned()) }
        }
        Request::DeleteTable => plain("DELETE", format!("/Tables('{table}')")),
        Request::Index(upkeep) => index_operation(table, *upkeep),
        Request::SetExpiry => {
            let body = format!("{{\"seconds\":{LIFE_SECONDS}}}");
            let headers = vec![("x-lazuli-extensions", "on".to_owned())];
            let path = format!("/{table}?comp=lazuli-ttl");
            Operation { method: "PUT", path, headers, body }
        }
        Request::Batch(changes) => {
            return Sent::Batch(changes.iter().map(|change| operation(table, change)).collect());
        }
    })
}

fn plain(method: &'static str, path: String) -> Operation {
    Operation { method, path, headers: Vec::new(), body: String::new() }
}

fn index_operation(table: &str, upkeep: IndexUpkeep) -> Operation {
    let headers = vec![("x-lazuli-extensions", "on".to_owned())];
    let (path, body) = match upkeep {
        IndexUpkeep::Declare => {
            let index = |index: TableIndex| {
                let TableIndex { name, on, is_unique } = index;
                format!("{{\"name\":\"{name}\",\"on\":[\"{on}\"],\"unique\":{is_unique}}}")
            };
            let indexes = INDEXES.map(index).join(",");
            (format!("/{table}?comp=lazuli-indexes"), format!("{{\"indexes\":[{indexes}]}}"))
        }
        IndexUpkeep::Rebuild => {
            let [TableIndex { name, .. }, _] = INDEXES;
            (format!("/{table}?comp=lazuli-rebuild&index={name}"), String::new())
        }
    };
    Operation { method: "PUT", path, headers, body }
}

fn entity_path(table: &str, entity: EntityId) -> String {
    let (partition, row) = (entity.partition_key(), entity.row_key());
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

fn operation(table: &str, change: &Change) -> Operation {
    let (method, condition) = match change.kind {
        ChangeKind::Insert => ("POST", None),
        ChangeKind::InsertOrReplace => ("PUT", None),
        ChangeKind::Replace(condition) => ("PUT", Some(condition)),
        ChangeKind::InsertOrMerge => ("MERGE", None),
        ChangeKind::Merge(condition) => ("MERGE", Some(condition)),
        ChangeKind::Delete(condition) => ("DELETE", Some(condition)),
    };
    let path = match change.kind {
        ChangeKind::Insert => format!("/{table}"),
        _ => entity_path(table, change.entity),
    };
    let body = match change.kind {
        ChangeKind::Delete(_) => String::new(),
        _ => entity_body(change),
    };
    let headers = condition.map(|condition| ("If-Match", if_match(condition)));
    Operation { method, path, headers: headers.into_iter().collect(), body }
}

fn if_match(condition: Condition) -> String {
    match condition {
        Condition::Any => "*".to_owned(),
        Condition::At(version) => {
            ETag(Timestamp::from_ticks(version).unwrap_or(Timestamp::MAX)).to_string()
        }
    }
}

fn entity_body(change: &Change) -> String {
    let (partition, row) = (change.entity.partition_key(), change.entity.row_key());
    let mut body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"");
    for (name, slot) in SLOT_NAMES.iter().zip(change.slots) {
        if let Some(value) = slot {
            let _ = write!(body, ",\"{name}\":{value}");
        }
    }
    body.push('}');
    body
}

fn scan_path(table: &str, scan: &Scan) -> String {
    let mut path = format!("/{table}()?$top={}", scan.top);
    let partition = scan.partition.map(|partition| {
        let key = EntityId::new(partition, 0).partition_key();
        format!("PartitionKey%20eq%20'{key}'")
    });
    let value = scan.value.map(|value| format!("{}%20eq%20{value}", SLOT_NAMES[0]));
    let conditions: Vec<String> = partition.into_iter().chain(value).collect();
    if !conditions.is_empty() {
        let _ = write!(path, "&$filter={}", conditions.join("%20and%20"));
    }
    if let Some(from) = scan.from {
        let token = |key: String| continuation::encode(key.as_bytes());
        let (partition, row) = (token(from.partition_key()), token(from.row_key()));
        let _ = write!(path, "&NextPartitionKey={partition}&NextRowKey={row}");
    }
    path
}

/// The response to one request.
pub(crate) enum Answer {
    Lone(http::Response),
    Batch(http::BatchResponse),
}

impl Answer {
    /// The meaning of the response; `None` if it is invalid.
    pub(crate) fn read(&self, request: &Request) -> Option<Response> {
        match self {
            Self::Lone(answer) if answer.status < 400 => read_success(request, answer),
            Self::Lone(answer) => read_failure(request, answer.status, &answer.text(), Index::Lone),
            Self::Batch(answer) => match answer.parts.first() {
                Some((status, _)) if *status >= 400 => {
                    read_failure(request, *status, &answer.body, Index::InMessage)
                }
                Some(_) if answer.status == 202 => read_batch(request, answer),
                _ => read_failure(request, answer.status, &answer.body, Index::Lone),
            },
        }
    }

    pub(crate) fn unexpected(&self, request: &Request) -> Unexpected {
        let (status, body) = match self {
            Self::Lone(answer) => (answer.status, answer.text()),
            Self::Batch(answer) => (answer.status, answer.body.clone()),
        };
        Unexpected { request: request.clone(), status, body }
    }
}

fn read_success(request: &Request, answer: &http::Response) -> Option<Response> {
    match request {
        Request::Get(_) => {
            let version = version(answer.header("etag")?)?;
            let entity: Value = serde_json::from_slice(&answer.body).ok()?;
            let stored = Stored { version, slots: slots(&entity) };
            // Header and body name the same version.
            (timestamp(&entity)? == version).then_some(Response::Entity(Some(stored)))
        }
        Request::Scan(_) => {
            let body: Value = serde_json::from_slice(&answer.body).ok()?;
            let entities = body.get("value")?.as_array()?.iter().map(listed);
            Some(Response::Page { entities: entities.collect::<Option<_>>()?, next: next(answer)? })
        }
        Request::Change(Change { kind: ChangeKind::Delete(_), .. }) => {
            Some(Response::Written(None))
        }
        Request::Change(_) => Some(Response::Written(Some(version(answer.header("etag")?)?))),
        Request::CreateTable => Some(Response::TableCreated),
        Request::DeleteTable => Some(Response::TableDeleted),
        Request::Index(_) | Request::SetExpiry => Some(Response::SettingsChanged),
        Request::Batch(_) => None,
    }
}

/// All entities of a batch have one version.
fn read_batch(request: &Request, answer: &http::BatchResponse) -> Option<Response> {
    if answer.parts.len() != request.changes().len() {
        return None;
    }
    let mut versions = answer.parts.iter().filter_map(|(_, etag)| version(etag.as_deref()?));
    let first = versions.next();
    versions.all(|version| Some(version) == first).then_some(Response::Written(first))
}

/// Where the response names the index of the operation that failed.
enum Index {
    Lone,
    InMessage,
}

fn read_failure(request: &Request, status: u16, body: &str, index: Index) -> Option<Response> {
    let code = error_code(body)?;
    let refused = |reason| {
        let index = match index {
            Index::Lone => 0,
            // The response to a change set of one operation names no index.
            Index::InMessage => {
                let (_, message) = body.split_once("\"value\":\"")?;
                message.split_once(':')?.0.parse().unwrap_or_default()
            }
        };
        Some(Response::Refused { index, reason })
    };
    match (status, code) {
        (404, "TableNotFound") => Some(Response::TableNotFound),
        (404, "ResourceNotFound") => match request {
            Request::Get(_) => Some(Response::Entity(None)),
            Request::DeleteTable => Some(Response::TableNotFound),
            _ => refused(Refusal::EntityNotFound),
        },
        (409, "TableAlreadyExists") => Some(Response::TableAlreadyExists),
        (409, "EntityAlreadyExists") => refused(Refusal::EntityAlreadyExists),
        (412, "UpdateConditionNotSatisfied") => refused(Refusal::ConditionNotMet),
        (503, "ServerBusy") => Some(Response::NotDone),
        (500..600, _) => Some(Response::Unknown),
        _ => None,
    }
}

/// The continuation; `None` if it cannot be read.
fn next(answer: &http::Response) -> Option<Option<EntityId>> {
    let Some(partition) = answer.header("x-ms-continuation-nextpartitionkey") else {
        return Some(None);
    };
    let row = answer.header("x-ms-continuation-nextrowkey")?;
    let key = |token: &str| continuation::decode_key(token);
    EntityId::parse(&key(partition)?, &key(row)?).map(Some)
}

fn listed(entity: &Value) -> Option<(EntityId, Stored)> {
    let key = |name| entity.get(name).and_then(Value::as_str);
    let id = EntityId::parse(key("PartitionKey")?, key("RowKey")?)?;
    Some((id, Stored { version: timestamp(entity)?, slots: slots(entity) }))
}

fn slots(entity: &Value) -> Slots {
    SLOT_NAMES.map(|name| {
        let value = entity.get(name).and_then(Value::as_u64);
        value.and_then(|value| u32::try_from(value).ok())
    })
}

fn timestamp(entity: &Value) -> Option<Version> {
    let text = entity.get("Timestamp")?.as_str()?;
    Timestamp::parse(text).map(Timestamp::ticks)
}

fn version(etag: &str) -> Option<Version> {
    match IfMatch::parse(etag).ok()? {
        IfMatch::Version(ETag(timestamp)) => Some(timestamp.ticks()),
        _ => None,
    }
}
