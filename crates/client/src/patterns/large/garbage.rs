//! Finds blobs that no entity refers to, and entities whose blobs are missing or differ (P-11.5, P-0.5).

use super::address::{BlobOwner, BlobPlace};
use super::service::named_by;
use super::table::LargeTable;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::large::large_properties;
use crate::patterns::FindingKind;
use crate::patterns::search::{self, PartPage, SearchPage, SearchToken};
use lazuli_model::EntityKey;
use std::collections::BTreeSet;
use std::time::Duration;

/// Younger blobs are never deleted: their entity may not be written yet.
const AGE_MIN: Duration = Duration::from_secs(3600);

/// The result of a search for garbage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Garbage {
    /// Blobs that it checked.
    pub blobs: u64,
    /// Blobs that it deleted.
    pub deleted: u64,
}

/// A blob that is inconsistent with the entities.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFinding {
    /// Missing: an entity refers to it; stale: its length differs from the one in its entity; orphan: no entity refers
    /// to it.
    pub kind: FindingKind,
    /// The container.
    pub container: String,
    /// The name of the blob.
    pub name: String,
    /// The entity, if it exists.
    pub entity: Option<EntityKey>,
}

/// A listed blob with its owner's key, from its name.
struct Listed {
    place: BlobPlace,
    owner: BlobOwner,
    is_old: bool,
}

impl<T: TableEntity> LargeTable<T> {
    /// Deletes blobs of this table that no entity refers to and that are at least this old, an hour or more. It lists
    /// the containers, and reads the entities that the blobs are named after.
    pub async fn collect_garbage(&self, older_than: Duration) -> Result<Garbage, Error> {
        let mut garbage = Garbage::default();
        for container in containers::<T>() {
            let mut list = self.list(&container, older_than);
            while let Some(page) = list.next().await? {
                garbage.blobs += page.len() as u64;
                for blob in self.unnamed(page.into_iter().filter(|blob| blob.is_old)).await? {
                    self.how.store().blob(&blob.place)?.delete().await?;
                    garbage.deleted += 1;
                }
            }
        }
        Ok(garbage)
    }

    /// Compares blobs and entities, and changes nothing. Blobs younger than `older_than` are not orphans; a finding
    /// caused by a concurrent write is gone the next time.
    pub async fn verify(&self, older_than: Duration) -> Result<Vec<BlobFinding>, Error> {
        let mut findings = Vec::new();
        let each = |finding| {
            findings.push(finding);
            Ok(())
        };
        search::all(&self.search(older_than), each).await?;
        Ok(findings)
    }

    /// One page of [`LargeTable::verify`], from the beginning or where an earlier page ended.
    pub async fn verify_page(
        &self,
        older_than: Duration,
        resume: Option<&SearchToken>,
    ) -> Result<SearchPage<BlobFinding>, Error> {
        search::page(&self.search(older_than), resume).await
    }

    fn search(&self, older_than: Duration) -> Blobs<'_, T> {
        Blobs { of: self, containers: containers::<T>().into_iter().collect(), older_than }
    }

    /// The findings about the large values of an entity.
    async fn verify_values(&self, entity: &Entity) -> Result<Vec<BlobFinding>, Error> {
        let mut findings = Vec::new();
        for (property, _) in large_properties(T::PROPERTIES) {
            findings.extend(self.verify_value(entity, &property).await?);
        }
        Ok(findings)
    }

    async fn verify_value(
        &self,
        entity: &Entity,
        property: &str,
    ) -> Result<Option<BlobFinding>, Error> {
        let Ok(address) = entity.str(property) else { return Ok(None) };
        let Some(place) = BlobPlace::of(address) else { return Ok(None) };
        let length = entity.opt::<i64>(&format!("{property}{}", crate::large::LENGTH))?;
        let found = self.how.store().blob(&place)?.head().await?;
        let kind = match found {
            None => FindingKind::Missing,
            Some(found) if i64::try_from(found.bytes).ok() != length => FindingKind::Stale,
            Some(_) => return Ok(None),
        };
        let key = EntityKey::parse(entity.partition_key(), entity.row_key());
        let BlobPlace { container, name } = place;
        Ok(Some(BlobFinding { kind, container, name, entity: key.ok() }))
    }

    fn rows(&self) -> Result<crate::Table<Entity>, Error> {
        self.how.account.unprotected().tables().table(self.table.name())
    }

    /// The blobs that their entities, read now, do not refer to. Blobs of one entity are adjacent.
    async fn unnamed(&self, blobs: impl Iterator<Item = Listed>) -> Result<Vec<Listed>, Error> {
        let rows = self.rows()?;
        let mut known: Option<(EntityKey, Vec<BlobPlace>)> = None;
        let mut unnamed = Vec::new();
        for blob in blobs {
            if known.as_ref().is_none_or(|(key, _)| *key != blob.owner.key) {
                let entity = match rows.get(blob.owner.key.clone()).await {
                    Err(error) if *error.kind() == ErrorKind::TableNotFound => None,
                    found => found?,
                };
                let named = entity.map(|entity| named_by(&entity)).unwrap_or_default();
                known = Some((blob.owner.key.clone(), named));
            }
            if known.as_ref().is_some_and(|(_, named)| !named.contains(&blob.place)) {
                unnamed.push(blob);
            }
        }
        Ok(unnamed)
    }

    fn list(&self, container: &str, older_than: Duration) -> BlobPages<'_, T> {
        let container = container.to_owned();
        BlobPages { table: self, container, age: older_than.max(AGE_MIN), marker: Some(None) }
    }
}

/// Finds blobs that no entity refers to, and then entities whose blobs are missing or differ.
struct Blobs<'a, T> {
    of: &'a LargeTable<T>,
    containers: Vec<String>,
    older_than: Duration,
}

impl<T: TableEntity> search::Search for Blobs<'_, T> {
    type Finding = BlobFinding;

    fn parts(&self) -> usize {
        self.containers.len() + 1
    }

    async fn page(&self, part: usize, page: Option<&str>) -> Result<PartPage<BlobFinding>, Error> {
        let Some(container) = self.containers.get(part) else {
            let look = |row: Loaded<Entity>| async move { self.of.verify_values(&row).await };
            return search::rows(self.of.rows()?.scan(), page, look).await;
        };
        let mut list = self.of.list(container, self.older_than);
        list.marker = Some(page.map(str::to_owned));
        let blobs = list.next().await?.unwrap_or_default();
        let looked_at = blobs.len() as u64;
        let unnamed = self.of.unnamed(blobs.into_iter().filter(|blob| blob.is_old)).await?;
        let orphan = |blob: Listed| {
            let BlobPlace { container, name } = blob.place;
            BlobFinding { kind: FindingKind::Orphan, container, name, entity: None }
        };
        let findings = unnamed.into_iter().map(orphan).collect();
        Ok(PartPage { findings, looked_at, next: list.marker.flatten() })
    }
}

/// The pages of a container, restricted to one table.
struct BlobPages<'a, T> {
    table: &'a LargeTable<T>,
    container: String,
    age: Duration,
    /// Where the next page begins; `None` after the last.
    marker: Option<Option<String>>,
}

impl<T: TableEntity> BlobPages<'_, T> {
    async fn next(&mut self) -> Result<Option<Vec<Listed>>, Error> {
        let Some(marker) = self.marker.take() else { return Ok(None) };
        let account = &self.table.how.account;
        let prefix = format!("{}/", self.table.table.name());
        let mut list = account.blobs().container(&self.container)?.list().prefix(&prefix);
        if let Some(marker) = &marker {
            list = list.after(marker);
        }
        let page = list.page().await?;
        self.marker = page.next.map(Some);
        let now = account.0.env.now();
        let listed = page.blobs.into_iter().filter_map(|blob| {
            let owner = BlobOwner::of(&blob.name)?;
            let age = blob.last_modified.map(|written| now.millis_since(written));
            let is_old = age.is_some_and(|age| u128::from(age) >= self.age.as_millis());
            let place = BlobPlace { container: self.container.clone(), name: blob.name };
            Some(Listed { place, owner, is_old })
        });
        Ok(Some(listed.collect()))
    }
}

fn containers<T: TableEntity>() -> BTreeSet<String> {
    let rules = large_properties(T::PROPERTIES).into_iter();
    rules.map(|(_, rule)| rule.container.to_owned()).collect()
}
