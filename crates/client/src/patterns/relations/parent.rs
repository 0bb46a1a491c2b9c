//! Entities that belong to another entity (P-12.1).

use crate::entity::Loaded;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::link::HasParent;
use crate::table::Table;
use futures_util::future::try_join;
use std::future::IntoFuture;

/// A child and its parent, if the parent exists.
type Family<T> = (Loaded<T>, Option<Loaded<<T as HasParent>::Parent>>);

impl<T: HasParent> Table<T> {
    /// Reads an entity and its parent: two point reads, concurrent if the child's key determines the parent's. `None`
    /// if the child does not exist.
    pub async fn with_parent(
        &self,
        parents: &Table<T::Parent>,
        key: Key<T>,
    ) -> Result<Option<Family<T>>, Error> {
        if let Some(parent) = T::parent_of_key(key.as_entity_key())? {
            let reads = try_join(self.get(key).into_future(), parents.get(parent).into_future());
            let (child, parent) = reads.await?;
            return Ok(child.map(|child| (child, parent)));
        }
        let Some(child) = self.get(key).await? else { return Ok(None) };
        let parent = parents.get(child.parent_key()?).await?;
        Ok(Some((child, parent)))
    }

    /// Inserts an entity whose parent must exist, in the same table and partition: one point read and one transaction,
    /// which fails if the parent is deleted in between. [`ErrorKind::BrokenLink`] if the parent does not exist.
    pub async fn insert_with_parent(&self, value: &T) -> Result<(), Error>
    where
        T: Clone + Sync,
        T::Parent: Sync,
    {
        let (key, parent) = (value.key()?, value.parent_key()?);
        let place = |error: Error| error.at("insert", Some(self.name()), Some(&key));
        if parent.as_entity_key().partition != key.partition {
            let error = Error::config("the parent lies in another partition");
            return Err(place(error));
        }
        let insert = |transaction: crate::Transaction| {
            let (parent, value) = (parent.clone(), value.clone());
            async move {
                let found: Option<Loaded<T::Parent>> = transaction.get(parent.clone()).await?;
                let found = found.ok_or_else(|| {
                    Error::new(ErrorKind::BrokenLink)
                        .with(|context| context.key = Some(parent.as_entity_key().clone()))
                })?;
                transaction.guard(&found)?;
                transaction.insert(&value)
            }
        };
        // An entity that exists already is not a race, so it is reported at once.
        match self.transact(key.partition.as_str(), insert).await {
            Err(error) if matches!(error.kind(), ErrorKind::Contended { .. }) => {
                match self.get(Key::<T>::new(key.clone())).await? {
                    Some(_) => Err(place(Error::new(ErrorKind::Conflict))),
                    None => Err(error),
                }
            }
            done => done,
        }
    }
}
