//! Writes of one entity, and what a lost answer means for each (C-9, C-13).

use crate::BoxFuture;
use crate::account::Account;
use crate::call::{Answer, Call, CallOptions, header, text_value};
use crate::entity::{ETag, Entity, Loaded, Properties};
use crate::error::{Error, ErrorKind};
use crate::table::{entity_path, get};
use crate::tables;
use crate::value::{EncodeError, IntoValue, TableValue};
use bytes::Bytes;
use http::header::{ETAG, IF_MATCH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::{EntityKey, KeyError, TableName, Value};
use lazuli_wire::odata::json;
use std::borrow::Cow;
use std::future::IntoFuture;
use std::time::Duration;

/// A write that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new version; usable at once.
    pub etag: ETag,
    /// How it is known.
    pub proof: Proof,
}

/// A deletion that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone now.
    Now(Proof),
    /// It was not there.
    WasAbsent,
}

/// How it is known that a write was carried out (C-13.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// The server said so.
    Answered,
    /// The answer was lost, and what is there is what was written. Somebody else may have written the
    /// same.
    Content,
    /// The answer was lost, and what should be gone is gone.
    State,
}

/// What a write asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    Insert,
    Replace,
    Overwrite,
    Upsert,
    Merge,
    UpsertMerge,
}

impl WriteVerb {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Overwrite => "overwrite",
            Self::Upsert => "upsert",
            Self::Merge => "merge",
            Self::UpsertMerge => "upsert_merge",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::Insert => Method::POST,
            Self::Replace | Self::Overwrite | Self::Upsert => Method::PUT,
            Self::Merge | Self::UpsertMerge => Method::PATCH,
        }
    }

    /// Where it goes, and what is sent there.
    pub(crate) fn path_and_body(
        self,
        table: &TableName,
        key: &EntityKey,
        properties: &Properties,
    ) -> (String, Vec<u8>) {
        let mut body = Vec::with_capacity(256);
        match self {
            Self::Insert => {
                let keys = (key.partition.as_str(), key.row.as_str());
                json::write_request(&mut body, Some(keys), properties.iter());
                (format!("/{}", table.as_str()), body)
            }
            _ => {
                json::write_request(&mut body, None, properties.iter());
                (entity_path(table, key), body)
            }
        }
    }
}

/// A write of one entity.
#[must_use = "nothing is sent before `.await`"]
pub struct Write {
    account: Account,
    table: TableName,
    verb: WriteVerb,
    prepared: Result<Prepared, Error>,
    options: CallOptions,
}

/// A write whose body is made, so that the value it came from is free (C-3.11).
struct Prepared {
    key: EntityKey,
    path: String,
    body: Bytes,
    if_match: Option<HeaderValue>,
}

impl Write {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        verb: WriteVerb,
        encoded: Result<(EntityKey, Properties), Error>,
        if_match: Option<&str>,
    ) -> Self {
        let prepared = encoded.and_then(|(key, properties)| {
            let (path, body) = verb.path_and_body(table, &key, &properties);
            let if_match = if_match.map(text_value).transpose()?;
            Ok(Prepared { key, path, body: body.into(), if_match })
        });
        let (account, table) = (account.clone(), table.clone());
        Self { account, table, verb, prepared, options: CallOptions::default() }
    }

    /// How long it may take with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Another header, for what this library does not know.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.options.headers.push((name, value));
        self
    }

    async fn run(self) -> Result<Written, Error> {
        let operation = self.verb.name();
        let table = self.table.as_str();
        let prepared = self.prepared.map_err(|error| error.at(operation, Some(table), None))?;
        let place = |error: Error| error.at(operation, Some(table), Some(&prepared.key));
        let mut call =
            tables::write(operation, self.verb.method(), prepared.path, prepared.body.clone());
        call.options = self.options;
        if let Some(if_match) = prepared.if_match {
            call.headers.insert(IF_MATCH, if_match);
        }
        if self.verb == WriteVerb::Insert {
            tables::prefer_no_content(&mut call);
        }
        let answer = self.account.exchange(&call).await.map_err(place)?;
        if answer.status.is_success() {
            return written(&answer).map_err(place);
        }
        let is_ours_perhaps = answer.is_after_lost
            && match self.verb {
                WriteVerb::Insert => answer.status == StatusCode::CONFLICT,
                WriteVerb::Replace | WriteVerb::Merge => {
                    answer.status == StatusCode::PRECONDITION_FAILED
                }
                _ => false,
            };
        let error = answer.into_error(operation);
        if !is_ours_perhaps {
            return Err(place(error));
        }
        // An earlier attempt may have done it: look (C-13.8).
        let found: Option<Loaded<Entity>> =
            get(&self.account, &self.table, &prepared.key, CallOptions::default())
                .await
                .map_err(|cause| unknown(cause, operation))
                .map_err(place)?;
        match found {
            Some(found) if holds(&found, &prepared.body, self.verb) => {
                if !self.account.0.retry.trusts_content() {
                    return Err(place(error.with_kind(ErrorKind::OutcomeUnknown)));
                }
                Ok(Written { etag: found.etag().clone(), proof: Proof::Content })
            }
            _ => Err(place(error)),
        }
    }
}

impl IntoFuture for Write {
    type Output = Result<Written, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The error of a write whose outcome could not be looked up.
fn unknown(cause: Error, operation: &'static str) -> Error {
    Error::new(ErrorKind::OutcomeUnknown)
        .at(operation, None, None)
        .with(|context| context.source = Some(cause.into()))
}

pub(crate) fn written(answer: &Answer) -> Result<Written, Error> {
    let etag = header(&answer.headers, &ETAG).map(ETag::new);
    let etag = etag.ok_or_else(|| Error::protocol("a write was answered without an ETag"))?;
    Ok(Written { etag, proof: Proof::Answered })
}

/// Whether an entity holds what was sent: all of it and nothing else, but for a merge.
fn holds(found: &Entity, sent: &[u8], verb: WriteVerb) -> bool {
    let Ok(sent) = json::read_entity(sent) else { return false };
    let is_whole = matches!(verb, WriteVerb::Merge) || sent.properties.len() == found.len();
    is_whole
        && sent
            .properties
            .iter()
            .all(|(name, value)| found.value(name).is_some_and(|stored| is_same(stored, value)))
}

/// Whether two values are stored alike: a NaN is like a NaN.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() || a == b,
        _ => a == b,
    }
}

/// A change of some properties of an entity.
#[must_use = "nothing is sent before `.await`"]
pub struct Merge {
    account: Account,
    table: TableName,
    key: Result<EntityKey, KeyError>,
    properties: Properties,
    fault: Option<EncodeError>,
    if_match: Option<String>,
    options: CallOptions,
}

impl Merge {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        key: Result<EntityKey, KeyError>,
    ) -> Self {
        Self {
            account: account.clone(),
            table: table.clone(),
            key,
            properties: Properties::default(),
            fault: None,
            if_match: Some("*".to_owned()),
            options: CallOptions::default(),
        }
    }

    /// Sets a property. A merge cannot remove one: replace the entity for that.
    pub fn set(mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) -> Self {
        self.properties.push(name, value.into_value());
        self
    }

    /// Sets a property of a type that may not fit.
    pub fn try_set<V: TableValue>(mut self, name: impl Into<Cow<'static, str>>, value: &V) -> Self {
        if let Err(fault) = self.properties.add(name, value) {
            self.fault.get_or_insert(fault);
        }
        self
    }

    /// Only if the entity is of this version.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.if_match = Some(etag.as_str().to_owned());
        self
    }

    /// Inserts the entity if it is not there.
    pub fn or_insert(mut self) -> Self {
        self.if_match = None;
        self
    }

    /// How long it may take with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    fn into_write(self) -> Write {
        let Self { account, table, key, properties, fault, if_match, options } = self;
        let encoded = key.map_err(Error::from).and_then(|key| {
            match fault {
                Some(fault) => return Err(fault.into()),
                None => properties.check(&key)?,
            }
            Ok((key, properties))
        });
        let verb = match if_match.as_deref() {
            None => WriteVerb::UpsertMerge,
            // With a star it may be done twice, and nothing has to be looked up.
            Some(_) => WriteVerb::Merge,
        };
        let write = Write::new(&account, &table, verb, encoded, if_match.as_deref());
        Write { options, ..write }
    }
}

impl IntoFuture for Merge {
    type Output = Result<Written, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_write().run())
    }
}

/// A deletion of one entity.
#[must_use = "nothing is sent before `.await`"]
pub struct Delete {
    account: Account,
    table: TableName,
    key: Result<EntityKey, KeyError>,
    /// `None` deletes any version, and none.
    etag: Option<String>,
    options: CallOptions,
}

impl Delete {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        key: Result<EntityKey, KeyError>,
        etag: Option<&str>,
    ) -> Self {
        let (account, table) = (account.clone(), table.clone());
        let etag = etag.map(str::to_owned);
        Self { account, table, key, etag, options: CallOptions::default() }
    }

    /// How long it may take with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<Deleted, Error> {
        let operation = if self.etag.is_some() { "delete" } else { "delete_key" };
        let table = self.table.as_str();
        let key = self.key.map_err(|error| Error::from(error).at(operation, Some(table), None))?;
        let place = |error: Error| error.at(operation, Some(table), Some(&key));
        let path = entity_path(&self.table, &key);
        let mut call = Call {
            options: self.options,
            ..tables::write(operation, Method::DELETE, path, Bytes::new())
        };
        let if_match = text_value(self.etag.as_deref().unwrap_or("*")).map_err(place)?;
        call.headers.insert(IF_MATCH, if_match);
        let answer = self.account.exchange(&call).await.map_err(place)?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(Deleted::Now(Proof::Answered));
        }
        let is_after_lost = answer.is_after_lost;
        let error = answer.into_error(operation);
        match error.kind() {
            // It is gone, by us or by somebody (C-13).
            ErrorKind::NotFound if is_after_lost => Ok(Deleted::Now(Proof::State)),
            ErrorKind::NotFound if self.etag.is_none() => Ok(Deleted::WasAbsent),
            _ => Err(place(error)),
        }
    }
}

impl IntoFuture for Delete {
    type Output = Result<Deleted, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
