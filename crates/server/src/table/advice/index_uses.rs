//! Keeps in the store when indexes were last used, so that all gateways know.

use super::{Advice, INDEXES_MAX, IndexPlace, lock};
use lazuli_model::{AccountName, IndexName, TableName, Timestamp};
use lazuli_table::TableError;
use std::collections::BTreeMap;

/// Seconds after which a further use of an index is kept.
const KEPT_EVERY_SECONDS: u64 = 3600;

/// Uses of indexes in this process.
#[derive(Default)]
pub(super) struct IndexUses {
    /// Those that are not kept yet.
    new: BTreeMap<IndexPlace, Timestamp>,
    /// When the last use was that is kept.
    kept: BTreeMap<IndexPlace, Timestamp>,
}

/// The names of the used indexes of one table, and the last use of any.
type TableUses = BTreeMap<(AccountName, Box<str>), (Vec<Box<str>>, Timestamp)>;

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

    fn take(&mut self) -> TableUses {
        let mut tables = TableUses::new();
        for ((account, table, index), at) in std::mem::take(&mut self.new) {
            let (indexes, last) =
                tables.entry((account, table)).or_insert_with(|| (Vec::new(), at));
            indexes.push(index);
            *last = at.max(*last);
        }
        tables
    }

    fn kept(&mut self, account: &AccountName, table: &str, indexes: Vec<Box<str>>, at: Timestamp) {
        if self.kept.len() + indexes.len() > INDEXES_MAX {
            // They are kept once more, which does no harm.
            self.kept.clear();
        }
        for index in indexes {
            self.kept.insert((account.clone(), table.into(), index), at);
        }
    }
}

impl Advice {
    /// Keeps the uses of indexes since the last call in the store, each at most once an hour. Every
    /// gateway does so, whoever runs the chores.
    pub async fn keep_index_uses(&self) -> Result<(), TableError> {
        self.look();
        let tables = lock(&self.index_uses).take();
        let mut failure = None;
        for ((account, table), (indexes, at)) in tables {
            let Ok(name) = TableName::parse(&table) else { continue };
            let names: Vec<IndexName> =
                indexes.iter().filter_map(|index| IndexName::parse(index).ok()).collect();
            match self.tables.note_index_uses(&account, &name, &names, at).await {
                Ok(()) | Err(TableError::TableNotFound) => {
                    lock(&self.index_uses).kept(&account, &table, indexes, at);
                }
                Err(error) => {
                    let again = indexes
                        .into_iter()
                        .map(|index| ((account.clone(), table.clone(), index), at));
                    lock(&self.index_uses).note(&again.collect());
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
