//! Derives index entries from changes of entities, in the same commit.

use super::IndexConflict;
use crate::derive::entity_of;
use bytes::Bytes;
use lazuli_engine::{BoxError, Change, Current, Derived, Key, Modify, Refusal, Write};
use lazuli_layout::key::index::{join_entity, owner};
use lazuli_layout::settings::{ENTRY, TableIndex, TableSettings, decode_owner, encode_owner};
use lazuli_layout::{CorruptRecord, EntityRecord, TableId, key};
use lazuli_model::{IndexDefinition, IndexName, Property, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Derives the entries and owners of all indexes of a table from the changes of a commit.
pub(crate) fn derive_entries(
    table: TableId,
    settings: &TableSettings,
    changes: &[Change<'_>],
    derived: &mut Derived,
) -> Result<(), Refusal> {
    let mut claims = Claims::default();
    for change in changes {
        derive_one(table, settings, change, &mut claims, derived)
            .map_err(|reason| Refusal { index: change.index, reason })?;
    }
    claims.write(table, derived);
    Ok(())
}

fn derive_one<'c>(
    table: TableId,
    settings: &'c TableSettings,
    change: &Change<'c>,
    claims: &mut Claims<'c>,
    derived: &mut Derived,
) -> Result<(), BoxError> {
    let Some(entity) = entity_of(table, change.key) else { return Ok(()) };
    let before = Indexed::parse(change.key, change.before.map(|before| before.value))?;
    let after = Indexed::parse(change.key, change.after)?;
    for index in settings.indexes.iter().filter(|index| index.is_maintained()) {
        let old = before.as_ref().and_then(|before| before.values(&index.definition));
        let new = after.as_ref().and_then(|after| after.values(&index.definition));
        let entry = |values: &Vec<ValueRef<'_>>| entry_of(table, index, values, entity);
        let (old_entry, new_entry) = (old.as_ref().map(entry), new.as_ref().map(entry));
        if old_entry != new_entry {
            if let Some(old) = old_entry {
                derived.write(change.index, Write::Delete(old));
            }
            if let Some(new) = new_entry {
                derived.write(change.index, Write::Put(new, Bytes::from_static(ENTRY)));
            }
        }
        if index.definition.is_unique() {
            let owner = |values: &Vec<ValueRef<'_>>| owner(index.id(table), values.iter().copied());
            let (old, new) = (old.as_ref().and_then(owner), new.as_ref().and_then(owner));
            claims.change(index.definition.name(), change.index, entity, old, new)?;
        }
    }
    Ok(())
}

/// The key of an entity's entry.
pub(crate) fn entry_of(
    table: TableId,
    index: &TableIndex,
    values: &[ValueRef<'_>],
    entity: &[u8],
) -> Key {
    let mut entry = index.entries(table).prefix(values.iter().copied());
    entry.extend_from_slice(entity);
    entry.into()
}

/// An entity whose indexed values are needed.
pub(crate) struct Indexed<'e> {
    key: &'e [u8],
    record: EntityRecord<'e>,
    partition: std::cell::OnceCell<String>,
}

impl<'e> Indexed<'e> {
    pub(crate) fn parse(
        key: &'e [u8],
        value: Option<&'e [u8]>,
    ) -> Result<Option<Self>, CorruptRecord> {
        let Some(value) = value else { return Ok(None) };
        let record = EntityRecord::parse(value)?;
        // The names in a corrupt key would be indexed as if they were correct.
        key::decode_entity(key)?;
        Ok(Some(Self { key, record, partition: std::cell::OnceCell::new() }))
    }

    /// The values of the properties of `index`; `None` if the entity lacks one.
    pub(crate) fn values(&self, index: &IndexDefinition) -> Option<Vec<ValueRef<'_>>> {
        index.on().iter().map(|property| self.value(property)).collect()
    }

    fn value(&self, property: &Property) -> Option<ValueRef<'_>> {
        match property {
            Property::PartitionKey => Some(ValueRef::String(self.partition())),
            Property::Custom(name) => self.record.find(name),
            Property::RowKey | Property::Timestamp => None,
        }
    }

    fn partition(&self) -> &str {
        self.partition.get_or_init(|| {
            key::decode_entity(self.key).map_or_else(|_| String::new(), |key| key.partition.into())
        })
    }
}

/// Which entity gives up and which takes unique values in one commit, by the key of the owner.
///
/// A commit is judged by the state it leaves: two entities may swap a value.
#[derive(Default)]
struct Claims<'c>(BTreeMap<Vec<u8>, Claim<'c>>);

struct Claim<'c> {
    index: &'c IndexName,
    /// The write to which a refusal is attributed.
    cause: usize,
    taken_by: Option<&'c [u8]>,
    given_up_by: Vec<&'c [u8]>,
}

impl<'c> Claims<'c> {
    fn change(
        &mut self,
        index: &'c IndexName,
        cause: usize,
        entity: &'c [u8],
        old: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Result<(), IndexConflict> {
        let claim = || Claim { index, cause, taken_by: None, given_up_by: Vec::new() };
        if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
            self.0.entry(old).or_insert_with(claim).given_up_by.push(entity);
        }
        let Some(new) = new else { return Ok(()) };
        let claim = self.0.entry(new).or_insert_with(claim);
        if claim.taken_by.is_some() {
            return Err(IndexConflict { index: index.clone(), owner: None });
        }
        claim.taken_by = Some(entity);
        claim.cause = cause;
        Ok(())
    }

    fn write(self, table: TableId, derived: &mut Derived) {
        for (owner, claim) in self.0 {
            let Claim { index, cause, taken_by, given_up_by } = claim;
            let ownership = Ownership {
                table,
                index: index.clone(),
                taken_by: taken_by.map(Into::into),
                given_up_by: given_up_by.into_iter().map(Into::into).collect(),
            };
            derived.write(cause, Write::Modify(owner.into(), Arc::new(ownership)));
        }
    }
}

/// Changes the owner of unique values.
#[derive(Debug)]
pub(crate) struct Ownership {
    pub(crate) table: TableId,
    pub(crate) index: IndexName,
    pub(crate) taken_by: Option<Box<[u8]>>,
    pub(crate) given_up_by: Vec<Box<[u8]>>,
}

impl Modify for Ownership {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let owner = current.map(|current| decode_owner(current.value)).transpose()?;
        let gives_up = |owner: &[u8]| self.given_up_by.iter().any(|entity| **entity == *owner);
        match (owner, &self.taken_by) {
            (Some(owner), Some(taken_by)) if *owner != **taken_by && !gives_up(owner) => {
                let owner = Some(join_entity(self.table, owner).into());
                Err(IndexConflict { index: self.index.clone(), owner }.into())
            }
            (_, Some(taken_by)) => Ok(Some(encode_owner(taken_by))),
            (Some(owner), None) if !gives_up(owner) => Ok(Some(encode_owner(owner))),
            (_, None) => Ok(None),
        }
    }

    fn held_bytes(&self) -> usize {
        let entities = self.taken_by.iter().chain(&self.given_up_by);
        entities.map(|entity| entity.len() + size_of::<Box<[u8]>>()).sum()
    }
}
