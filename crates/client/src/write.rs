//! Writes of one entity, and how each handles a lost answer (C-9, C-13).

mod delete;
mod merge;

pub use delete::Delete;
pub use merge::Merge;

use crate::BoxFuture;
use crate::account::Account;
use crate::batch::Operation;
use crate::call::{Answer, CallOptions, header, text_value};
use crate::entity::{ETag, Entity, Loaded, Properties};
use crate::error::{Error, ErrorKind};
use crate::index::{self, Indexing};
use crate::options::verb_options;
use crate::shape::Rule;
use crate::table::{get, write_entity_path};
use crate::tables;
use crate::value::Value;
use crate::write_ids::{Fate, WINDOW, WRITE_IDS, WriteIds};
use http::header::{ETAG, IF_MATCH};
use http::{Method, StatusCode};
use lazuli_model::{EntityKey, TableName};
use lazuli_wire::odata::json;
use std::future::IntoFuture;

/// A write that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new version; usable at once. If the answer was lost and others have written since, it is one that no row has: a
    /// write under it is refused, and does not undo theirs.
    pub etag: ETag,
    /// How it is known that it was carried out.
    pub proof: Proof,
}

/// A deletion that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone now.
    Now(Proof),
    /// It did not exist.
    WasAbsent,
}

/// How it is known that a write succeeded (C-13.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// The server said so.
    Answered,
    /// The answer was lost, and the entity has the id of this write.
    WriteIds,
    /// The answer was lost, and the entity has the content that was written. Another client may have written
    /// the same.
    Content,
    /// The answer was lost, and the entity that was to be deleted is gone.
    State,
}

/// The kinds of writes.
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

    /// What is stored of a value. The ids of writes that an entity of any shape was read with are of that version: written
    /// over another without a look, they would deny the writes that came between (C-13.6).
    pub(crate) fn stored(self, mut properties: Properties) -> Properties {
        if !matches!(self, Self::Replace | Self::Merge) {
            properties.remove(WRITE_IDS);
        }
        properties
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::Insert => Method::POST,
            Self::Replace | Self::Overwrite | Self::Upsert => Method::PUT,
            Self::Merge | Self::UpsertMerge => Method::PATCH,
        }
    }

    /// Appends the request's path.
    pub(crate) fn write_path(self, out: &mut Vec<u8>, table: &TableName, key: &EntityKey) {
        match self {
            Self::Insert => {
                out.push(b'/');
                out.extend_from_slice(table.as_str().as_bytes());
            }
            _ => write_entity_path(out, table, key),
        }
    }

    /// Appends the request's body.
    pub(crate) fn write_body(self, out: &mut Vec<u8>, key: &EntityKey, properties: &Properties) {
        let keys = (key.partition.as_str(), key.row.as_str());
        json::write_request(out, (self == Self::Insert).then_some(keys), properties.iter());
    }
}

/// A write of one entity.
///
/// ```no_run
/// # use lazuli_client::{Entity, Error, Table};
/// # async fn run(locks: Table, lock: Entity, odd: Entity) -> Result<(), Error> {
/// // Whether a lost answer was ours can be told even if others write the same bytes.
/// let written = locks.insert(&lock).write_id().await?;
/// println!("{} {:?}", written.etag, written.proof);
/// // A test of the service's own checks.
/// let refused = locks.insert(&odd).unchecked().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before `.await`"]
pub struct Write {
    account: Account,
    table: TableName,
    verb: WriteVerb,
    prepared: Result<Prepared, Error>,
    with_write_id: bool,
    window: usize,
    trusts_content: bool,
    is_checked: bool,
    options: CallOptions,
    indexing: Option<Indexing>,
}

/// The encoded form of the value, which is not borrowed (C-3.11).
struct Prepared {
    key: EntityKey,
    properties: Properties,
    if_match: Option<String>,
    /// The write ids that the entity had when it was read.
    base: WriteIds,
}

impl Write {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        verb: WriteVerb,
        encoded: Result<(EntityKey, Properties), Error>,
        if_match: Option<&str>,
    ) -> Self {
        let prepared = encoded.map(|(key, properties)| Prepared {
            key,
            properties,
            if_match: if_match.map(str::to_owned),
            base: WriteIds::default(),
        });
        Self {
            trusts_content: account.0.retry.trusts_content(),
            account: account.clone(),
            table: table.clone(),
            verb,
            prepared,
            with_write_id: false,
            is_checked: true,
            window: WINDOW,
            options: CallOptions::default(),
            indexing: None,
        }
    }

    /// Writes the copies of the entity too, if its type has indexes.
    pub(crate) fn indexed(mut self, indexing: Result<Option<Indexing>, Error>) -> Self {
        match indexing {
            Ok(indexing) => self.indexing = indexing,
            Err(error) => self.prepared = Err(error),
        }
        self
    }

    /// Sets the write ids that the entity had when it was read.
    pub(crate) fn based_on(mut self, base: &WriteIds) -> Self {
        if let Ok(prepared) = &mut self.prepared {
            prepared.base = base.clone();
        }
        self
    }

    /// Applies the rule of the table's type.
    pub(crate) fn under(mut self, rule: Rule, is_dynamic: bool) -> Self {
        if let Ok(prepared) = &mut self.prepared {
            prepared.properties.settle(rule.secrets, is_dynamic);
        }
        self
    }

    /// Sets whether equal content proves a write whose answer was lost.
    pub(crate) fn trusting_content(self, trusts_content: bool) -> Self {
        Self { trusts_content, ..self }
    }

    /// Stores an id of this write in the entity, in the property `_WriteIds`, so that after a lost answer it can be
    /// distinguished from another client's write (C-13.6).
    pub fn write_id(self) -> Self {
        Self { with_write_id: true, ..self }
    }

    /// Sends the entity without checking its size and number of properties; the service checks them. A type with
    /// indexes is still checked, as the copies go into one transaction.
    pub fn unchecked(self) -> Self {
        Self { is_checked: false, ..self }
    }

    /// Keeps this many write ids; zero for none.
    pub(crate) fn keeping(self, ids: usize) -> Self {
        match ids {
            0 => self,
            window => Self { with_write_id: true, window, ..self },
        }
    }

    verb_options!();

    pub(crate) fn with_options(self, options: CallOptions) -> Self {
        Self { options, ..self }
    }

    async fn run(self) -> Result<Written, Error> {
        let operation = self.verb.name();
        let table = self.table.as_str();
        let prepared = self.prepared.map_err(|error| error.at(operation, Some(table), None))?;
        let Prepared { key, mut properties, if_match, base } = prepared;
        let place = |error: Error| error.at(operation, Some(table), Some(&key));
        if let Some(indexing) = self.indexing {
            let if_match = if_match.as_deref();
            let encoded = Ok((key.clone(), properties));
            let mut write = Operation { base, ..Operation::write(self.verb, encoded, if_match)? };
            if self.with_write_id {
                write.properties.keep_ids(self.window);
            }
            let sent = index::send(&self.account, &self.table, write, indexing, self.options).await;
            let committed = sent.map_err(place)?;
            let committed = committed.ok_or_else(|| place(Error::new(ErrorKind::NotFound)))?;
            let etag = committed.etag(0).cloned();
            let etag = etag.ok_or_else(|| place(Error::protocol("a write without an ETag")))?;
            return Ok(Written { etag, proof: committed.proof() });
        }
        let env = &self.account.0.env;
        let sealed = self.account.1.seal(&mut properties, table, &key, self.verb, env).await;
        sealed.map_err(place)?;
        let own = self.with_write_id.then(|| self.account.0.env.guid());
        if let Some(own) = own {
            let ids = match self.verb {
                WriteVerb::Replace | WriteVerb::Merge => base.followed_within(own, self.window),
                _ => WriteIds::default().followed_by(own),
            };
            properties.set(WRITE_IDS, ids.to_value());
        }
        let checked = match self.is_checked {
            true => self.account.dialect().check(&key, &properties),
            false => properties.check_secrecy(),
        };
        checked.map_err(place)?;
        let (mut path, mut body) = (Vec::with_capacity(128), Vec::with_capacity(1024));
        self.verb.write_path(&mut path, &self.table, &key);
        self.verb.write_body(&mut body, &key, &properties);
        let path = String::from_utf8(path).unwrap_or_default();
        let mut call = tables::write(operation, self.verb.method(), path, body.into());
        let deadline = self.options.deadline(env);
        call.options = self.options;
        #[cfg(feature = "patterns")]
        {
            call.about.subjects = self.account.subjects([(operation, &key, Some(&properties))]);
        }
        // Repeating these has the same effect as once.
        call.about.is_idempotent = match self.verb {
            WriteVerb::Overwrite | WriteVerb::Upsert | WriteVerb::UpsertMerge => true,
            WriteVerb::Merge => if_match.as_deref() == Some("*"),
            WriteVerb::Insert | WriteVerb::Replace => false,
        };
        if let Some(if_match) = &if_match {
            call.headers.insert(IF_MATCH, text_value(if_match).map_err(place)?);
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
        let error = place(answer.into_error(operation));
        if !is_ours_perhaps {
            return Err(error);
        }
        // An earlier attempt may have written it: read the entity to find out (C-13.8).
        let options = CallOptions::default().until(deadline, env);
        let found: Option<Loaded<Entity>> =
            get(&self.account.unprotected(), &self.table, &key, options)
                .await
                .map_err(|cause| place(unknown(cause, operation)))?;
        // Absence proves nothing: the entity may have been written and then deleted.
        let Some(found) = found else { return Err(error) };
        let applied = |proof| Ok(Written { etag: found.etag().clone(), proof });
        match own.map(|own| found.write_ids().fate_of(own, &base)) {
            Some(Fate::Applied) => {
                let etag = version_of(&found, &properties, self.verb);
                Ok(Written { etag, proof: Proof::WriteIds })
            }
            Some(Fate::NotApplied) => Err(error.with(|context| {
                context.may_have_been_applied = false;
            })),
            Some(Fate::Unknown) => Err(error),
            None if !holds(&found, &properties, self.verb) => Err(error),
            None if self.trusts_content => applied(Proof::Content),
            None => Err(error.with_kind(ErrorKind::OutcomeUnknown)),
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

/// The error of a write whose outcome could not be determined.
pub(crate) fn unknown(cause: Error, operation: &'static str) -> Error {
    Error::new(ErrorKind::OutcomeUnknown)
        .at(operation, None, None)
        .with(|context| context.source = Some(cause.into()))
}

pub(crate) fn written(answer: &Answer) -> Result<Written, Error> {
    let etag = header(&answer.headers, &ETAG).map(ETag::new);
    let etag = etag.ok_or_else(|| Error::protocol("a write was answered without an ETag"))?;
    Ok(Written { etag, proof: Proof::Answered })
}

/// The version of a write that a row names: the row's own, unless others have written since. Under the version of theirs the
/// caller, who has not read it, would undo it (C-13.6c).
pub(crate) fn version_of(found: &Loaded<Entity>, sent: &Properties, verb: WriteVerb) -> ETag {
    if holds(found, sent, verb) { found.etag().clone() } else { ETag::superseded() }
}

/// Whether an entity holds what was sent: all of it and nothing else, but for a merge.
pub(crate) fn holds(found: &Entity, sent: &Properties, verb: WriteVerb) -> bool {
    let is_whole = matches!(verb, WriteVerb::Merge) || sent.len() == found.len();
    let is_there = |(name, value): (&str, &Value)| {
        found.value(name).is_some_and(|stored| is_same(stored, value))
    };
    is_whole && sent.values().all(is_there)
}

/// Whether two values have the same stored form: a NaN equals a NaN.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() || a == b,
        _ => a == b,
    }
}
