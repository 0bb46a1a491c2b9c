//! What a builder does when two entities have the same unique values.
//!
//! The builder met them in a snapshot that may be some steps old. An index fails only if a newer
//! snapshot still shows both with equal values, and neither has expired: the values of expired
//! entities are free.

use super::derive::Indexed;
use super::fill::{Build, Duplicate, Target};
use crate::error::TableError;
use crate::expiry::Judge;
use crate::service::TableService;
use lazuli_engine::{Found, Key, Reclaimed, View};
use lazuli_layout::key::index::{join_entity, owner};
use lazuli_layout::settings::decode_owner;
use lazuli_layout::{CorruptRecord, key};

/// Maximum duplicates named when an index cannot be unique.
const DUPLICATES_NAMED: usize = 3;
/// Owners read at a time.
const OWNERS_PER_READ: usize = 256;

/// The outcome for two entities that had the same values.
enum Outcome {
    /// They still have the same values.
    Stays,
    /// One of them has other values, is gone, or had expired and has been deleted.
    IsOver,
}

impl TableService {
    /// Ends the building of an index that cannot be unique, unless the conflict is gone by now.
    pub(super) async fn met_duplicate(
        &self,
        build: &Build,
        met: Duplicate,
    ) -> Result<Reclaimed, TableError> {
        let view = self.store.engine.view().await?;
        let mut named = Vec::new();
        // The one that was met comes first, followed by others of the step.
        let others = self.duplicates(&*view, build, &met).await?;
        for duplicate in [met].into_iter().chain(others) {
            match self.look_at(&*view, build, &duplicate).await? {
                Outcome::Stays => named.push(names(build, &duplicate)?),
                Outcome::IsOver => {}
            }
            if named.len() >= DUPLICATES_NAMED {
                break;
            }
        }
        if named.is_empty() {
            return Ok(Reclaimed::Partly);
        }
        let reason = format!("entities have the same values: {}", named.join("; "));
        self.fail(build, reason).await
    }

    /// The duplicates among the entities of the next step, except `known`.
    async fn duplicates(
        &self,
        view: &dyn View,
        build: &Build,
        known: &Duplicate,
    ) -> Result<Vec<Duplicate>, TableError> {
        let gathered = self.gather(view, build, build.record.from.clone()).await?;
        let mut duplicates = gathered.duplicates;
        let owned: Vec<_> =
            gathered.owners.into_iter().map(|(key, (entity, _))| (key, entity)).collect();
        for owned in owned.chunks(OWNERS_PER_READ) {
            let keys: Vec<Key> = owned.iter().map(|(key, _)| key.clone()).collect();
            for (found, (_, entity)) in view.multi_get(&keys).await?.into_iter().zip(owned) {
                let Some(found) = found else { continue };
                let owner = decode_owner(&found.value)?;
                if *owner != **entity {
                    duplicates.push((owner.into(), entity.clone()));
                }
            }
        }
        duplicates.retain(|duplicate| duplicate != known);
        Ok(duplicates)
    }

    /// Deletes either entity if it has expired.
    async fn look_at(
        &self,
        view: &dyn View,
        build: &Build,
        (first, second): &Duplicate,
    ) -> Result<Outcome, TableError> {
        let keys = [first, second].map(|entity| Key::from(join_entity(build.id.table, entity)));
        let found = view.multi_get(&keys).await?;
        let [Some(one), Some(other)] = found.as_slice() else { return Ok(Outcome::IsOver) };
        let owners = (owned(build, &keys[0], one)?, owned(build, &keys[1], other)?);
        match owners {
            (Some(a), Some(b)) if a == b => {}
            (_, Some(theirs)) => {
                // An owner that no longer has the values would never give them up.
                let found = view.get(theirs.as_slice()).await?;
                let owner = found.as_ref().map(|found| decode_owner(&found.value)).transpose()?;
                return match owner {
                    Some(owner) if *owner == **first => {
                        Err(CorruptRecord("owner of unique values").into())
                    }
                    _ => Ok(Outcome::IsOver),
                };
            }
            (_, None) => return Ok(Outcome::IsOver),
        }
        let judge = Judge::of(build.table.settings.as_deref(), || self.store.clock.now());
        let Some(judge) = judge else { return Ok(Outcome::Stays) };
        for (key, found) in keys.iter().zip([one, other]) {
            if judge.is_expired(&found.value, found.revision)? {
                self.sweep_one(&build.table, key.as_slice()).await?;
                return Ok(Outcome::IsOver);
            }
        }
        Ok(Outcome::Stays)
    }
}

/// The key under which an entity owns its values in the index being built.
fn owned(build: &Build, key: &Key, found: &Found) -> Result<Option<Key>, CorruptRecord> {
    let Target::Index(index) = &build.target else { return Ok(None) };
    let indexed = Indexed::parse(key.as_slice(), Some(&found.value))?;
    let values = indexed.as_ref().and_then(|indexed| indexed.values(&index.definition));
    Ok(values.and_then(|values| owner(build.id, values)).map(Key::from))
}

/// Two entities, as an error names them.
fn names(build: &Build, (first, second): &Duplicate) -> Result<String, CorruptRecord> {
    Ok(format!("{} and {}", name(build, first)?, name(build, second)?))
}

fn name(build: &Build, entity: &[u8]) -> Result<String, CorruptRecord> {
    let key = join_entity(build.id.table, entity);
    let names = key::decode_entity(&key)?;
    Ok(format!("(PartitionKey='{}',RowKey='{}')", names.partition, names.row))
}
