//! Loads whose input is a query: delete what a filter finds, copy a table (C-12.6).

use super::{Bulk, BulkRun};
use crate::batch::WriteOp;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::filter::Filter;
use crate::query::Query;
use crate::shape::{Rule, is_indexed};
use crate::table::Table;
use futures_util::TryStreamExt;

impl<T: TableEntity> Bulk<T> {
    /// Deletes the entities that a filter finds, by reading the whole table unless the filter names
    /// partitions. An entity that has changed since it was read is left alone, and counted as skipped.
    pub fn delete_where(mut self, filter: Filter) -> BulkRun<'static> {
        self.options.skips_changed = true;
        if is_indexed::<T>() {
            // Their copies go with them, so that they are read whole.
            let rows = self.found::<T>(filter).stream();
            return self.run(rows.map_ok(|row| WriteOp::delete(&row)));
        }
        // Keys and tag come always.
        let rows = self.found::<Entity>(filter).select_names(["PartitionKey"]).stream();
        self.run(rows.map_ok(|row| WriteOp::delete(&row)))
    }

    fn found<R: TableEntity>(&self, filter: Filter) -> Query<R> {
        let table: Table<R> = Table::new(self.account.clone(), self.table.clone());
        match filter.names_partitions() {
            true => table.query(filter),
            false => table.scan().filter(filter),
        }
    }

    /// Writes every entity of this table into another one, with all its properties. What is there already
    /// is replaced; nothing is removed.
    ///
    /// Index copies are rows like others: `other` is of the type `Entity`, or of one without indexes. Entities that this
    /// handle decrypts are encrypted again by `other`, which must have an encryption too. Without one on either side, they are
    /// copied as they are stored; a blind index finds nothing then, as it is made for its table.
    pub fn copy_to<U: TableEntity>(mut self, other: &Table<U>) -> BulkRun<'static> {
        if self.account.1.is_some() && !other.account.1.is_some() {
            let error = Error::config("what was decrypted would be stored in clear");
            let error = error.with(|context| {
                context.hint =
                    Some("copy to other.encrypted(..), or from a table without encryption".into());
            });
            let error = error.at("copy_to", Some(other.name()), None);
            return BulkRun(Box::pin(async { Err(error) }));
        }
        let table: Table<Entity> = Table::new(self.account.clone(), self.table.clone());
        (self.account, self.table) = (other.account.clone(), other.name.clone());
        self.options.rule = Rule::of::<U>();
        self.run(table.scan().stream().map_ok(|row| WriteOp::upsert(&*row)))
    }
}
