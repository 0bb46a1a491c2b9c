//! The entities of a partition, of several types (P-12.2).

use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::filter::partition;
use crate::table::Table;
use crate::union::Member;

/// The entities of one partition, of any types, read by one query.
///
/// ```no_run
/// # use lazuli_client::prelude::*;
/// # use lazuli_client::patterns::relations::Collection;
/// # async fn run<Department: TableEntity, Employee: TableEntity>(staff: Table) -> Result<(), Error> {
/// let sales = Collection::read(&staff, "Sales", 10_000).await?;
/// let department = sales.one::<Department>()?;
/// let employees = sales.all::<Employee>()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Collection {
    rows: Vec<Loaded<Entity>>,
}

impl Collection {
    /// Reads a partition: one request for each 1,000 rows. Fails if there are more than `rows_max` rows.
    pub async fn read<T: TableEntity>(
        table: &Table<T>,
        partition_key: &str,
        rows_max: usize,
    ) -> Result<Self, Error> {
        let rows: Table<Entity> = table.retyped();
        let rows = rows.query(partition(partition_key)).collect_at_most(rows_max).await?;
        let is_copy = |row: &Loaded<Entity>| row.value(crate::codec::INDEX_MARK).is_some();
        Ok(Self { rows: rows.into_iter().filter(|row| !is_copy(row)).collect() })
    }

    /// All entities of a type, in the order of their keys.
    pub fn all<T: TableEntity>(&self) -> Result<Vec<Loaded<T>>, Error> {
        let member = Member::of::<T>();
        let rows = self.rows.iter().filter(|row| member.has(row));
        let decoded = rows.map(|row| row.clone().decode());
        decoded.filter_map(Result::transpose).collect()
    }

    /// The only entity of a type in the partition; `None` if there is none. Fails if there are several.
    pub fn one<T: TableEntity>(&self) -> Result<Option<Loaded<T>>, Error> {
        let mut all = self.all()?;
        match all.len() {
            0 | 1 => Ok(all.pop()),
            several => Err(Error::config(format!("{several} entities where one is expected"))),
        }
    }

    /// All rows except index copies, undecoded.
    pub fn rows(&self) -> &[Loaded<Entity>] {
        &self.rows
    }
}
