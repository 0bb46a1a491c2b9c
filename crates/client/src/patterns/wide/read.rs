//! Reads a wide entity: rows of one write, or none (P-10.4).

use super::{GENERATION, PARTS, RowVersion, WideLoaded, WideTable, part_key, part_of, parts_of};
use crate::column::Projection;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::fields::Fields;
use crate::filter::{partition, row};
use crate::key::Key;
use crate::update::pause;
use crate::wide::PARTS_MAX;
use crate::write_ids::WRITE_IDS;
use futures_util::future::try_join_all;
use lazuli_model::EntityKey;

/// Attempts to read an entity whose rows come from different writes.
const ATTEMPTS: u32 = 5;
/// Up to this many rows are concurrent point reads; more are one query.
const POINTS_MAX: usize = 2;

impl<T: TableEntity> WideTable<T> {
    /// Reads an entity; `None` if it does not exist.
    ///
    /// Up to two rows are concurrent point reads, more are one query. If rows come from different writes, they are read
    /// again, by one query; after five attempts it fails with [`ErrorKind::Torn`].
    pub async fn get(&self, key: Key<T>) -> Result<Option<WideLoaded<T>>, Error> {
        let all: Vec<usize> = (1..=T::PARTS).collect();
        let place = |error: Error| self.place(error, &key);
        let Some(rows) = self.read(key.as_entity_key(), &all).await.map_err(place)? else {
            return Ok(None);
        };
        let versions = rows.iter().map(|(part, row)| RowVersion {
            part: *part,
            key: row.loaded_key().clone(),
            etag: row.etag().clone(),
            write_ids: row.write_ids().clone(),
        });
        let versions = versions.collect();
        let value = T::read(joined(key.as_entity_key(), rows)).map_err(|e| place(e.into()))?;
        Ok(Some(WideLoaded { value, key: key.into_entity_key(), rows: versions }))
    }

    /// Reads some fields of an entity, and only the rows that have them.
    pub async fn get_as<P: Projection<Of = T>>(&self, key: Key<T>) -> Result<Option<P>, Error> {
        let parts = parts_of::<T>(P::names());
        let place = |error: Error| self.place(error, &key);
        let Some(rows) = self.read(key.as_entity_key(), &parts).await.map_err(place)? else {
            return Ok(None);
        };
        let entity = joined(key.as_entity_key(), rows);
        P::read(&mut Fields::new(entity)).map(Some).map_err(|error| place(error.into()))
    }

    /// The rows of some parts, in order and all from one write.
    pub(super) async fn read(
        &self,
        key: &EntityKey,
        parts: &[usize],
    ) -> Result<Option<Vec<(usize, Loaded<Entity>)>>, Error> {
        if parts.len() <= POINTS_MAX
            && let Some(rows) = self.read_points(key, parts).await?
        {
            return Ok(rows);
        }
        let env = &self.rows.account.0.env;
        for attempts in 1..=ATTEMPTS {
            let rows = self.read_range(key).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            if let Some(whole) = whole(rows) {
                return Ok(Some(whole));
            }
            env.sleep(pause(env, attempts)).await;
        }
        Err(Error::new(ErrorKind::Torn))
    }

    /// Concurrent point reads; `None` if the rows do not come from one write, or their number differs from the
    /// type's: then the whole range must be read.
    async fn read_points(
        &self,
        key: &EntityKey,
        parts: &[usize],
    ) -> Result<Option<Option<Vec<(usize, Loaded<Entity>)>>>, Error> {
        let reads = parts.iter().map(|part| async move {
            let row = self.rows.get(part_key(key, *part)?).await?;
            Ok::<_, Error>(row.map(|row| (*part, row)))
        });
        let found = try_join_all(reads).await?;
        let is_whole_entity = parts.len() == T::PARTS;
        if found.iter().all(Option::is_none) {
            // If the entity was written with fewer parts, its first row may still exist.
            return Ok(parts.contains(&1).then_some(None));
        }
        let Some(rows) = found.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        if is_whole_entity {
            let count = rows.len();
            return Ok(whole(rows).filter(|rows| rows.len() == count).map(Some));
        }
        Ok(is_one_write(&rows).then_some(Some(rows)))
    }

    /// All rows of an entity, in order.
    pub(super) async fn read_range(
        &self,
        key: &EntityKey,
    ) -> Result<Vec<(usize, Loaded<Entity>)>, Error> {
        let (first, last) = (part_key(key, 1)?, part_key(key, PARTS_MAX)?);
        let range = partition(key.partition.as_str())
            .and(row().ge(first.row.as_str()))
            .and(row().le(last.row.as_str()));
        let mut rows = Vec::new();
        let mut found = self.rows.query(range).stream();
        while let Some(row) = found.try_next().await? {
            // Keys in between may belong to other entities.
            if let Some(part) = part_of(row.row_key(), key.row.as_str()) {
                rows.push((part, row));
            }
        }
        Ok(rows)
    }
}

/// As many rows as the first one says, if they all exist and come from one write.
pub(super) fn whole(
    mut rows: Vec<(usize, Loaded<Entity>)>,
) -> Option<Vec<(usize, Loaded<Entity>)>> {
    let count = rows.first().and_then(|(_, first)| first.get::<i32>(PARTS).ok())?;
    rows.truncate(usize::try_from(count).ok()?);
    let is_complete = rows.iter().map(|(part, _)| *part).eq(1..=usize::try_from(count).ok()?);
    (is_complete && is_one_write(&rows)).then_some(rows)
}

fn is_one_write(rows: &[(usize, Loaded<Entity>)]) -> bool {
    let mut generations = rows.iter().map(|(_, row)| row.get::<i64>(GENERATION).ok());
    let first = generations.next().flatten();
    first.is_some() && generations.all(|generation| generation == first)
}

/// One entity with the properties of all rows.
fn joined(key: &EntityKey, rows: Vec<(usize, Loaded<Entity>)>) -> Entity {
    let (partition, row) = (key.partition.as_str().to_owned(), key.row.as_str().to_owned());
    let own = [GENERATION, PARTS, WRITE_IDS];
    let mut entities = rows
        .into_iter()
        .map(|(_, loaded)| loaded.into_inner().moved(partition.clone(), row.clone(), &own));
    let first = entities.next().unwrap_or_default();
    entities.fold(first, |mut all, entity| {
        all.append(entity);
        all
    })
}
