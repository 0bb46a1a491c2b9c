//! Loads whose input is a query: delete what a filter finds, copy a table (C-12.6).

use super::{Bulk, BulkRun};
use crate::batch::WriteOp;
use crate::entity::{Entity, TableEntity};
use crate::filter::Filter;
use crate::table::Table;
use futures_util::TryStreamExt;

impl<T: TableEntity> Bulk<T> {
    /// Deletes the entities that a filter finds, by reading the whole table unless the filter names
    /// partitions. An entity that has changed since it was read is left alone, and counted as skipped.
    pub fn delete_where(mut self, filter: Filter) -> BulkRun<'static> {
        self.options.skips_changed = true;
        let table: Table<Entity> = Table::new(self.account.clone(), self.table.clone());
        let found = match filter.names_partitions() {
            true => table.query(filter),
            false => table.scan().filter(filter),
        };
        // Keys and tag come always.
        let rows = found.select_names(["PartitionKey"]).stream();
        self.run(rows.map_ok(|row| WriteOp::delete(&row)))
    }

    /// Writes every entity of this table into another one, with all its properties. What is there already
    /// is replaced; nothing is removed.
    pub fn copy_to<U: TableEntity>(mut self, other: &Table<U>) -> BulkRun<'static> {
        let table: Table<Entity> = Table::new(self.account.clone(), self.table.clone());
        (self.account, self.table) = (other.account.clone(), other.name.clone());
        self.run(table.scan().stream().map_ok(|row| WriteOp::upsert(&*row)))
    }
}
