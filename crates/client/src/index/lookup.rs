//! Reads by index (P-1.8).

use super::copies::{as_primary, is_moving};
use crate::BoxFuture;
use crate::account::Account;
use crate::codec;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::index::IndexDef;
use crate::key_range::{KeyRange, Ranged};
use crate::options::{CallOptions, read_options, verb_options};
use crate::query::{Query, Selection};
use crate::table::{self, Table};
use crate::value::{DecodeError, ValueError};
use lazuli_model::{EntityKey, TableName, Timestamp};
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// An index of an entity type. The derive makes one for each `#[index(..)]`.
pub trait Index: Ranged + Sized + 'static {
    /// The indexed type.
    type Entity: TableEntity;

    /// The result of a lookup: the type itself, or a struct with the fields that the index projects.
    type Row: Send + 'static;

    /// The declaration of the index.
    const DEF: &'static IndexDef;

    /// Decodes a copy, which has been given the keys of its primary.
    fn read(copy: Entity) -> Result<Self::Row, DecodeError>;
}

/// The key of one copy of an index: `Employee::by_email(..)`.
pub struct IndexKey<I> {
    key: EntityKey,
    of: PhantomData<fn() -> I>,
}

impl<I> IndexKey<I> {
    #[doc(hidden)]
    pub fn new(key: EntityKey) -> Self {
        Self { key, of: PhantomData }
    }

    /// The partition key and the row key.
    pub fn as_entity_key(&self) -> &EntityKey {
        &self.key
    }
}

impl<I> Clone for IndexKey<I> {
    fn clone(&self) -> Self {
        Self::new(self.key.clone())
    }
}

impl<I> fmt::Debug for IndexKey<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// A range of copies of an index.
pub trait IndexQuery {
    /// The index.
    type Index: Index;

    /// The range.
    #[doc(hidden)]
    fn into_range(self) -> KeyRange<Self::Index>;
}

impl<I: Index> IndexQuery for KeyRange<I> {
    type Index = I;

    fn into_range(self) -> Self {
        self
    }
}

/// The result of a lookup, with the key of the entity itself.
///
/// It has no version, so it cannot be written back; [`GetBy::for_update`] reads the entity itself.
///
/// ```no_run
/// use lazuli_client::prelude::*;
///
/// #[derive(TableEntity, Clone)]
/// #[table(name = "Staff", kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// #[index(email, row = "email_{email}", unique)]
/// struct Employee { department: String, id: u32, email: String, age: i32 }
///
/// # async fn run(staff: Table<Employee>) -> Result<(), Error> {
/// let by_email = Employee::by_email("Sales", "jonesj@contoso.com")?;
/// if let Some(found) = staff.get_by(by_email.clone()).await? {
///     println!("{:?} {}, copied at {:?}", found.primary_key(), found.age, found.as_of());
/// }
/// // To change it, its own version is needed.
/// if let Some(mut employee) = staff.get_by(by_email).for_update().await? {
///     employee.age += 1;
///     staff.replace(&employee).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed<R> {
    row: R,
    key: EntityKey,
    as_of: Option<Timestamp>,
}

impl<R> Indexed<R> {
    /// The key of the entity itself.
    pub fn primary_key(&self) -> &EntityKey {
        &self.key
    }

    /// The version of the entity that the copy was made from, for an index in other partitions.
    pub fn as_of(&self) -> Option<Timestamp> {
        self.as_of
    }

    /// The result without the key.
    pub fn into_inner(self) -> R {
        self.row
    }
}

impl<R> Deref for Indexed<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.row
    }
}

/// Decodes a copy; `None` if its entity does not exist yet.
pub(crate) fn read<I: Index>(copy: Entity) -> Result<Option<Indexed<I::Row>>, Error> {
    if is_moving(&copy) {
        return Ok(None);
    }
    let stranger = copy.decode_error(codec::INDEX_MARK, ValueError::Missing);
    let Some((key, source, entity)) = as_primary(copy, I::DEF.mark) else {
        return Err(stranger.into());
    };
    let as_of = source.and_then(Timestamp::from_ticks);
    Ok(Some(Indexed { row: I::read(entity)?, key, as_of }))
}

/// The table with the copies of an index.
fn table_of(def: &IndexDef, own: &TableName) -> Result<TableName, Error> {
    match def.table {
        Some(name) => crate::tables::parse(name),
        None => Ok(own.clone()),
    }
}

impl<T: TableEntity> Table<T> {
    /// Reads one entity by an index; `None` if no entity has the value. One point read.
    pub fn get_by<I: Index<Entity = T>>(&self, key: IndexKey<I>) -> GetBy<I> {
        GetBy {
            account: self.account.clone(),
            name: self.name.clone(),
            key: key.key,
            options: CallOptions::default(),
            of: PhantomData,
        }
    }

    /// Reads entities by an index, in the order of the index.
    pub fn query_by<Q: IndexQuery<Index = I>, I: Index<Entity = T>>(
        &self,
        range: Q,
    ) -> Query<Indexed<I::Row>> {
        let selection = Selection::from(range.into_range());
        let (name, selection) = match table_of(I::DEF, &self.name) {
            Ok(name) => (name, selection),
            Err(error) => (self.name.clone(), selection.refused(error)),
        };
        let table: Table<Entity> = Table::new(self.account.clone(), name);
        let decode = |copy: Entity| Ok(read::<I>(copy)?.map(codec::Decoded::plain));
        Query::new(&table, selection, false).decoded(Vec::new(), Arc::new(decode))
    }
}

/// A read of one entity by an index.
#[must_use = "nothing is sent before `.await`"]
pub struct GetBy<I> {
    account: Account,
    name: TableName,
    key: EntityKey,
    options: CallOptions,
    of: PhantomData<fn() -> I>,
}

impl<I: Index> GetBy<I> {
    read_options!();

    /// Also reads the entity itself, with its version, so that it can be written back. Two point reads.
    pub async fn for_update(self) -> Result<Option<Loaded<I::Entity>>, Error> {
        let (account, name, options) =
            (self.account.clone(), self.name.clone(), self.options.clone());
        let Some(found) = self.run().await? else { return Ok(None) };
        table::get(&account, &name, found.primary_key(), options).await
    }

    async fn run(self) -> Result<Option<Indexed<I::Row>>, Error> {
        let name = table_of(I::DEF, &self.name)?;
        let copy: Option<Loaded<Entity>> =
            table::get(&self.account, &name, &self.key, self.options).await?;
        let place = |error: Error| error.at("get_by", Some(name.as_str()), Some(&self.key));
        copy.map_or(Ok(None), |copy| read::<I>(copy.into_inner()).map_err(place))
    }
}

impl<I: Index> IntoFuture for GetBy<I> {
    type Output = Result<Option<Indexed<I::Row>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
