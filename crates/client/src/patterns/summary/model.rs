//! A union whose types declare summaries of each other (P-15.3).

use super::write::{self, Followers};
use super::{ATTEMPTS, Held, Summarized, Summary};
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::patterns::jobs::{JobError, MoveOutcome};
use crate::patterns::relations::rehome::{self, Summaries};
use crate::table::Table;
use crate::tables::Tables;
use crate::transaction::Transaction;
use crate::union::Union;
use crate::update::Change;
use crate::{BoxError, BoxFuture};
use std::fmt;
use std::marker::PhantomData;

impl Tables {
    /// A table of all types of a union with `#[table(model)]`: writes of one type update what the others declare
    /// about it, with `count`, `sum`, `latest` and `copy`.
    pub fn model<U: Model>(&self, name: &str) -> Result<ModelTable<U>, Error> {
        Ok(ModelTable { table: self.table(name)?, of: PhantomData })
    }
}

/// A union with `#[table(model)]`, which implements it.
pub trait Model: Union {}

/// A type of the model `U`. Implemented by `#[table(model)]`.
pub trait MemberOf<U>: TableEntity + Sync {
    /// Whether it summarizes a type of the model.
    const IS_SUMMARY: bool;

    /// Updates the summaries of it that types of the model declare.
    fn follow<'a>(
        table: &'a Table<Entity>,
        tx: &'a Transaction,
        old: Option<&'a Self>,
        new: Option<&'a Self>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Resets the values that it maintains.
    fn clear(&mut self);

    /// Copies from the entities that it refers to, and guards them.
    fn fill<'a>(&'a mut self, tx: &'a Transaction) -> BoxFuture<'a, Result<(), Error>>;
}

/// The table of a model. Cheap to clone.
///
/// ```
/// # use lazuli_client::prelude::*;
/// #[derive(TableEntity)]
/// #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// #[derive(TableEntity)]
/// #[table(kind = "Department", partition = "{department}", row = "Department")]
/// struct Department {
///     department: String,
///     #[table(count(Employee))]
///     employee_count: i32,
///     manager_id: Option<u32>,
///     #[table(copy(Employee.email, by = manager_id))]
///     manager_email: Option<String>,
/// }
///
/// #[derive(TableUnion)]
/// #[table(model)]
/// enum Staff {
///     Employee(Employee),
///     Department(Department),
/// }
///
/// # async fn run(tables: Tables) -> Result<(), Error> {
/// let staff = tables.model::<Staff>("Employees")?;
/// let don = Employee { department: "Sales".into(), id: 152, email: "donh@contoso.com".into() };
/// staff.insert(&don).await?;                                                       // and the count, in one transaction
/// staff.update_summary(Department::key("Sales")?, |d| d.manager_id = Some(152)).await?;    // and the copy
/// # Ok(())
/// # }
/// ```
///
/// A summary is changed by `update_summary`. Replacing or deleting it would lose its counts: a program that does so
/// does not build. (This is checked during code generation, so `cargo check` does not report it.)
pub struct ModelTable<U> {
    table: Table<Entity>,
    of: PhantomData<fn() -> U>,
}

impl<U> Clone for ModelTable<U> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), of: PhantomData }
    }
}

impl<U> fmt::Debug for ModelTable<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelTable").field(&self.table).finish()
    }
}

impl<U: Model, S: MemberOf<U>> Followers<S> for ModelTable<U> {
    fn table(&self) -> &Table<Entity> {
        &self.table
    }

    fn follow<'a>(
        &'a self,
        tx: &'a Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        S::follow(&self.table, tx, old, new)
    }
}

impl<U: Model, S: MemberOf<U>> Summaries<S> for ModelTable<U> {
    fn leave<'a>(
        &'a self,
        loaded: &'a Loaded<S>,
        note: &'a Entity,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(write::leave(self, loaded, note))
    }

    fn join<'a>(&'a self, staged: &'a Loaded<S>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(write::join(self, staged))
    }
}

impl<U: Model> ModelTable<U> {
    /// Inserts an entity, and updates its summaries. A summary is inserted with empty counts, whatever its value
    /// says: if it had sources, it would exist already.
    pub async fn insert<T: MemberOf<U>>(&self, entity: &T) -> Result<(), Error> {
        if !T::IS_SUMMARY {
            return write::insert(self, entity).await;
        }
        let key = entity.key()?;
        let key = &key;
        let insert = self.table.transact(key.partition.as_str(), |tx| async move {
            if tx.get(key.clone()).await?.is_some() {
                return Err(Error::new(ErrorKind::Conflict));
            }
            let mut held = Held::copy_of(entity)?;
            held.value.clear();
            held.value.fill(&tx).await?;
            held.write(&tx, key, key, true)
        });
        let inserted = insert.attempts(ATTEMPTS).await;
        inserted.map_err(|error| write::place(&self.table, error, "insert", key))
    }

    /// Replaces an entity that was read, if it has not changed since. Not a summary: see [`ModelTable::update_summary`].
    pub async fn replace<T: MemberOf<U>>(&self, loaded: &Loaded<T>) -> Result<(), Error> {
        const { assert!(!T::IS_SUMMARY, "a summary is changed by `update_summary`") };
        write::replace(self, loaded).await
    }

    /// Deletes an entity that was read, if it has not changed since. Not a summary: its sources would not be counted
    /// again.
    pub async fn delete<T: MemberOf<U>>(&self, loaded: &Loaded<T>) -> Result<(), Error> {
        const { assert!(!T::IS_SUMMARY, "a summary stays as long as its sources") };
        write::delete(self, loaded).await
    }

    /// Reads an entity, applies `change`, and writes it and its summaries.
    pub async fn update_with<T, F>(&self, key: Key<T>, change: F) -> Result<(), Error>
    where
        T: MemberOf<U>,
        F: Fn(&mut T) -> Result<Change, BoxError> + Send + Sync,
    {
        const { assert!(!T::IS_SUMMARY, "a summary is changed by `update_summary`") };
        write::update_with(self, key, change).await
    }

    /// A step of a job: gives the entity at `from` the key `to`, as [`relations::rehome`](crate::patterns::relations::rehome)
    /// does. It leaves the summaries of the old partition in the transaction that takes it away, and comes to those of the new
    /// one in the transaction that makes it visible there; between the two no summary counts it.
    pub async fn rehome<T: MemberOf<U>>(
        &self,
        from: Key<T>,
        to: Key<T>,
        change: impl Fn(&mut T) + Sync,
    ) -> Result<MoveOutcome, JobError> {
        const { assert!(!T::IS_SUMMARY, "a summary stays with its sources") };
        rehome::run(&self.table.retyped(), Some(self), from, to, change).await
    }

    /// Reads an entity that [`ModelTable::rehome`] may be moving from one key to the other, and finishes a move that was
    /// committed: see [`relations::find_rehomed`](crate::patterns::relations::find_rehomed).
    pub async fn find_rehomed<T: MemberOf<U>>(
        &self,
        from: Key<T>,
        to: Key<T>,
    ) -> Result<Option<Loaded<T>>, Error> {
        const { assert!(!T::IS_SUMMARY, "a summary stays with its sources") };
        rehome::find(&self.table.retyped(), Some(self), from, to).await
    }

    /// Changes what a summary does not follow, such as which entity it names. One that it names is read in the same
    /// transaction, must exist ([`ErrorKind::BrokenLink`]), and is copied from. A change of what it follows, such as a count,
    /// is refused.
    pub async fn update_summary<D, F>(&self, key: Key<D>, change: F) -> Result<(), Error>
    where
        D: MemberOf<U>,
        F: Fn(&mut D) + Send + Sync,
    {
        let (key, change) = (&key.into_entity_key(), &change);
        let update = self.table.transact(key.partition.as_str(), |tx| async move {
            let row = tx.get(key.clone()).await?;
            let row = row.ok_or_else(|| Error::new(ErrorKind::NotFound))?;
            let mut held = Held::<D>::of_row(key, row)?;
            held.change(change, <D as MemberOf<U>>::clear)?;
            held.value.fill(&tx).await?;
            held.write(&tx, key, key, false)
        });
        let updated = update.attempts(ATTEMPTS).await;
        updated.map_err(|error| write::place(&self.table, error, "update_summary", key))
    }

    /// Reads an entity. A summary with shards is read by [`Summarized::summary`].
    pub async fn get<T: MemberOf<U>>(&self, key: Key<T>) -> Result<Option<Loaded<T>>, Error> {
        self.table.get(key).await
    }

    /// A type and its summary by another: to add up shards, to verify and to recount.
    pub fn summarized<S: MemberOf<U>, D: Summary<S> + MemberOf<U>>(&self) -> Summarized<S, D> {
        Summarized::new(&self.table)
    }

    /// All entities, for queries: writes are refused.
    pub fn rows(&self) -> Table<U> {
        self.table.retyped()
    }
}

/// The operations that a summary lacks (P-5.2c). Errors only occur during code generation, so they are tested here and
/// not among the declarations that do not compile. An employee can be replaced, updated and deleted:
///
/// ```
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Employee>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.replace(&loaded).await });
/// # let _ = std::hint::black_box(write);
/// ```
///
/// ```
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Employee>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.delete(&loaded).await });
/// # let _ = std::hint::black_box(write);
/// ```
///
/// ```
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Employee>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.update_with(Key::<Employee>::new(loaded.loaded_key().clone()), |_| Ok(Change::Write)).await });
/// # let _ = std::hint::black_box(write);
/// ```
///
/// A department cannot:
///
/// ```compile_fail,E0080
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Department>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.replace(&loaded).await });
/// # let _ = std::hint::black_box(write);
/// ```
///
/// ```compile_fail,E0080
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Department>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.delete(&loaded).await });
/// # let _ = std::hint::black_box(write);
/// ```
///
/// ```compile_fail,E0080
/// # use lazuli_client::{BoxFuture, Change};
/// # use lazuli_client::patterns::summary::ModelTable;
/// # use lazuli_client::prelude::*;
/// # #[derive(TableEntity)]
/// # #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// # struct Employee { department: String, id: u32 }
/// # #[derive(TableEntity)]
/// # #[table(kind = "Department", partition = "{department}", row = "Department")]
/// # struct Department { department: String, #[table(count(Employee))] employee_count: i32 }
/// # #[derive(TableUnion)]
/// # #[table(model)]
/// # enum Staff { Employee(Employee), Department(Department) }
/// let write: fn(ModelTable<Staff>, Loaded<Department>) -> BoxFuture<'static, Result<(), Error>> =
///     |staff, loaded| Box::pin(async move { staff.update_with(Key::<Department>::new(loaded.loaded_key().clone()), |_| Ok(Change::Write)).await });
/// # let _ = std::hint::black_box(write);
/// ```
#[cfg(doctest)]
struct SummariesStay;

/// Two types of a model: derived code uses it to find out whether the second is a summary of the first.
pub struct Pair<S, D>(PhantomData<fn() -> (S, D)>);

impl<S, D> Pair<S, D> {
    /// All information is in the types.
    #[expect(clippy::new_without_default, reason = "only derived code makes one")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S: TableEntity + Sync, D: Summary<S>> Pair<S, D> {
    /// It is: this constant hides that of [`NoSummary`].
    pub const IS_SUMMARY: bool = true;
}

/// The constant of a pair whose second type is not a summary of the first.
pub trait NoSummary {
    /// It is not.
    const IS_SUMMARY: bool = false;
}

impl<S, D> NoSummary for Pair<S, D> {}

/// The methods of a pair if the second type is a summary of the first. Method resolution prefers it to [`Unrelated`],
/// whose receiver needs one more reference.
pub trait Related<S, D> {
    /// Updates the summary.
    fn follow<'a>(
        &self,
        table: &'a Table<Entity>,
        tx: &'a Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Resets what the summary maintains.
    fn clear(&self, summary: &mut D);

    /// Copies from the source that the summary refers to.
    fn fill<'a>(&self, summary: &'a mut D, tx: &'a Transaction)
    -> BoxFuture<'a, Result<(), Error>>;
}

impl<S: TableEntity + Sync, D: Summary<S>> Related<S, D> for Pair<S, D> {
    fn follow<'a>(
        &self,
        table: &'a Table<Entity>,
        tx: &'a Transaction,
        old: Option<&'a S>,
        new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { Summarized::<S, D>::new(table).follow_all(tx, old, new).await })
    }

    fn clear(&self, summary: &mut D) {
        summary.clear();
    }

    fn fill<'a>(
        &self,
        summary: &'a mut D,
        tx: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(super::fill_from_link(summary, tx))
    }
}

/// The methods of a pair if the types are unrelated: they do nothing.
pub trait Unrelated<S, D> {
    /// Does nothing.
    fn follow<'a>(
        &self,
        _table: &'a Table<Entity>,
        _tx: &'a Transaction,
        _old: Option<&'a S>,
        _new: Option<&'a S>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Does nothing.
    fn clear(&self, _summary: &mut D) {}

    /// Does nothing.
    fn fill<'a>(
        &self,
        _summary: &'a mut D,
        _tx: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl<S, D> Unrelated<S, D> for &Pair<S, D> {}
