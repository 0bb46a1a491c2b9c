//! Combines the writes of a transaction to one row into one (C-10.4).

use super::entity_of;
use crate::batch::Operation;
use crate::entity::{ETag, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{CopyRow, changes};
use crate::write::WriteVerb;
use crate::write_ids::WriteIds;
use lazuli_model::{EntityKey, Timestamp};

/// A row and its writes so far.
#[derive(Debug)]
pub(super) struct Row {
    key: EntityKey,
    before: Before,
    after: After,
    /// Its index copies, before and after.
    copies: (Vec<CopyRow>, Vec<CopyRow>),
}

/// What must hold before the transaction.
#[derive(Clone, Debug, PartialEq)]
enum Before {
    Anything,
    Absent,
    Read { etag: ETag, ids: WriteIds },
}

/// The state after the transaction.
#[derive(Clone, Debug, PartialEq)]
enum After {
    AsBefore,
    Value(Properties),
    Nothing,
}

impl Row {
    pub(super) fn untouched(key: EntityKey) -> Self {
        Self {
            key,
            before: Before::Anything,
            after: After::AsBefore,
            copies: (Vec::new(), Vec::new()),
        }
    }

    pub(super) fn key(&self) -> &EntityKey {
        &self.key
    }

    /// Whether nothing is written; it may be guarded.
    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self.after, After::AsBefore) && self.before != Before::Absent
    }

    /// Writes it, and notes what its copies were when it was read, if this is the first write, and what
    /// they are to be.
    pub(super) fn index(
        &mut self,
        old: &[CopyRow],
        new: Vec<CopyRow>,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_first = self.is_unchanged();
        write(self)?;
        if is_first {
            self.copies.0 = old.to_vec();
        }
        self.copies.1 = new;
        Ok(())
    }

    /// The writes of its copies.
    pub(super) fn copy_changes(&self) -> Vec<Operation> {
        changes(&self.copies.0, &self.copies.1)
    }

    pub(super) fn insert(&mut self, properties: Properties) -> Result<(), Error> {
        match (&self.before, &self.after) {
            (Before::Anything, After::AsBefore) => self.before = Before::Absent,
            (Before::Absent, After::AsBefore) | (_, After::Nothing) => {}
            (Before::Read { .. }, After::AsBefore) | (_, After::Value(_)) => {
                return Err(self.fault(ErrorKind::Conflict));
            }
        }
        self.after = After::Value(properties);
        Ok(())
    }

    pub(super) fn replace(
        &mut self,
        properties: Properties,
        etag: &ETag,
        ids: &WriteIds,
    ) -> Result<(), Error> {
        self.expect(etag, ids)?;
        self.after = After::Value(properties);
        Ok(())
    }

    pub(super) fn upsert(&mut self, properties: Properties) -> Result<(), Error> {
        self.after = After::Value(properties);
        Ok(())
    }

    pub(super) fn delete(&mut self, etag: &ETag, ids: &WriteIds) -> Result<(), Error> {
        self.expect(etag, ids)?;
        self.after = match self.before {
            // Inserted by this transaction: nothing is left to write.
            Before::Absent => After::AsBefore,
            Before::Anything | Before::Read { .. } => After::Nothing,
        };
        Ok(())
    }

    pub(super) fn guard(&mut self, etag: &ETag, ids: &WriteIds) -> Result<(), Error> {
        self.expect(etag, ids)
    }

    /// Checks that the row exists, in the version that was read or as this transaction has left it.
    fn expect(&mut self, etag: &ETag, ids: &WriteIds) -> Result<(), Error> {
        match (&self.before, &self.after) {
            (Before::Anything, After::AsBefore) => {
                self.before = Before::Read { etag: etag.clone(), ids: ids.clone() };
            }
            // Upserted, and what was read before that is to be unchanged too.
            (Before::Anything, After::Value(_)) if etag.as_str() != "*" => {
                self.before = Before::Read { etag: etag.clone(), ids: ids.clone() };
            }
            (_, After::Nothing) | (Before::Absent, After::AsBefore) => {
                return Err(self.fault(ErrorKind::NotFound));
            }
            (Before::Read { etag: known, .. }, _) if known != etag => {
                return Err(self.fault(ErrorKind::PreconditionFailed));
            }
            (Before::Read { .. }, _) | (_, After::Value(_)) => {}
        }
        Ok(())
    }

    fn fault(&self, kind: ErrorKind) -> Error {
        Error::new(kind).with(|context| context.key = Some(self.key.clone()))
    }

    /// The row as this transaction has left it; `None` if it must be read from the table.
    pub(super) fn read<T: TableEntity>(&self) -> Option<Result<Option<Loaded<T>>, Error>> {
        let properties = match (&self.before, &self.after) {
            (_, After::Value(properties)) => properties,
            (_, After::Nothing) | (Before::Absent, After::AsBefore) => return Some(Ok(None)),
            (_, After::AsBefore) => return None,
        };
        let (etag, ids) = match &self.before {
            Before::Read { etag, ids } => (etag.clone(), ids.clone()),
            Before::Anything | Before::Absent => (ETag::new("*"), WriteIds::default()),
        };
        let value = T::read(entity_of(&self.key, properties)).map_err(Error::from);
        Some(value.map(|value| {
            let loaded = Loaded::unwritten(value, self.key.clone(), etag, Timestamp::MIN, ids);
            Some(loaded.with_copies(&self.copies.1))
        }))
    }

    /// The one write that results; `None` if nothing is left to write.
    pub(super) fn operation(&self) -> Option<Operation> {
        let (verb, properties) = match (&self.before, &self.after) {
            (Before::Anything | Before::Absent, After::AsBefore) => return None,
            (Before::Absent, After::Nothing) => return None,
            (Before::Read { .. }, After::AsBefore) => (Some(WriteVerb::Merge), None),
            (Before::Anything, After::Value(properties)) => {
                (Some(WriteVerb::Upsert), Some(properties))
            }
            (Before::Absent, After::Value(properties)) => {
                (Some(WriteVerb::Insert), Some(properties))
            }
            (Before::Read { .. }, After::Value(properties)) => {
                (Some(WriteVerb::Replace), Some(properties))
            }
            (Before::Anything | Before::Read { .. }, After::Nothing) => (None, None),
        };
        let (if_match, base) = match &self.before {
            Before::Read { etag, ids } => (Some(etag.as_str().to_owned()), ids.clone()),
            // Upserted and then deleted: it must exist.
            Before::Anything if verb.is_none() => (Some("*".to_owned()), WriteIds::default()),
            Before::Anything | Before::Absent => (None, WriteIds::default()),
        };
        let properties = properties.cloned().unwrap_or_default();
        let properties = verb.map_or_else(Properties::default, |verb| verb.stored(properties));
        let (table, copies, copy) = (None, Vec::new(), None);
        let key = self.key.clone();
        Some(Operation { verb, table, key, properties, if_match, base, copies, copy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn row() -> Row {
        Row::untouched(EntityKey::parse("p", "r").unwrap())
    }

    fn value(number: i32) -> Properties {
        let mut properties = Properties::default();
        properties.push("Number", Value::Int32(number));
        properties
    }

    fn etag() -> ETag {
        ETag::new("e1")
    }

    /// Verb, number of properties and condition of the resulting write.
    fn became(row: &Row) -> Option<(Option<WriteVerb>, Properties, Option<String>)> {
        row.operation().map(|operation| (operation.verb, operation.properties, operation.if_match))
    }

    #[test]
    fn several_writes_become_one() {
        // C-10.4, case by case.
        let ids = WriteIds::default();
        let read = Some("e1".to_owned());
        let mut inserted = row();
        inserted.insert(value(1)).unwrap();
        inserted.replace(value(2), &ETag::new("*"), &ids).unwrap();
        assert_eq!(became(&inserted), Some((Some(WriteVerb::Insert), value(2), None)));
        inserted.delete(&ETag::new("*"), &ids).unwrap();
        assert_eq!(became(&inserted), None);

        let mut replaced = row();
        replaced.replace(value(1), &etag(), &ids).unwrap();
        replaced.replace(value(2), &etag(), &ids).unwrap();
        assert_eq!(became(&replaced), Some((Some(WriteVerb::Replace), value(2), read.clone())));
        replaced.delete(&etag(), &ids).unwrap();
        assert_eq!(became(&replaced), Some((None, Properties::default(), read.clone())));
        replaced.insert(value(3)).unwrap();
        assert_eq!(became(&replaced), Some((Some(WriteVerb::Replace), value(3), read.clone())));

        let mut guarded = row();
        guarded.guard(&etag(), &ids).unwrap();
        let empty = Properties::default();
        assert_eq!(became(&guarded), Some((Some(WriteVerb::Merge), empty, read)));
    }

    #[test]
    fn a_version_that_was_read_counts_after_an_upsert_too() {
        // C-10.4, C-10.5.
        let ids = WriteIds::default();
        let read = Some("e1".to_owned());
        let upserted = || {
            let mut row = row();
            row.upsert(value(1)).unwrap();
            row
        };
        let mut replaced = upserted();
        replaced.replace(value(2), &etag(), &ids).unwrap();
        assert_eq!(became(&replaced), Some((Some(WriteVerb::Replace), value(2), read.clone())));
        let mut deleted = upserted();
        deleted.delete(&etag(), &ids).unwrap();
        assert_eq!(became(&deleted), Some((None, Properties::default(), read.clone())));
        let mut guarded = upserted();
        guarded.guard(&etag(), &ids).unwrap();
        assert_eq!(became(&guarded), Some((Some(WriteVerb::Replace), value(1), read)));
        let mut own = upserted();
        own.replace(value(2), &ETag::new("*"), &ids).unwrap();
        assert_eq!(became(&own), Some((Some(WriteVerb::Upsert), value(2), None)));
    }

    #[test]
    fn what_cannot_hold_is_refused_at_once() {
        let ids = WriteIds::default();
        let mut inserted = row();
        inserted.insert(value(1)).unwrap();
        assert!(inserted.insert(value(2)).unwrap_err().is_conflict());
        let mut deleted = row();
        deleted.delete(&etag(), &ids).unwrap();
        assert!(deleted.replace(value(1), &etag(), &ids).unwrap_err().is_not_found());
        assert!(deleted.delete(&etag(), &ids).unwrap_err().is_not_found());
        let mut replaced = row();
        replaced.replace(value(1), &etag(), &ids).unwrap();
        let other = replaced.replace(value(2), &ETag::new("e2"), &ids).unwrap_err();
        assert!(other.is_precondition_failed());
    }
}
