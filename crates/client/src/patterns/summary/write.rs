//! Writes of sources, with their summaries in the same transaction.

use super::ATTEMPTS;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::update::Change;
use crate::{BoxError, BoxFuture};
use lazuli_model::EntityKey;
use std::sync::atomic::{AtomicU32, Ordering};

/// The summaries that are updated in the transaction that writes a source.
pub(super) trait Followers<S>: Sync {
    /// The table of the sources and their summaries.
    fn table(&self) -> &Table<Entity>;

    /// Accounts for a change of a source from an old to a new state.
    fn follow<'a>(
        &'a self,
        tx: &'a Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// Inserts a source: one read for each summary, and one transaction.
pub(super) async fn insert<S, F>(followers: &F, source: &S) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
{
    let key = source.key()?;
    let rounds = AtomicU32::new(0);
    let (key, rounds) = (&key, &rounds);
    let insert = followers.table().transact(key.partition.as_str(), |tx| async move {
        // Whether it existed, or its summary had changed, is checked only after a round failed.
        if rounds.fetch_add(1, Ordering::Relaxed) > 0 && tx.get(key.clone()).await?.is_some() {
            return Err(Error::new(ErrorKind::Conflict));
        }
        followers.follow(&tx, None, Some(source)).await?;
        tx.insert(source)
    });
    let inserted = insert.attempts(ATTEMPTS).await;
    inserted.map_err(|error| place(followers.table(), error, "insert", key))
}

/// Replaces a source that was read, if it has not changed since.
pub(super) async fn replace<S, F>(followers: &F, loaded: &Loaded<S>) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
{
    let key = loaded.loaded_key();
    let replace = followers.table().transact(key.partition.as_str(), |tx| async move {
        let old = read_as_loaded(&tx, loaded).await?;
        followers.follow(&tx, Some(&old), Some(loaded)).await?;
        tx.replace(loaded)
    });
    let replaced = replace.attempts(ATTEMPTS).await;
    replaced.map_err(|error| place(followers.table(), error, "replace", key))
}

/// Deletes a source that was read, if it has not changed since.
pub(super) async fn delete<S, F>(followers: &F, loaded: &Loaded<S>) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
{
    let key = loaded.loaded_key();
    let delete = followers.table().transact(key.partition.as_str(), |tx| async move {
        let old = read_as_loaded(&tx, loaded).await?;
        followers.follow(&tx, Some(&old), None).await?;
        tx.delete(loaded)
    });
    let deleted = delete.attempts(ATTEMPTS).await;
    deleted.map_err(|error| place(followers.table(), error, "delete", key))
}

/// Reads a source, applies `change`, and writes it and its summaries.
pub(super) async fn update_with<S, F, C>(followers: &F, key: Key<S>, change: C) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
    C: Fn(&mut S) -> Result<Change, BoxError> + Send + Sync,
{
    let (key, change) = (&key.into_entity_key(), &change);
    let update = followers.table().transact(key.partition.as_str(), |tx| async move {
        let gone = || Error::new(ErrorKind::NotFound);
        let row = tx.get(key.clone()).await?.ok_or_else(gone)?;
        let old = row.clone().decode::<S>()?.ok_or_else(gone)?;
        let mut new = row.decode::<S>()?.ok_or_else(gone)?;
        let refused =
            |source| Error::new(ErrorKind::Refused).with(|context| context.source = Some(source));
        if change(&mut new).map_err(refused)? == Change::Keep {
            return Ok(());
        }
        followers.follow(&tx, Some(&old), Some(&new)).await?;
        tx.replace(&new)
    });
    let updated = update.attempts(ATTEMPTS).await;
    updated.map_err(|error| place(followers.table(), error, "update_with", key))
}

/// Deletes a source that goes to another partition, and leaves a note there, which must not be there yet (P-12.6).
pub(super) async fn leave<S, F>(
    followers: &F,
    loaded: &Loaded<S>,
    note: &Entity,
) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
{
    let leave = followers.table().transact(note.partition_key(), |tx| async move {
        let old = read_as_loaded(&tx, loaded).await?;
        if tx.get(note.key()?).await?.is_some() {
            return Err(Error::new(ErrorKind::Conflict));
        }
        followers.follow(&tx, Some(&old), None).await?;
        tx.delete(&old)?;
        tx.insert(note)
    });
    leave.attempts(ATTEMPTS).await
}

/// Makes a staged row the source that it stands for, if it has not changed since it was read (P-12.6).
pub(super) async fn join<S, F>(followers: &F, staged: &Loaded<S>) -> Result<(), Error>
where
    S: TableEntity + Sync,
    F: Followers<S>,
{
    let key = staged.loaded_key();
    let join = followers.table().transact(key.partition.as_str(), |tx| async move {
        let found = tx.get(key.clone()).await?;
        if found.is_none_or(|found| found.etag() != staged.etag()) {
            return Err(Error::new(ErrorKind::PreconditionFailed));
        }
        followers.follow(&tx, None, Some(staged)).await?;
        tx.replace(staged)
    });
    join.attempts(ATTEMPTS).await
}

/// The source as it was read; fails if it is another version by now.
async fn read_as_loaded<S: TableEntity + Sync>(
    tx: &Transaction,
    loaded: &Loaded<S>,
) -> Result<Loaded<S>, Error> {
    let found = tx.get(Key::<S>::new(loaded.loaded_key().clone())).await?;
    let found = found.ok_or_else(|| Error::new(ErrorKind::NotFound))?;
    if found.etag() != loaded.etag() {
        return Err(Error::new(ErrorKind::PreconditionFailed));
    }
    Ok(found)
}

/// Adds the operation and the table to an error.
pub(super) fn place(
    table: &Table<Entity>,
    error: Error,
    operation: &'static str,
    key: &EntityKey,
) -> Error {
    error.at(operation, Some(table.name()), Some(key))
}
