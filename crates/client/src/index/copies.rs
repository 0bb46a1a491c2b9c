//! The index copies of an entity, and how they change with it (P-1.3, P-1.4).

use super::{IndexDef, IndexProjection};
use crate::batch::Operation;
use crate::codec::INDEX_MARK;
use crate::entity::{Entity, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::shape::Shape;
use crate::value::{IntoValue, Value};
use crate::write::WriteVerb;
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::EntityKey;
use std::collections::BTreeMap;

/// The properties with the key of a copy's primary (P-0.2).
const PRIMARY_PARTITION: &str = "_pk";
const PRIMARY_ROW: &str = "_rk";
/// The Timestamp, in ticks, of the version that a copy was made from.
const SOURCE_TICKS: &str = "_src";
/// Whether a copy only reserves its value.
const STATE: &str = "_st";
/// The state of a copy of an entity that is being moved to another partition (P-3.6, P-12.6).
pub(crate) const MOVING: &str = "moving";

/// A copy in its wanted state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CopyRow {
    pub(crate) def: &'static IndexDef,
    pub(crate) key: EntityKey,
    pub(crate) properties: Properties,
}

/// Marks a write of a transaction as one of an index copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyMark {
    pub(crate) def: &'static IndexDef,
}

/// The copies that an entity should have in all its indexes. A field that is `None` has no copy (P-1.9).
pub(crate) fn copies<T: TableEntity>(
    value: &T,
    key: &EntityKey,
    properties: &Properties,
) -> Result<Vec<CopyRow>, Error> {
    let shape = value.shape();
    let mut copies = Vec::with_capacity(shape.indexes.len());
    for (number, def) in shape.indexes.iter().enumerate() {
        let Some(at) = value.index_key(number)? else { continue };
        let properties = projected(&shape, def, key, &at, properties);
        copies.push(CopyRow { def, key: at, properties });
    }
    Ok(copies)
}

/// The copies that are written in one transaction with the entity; an error if the type has other indexes, which
/// need the write protocol of P-2.
pub(crate) fn in_partition<T: TableEntity>(
    value: &T,
    key: &EntityKey,
    properties: &Properties,
) -> Result<Vec<CopyRow>, Error> {
    if let Some(def) = value.shape().indexes.iter().find(|def| !def.is_local()) {
        let reason = format!("the index {} lies in other partitions", def.mark);
        return Err(Error::config(reason).with(|context| {
            context.hint = Some("write it through account.eventual(..)".into());
            context.key = Some(key.clone());
        }));
    }
    copies(value, key, properties)
}

/// The content of a copy: its marks, and the projection of its index.
fn projected(
    shape: &Shape,
    def: &IndexDef,
    primary: &EntityKey,
    at: &EntityKey,
    properties: &Properties,
) -> Properties {
    // Properties encrypted in the entity are encrypted in its copies too, with a key of their own (E-50).
    let mut copy = Properties::of(shape.properties);
    copy.push(INDEX_MARK, def.mark.into_value());
    if at.partition != primary.partition {
        copy.push(PRIMARY_PARTITION, primary.partition.as_str().into_value());
    }
    copy.push(PRIMARY_ROW, primary.row.as_str().into_value());
    let is_wanted = |name: &str| match def.projection {
        IndexProjection::All => true,
        IndexProjection::Keys => false,
        IndexProjection::Fields(fields) => {
            let wanted = shape.properties.iter().filter(|property| {
                fields.contains(&property.field) || def.fields.contains(&property.field)
            });
            wanted.into_iter().any(|property| property.holds(name))
        }
    };
    // Copies have no kind, so that a filter on it finds only primaries (P-0.3).
    let kind = shape.kind.map(|kind| kind.property);
    for (name, value) in properties.values() {
        if Some(name) != kind && name != WRITE_IDS && is_wanted(name) {
            copy.push(name.to_owned(), value.clone());
        }
    }
    copy
}

/// The writes that change copies from `old` to `new`.
pub(crate) fn changes(old: &[CopyRow], new: &[CopyRow]) -> Vec<Operation> {
    let mut changes = Vec::new();
    for copy in old {
        if !new.iter().any(|other| other.def == copy.def && other.key == copy.key) {
            changes.push(Operation::remove(copy.key.clone(), "*").copying(copy.def));
        }
    }
    for copy in new {
        let verb = match old.iter().find(|other| other.def == copy.def && other.key == copy.key) {
            Some(before) if before.properties == copy.properties => continue,
            Some(_) => WriteVerb::Upsert,
            // An insert fails if the value is taken (P-1.1). In an index that is not unique, an existing copy can
            // only be one that this entity left: it is replaced.
            None if copy.def.is_unique => WriteVerb::Insert,
            None => WriteVerb::Upsert,
        };
        changes.push(Operation::of_copy(verb, copy));
    }
    changes
}

/// Merges the changes of several entities: a copy that one gives up and another takes is replaced (PS-1.8). It is
/// an error if two take the same one.
pub(crate) fn fold(changes: Vec<Operation>) -> Result<Vec<Operation>, Error> {
    let mut rows: BTreeMap<EntityKey, Operation> = BTreeMap::new();
    for change in changes {
        let key = change.key.clone();
        let folded = match rows.remove(&key) {
            None => change,
            Some(known) => match (known.verb, change.verb) {
                (None, None) => change,
                // Its holder gives it up in this same transaction.
                (None, Some(_)) => Operation { verb: Some(WriteVerb::Upsert), ..change },
                (Some(_), None) => Operation { verb: Some(WriteVerb::Upsert), ..known },
                (Some(_), Some(_)) => return Err(violation(&change)),
            },
        };
        rows.insert(key, folded);
    }
    Ok(rows.into_values().collect())
}

/// The error of a value that another entity has (P-1.1).
pub(crate) fn violation(change: &Operation) -> Error {
    let index = change.copy.map_or("", |copy| copy.def.name);
    let value_key = change.key.row.as_str().to_owned();
    Error::new(ErrorKind::UniqueViolation { index, value_key })
        .with(|context| context.key = Some(change.key.clone()))
}

impl Operation {
    /// Marks this write as one of an index copy.
    pub(crate) fn copying(self, def: &'static IndexDef) -> Self {
        Self { copy: Some(CopyMark { def }), ..self }
    }

    fn of_copy(verb: WriteVerb, copy: &CopyRow) -> Self {
        Self {
            verb: Some(verb),
            table: None,
            key: copy.key.clone(),
            properties: copy.properties.clone(),
            if_match: None,
            base: WriteIds::default(),
            copies: Vec::new(),
            copy: None,
        }
        .copying(copy.def)
    }
}

/// Whether a copy belongs to an entity that does not exist yet: it reserves its key (P-12.6).
pub(crate) fn is_moving(copy: &Entity) -> bool {
    matches!(copy.value(STATE), Some(Value::String(state)) if state == MOVING)
}

/// A copy converted to its primary, with the primary's key; `None` if it is not a copy of `mark`.
pub(crate) fn as_primary(copy: Entity, mark: &str) -> Option<(EntityKey, Option<u64>, Entity)> {
    let text = |name: &str| match copy.value(name) {
        Some(Value::String(text)) => Some(text.as_ref()),
        _ => None,
    };
    if text(INDEX_MARK) != Some(mark) {
        return None;
    }
    let partition = text(PRIMARY_PARTITION).unwrap_or(copy.partition_key()).to_owned();
    let row = text(PRIMARY_ROW)?.to_owned();
    let key = EntityKey::parse(&partition, &row).ok()?;
    let source = copy.opt::<u64>(SOURCE_TICKS).ok().flatten();
    let marks = [INDEX_MARK, PRIMARY_PARTITION, PRIMARY_ROW, SOURCE_TICKS, STATE];
    Some((key, source, copy.moved(partition, row, &marks)))
}
