//! Where lists are stored: entities and blobs.

use super::items::{join, split};
use super::overflow::Content;
use super::{ListTable, overflow};
use crate::batch::Operation;
use crate::blob::Blob;
use crate::chunks::push_chunked;
use crate::codec::INDEX_MARK;
use crate::entity::{ETag, Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::form::Plain;
use crate::list::{ListDef, ListHome};
use crate::options::CallOptions;
use crate::table;
use crate::value::{IntoValue, Value};
use crate::write::{Deleted, Write, WriteVerb};
use crate::write_ids::WriteIds;
use lazuli_model::{EntityError, EntityKey, Timestamp};
use std::borrow::Cow;

/// The largest blob of a list that is read.
pub(super) const BLOB_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A list that was read.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) items: Vec<String>,
    pub(super) etag: ETag,
    /// The blob with the items, if they do not fit into the entity.
    pub(super) overflow: Option<Blob>,
}

/// Attempts to read a list whose blob is being replaced.
const READS: u32 = 8;

impl<T: TableEntity> ListTable<T> {
    /// Reads a list; `None` if it does not exist.
    pub(super) async fn read_list(
        &self,
        number: usize,
        place: &EntityKey,
    ) -> Result<Option<List>, Error> {
        let def = self.def(number)?;
        if def.home == ListHome::Blob {
            let read = self.blob(place)?.get().bytes_max(BLOB_BYTES_MAX).await?;
            let Some(read) = read else { return Ok(None) };
            let text = std::str::from_utf8(&read.bytes).map_err(Error::protocol)?;
            let (items, etag) = (split(text, '\n'), read.properties.etag);
            return Ok(Some(List { items, etag, overflow: None }));
        }
        let mut gone: Option<Error> = None;
        for _ in 0..READS {
            let Some(row) = self.read_clear(place).await? else { return Ok(None) };
            let etag = row.etag().clone();
            let Some(blob) = self.overflow_of(def, &row)? else {
                let items = items_of(def, row.into_inner())?;
                return Ok(Some(List { items, etag, overflow: None }));
            };
            match overflow::items_in(&blob).await? {
                Some(items) => return Ok(Some(List { items, etag, overflow: Some(blob) })),
                // The next version has another blob.
                None => gone = Some(overflow::dangling(&blob)),
            }
        }
        Err(gone.unwrap_or_else(|| Error::new(ErrorKind::NotFound)))
    }

    /// Writes a list that must not have changed since it was read; false if it has. An empty list is deleted (P-4.3).
    pub(super) async fn write_list(
        &self,
        number: usize,
        place: &EntityKey,
        items: &[String],
        read: Option<&List>,
    ) -> Result<bool, Error> {
        let def = self.def(number)?;
        let etag = read.map(|read| read.etag.clone());
        let outcome = match (def.home, etag) {
            (ListHome::Blob, etag) => {
                let blob = self.blob(place)?;
                match etag {
                    Some(etag) if items.is_empty() => {
                        return removed(blob.delete().if_match(&etag).await);
                    }
                    Some(etag) => blob.put(join(items, '\n')).if_match(&etag).await.map(drop),
                    None => blob.put(join(items, '\n')).if_absent().await.map(drop),
                }
            }
            (_, Some(etag)) if items.is_empty() => {
                let row = Entity::default();
                let (time, ids) = (Timestamp::UNIX_EPOCH, WriteIds::default());
                let row = crate::Loaded::unwritten(row, place.clone(), etag, time, ids);
                let outcome = removed(self.rows.delete(&row).await);
                if let Ok(true) = outcome {
                    overflow::discard(read.and_then(|read| read.overflow.as_ref())).await;
                }
                return outcome;
            }
            (_, etag) => self.write_row(def, place, items, etag.as_ref(), read).await,
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) => refused(error),
        }
    }

    /// Writes a list in an entity.
    async fn write_row(
        &self,
        def: &ListDef,
        place: &EntityKey,
        items: &[String],
        etag: Option<&ETag>,
        read: Option<&List>,
    ) -> Result<(), Error> {
        let verb = if etag.is_some() { WriteVerb::Replace } else { WriteVerb::Insert };
        let Content { properties, blob } = self.content(def, place, items).await?;
        let encoded = Ok((place.clone(), properties));
        let (account, table) = (&self.rows.account, &self.rows.name);
        let write = Write::new(account, table, verb, encoded, etag.map(ETag::as_str)).write_id();
        match write.await {
            Ok(_) => {
                overflow::discard(read.and_then(|read| read.overflow.as_ref())).await;
                Ok(())
            }
            Err(error) => {
                if !error.may_have_been_applied() {
                    overflow::discard(blob.as_ref()).await;
                }
                Err(full(error, def))
            }
        }
    }

    /// The write of a list in a transaction, and the blob that was written for it.
    pub(super) async fn operation(
        &self,
        def: &ListDef,
        place: &EntityKey,
        items: &[String],
        read: Option<&List>,
    ) -> Result<Option<(Operation, Option<Blob>)>, Error> {
        let etag = read.map(|read| read.etag.as_str());
        let verb = match etag {
            None if items.is_empty() => return Ok(None),
            Some(etag) if items.is_empty() => {
                return Ok(Some((Operation::remove(place.clone(), etag), None)));
            }
            None => WriteVerb::Insert,
            Some(_) => WriteVerb::Replace,
        };
        let Content { properties, blob } = self.content(def, place, items).await?;
        let operation = Operation::write(verb, Ok((place.clone(), properties)), etag)?;
        Ok(Some((operation, blob)))
    }

    /// Reads a row with a list: it is not encrypted, even where entities must be (E-6).
    pub(super) async fn read_clear(
        &self,
        place: &EntityKey,
    ) -> Result<Option<Loaded<Entity>>, Error> {
        let account = self.rows.account.unprotected();
        table::get(&account, &self.rows.name, place, CallOptions::default()).await
    }

    fn blob(&self, place: &EntityKey) -> Result<Blob, Error> {
        let container = self.rows.account.blobs().container(place.partition.as_str())?;
        container.blob(place.row.as_str())
    }
}

fn removed(outcome: Result<Deleted, Error>) -> Result<bool, Error> {
    match outcome {
        Ok(Deleted::Now(_)) => Ok(true),
        Ok(Deleted::WasAbsent) => Ok(false),
        Err(error) => refused(error),
    }
}

/// A changed list is an answer. So is a lost one: the next round reads the list again.
fn refused(error: Error) -> Result<bool, Error> {
    let is_answer = error.is_conflict()
        || error.is_precondition_failed()
        || *error.kind() == ErrorKind::NotFound;
    if is_answer { Ok(false) } else { Err(error) }
}

/// The items in the entity of a list.
fn items_of(def: &ListDef, row: Entity) -> Result<Vec<String>, Error> {
    let text = Fields::new(row).chunked::<Plain, String>(def.items)?;
    Ok(split(&text.unwrap_or_default(), ','))
}

pub(super) fn properties(def: &ListDef, items: &[String]) -> Properties {
    let mut properties = Properties::default();
    properties.push(INDEX_MARK, def.mark.into_value());
    let text = Value::String(Cow::Owned(join(items, ',')));
    push_chunked(&mut properties, Cow::Borrowed(def.items), text);
    // Items are not encrypted (E-50).
    properties.mark_sealed();
    properties
}

/// The error of an entity whose item in a list has no text (P-4.1).
pub(super) fn textless(def: &ListDef) -> Error {
    let error = Error::config(format!("the item of the list {} is empty", def.name));
    error.with(|context| {
        context.hint =
            Some("a list cannot hold it: give the fields of `item` values with text".into());
    })
}

/// The error of a list that does not fit into an entity (P-4.2).
pub(super) fn full(error: Error, def: &ListDef) -> Error {
    if !is_full(&error) {
        return error;
    }
    error.with_kind(ErrorKind::ListFull { list: def.name }).with(|context| {
        context.hint =
            Some("declare `overflow`, or use option 1, a blob, or an index (P-1)".into());
    })
}

/// Whether an entity was refused because it is too large.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::LimitExceeded(EntityError::EntityTooLarge | EntityError::TooManyProperties)
    )
}
