//! Writes a value into all entities that have a copy of it (P-5.3).

use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::query::Query;
use crate::table::Table;
use crate::update::Change;
use std::sync::Arc;

/// A change of many entities, for a value that is copied into all of them, such as the name of their department. It is
/// not atomic, costs a read and a write for each entity that it changes, and continues where it was interrupted.
#[must_use = "nothing is sent before `run`"]
pub struct FanOut<T> {
    table: Table<T>,
    query: Query<T>,
    change: Arc<dyn Fn(&mut T) -> bool + Send + Sync>,
}

impl<T: TableEntity> FanOut<T> {
    /// Changes the entities that a query finds. `change` returns whether there was anything to change; it may run again
    /// on an entity that has been changed already.
    pub fn new(
        table: &Table<T>,
        query: Query<T>,
        change: impl Fn(&mut T) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { table: table.clone(), query, change: Arc::new(change) }
    }

    /// Runs as the job `name`, whose progress is in the table `state`: after a crash it continues with the unfinished
    /// page. `progress` receives the number of entities checked in this run. Returns how many were changed.
    ///
    /// A finished job does nothing: another change needs another name.
    pub async fn run(
        self,
        name: &str,
        state: &Table<Entity>,
        progress: impl Fn(u64) + Send + Sync,
    ) -> Result<u64, Error> {
        let Self { table, query, change } = self;
        let (mut changed, mut seen) = (0, 0);
        let counts = std::sync::Mutex::new((&mut changed, &mut seen));
        let (table, change, counts, progress) = (&table, &change, &counts, &progress);
        let job = query.job(name, state).run(|page| async move {
            for entity in page.into_items() {
                let key = Key::<T>::new(entity.loaded_key().clone());
                let change = Arc::clone(change);
                let update = table.update_with(key, move |value: &mut T| {
                    Ok(if change(value) { Change::Write } else { Change::Keep })
                });
                // It sets values instead of adding to them, so it may be repeated.
                let outcome = update.idempotent().await;
                let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match outcome {
                    Ok(updated) if updated.change == Change::Write => *counts.0 += 1,
                    Ok(_) => {}
                    // Deleted in the meantime.
                    Err(error) if *error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
                *counts.1 += 1;
                progress(*counts.1);
            }
            Ok(())
        });
        job.await?;
        Ok(changed)
    }
}
