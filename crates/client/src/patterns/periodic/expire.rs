//! Deletes the tables of past periods (P-8.2, P-8.3, P-8.6).

use super::{Periodic, Timed};
use crate::error::Error;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;

/// What the deletion of expired tables saves (P-8.6).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryCost {
    /// The tables; deleting each takes one request.
    pub tables: Vec<String>,
    /// The entities in them.
    pub entities: u64,
    /// The least number of transactions, by partition, that would delete the entities one by one.
    pub transactions: u64,
}

impl<T: Timed> Periodic<T> {
    /// The tables that [`Periodic::expire`] would delete: one request.
    ///
    /// A table counts only if its name is the base followed by exactly the digits of a period; all others are left
    /// alone.
    pub async fn expired_tables(&self) -> Result<Vec<String>, Error> {
        if self.retention.is_none() {
            return Err(Error::config("nothing expires: say how long with `keep`"));
        }
        let names = self.tables.list_prefix(&self.base).await?;
        let is_expired = |name: &String| {
            let digits = name.strip_prefix(&self.base);
            let period = digits.and_then(|digits| self.period.parse(digits));
            period.is_some_and(|period| self.is_expired(&period))
        };
        Ok(names.into_iter().filter(is_expired).collect())
    }

    /// Deletes the tables of expired periods, oldest first, and returns their names. One request for the list and one
    /// for each table. Several programs may run it concurrently; after an interruption it can be run again.
    pub async fn expire(&self) -> Result<Vec<String>, Error> {
        let mut gone = Vec::new();
        for name in self.expired_tables().await? {
            if self.tables.delete_if_present(&name).await? {
                gone.push(name);
            }
        }
        Ok(gone)
    }

    /// The cost of deleting the entities of expired periods one by one. Reads the keys of all of them: not for
    /// everyday use.
    pub async fn explain_expiry(&self) -> Result<ExpiryCost, Error> {
        let tables = self.expired_tables().await?;
        let (mut entities, mut transactions) = (0, 0);
        for name in &tables {
            let table = self.tables.table(name)?;
            let mut rows = table.scan().select_names(["PartitionKey"]).stream();
            let mut partition: Option<(String, usize)> = None;
            while let Some(row) = rows.try_next().await? {
                entities += 1;
                let count = match &partition {
                    Some((key, count)) if key == row.partition_key() => *count,
                    _ => 0,
                };
                if count % BATCH_OPERATIONS_MAX == 0 {
                    transactions += 1;
                }
                partition = Some((row.partition_key().to_owned(), count + 1));
            }
        }
        Ok(ExpiryCost { tables, entities, transactions })
    }
}
