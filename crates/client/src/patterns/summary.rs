//! Denormalization within a partition (P-5): an entity stores counts, sums and copies of others in its partition.
//!
//! A department stores the number of its employees and the name of its manager, so its page takes one read. Every write
//! of an employee through [`Summarized`] updates the department in the same transaction, if it changes.

mod fan_out;
mod kept;
mod model;
#[cfg(test)]
mod orders;
mod recount;
mod write;

pub use fan_out::FanOut;
pub use model::{MemberOf, Model, ModelTable};

/// Called by derived code.
#[doc(hidden)]
pub mod derived {
    pub use super::kept::{Amount, is_overtaken, shard_of, tally};
    pub use super::model::{NoSummary, Pair, Related, Unrelated};
}

use crate::codec::{INDEX_MARK, encode};
use crate::encryption::declares_secrets;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{partition, row};
use crate::key::{Key, KeyError};
use crate::kind::Kind;
use crate::table::Table;
use crate::transaction::{Transaction, entity_of};
use crate::update::Change;
use crate::value::Value;
use crate::{BoxError, BoxFuture, Properties};
use lazuli_model::EntityKey;
use std::marker::PhantomData;
use write::Followers;

/// Attempts of a write that other clients disturb: all writers of a partition write its summary.
const ATTEMPTS: u32 = 32;
/// The mark of shards, which are not entities (P-0.2).
const SHARD_MARK: &str = "shard";

/// An entity that summarizes the `S` of its partition. Derived by attributes of its fields:
///
/// | attribute | stores |
/// | --- | --- |
/// | `#[table(count(Employee))]` | their number |
/// | `#[table(sum(Employee.salary))]` | the sum of an integer field, which may be optional |
/// | `#[table(latest(Employee.hired))]` | the greatest value of a field |
/// | `#[table(copy(Employee.email, by = manager_id))]` | a field of the one that `manager_id` refers to |
///
/// `count(Employee, shards = 8)` stores counts and sums in eight rows. The key templates of both types use the same
/// fields: the fields of the summary's key are taken from the source; those of its partition, followed by the fields
/// of `by`, are the key of the source that it refers to. Other summaries are implemented by hand: see
/// `docs/patterns/05-denormalization.md`.
///
/// It must be possible to build a summary from an empty one by following every `S` once, which
/// [`Summarized::recount`] does.
pub trait Summary<S: TableEntity + Sync>: TableEntity + Sync {
    /// Rows that share the counts, up to 100, so that writers of one partition seldom conflict. 1 by default.
    const SHARDS: u32 = 1;

    /// Whether some changes can only be followed by reading all sources ([`Summary::must_search`]). Every write of a
    /// source then writes the summary too, so that a search misses none. Cannot be combined with shards.
    const SEARCHES: bool = false;

    /// The key of a source's summary, which is in the same partition.
    fn key_of(source: &S) -> Result<Key<Self>, KeyError>;

    /// The empty summary of a partition.
    fn empty(source: &S) -> Self;

    /// Accounts for a change of a source: `old` is `None` if it is new, `new` is `None` if it was deleted.
    fn follow(&mut self, old: Option<&S>, new: Option<&S>);

    /// Whether this change can only be followed by reading all sources, because the one with the greatest value is
    /// gone. Called before [`Summary::follow`], which is then called for every remaining source.
    fn must_search(&self, old: Option<&S>, new: Option<&S>) -> bool {
        let _ = (old, new);
        false
    }

    /// Resets everything that [`Summary::follow`] maintains.
    fn clear(&mut self);

    /// Adds the values of a shard. Needed only with shards.
    fn combine(&mut self, shard: &Self) {
        let _ = shard;
    }

    /// The shard of a source: any number that is constant for it. Needed only with shards.
    fn shard_of(source: &S) -> u64 {
        let _ = source;
        0
    }

    /// The key of the source that it refers to and copies from, if any.
    fn link(&self) -> Result<Option<Key<S>>, KeyError> {
        Ok(None)
    }

    /// Copies from the source that it refers to; `None` if there is no reference or the source is gone: then it should
    /// clear the reference.
    fn fill(&mut self, linked: Option<&S>) {
        let _ = linked;
    }
}

/// Sources and their summaries in one table. Cheap to clone.
#[derive(Debug)]
pub struct Summarized<S, D> {
    table: Table<Entity>,
    of: PhantomData<fn() -> (S, D)>,
}

impl<S, D> Clone for Summarized<S, D> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), of: PhantomData }
    }
}

/// A summary during a transaction.
struct Held<D> {
    value: D,
    /// The row it was read from; `None` if the summary is new.
    read: Option<Loaded<Entity>>,
    before: Option<Properties>,
}

impl<S: TableEntity + Sync, D: Summary<S>> Summarized<S, D> {
    /// The sources and summaries of a table.
    pub fn new<T: TableEntity>(table: &Table<T>) -> Self {
        const {
            assert!(
                !declares_secrets(D::PROPERTIES),
                "a summary and its shards are written as plain entities: nothing of it is encrypted"
            );
        }
        const {
            assert!(!(D::SEARCHES && D::SHARDS > 1), "no shard knows all sources: one row");
        }
        Self { table: table.retyped(), of: PhantomData }
    }

    /// Inserts a source: one read, and one transaction.
    pub async fn insert(&self, source: &S) -> Result<(), Error> {
        write::insert(self, source).await
    }

    /// Replaces a source that was read, if it has not changed since.
    pub async fn replace(&self, loaded: &Loaded<S>) -> Result<(), Error> {
        write::replace(self, loaded).await
    }

    /// Deletes a source that was read, if it has not changed since.
    pub async fn delete(&self, loaded: &Loaded<S>) -> Result<(), Error> {
        write::delete(self, loaded).await
    }

    /// Reads a source, applies `change`, and writes it and its summary.
    pub async fn update_with<F>(&self, key: Key<S>, change: F) -> Result<(), Error>
    where
        F: Fn(&mut S) -> Result<Change, BoxError> + Send + Sync,
    {
        write::update_with(self, key, change).await
    }

    /// Changes what a summary does not follow, such as which source it names. One that it names is read in the same
    /// transaction, must exist ([`ErrorKind::BrokenLink`]), and is copied from. A change of what it follows, such as a count,
    /// is refused.
    pub async fn update_summary<F>(&self, key: Key<D>, change: F) -> Result<(), Error>
    where
        F: Fn(&mut D) + Send + Sync,
    {
        let (key, change) = (&key.into_entity_key(), &change);
        let update = self.table.transact(key.partition.as_str(), |tx| async move {
            let row = tx.get(key.clone()).await?;
            let row = row.ok_or_else(|| Error::new(ErrorKind::NotFound))?;
            let mut held = Held::<D>::of_row(key, row)?;
            held.change(change, <D as Summary<S>>::clear)?;
            fill_from_link(&mut held.value, &tx).await?;
            held.write(&tx, key, key, false)
        });
        update.attempts(ATTEMPTS).await.map_err(|error| self.place(error, "update_summary", key))
    }

    /// Reads a source.
    pub async fn get(&self, key: Key<S>) -> Result<Option<Loaded<S>>, Error> {
        self.table.get(key).await
    }

    /// Reads a summary: one point read, or one query of the shards.
    pub async fn summary(&self, key: Key<D>) -> Result<Option<D>, Error> {
        let key = key.into_entity_key();
        if D::SHARDS == 1 {
            let row = self.table.get(key.clone()).await?;
            return row.map(|row| Ok(Held::<D>::of_row(&key, row)?.value)).transpose();
        }
        let from = partition(key.partition.as_str()).and(row().ge(key.row.as_str()));
        let mut rows = self.table.query(from.and(row().lt(shard_end(&key)))).stream();
        let mut total: Option<D> = None;
        while let Some(row) = rows.try_next().await? {
            if !is_own(&key, row.row_key()) {
                continue;
            }
            let part = Held::<D>::of_row(&key, row)?.value;
            match &mut total {
                None => total = Some(part),
                Some(total) => total.combine(&part),
            }
        }
        Ok(total)
    }

    /// Updates the summary of a source, in the transaction that writes the source.
    async fn follow_all(
        &self,
        tx: &Transaction,
        old: Option<&S>,
        new: Option<&S>,
    ) -> Result<(), Error> {
        if let (Some(was), Some(is)) = (old, new)
            && D::key_of(was)?.as_entity_key() != D::key_of(is)?.as_entity_key()
        {
            // It moves from one summary to another.
            self.follow_one(tx, old, None, was).await?;
            return self.follow_one(tx, None, new, is).await;
        }
        match new.or(old) {
            Some(source) => self.follow_one(tx, old, new, source).await,
            None => Ok(()),
        }
    }

    /// Updates one summary: that of `source`, which is the old or the new state.
    async fn follow_one(
        &self,
        tx: &Transaction,
        old: Option<&S>,
        new: Option<&S>,
        source: &S,
    ) -> Result<(), Error> {
        let key = D::key_of(source)?.into_entity_key();
        // No summary refers to a new source yet.
        let mut base = match old.is_some() || D::SHARDS == 1 {
            true => Some(self.hold(tx, &key, &key, source).await?),
            false => None,
        };
        let own = source.key()?;
        let is_named = match &base {
            Some(base) => base.value.link()?.is_some_and(|link| *link.as_entity_key() == own),
            None => false,
        };
        if let Some(base) = base.as_mut().filter(|_| is_named) {
            base.value.fill(new);
        }
        if D::SHARDS == 1 {
            if let Some(mut base) = base {
                match base.value.must_search(old, new) {
                    true => self.search(&mut base.value, &key, &own, new).await?,
                    false => base.value.follow(old, new),
                }
                base.write(tx, &key, &key, D::SEARCHES)?;
            }
            return Ok(());
        }
        let at = shard_key(&key, D::shard_of(source) % u64::from(D::SHARDS))?;
        let mut shard = self.hold(tx, &key, &at, source).await?;
        if shard.read.is_none() {
            shard.value.clear();
            shard.value.fill(None);
        }
        shard.value.follow(old, new);
        shard.write(tx, &key, &at, false)?;
        match base {
            Some(base) if is_named => base.write(tx, &key, &key, false),
            _ => Ok(()),
        }
    }

    /// Follows all sources of a summary again, one of them in its new state. The summary was read before: a source
    /// written in the meantime gives it another version.
    async fn search(
        &self,
        summary: &mut D,
        key: &EntityKey,
        own: &EntityKey,
        new: Option<&S>,
    ) -> Result<(), Error> {
        summary.clear();
        summary.follow(None, new);
        let mut sources =
            self.table.retyped::<S>().query(partition(key.partition.as_str())).stream();
        while let Some(source) = sources.try_next().await? {
            if source.loaded_key() != own && D::key_of(&source)?.as_entity_key() == key {
                summary.follow(None, Some(&source));
            }
        }
        Ok(())
    }

    /// The summary in a row, or an empty one.
    async fn hold(
        &self,
        tx: &Transaction,
        key: &EntityKey,
        at: &EntityKey,
        source: &S,
    ) -> Result<Held<D>, Error> {
        match tx.get(at.clone()).await? {
            Some(row) => Held::of_row(key, row),
            None => Ok(Held { value: D::empty(source), read: None, before: None }),
        }
    }

    fn place(&self, error: Error, operation: &'static str, key: &EntityKey) -> Error {
        write::place(&self.table, error, operation, key)
    }
}

impl<S: TableEntity + Sync, D: Summary<S>> Followers<S> for Summarized<S, D> {
    fn table(&self) -> &Table<Entity> {
        &self.table
    }

    fn follow<'a>(
        &'a self,
        tx: &'a Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.follow_all(tx, old, new))
    }
}

/// Copies from the source that a summary refers to, which must exist.
async fn fill_from_link<S: TableEntity + Sync, D: Summary<S>>(
    summary: &mut D,
    tx: &Transaction,
) -> Result<(), Error> {
    let Some(link) = summary.link()? else {
        summary.fill(None);
        return Ok(());
    };
    let linked = tx.get(link).await?.ok_or_else(|| Error::new(ErrorKind::BrokenLink))?;
    summary.fill(Some(&linked));
    // The source must not change before the copy is written.
    tx.guard(&linked)
}

impl<D: TableEntity> Held<D> {
    /// A new summary with the values of another.
    fn copy_of(value: &D) -> Result<Self, Error> {
        let (key, properties) = encode(value)?;
        Ok(Self { value: D::read(entity_of(&key, &properties))?, read: None, before: None })
    }

    /// Decodes the summary in a row or a shard.
    fn of_row(key: &EntityKey, row: Loaded<Entity>) -> Result<Self, Error> {
        let (partition, name) = (key.partition.as_str().to_owned(), key.row.as_str().to_owned());
        let value = D::read(row.clone().into_inner().moved(partition, name, &[INDEX_MARK]))?;
        let before = Some(encode(&value)?.1);
        Ok(Self { value, read: Some(row), before })
    }

    /// Applies `change`, which must leave alone what follows from the sources: what `clear` sets to nothing (P-5.2d).
    fn change(&mut self, change: impl Fn(&mut D), clear: fn(&mut D)) -> Result<(), Error> {
        let before = followed(&self.value, clear)?;
        change(&mut self.value);
        let after = followed(&self.value, clear)?;
        let differs = |(name, value): &(String, Value), other: &[(String, Value)]| {
            !other.iter().any(|(known, same)| known == name && same == value)
        };
        let gone = before.iter().find(|one| differs(one, &after));
        match gone.or_else(|| after.iter().find(|one| differs(one, &before))) {
            None => Ok(()),
            Some((name, _)) => {
                let error = Error::config(format!("{name} follows from the sources"));
                let hint = "update_summary changes other fields; recount makes the summary again";
                Err(error.with(|context| context.hint = Some(hint.into())))
            }
        }
    }

    /// Writes it, unless nothing has changed and it need not have another version.
    fn write(
        self,
        tx: &Transaction,
        key: &EntityKey,
        at: &EntityKey,
        always: bool,
    ) -> Result<(), Error> {
        let (own, properties) = encode(&self.value)?;
        if own != *key {
            return Err(Error::config("a summary cannot change its key"));
        }
        if !always && self.before.as_ref() == Some(&properties) {
            return Ok(());
        }
        let mut entity = entity_of(at, &properties);
        if at != key {
            // Neither a filter on the kind nor a typed query finds a shard (P-0.3).
            entity.set(INDEX_MARK, SHARD_MARK);
            if let Some(Kind { property, .. }) = D::KIND {
                entity.remove(property);
            }
        }
        match self.read {
            None => tx.insert(&entity),
            Some(mut row) => {
                *row = entity;
                tx.replace(&row)
            }
        }
    }
}

/// The properties of a summary that would be others, or none, if it had no sources.
fn followed<D: TableEntity>(value: &D, clear: fn(&mut D)) -> Result<Vec<(String, Value)>, Error> {
    let own = encode(value)?.1;
    let mut empty = Held::copy_of(value)?.value;
    clear(&mut empty);
    let empty = encode(&empty)?.1;
    let is_own = |one: &(&str, &Value)| !empty.values().any(|other| other == *one);
    let owned = |(name, value): (&str, &Value)| (name.to_owned(), value.clone());
    Ok(own.values().filter(is_own).map(owned).collect())
}

fn shard_key(key: &EntityKey, shard: u64) -> Result<EntityKey, Error> {
    Ok(EntityKey::parse(key.partition.as_str(), &format!("{}~{shard}", key.row.as_str()))?)
}

/// The end of the row keys of a summary and its shards.
fn shard_end(key: &EntityKey) -> String {
    format!("{}~:", key.row.as_str())
}

/// Whether a row is the summary itself or one of its shards.
fn is_own(key: &EntityKey, row_key: &str) -> bool {
    row_key.strip_prefix(key.row.as_str()).is_some_and(|rest| {
        let number = rest.strip_prefix('~').map(str::parse::<u32>);
        rest.is_empty() || matches!(number, Some(Ok(_)))
    })
}
