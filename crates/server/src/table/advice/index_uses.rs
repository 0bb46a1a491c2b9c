//! Stores when indexes were last used, so that all gateways know.

use lazuli_model::{AccountName, Timestamp};
use std::collections::BTreeMap;

/// Maximum indexes whose last use is remembered until it is processed.
pub(super) const INDEXES_MAX: usize = 4096;
/// Minimum seconds between two stored uses of an index.
const KEPT_EVERY_SECONDS: u64 = 3600;

/// An account, a table in lower case, and the name of an index.
pub(super) type IndexPlace = (AccountName, Box<str>, Box<str>);

/// Uses of indexes in this process.
#[derive(Default)]
pub(super) struct IndexUses {
    /// Uses that are not stored yet.
    new: BTreeMap<IndexPlace, Timestamp>,
    /// The last stored use of each index.
    kept: BTreeMap<IndexPlace, Timestamp>,
}

/// The names of the used indexes of one table, and the last use of any.
pub(super) type TableUses = BTreeMap<(AccountName, Box<str>), (Vec<Box<str>>, Timestamp)>;

impl IndexUses {
    pub(super) fn note(&mut self, reads: &BTreeMap<IndexPlace, Timestamp>) {
        for (place, at) in reads {
            let is_due =
                |kept: &Timestamp| at.unix_seconds() >= kept.unix_seconds() + KEPT_EVERY_SECONDS;
            let has_room = self.new.len() < INDEXES_MAX || self.new.contains_key(place);
            if has_room && self.kept.get(place).is_none_or(is_due) {
                self.new.insert(place.clone(), *at);
            }
        }
    }

    pub(super) fn take(&mut self) -> TableUses {
        let mut tables = TableUses::new();
        for ((account, table, index), at) in std::mem::take(&mut self.new) {
            let (indexes, last) =
                tables.entry((account, table)).or_insert_with(|| (Vec::new(), at));
            indexes.push(index);
            *last = at.max(*last);
        }
        tables
    }

    pub(super) fn kept(
        &mut self,
        account: &AccountName,
        table: &str,
        indexes: Vec<Box<str>>,
        at: Timestamp,
    ) {
        if self.kept.len() + indexes.len() > INDEXES_MAX {
            // They are stored once more, which does no harm.
            self.kept.clear();
        }
        for index in indexes {
            self.kept.insert((account.clone(), table.into(), index), at);
        }
    }
}
