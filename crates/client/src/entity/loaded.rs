//! Values that were read.

use super::{ETag, Entity, TableEntity};
use crate::codec::Decoded;
use crate::error::Error;
use crate::index::CopyRow;
use crate::property::PropertyDef;
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::{EntityKey, Timestamp};
use lazuli_wire::odata::json::AnsweredEntity;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that was read, with its key, version and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    value: T,
    key: EntityKey,
    etag: ETag,
    timestamp: Timestamp,
    write_ids: WriteIds,
    copies: Option<Arc<[CopyRow]>>,
    blobs: Option<Arc<[String]>>,
    reading: Reading,
}

/// How a value relates to the row it was read from. Some writes would damage a row that is not as the value shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It is the row.
    #[default]
    Whole,
    /// It has the selected properties of the row: a replace would remove the others (C-7.22).
    Selected,
    /// It was upgraded from an older version of its type: a merge would leave the row half upgraded (C-6.4).
    Upgraded,
}

impl<T> Loaded<T> {
    /// How it relates to the row.
    pub(crate) fn reading(&self) -> Reading {
        self.reading
    }

    /// Says that some properties of the row were selected.
    pub(crate) fn selected(self) -> Self {
        Self { reading: Reading::Selected, ..self }
    }

    /// The addresses of the blobs that it referred to when it was read, if known (P-11).
    #[cfg(feature = "patterns")]
    pub(crate) fn blobs(&self) -> Option<&[String]> {
        self.blobs.as_deref()
    }

    /// The copies that its indexes kept of it when it was read, if known.
    pub(crate) fn copies(&self) -> Option<&[CopyRow]> {
        self.copies.as_deref()
    }

    /// Sets the copies that its indexes keep of it.
    pub(crate) fn with_copies(self, copies: &[CopyRow]) -> Self {
        Self { copies: Some(copies.into()), ..self }
    }

    /// The ids of writes that the entity keeps.
    pub(crate) fn write_ids(&self) -> &WriteIds {
        &self.write_ids
    }

    /// A value that is not in the table yet.
    pub(crate) fn unwritten(
        value: T,
        key: EntityKey,
        etag: ETag,
        timestamp: Timestamp,
        write_ids: WriteIds,
    ) -> Self {
        Self {
            value,
            key,
            etag,
            timestamp,
            write_ids,
            copies: None,
            blobs: None,
            reading: Reading::Whole,
        }
    }

    /// The key it was read by.
    pub fn loaded_key(&self) -> &EntityKey {
        &self.key
    }

    /// The version that was read.
    pub fn etag(&self) -> &ETag {
        &self.etag
    }

    /// The time at which this version was written.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The value alone.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Applies `decode` to the value and keeps key and version.
    pub(crate) fn filter_map<U>(
        self,
        decode: impl FnOnce(T) -> Result<Option<Decoded<U>>, Error>,
    ) -> Result<Option<Loaded<U>>, Error> {
        let decoded = decode(self.value);
        let decoded =
            decoded.map_err(|error| error.with(|context| context.key = Some(self.key.clone())))?;
        Ok(decoded.map(|Decoded { value, copies, blobs, is_upgraded }| Loaded {
            value,
            key: self.key,
            etag: self.etag,
            timestamp: self.timestamp,
            write_ids: self.write_ids,
            copies,
            blobs,
            reading: if is_upgraded { Reading::Upgraded } else { self.reading },
        }))
    }

    /// Another value under the same key and version.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Loaded<U> {
        let Self { value, key, etag, timestamp, write_ids, reading, copies: _, blobs: _ } = self;
        let (copies, blobs) = (None, None);
        Loaded { value: map(value), key, etag, timestamp, write_ids, copies, blobs, reading }
    }
}

impl Loaded<Entity> {
    /// The entity in an answer, as it is stored.
    pub(crate) fn raw(
        answer: AnsweredEntity<'_>,
        header_etag: Option<&str>,
        declared: &[PropertyDef],
    ) -> Result<Self, Error> {
        let entity = Entity::from_answer(answer, header_etag, declared);
        let etag = entity.read_etag().cloned();
        let etag = etag.ok_or_else(|| Error::protocol("an entity without an ETag"))?;
        let timestamp = entity.timestamp();
        let timestamp =
            timestamp.ok_or_else(|| Error::protocol("an entity without a Timestamp"))?;
        let key = entity.key().map_err(Error::protocol)?;
        let write_ids = entity.value(WRITE_IDS).map(WriteIds::from_value).unwrap_or_default();
        Ok(Self::unwritten(entity, key, etag, timestamp, write_ids))
    }
}

impl<T> Loaded<T> {
    /// The entity in an answer, unless `decode` returns `None`.
    pub(crate) fn from_answer(
        answer: AnsweredEntity<'_>,
        header_etag: Option<&str>,
        declared: &[PropertyDef],
        decode: &(dyn Fn(Entity) -> Result<Option<Decoded<T>>, Error> + Send + Sync),
    ) -> Result<Option<Self>, Error> {
        Loaded::raw(answer, header_etag, declared)?.filter_map(decode)
    }
}

impl Loaded<Entity> {
    /// Decodes the entity as a type; `None` if it is a copy that an index keeps.
    pub(crate) fn decode<T: TableEntity>(self) -> Result<Option<Loaded<T>>, Error> {
        self.filter_map(crate::codec::decode)
    }
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Loaded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
