//! A table of a type that only implements serde.

use crate::codec::Decoded;
use crate::entity::{Entity, Loaded};
use crate::error::Error;
use crate::query::{Query, Selection};
use crate::table::Table;
use crate::tables::Tables;
use crate::write::{Deleted, Written};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// Returns the keys of a value.
type Keys<T> = Arc<dyn for<'v> Fn(&'v T) -> (&'v str, &'v str) + Send + Sync>;

/// A table whose entities are values of a serde type, with keys from a function. Cheap to clone.
///
/// ```
/// # use lazuli_client::Entity;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Product { name: String, pieces: i64 }
///
/// # fn run() -> Result<(), lazuli_client::Error> {
/// let chair = Product { name: "chair".into(), pieces: 4 };
/// let entity = Entity::serialize("furniture", "00017", &chair)?;
/// assert_eq!(entity.deserialize::<Product>()?, chair);
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
pub struct SerdeTable<T> {
    table: Table<Entity>,
    keys: Keys<T>,
}

impl Tables {
    /// A table of values of a serde type; `keys` returns the partition key and the row key of a value.
    ///
    /// ```no_run
    /// # use lazuli_client::prelude::*;
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Product { category: String, id: String, price: f64 }
    ///
    /// # async fn run(tables: Tables) -> Result<(), Error> {
    /// let products = tables.of_serde::<Product>("Products", |p| (&p.category, &p.id))?;
    /// let bolt = Product { category: "bolts".into(), id: "m8".into(), price: 0.1 };
    /// products.upsert(&bolt).await?;
    /// let found = products.get("bolts", "m8").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_serde<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        keys: impl for<'v> Fn(&'v T) -> (&'v str, &'v str) + Send + Sync + 'static,
    ) -> Result<SerdeTable<T>, Error> {
        Ok(SerdeTable { table: self.table(name)?, keys: Arc::new(keys) })
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> SerdeTable<T> {
    fn entity(&self, value: &T) -> Result<Entity, Error> {
        let (partition, row) = (self.keys)(value);
        Entity::serialize(partition, row, value)
    }

    /// Reads one entity; `None` if it does not exist.
    pub async fn get(
        &self,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Option<Loaded<T>>, Error> {
        let Some(found) = self.table.get((partition_key, row_key)).await? else { return Ok(None) };
        let value = found.deserialize::<T>()?;
        Ok(Some(found.map(|_| value)))
    }

    /// Reads the entities that match a filter, which must name a partition.
    pub fn query(&self, selection: impl Into<Selection>) -> Query<T> {
        let decode = |entity: Entity| Ok(Some(Decoded::plain(entity.deserialize::<T>()?)));
        self.table.query(selection).decoded(Vec::new(), Arc::new(decode))
    }

    /// Inserts an entity; fails with a conflict if its key is taken.
    pub async fn insert(&self, value: &T) -> Result<Written, Error> {
        self.table.insert(&self.entity(value)?).await
    }

    /// Replaces an entity if it has not changed since it was read.
    pub async fn replace(&self, loaded: &Loaded<T>) -> Result<Written, Error> {
        self.table.replace_if_match(&self.entity(loaded)?, loaded.etag()).await
    }

    /// Inserts or replaces an entity.
    pub async fn upsert(&self, value: &T) -> Result<Written, Error> {
        self.table.upsert(&self.entity(value)?).await
    }

    /// Deletes an entity if it has not changed since it was read.
    pub async fn delete(&self, loaded: &Loaded<T>) -> Result<Deleted, Error> {
        self.table.delete_if_match(loaded.loaded_key().clone(), loaded.etag()).await
    }

    /// The untyped table, for everything else.
    pub fn untyped(&self) -> &Table<Entity> {
        &self.table
    }
}

impl<T> Clone for SerdeTable<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), keys: Arc::clone(&self.keys) }
    }
}

impl<T> fmt::Debug for SerdeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SerdeTable").field(&self.table).finish()
    }
}
