//! Lists that do not fit into an entity: their items are in a blob, which the entity refers to (P-4.2).
//!
//! A blob is written once: each version of such a list has its own. So the commit point is still the write of the
//! entity, which refers to the new blob. A client that reads an entity and then finds its blob gone reads the entity
//! again. Blobs left by a crash are collected by age.

use super::ListTable;
use super::items::{join, split};
use super::store::{BLOB_BYTES_MAX, is_full, properties};
use crate::blob::Blob;
use crate::codec::INDEX_MARK;
use crate::entity::{Entity, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::list::ListDef;
use crate::patterns::large::address::BlobOwner;
use crate::value::IntoValue;
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::EntityKey;
use std::time::Duration;

/// The property of a list that refers to its blob (P-0.2).
const BLOB: &str = "_blob";
/// Younger blobs are never deleted: their entity may not be written yet.
const AGE_MIN: Duration = Duration::from_secs(3600);

/// The stored form of a list.
pub(super) struct Content {
    pub(super) properties: Properties,
    /// The blob that was written for it.
    pub(super) blob: Option<Blob>,
}

impl<T: TableEntity> ListTable<T> {
    /// The stored form of a list; writes a blob if the items do not fit into an entity.
    pub(super) async fn content(
        &self,
        def: &ListDef,
        place: &EntityKey,
        items: &[String],
    ) -> Result<Content, Error> {
        let mut whole = properties(def, items);
        let Some(container) = def.overflow else {
            return Ok(Content { properties: whole, blob: None });
        };
        let env = &self.rows.account.0.env;
        // The transaction may put its id into the list, which needs room.
        whole.push(WRITE_IDS, WriteIds::default().followed_by(env.guid()).to_value());
        let checked = self.rows.account.dialect().check(place, &whole);
        whole.remove(WRITE_IDS);
        match checked {
            Err(error) if is_full(&error) => {}
            checked => {
                checked?;
                return Ok(Content { properties: whole, blob: None });
            }
        }
        let (table, property) = (self.rows.name().to_owned(), def.items.to_owned());
        let owner = BlobOwner { table, key: place.clone(), property };
        let name = owner.new_name(env.guid())?;
        let blob = self.overflow_blob(container, &name)?;
        blob.put(join(items, '\n')).if_absent().await?;
        let mut properties = Properties::default();
        properties.push(INDEX_MARK, def.mark.into_value());
        properties.push(BLOB, name.into_value());
        properties.mark_sealed();
        Ok(Content { properties, blob: Some(blob) })
    }

    /// The blob that the entity of a list refers to, if any.
    pub(super) fn overflow_of(&self, def: &ListDef, row: &Entity) -> Result<Option<Blob>, Error> {
        match (def.overflow, row.str(BLOB)) {
            (Some(container), Ok(name)) => self.overflow_blob(container, name).map(Some),
            _ => Ok(None),
        }
    }

    fn overflow_blob(&self, container: &str, name: &str) -> Result<Blob, Error> {
        self.rows.account.blobs().container(container)?.blob(name)
    }

    /// Deletes blobs that were left by crashes: no list refers to them, and they are at least this old, an hour or
    /// more. Returns how many.
    pub async fn collect_garbage(&self, older_than: Duration) -> Result<u64, Error> {
        let mut deleted = 0;
        for container in T::LISTS.iter().filter_map(|def| def.overflow) {
            let container = self.rows.account.blobs().container(container)?;
            let mut marker: Option<String> = None;
            loop {
                let list = container.list().prefix(&format!("{}/", self.rows.name()));
                let page = match &marker {
                    Some(marker) => list.after(marker).page().await?,
                    None => list.page().await?,
                };
                for blob in page.blobs {
                    let written = blob.last_modified;
                    if self.is_old(written, older_than) && !self.is_named(&blob.name).await? {
                        container.blob(&blob.name)?.delete().await?;
                        deleted += 1;
                    }
                }
                marker = page.next;
                if marker.is_none() {
                    break;
                }
            }
        }
        Ok(deleted)
    }

    fn is_old(&self, written: Option<crate::Timestamp>, older_than: Duration) -> bool {
        let now = self.rows.account.0.env.now();
        let age = written.map(|written| now.millis_since(written));
        age.is_some_and(|age| u128::from(age) >= older_than.max(AGE_MIN).as_millis())
    }

    /// Whether the entity of the list for which a blob was written refers to it. Other blobs are not ours.
    async fn is_named(&self, name: &str) -> Result<bool, Error> {
        let Some(owner) = BlobOwner::of(name) else { return Ok(true) };
        let row = self.read_clear(&owner.key).await?;
        Ok(row.is_some_and(|row| row.str(BLOB) == Ok(name)))
    }
}

/// The items in a blob; `None` if it is gone.
pub(super) async fn items_in(blob: &Blob) -> Result<Option<Vec<String>>, Error> {
    let Some(read) = blob.get().bytes_max(BLOB_BYTES_MAX).await? else { return Ok(None) };
    let text = std::str::from_utf8(&read.bytes).map_err(Error::protocol)?;
    Ok(Some(split(text, '\n')))
}

/// Deletes a blob that is no longer needed. If that fails, it is garbage.
pub(super) async fn discard(blob: Option<&Blob>) {
    if let Some(blob) = blob {
        let _ = blob.delete().await;
    }
}

/// The error of a list whose blob is gone although its entity is unchanged.
pub(super) fn dangling(blob: &Blob) -> Error {
    Error::new(ErrorKind::Dangling { address: blob.name().to_owned() })
}
