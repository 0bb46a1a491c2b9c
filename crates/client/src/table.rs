//! A table: the handle that reads and writes go through.

use crate::account::Account;
use crate::batch::Batch;
use crate::bulk::Bulk;
use crate::call::{About, Answer, Call, CallOptions, header};
use crate::codec::{self, encode, encode_read};
use crate::entity::{ETag, Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter;
use crate::get_many::GetMany;
use crate::index::Indexing;
use crate::key::IntoKey;
use crate::options::{read_options, verb_options};
use crate::query::{Query, Selection};
use crate::shape::{Declared, Rule, is_listed, uncounted, unlisted};
use crate::tables::{self, Tables};
use crate::transaction::{Transact, Transaction};
use crate::update::{Change, Update};
use crate::value::Value;
use crate::write::{Delete, Merge, Write, WriteVerb};
use crate::{BoxError, BoxFuture};
use http::StatusCode;
use http::header::ETAG;
use lazuli_model::{EntityKey, TableName};
use lazuli_wire::odata::json;
use lazuli_wire::uri::write_entity_uri;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;

/// A table whose entities are values of `T`. Cheap to clone.
///
/// ```no_run
/// use lazuli_client::prelude::*;
///
/// #[derive(TableEntity, Clone)]
/// #[table(name = "Players", partition = "{team}", row = "{number:03}", rename_all = "PascalCase")]
/// struct Player { team: String, number: u32, goals: i32, nick: Option<String> }
///
/// # async fn run(players: Table<Player>, stored: ETag) -> Result<(), Error> {
/// let keys = [Player::key("Reds", 7)?, Player::key("Reds", 9)?];
/// let mut found = players.get_many(keys).concurrency(8).await?;
/// let Some(Some(seven)) = found.drain(..).next() else { return Ok(()) };
///
/// let scored = Player { goals: seven.goals + 1, ..(*seven).clone() };
/// players.merge_changes(&seven, &scored).await?; // sends Goals, if nobody has changed the row
/// players.replace_if_match(&scored, &stored).await?; // under a version that was kept elsewhere
/// players.overwrite(&scored).await?; // whatever the version; the row must exist
/// players.upsert_merge(&scored).await?; // keeps properties that `Player` does not know
/// players.delete_if_match(Player::key("Reds", 9)?, &stored).await?;
/// # Ok(())
/// # }
/// ```
pub struct Table<T = Entity> {
    pub(crate) account: Account,
    pub(crate) name: TableName,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> Table<T> {
    pub(crate) fn new(account: Account, name: TableName) -> Self {
        const { assert!(T::PARTS == 0, "the table of a wide type is `tables.wide()`") };
        Self { account, name, of: PhantomData }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The same table with entities of another type.
    pub fn retyped<U: TableEntity>(&self) -> Table<U> {
        Table::new(self.account.clone(), self.name.clone())
    }

    /// The service that the table belongs to.
    pub fn tables(&self) -> Tables {
        self.account.unprotected().tables()
    }

    /// The same table, with entities encrypted before they are sent and decrypted after they are read.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn encrypted(
        mut self,
        encryption: impl Into<std::sync::Arc<crate::encryption::Encryption>>,
    ) -> Self {
        self.account.1 = crate::encryption::Protection::new(encryption.into());
        self
    }

    /// Reads one entity; `None` if it does not exist. The key determines the type: two strings give an
    /// [`Entity`].
    pub fn get<K: IntoKey>(&self, key: K) -> Get<K::Entity> {
        Get {
            account: self.account.clone(),
            name: self.name.clone(),
            key: key.into_key().map_err(Error::from),
            options: CallOptions::default(),
            of: PhantomData,
        }
    }

    /// Reads many entities by their keys, in parallel. The result is in the order of `keys`, with `None` for
    /// each entity that does not exist.
    pub fn get_many<K: IntoKey>(&self, keys: impl IntoIterator<Item = K>) -> GetMany<K::Entity> {
        let keys = keys.into_iter().map(IntoKey::into_key).collect();
        GetMany::new(self.account.clone(), self.name.clone(), keys)
    }

    /// Reads the entities in the partition or partitions that a filter names.
    ///
    /// A filter that names no partition fails with [`ErrorKind::WouldScan`] before any request: see
    /// [`Table::scan`].
    pub fn query(&self, selection: impl Into<Selection>) -> Query<T> {
        Query::new(self, selection.into(), false)
    }

    /// Reads whole partitions in parallel: one query each, in key order unless
    /// [`Query::unordered`] says otherwise.
    pub fn query_partitions<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Query<T> {
        self.query(filter::partitions(keys))
    }

    /// Reads the whole table. Use [`Query::filter`] to have only some entities returned.
    pub fn scan(&self) -> Query<T> {
        Query::new(self, Selection::all(), true)
    }

    /// Inserts an entity; fails with a conflict if its key is taken.
    ///
    /// If the answer is lost, the library checks what is stored. If the future is dropped before it is ready, the
    /// write may or may not have happened; that holds for every write.
    pub fn insert(&self, value: &T) -> Write {
        self.write(WriteVerb::Insert, value, None)
    }

    /// Replaces the entity if it has not changed since it was read. Properties that `T` does not
    /// know are removed. A value that has another key by now is refused.
    pub fn replace(&self, loaded: &Loaded<T>) -> Write {
        let etag = Some(loaded.etag().as_str());
        self.write_encoded(WriteVerb::Replace, loaded, encode_read(loaded), Some(loaded), etag)
            .based_on(loaded.write_ids())
    }

    /// Replaces the entity if it still has this version: for etags that were stored elsewhere.
    pub fn replace_if_match(&self, value: &T, etag: &ETag) -> Write {
        self.write(WriteVerb::Replace, value, Some(etag.as_str()))
    }

    /// Replaces the entity unconditionally; it must exist.
    pub fn overwrite(&self, value: &T) -> Write {
        self.write(WriteVerb::Overwrite, value, Some("*"))
    }

    /// Inserts or replaces the entity.
    pub fn upsert(&self, value: &T) -> Write {
        self.write(WriteVerb::Upsert, value, None)
    }

    /// Inserts the entity, or merges its properties into the existing one.
    pub fn upsert_merge(&self, value: &T) -> Write {
        self.write(WriteVerb::UpsertMerge, value, None)
    }

    /// Sets the named properties and leaves the others: `merge(key).set("Age", 35)`. The entity must exist, unless
    /// [`Merge::or_insert`] says otherwise; with `merge(&loaded)` it must not have changed since it was read.
    pub fn merge<K: IntoKey>(&self, key: K) -> Merge<K::Entity> {
        Merge::of(&self.account, &self.name, key, K::Entity::PROPERTIES)
            .under(const { Rule::of::<T>() }, K::Entity::IS_DYNAMIC)
            .unless(Self::bypassed::<K::Entity>())
    }

    /// Merges the differences between `old` and `new`, if the entity has not changed since it was read. Fails if a
    /// property would have to be removed: a merge cannot do that (C-9.4).
    pub fn merge_changes(&self, old: &Loaded<T>, new: &T) -> Merge<T> {
        let merge =
            Merge::new(&self.account, &self.name, Ok(old.loaded_key().clone()), T::PROPERTIES);
        match changes(old, new) {
            Ok(changes) => changes
                .into_iter()
                .fold(merge, |merge, (name, value)| merge.set_raw(name, value))
                .if_unchanged(old),
            Err(error) => merge.unless(Some(error)),
        }
    }

    /// Deletes an entity if it has not changed since it was read.
    pub fn delete(&self, loaded: &Loaded<T>) -> Delete {
        let etag = Some(loaded.etag().as_str());
        Delete::new(&self.account, &self.name, Ok(loaded.loaded_key().clone()), etag)
            .indexed(Indexing::of_delete(Some(loaded), etag))
            .unless(Self::bypassed::<T>().or_else(|| dynamic::<T>(loaded)))
    }

    /// Deletes an entity if it still has this version.
    pub fn delete_if_match<K: IntoKey>(&self, key: K, etag: &ETag) -> Delete {
        let etag = Some(etag.as_str());
        Delete::new(&self.account, &self.name, key.into_key(), etag)
            .indexed(Indexing::of_delete::<K::Entity>(None, etag))
            .unless(Self::bypassed::<K::Entity>())
    }

    /// Deletes an entity if it exists.
    pub fn delete_key<K: IntoKey>(&self, key: K) -> Delete {
        Delete::new(&self.account, &self.name, key.into_key(), None)
            .indexed(Indexing::of_delete::<K::Entity>(None, None))
            .unless(Self::bypassed::<K::Entity>())
    }

    /// Reads an entity, applies `change`, and writes it back if it has not changed in the meantime; otherwise
    /// starts over.
    pub fn update_with<K, F>(&self, key: K, change: F) -> Update<K::Entity, F>
    where
        K: IntoKey,
        F: FnMut(&mut K::Entity) -> Result<Change, BoxError> + Send + 'static,
    {
        Update::new(self.retyped(), key.into_key(), change)
            .under(Rule::of::<T>())
            .unless(Self::bypassed::<K::Entity>())
    }

    /// Runs `work`, which reads and writes one partition. Its writes commit together if none of the entities
    /// it writes has changed since it read them; otherwise `work` runs again.
    ///
    /// ```no_run
    /// # use lazuli_client::{Entity, Error, Table};
    /// # async fn run(departments: Table) -> Result<(), Error> {
    /// departments
    ///     .transact("Sales", |tx| async move {
    ///         let Some(mut sales) = tx.get(("Sales", "Department")).await? else { return Ok(()) };
    ///         let count: i32 = sales.get("EmployeeCount")?;
    ///         sales.set("EmployeeCount", count + 1);
    ///         tx.replace(&sales)?;
    ///         tx.insert(&Entity::new("Sales", "00011").with("LastName", "Hall"))
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn transact<'f, F, W, R>(&self, partition_key: &str, work: F) -> Transact<'f, F, W, R>
    where
        F: FnMut(Transaction) -> W + Send + 'f,
        W: Future<Output = Result<R, Error>> + Send + 'f,
        R: Send + 'f,
    {
        Transact::new(self, partition_key, work)
    }

    /// Begins a transaction: up to 100 writes to one partition, all or nothing.
    pub fn batch(&self, partition_key: &str) -> Batch<T> {
        Batch::new(self, partition_key)
    }

    /// Begins many writes, to any partitions. **Not atomic**: they become several transactions.
    pub fn bulk(&self) -> Bulk<T> {
        Bulk::new(self)
    }

    fn write(&self, verb: WriteVerb, value: &T, if_match: Option<&str>) -> Write {
        self.write_encoded(verb, value, encode(value), None, if_match)
    }

    /// Writes an encoded value.
    pub(crate) fn write_encoded(
        &self,
        verb: WriteVerb,
        value: &T,
        prepared: Result<(EntityKey, crate::entity::Properties), Error>,
        loaded: Option<&Loaded<T>>,
        if_match: Option<&str>,
    ) -> Write {
        let indexing = Indexing::of_value(verb, value, &prepared, loaded, if_match);
        let prepared = prepared.map(|(key, properties)| (key, verb.stored(properties)));
        let write = Write::new(&self.account, &self.name, verb, prepared, if_match);
        write.keeping(value.shape().write_ids).indexed(indexing)
    }

    /// The error of a write by an untyped key, which would leave the copies of an indexed type as they are, and of any write
    /// of a model: only a table that is retyped has such writes (C-9.5).
    fn bypassed<E: TableEntity>() -> Option<Error> {
        if T::IS_MODEL {
            return Some(uncounted());
        }
        if const { is_listed::<E>() } {
            return Some(unlisted());
        }
        if E::IS_DYNAMIC { Rule::of::<T>().check().err() } else { None }
    }
}

/// The error of writing an untyped entity to a union whose types need more than a plain write.
fn dynamic<T: TableEntity>(value: &T) -> Option<Error> {
    if value.shape().is_dynamic { Rule::of::<T>().check().err() } else { None }
}

/// The properties of `new` that are missing or different in `old`.
fn changes<T: TableEntity>(old: &Loaded<T>, new: &T) -> Result<Vec<(String, Value)>, Error> {
    let ((_, before), (key, after)) = (encode(&**old)?, encode(new)?);
    if key != *old.loaded_key() {
        return Err(Error::config("a merge cannot change the key"));
    }
    if let Some((gone, _)) = before.values().find(|(name, _)| !after.has(name)) {
        let error = Error::config(format!("a merge cannot remove the property {gone}"));
        return Err(error.with(|context| context.hint = Some("use replace".into())));
    }
    let is_new = |(name, value): &(&str, &Value)| {
        !before.values().any(|(known, same)| known == *name && same == *value)
    };
    Ok(after
        .values()
        .filter(is_new)
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect())
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { account: self.account.clone(), name: self.name.clone(), of: PhantomData }
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name.as_str()).finish_non_exhaustive()
    }
}

/// The path of an entity.
pub(crate) fn entity_path(table: &TableName, key: &EntityKey) -> String {
    // Room for names and keys of a usual length without escapes.
    let mut path = Vec::with_capacity(128);
    write_entity_path(&mut path, table, key);
    String::from_utf8(path).unwrap_or_default()
}

/// Appends the path of an entity.
pub(crate) fn write_entity_path(out: &mut Vec<u8>, table: &TableName, key: &EntityKey) {
    out.push(b'/');
    write_entity_uri(out, table.as_str(), key.partition.as_str(), key.row.as_str());
}

/// A read of one entity.
#[must_use = "nothing is sent before `.await`"]
pub struct Get<T> {
    account: Account,
    name: TableName,
    key: Result<EntityKey, Error>,
    options: CallOptions,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> Get<T> {
    read_options!();

    pub(crate) fn with_options(self, options: CallOptions) -> Self {
        Self { options, ..self }
    }

    /// Makes an absent entity an error: [`ErrorKind::NotFound`].
    pub async fn required(self) -> Result<Loaded<T>, Error> {
        let Self { account, name, key, options, of: _ } = self;
        let key = key.map_err(|error| error.at("get", Some(name.as_str()), None))?;
        let found = get(&account, &name, &key, options).await?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound).at("get", Some(name.as_str()), Some(&key))
        })
    }

    async fn run(self) -> Result<Option<Loaded<T>>, Error> {
        let key = self.key.map_err(|error| error.at("get", Some(self.name.as_str()), None))?;
        get(&self.account, &self.name, &key, self.options).await
    }
}

impl<T: TableEntity> IntoFuture for Get<T> {
    type Output = Result<Option<Loaded<T>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Reads one entity.
pub(crate) async fn get<T: TableEntity>(
    account: &Account,
    table: &TableName,
    key: &EntityKey,
    options: CallOptions,
) -> Result<Option<Loaded<T>>, Error> {
    let answer = read_point(account, table, key, String::new(), options).await?;
    match answer {
        Some(answer) => answer.decode(account, table, key).await,
        None => Ok(None),
    }
}

/// The answer to a point read.
pub(crate) struct PointAnswer(Answer);

impl PointAnswer {
    /// The value of the entity; `None` if the type does not count this row as an entity.
    pub(crate) async fn decode<T: TableEntity>(
        &self,
        account: &Account,
        table: &TableName,
        key: &EntityKey,
    ) -> Result<Option<Loaded<T>>, Error> {
        let loaded = if account.1.is_some() {
            codec::open(account, self.raw()?, Declared::by::<T>(), &[], &codec::decode).await
        } else {
            self.entity().and_then(|entity| {
                Loaded::from_answer(entity, self.etag(), T::PROPERTIES, &codec::decode)
            })
        };
        loaded.map_err(|error| error.at("get", Some(table.as_str()), Some(key)))
    }

    /// The entity as it is stored.
    pub(crate) fn raw(&self) -> Result<Loaded<Entity>, Error> {
        Loaded::raw(self.entity()?, self.etag(), &[])
    }

    pub(crate) fn entity(&self) -> Result<json::AnsweredEntity<'_>, Error> {
        json::read_answered_entity(&self.0.body).map_err(Error::protocol)
    }

    /// The tag in the headers.
    pub(crate) fn etag(&self) -> Option<&str> {
        header(&self.0.headers, &ETAG)
    }
}

/// Reads one entity, with the parameters of `query`.
pub(crate) async fn read_point(
    account: &Account,
    table: &TableName,
    key: &EntityKey,
    query: String,
    options: CallOptions,
) -> Result<Option<PointAnswer>, Error> {
    let place = |error: Error| error.at("get", Some(table.as_str()), Some(key));
    let about = About { expected: Some(StatusCode::NOT_FOUND), ..About::default() };
    #[cfg(feature = "patterns")]
    let about = About { subjects: account.subjects([("get", key, None)]), ..about };
    let call = Call { options, about, ..tables::read("get", entity_path(table, key), query) };
    let answer = account.exchange(&call).await.map_err(place)?;
    if answer.status == StatusCode::OK {
        return Ok(Some(PointAnswer(answer)));
    }
    let error = answer.into_error("get");
    if error.is_absence() { Ok(None) } else { Err(place(error)) }
}
