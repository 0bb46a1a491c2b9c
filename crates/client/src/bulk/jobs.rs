//! Loads whose input is a query: delete matching entities, copy a table (C-12.6).

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
    /// Deletes the entities that match a filter. Reads the whole table unless the filter names partitions. An entity
    /// that has changed since it was read is left alone, and counted as skipped.
    pub fn delete_where(mut self, filter: Filter) -> BulkRun<'static> {
        self.options.skips_changed = true;
        if is_indexed::<T>() {
            // Index copies are deleted too; finding them takes the whole entity.
            let rows = self.found::<T>(filter).stream();
            return self.run(rows.map_ok(|row| WriteOp::delete(&row)));
        }
        // Keys and etag are always returned.
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

    /// Writes every entity of this table into another one, with all its properties. Existing entities are replaced;
    /// nothing is removed.
    ///
    /// Index copies are rows like others: `other` must have the type `Entity`, or one without indexes. If this handle
    /// decrypts, `other` must have encryption settings too and encrypts again. If neither does, encrypted entities are
    /// copied as stored; a blind index then finds nothing, because it is bound to its table.
    ///
    /// ```no_run
    /// # use lazuli_client::{Error, Table};
    /// # async fn run(people: Table, backup: Table) -> Result<(), Error> {
    /// let report = people.bulk().copy_to(&backup).await?;
    /// println!("{} copied, {} failed", report.written, report.failed.len());
    /// # Ok(())
    /// # }
    /// ```
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
