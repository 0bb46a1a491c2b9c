//! Functions that read and write one partition, retried until their writes commit together (C-10.4, C-10.5).

use crate::BoxFuture;
use crate::account::Account;
use crate::batch::{self, Operation, Trust};
use crate::call::CallOptions;
use crate::codec::{encode, encode_read};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{CopyRow, blind, fold, in_partition, may_be_indexed};
use crate::key::{IntoKey, Key};
use crate::options::verb_options;
use crate::query::{Query, Selection};
use crate::shape::{Rule, is_indexed, is_listed, unlisted};
use crate::table::Table;
use crate::update::pause;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{EntityKey, TableName};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod row;

use row::Row;

const ATTEMPTS: u32 = 8;

/// A transaction while its function runs: reads go to the table, writes are collected until the end. Cheap to clone.
///
/// An entity that is read but not written is not checked at the end, unless [`Transaction::guard`] is called: two
/// transactions that each read what the other writes may both be carried out.
#[derive(Clone, Debug)]
pub struct Transaction(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Table<Entity>,
    partition: String,
    /// The rule that the table's type imposes on untyped entities.
    rule: Rule,
    rows: Mutex<Vec<Row>>,
}

impl Transaction {
    fn new(table: Table<Entity>, partition: &str, rule: Rule) -> Self {
        let partition = partition.to_owned();
        Self(Arc::new(Inner { table, partition, rule, rows: Mutex::default() }))
    }

    /// Reads an entity as this transaction will leave it; `None` if it does not exist.
    pub fn get<K: IntoKey>(&self, key: K) -> TransactionGet<K::Entity> {
        let key = key.into_key().map_err(Error::from);
        TransactionGet { transaction: self.clone(), key, of: PhantomData }
    }

    /// Reads entities of the partition. Allowed only before the first write: a query does not see this transaction's
    /// writes, so a later query fails.
    pub fn query<T: TableEntity>(&self, selection: impl Into<Selection>) -> Query<T> {
        let query = self.0.table.retyped::<T>().query(selection);
        if self.rows().iter().all(Row::is_unchanged) {
            return query;
        }
        query.failing(Error::config("a transaction queries before its first write"))
    }

    /// Inserts an entity; its key must be free.
    pub fn insert<T: TableEntity>(&self, value: &T) -> Result<(), Error> {
        let (key, properties) = self.encoded(value, encode(value))?;
        let copies = in_partition(value, &key, &properties)?;
        self.change(key, |row| row.index(&[], copies, |row| row.insert(properties)))
    }

    /// Writes an entity that was read.
    pub fn replace<T: TableEntity>(&self, loaded: &Loaded<T>) -> Result<(), Error> {
        let (key, properties) = self.encoded(&**loaded, encode_read(loaded))?;
        let copies = in_partition(&**loaded, &key, &properties)?;
        let old = copies_before(loaded)?;
        self.change(key, |row| {
            row.index(old, copies, |row| row.replace(properties, loaded.etag(), loaded.write_ids()))
        })
    }

    /// Inserts or replaces an entity.
    pub fn upsert<T: TableEntity>(&self, value: &T) -> Result<(), Error> {
        let (key, properties) = self.encoded(value, encode(value))?;
        if !value.shape().indexes.is_empty() || may_be_indexed::<T>(&key) {
            return Err(blind(key));
        }
        self.change(key, |row| row.upsert(properties))
    }

    /// Removes an entity that was read.
    pub fn delete<T: TableEntity>(&self, loaded: &Loaded<T>) -> Result<(), Error> {
        if const { is_listed::<T>() } {
            return Err(unlisted());
        }
        self.check(&**loaded)?;
        let old = copies_before(loaded)?;
        self.change(loaded.loaded_key().clone(), |row| {
            row.index(old, Vec::new(), |row| row.delete(loaded.etag(), loaded.write_ids()))
        })
    }

    /// Makes the transaction fail if this entity changes before its end. Costs one of its 100 operations, and gives
    /// the entity a new version.
    ///
    /// ```no_run
    /// # use lazuli_client::{Entity, Error, Table};
    /// # async fn run(shifts: Table) -> Result<(), Error> {
    /// // Of two doctors on call, one may go home. Both asking at once would see the other on call.
    /// shifts
    ///     .transact("Ward 3", |tx| async move {
    ///         let other = tx.get(("Ward 3", "Hall")).required().await?;
    ///         if other.get::<bool>("OnCall")? {
    ///             tx.guard(&other)?;
    ///             let mut own = tx.get(("Ward 3", "Cao")).required().await?;
    ///             own.set("OnCall", false);
    ///             tx.replace(&own)?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn guard<T>(&self, loaded: &Loaded<T>) -> Result<(), Error> {
        self.change(loaded.loaded_key().clone(), |row| row.guard(loaded.etag(), loaded.write_ids()))
    }

    /// Fails if the types of the table ask for more, of all writes or of those of entities of any shape.
    fn check<T: TableEntity>(&self, value: &T) -> Result<(), Error> {
        let checked = if value.shape().is_dynamic {
            Rule::of::<T>().check()?;
            self.0.rule.check()
        } else {
            self.0.rule.check_counts()
        };
        checked.map_err(|error| error.at("transact", Some(self.0.table.name()), None))
    }

    /// What a value was encoded as, under the rules of the table.
    fn encoded<T: TableEntity>(
        &self,
        value: &T,
        encoded: Result<(EntityKey, Properties), Error>,
    ) -> Result<(EntityKey, Properties), Error> {
        self.check(value)?;
        let (key, mut properties) =
            encoded.map_err(|error| error.at("transact", Some(self.0.table.name()), None))?;
        properties.settle(self.0.rule.secrets, value.shape().is_dynamic);
        Ok((key, properties))
    }

    fn change(
        &self,
        key: EntityKey,
        change: impl FnOnce(&mut Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = |error: Error| error.at("transact", Some(self.0.table.name()), None);
        if key.partition.as_str() != self.0.partition {
            let error = Error::config("a transaction has one partition");
            return Err(place(error.with(|context| context.key = Some(key))));
        }
        let mut rows = self.rows();
        let at = rows.iter().position(|row| *row.key() == key);
        if at.is_none() && rows.len() >= BATCH_OPERATIONS_MAX {
            return Err(place(Error::config("a transaction has at most 100 operations")));
        }
        let at = at.unwrap_or_else(|| {
            rows.push(Row::untouched(key));
            rows.len() - 1
        });
        match rows.get_mut(at) {
            Some(row) => change(row).map_err(place),
            None => Ok(()),
        }
    }

    /// All writes: of the entities, then of their index copies.
    fn operations(&self) -> Result<Vec<Operation>, Error> {
        let rows = self.rows();
        let copies = fold(rows.iter().flat_map(Row::copy_changes).collect())?;
        Ok(rows.iter().filter_map(Row::operation).chain(copies).collect())
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The copies that an entity had when it was read; an error if that is unknown and it may have some.
fn copies_before<T: TableEntity>(loaded: &Loaded<T>) -> Result<&[CopyRow], Error> {
    match loaded.copies() {
        Some(copies) => Ok(copies),
        None if is_indexed::<T>() => Err(blind(loaded.loaded_key().clone())),
        None => Ok(&[]),
    }
}

/// A read of one entity in a transaction.
#[must_use = "nothing is sent before `.await`"]
pub struct TransactionGet<T> {
    transaction: Transaction,
    key: Result<EntityKey, Error>,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> TransactionGet<T> {
    /// Makes an absent entity an error: [`ErrorKind::NotFound`].
    pub async fn required(self) -> Result<Loaded<T>, Error> {
        let (key, table) = (self.key.as_ref().ok().cloned(), self.transaction.0.table.clone());
        let found = self.run().await?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound).at("get", Some(table.name()), key.as_ref())
        })
    }

    async fn run(self) -> Result<Option<Loaded<T>>, Error> {
        let key = self.key?;
        {
            let rows = self.transaction.rows();
            if let Some(row) = rows.iter().find(|row| *row.key() == key)
                && let Some(found) = row.read()
            {
                return found;
            }
        }
        self.transaction.0.table.get(Key::<T>::new(key)).await
    }
}

impl<T: TableEntity> IntoFuture for TransactionGet<T> {
    type Output = Result<Option<Loaded<T>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Names the type parameters of [`Transact`] that no field uses.
type Of<'f, W, R> = fn(&'f ()) -> (W, R);

/// A function that runs until its transaction commits.
#[must_use = "nothing is sent before `.await`"]
pub struct Transact<'f, F, W, R> {
    account: Account,
    table: TableName,
    partition: String,
    rule: Rule,
    work: F,
    attempts: u32,
    options: CallOptions,
    of: PhantomData<Of<'f, W, R>>,
}

impl<'f, F, W, R> Transact<'f, F, W, R>
where
    F: FnMut(Transaction) -> W + Send + 'f,
    W: Future<Output = Result<R, Error>> + Send + 'f,
    R: Send + 'f,
{
    pub(crate) fn new<T: TableEntity>(table: &Table<T>, partition: &str, work: F) -> Self {
        Self {
            account: table.account.clone(),
            table: table.name.clone(),
            partition: partition.to_owned(),
            rule: Rule::of::<T>(),
            work,
            attempts: ATTEMPTS,
            options: CallOptions::default(),
            of: PhantomData,
        }
    }

    /// The number of attempts before it fails with [`ErrorKind::Contended`]; eight by default.
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    verb_options!();

    async fn run(mut self) -> Result<R, Error> {
        let place =
            |error: Error, table: &TableName| error.at("transact", Some(table.as_str()), None);
        let env = self.account.0.env.clone();
        let deadline = self.options.deadline(&env);
        for attempts in 1..=self.attempts {
            let table = Table::new(self.account.clone(), self.table.clone());
            let transaction = Transaction::new(table, &self.partition, self.rule);
            let result = (self.work)(transaction.clone()).await?;
            let operations = transaction.operations().map_err(|error| place(error, &self.table))?;
            let options = self.options.until(deadline, &env);
            // Whoever took something out by deleting it has it, and nobody else.
            let (account, table, own) = (&self.account, &self.table, env.guid());
            let commit = batch::send_trusting(account, table, operations, own, Trust::Ids, options);
            match commit.await {
                Ok(_) => return Ok(result),
                // A second execution is worse than an unknown outcome (C-10.3).
                Err(error) if error.may_have_been_applied() => {
                    return Err(place(error.with_kind(ErrorKind::OutcomeUnknown), &self.table));
                }
                Err(error) if is_conflict(&error) && attempts < self.attempts => {
                    env.sleep(pause(&env, attempts)).await;
                }
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(place(error, &self.table)),
            }
        }
        Err(place(Error::new(ErrorKind::Contended { attempts: self.attempts }), &self.table))
    }
}

/// Whether another client came in between: what was read is out of date.
fn is_conflict(error: &Error) -> bool {
    let is_of_a_row = matches!(error.kind(), ErrorKind::Batch { .. });
    is_of_a_row && (error.is_conflict() || error.is_precondition_failed() || error.is_not_found())
}

impl<'f, F, W, R> IntoFuture for Transact<'f, F, W, R>
where
    F: FnMut(Transaction) -> W + Send + 'f,
    W: Future<Output = Result<R, Error>> + Send + 'f,
    R: Send + 'f,
{
    type Output = Result<R, Error>;
    type IntoFuture = BoxFuture<'f, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// An entity with these properties, as if it had been read.
pub(crate) fn entity_of(key: &EntityKey, properties: &Properties) -> Entity {
    let entity = Entity::new(key.partition.as_str(), key.row.as_str());
    properties
        .values()
        .fold(entity, |entity, (name, value)| entity.with(name.to_owned(), value.clone()))
}
