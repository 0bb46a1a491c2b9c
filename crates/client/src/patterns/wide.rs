//! Entities that do not fit into one row (P-10): more than 252 properties, or over 1 MiB.
//!
//! The rows of an entity have its row key followed by `_01`, `_02`, ..; one transaction writes them. Every full write
//! gives all of them the same new number, `_gen`, by which a reader recognizes rows of one write.

mod read;
mod verify;
mod write;

pub use write::WideMerge;

use crate::entity::{ETag, Entity, TableEntity};
use crate::error::Error;
use crate::key::Key;
use crate::table::Table;
use crate::tables::Tables;
use crate::update::{Change, pause};
use crate::wide::Dealt;
use crate::write::Written;
use crate::write_ids::WriteIds;
use crate::{BoxError, ErrorKind};
use lazuli_model::EntityKey;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// The number of the full write that wrote a row.
const GENERATION: &str = "_gen";
/// The number of the entity's rows; in the first row.
const PARTS: &str = "_parts";
/// Attempts of an update, or of a deletion by key, that other clients disturb.
const ATTEMPTS: u32 = 8;

impl Tables {
    /// The table named by a wide type: a type with `#[table(wide(parts = ..))]`.
    pub fn wide<T: TableEntity>(&self) -> Result<WideTable<T>, Error> {
        let name = T::TABLE.ok_or_else(|| {
            Error::config(format!("{} names no table", std::any::type_name::<T>()))
        })?;
        Ok(WideTable::new(&self.table(name)?))
    }
}

/// A table of entities that have several rows each. Cheap to clone.
///
/// ```
/// # use lazuli_client::prelude::*;
/// # use lazuli_client::{Change, Series};
/// #[derive(TableEntity)]
/// #[table(name = "Years", partition = "{department}", row = "{employee:06}_{year:04}", wide(parts = 2))]
/// struct Year {
///     department: String,
///     employee: u32,
///     year: u16,
///     #[table(series(prefix = "D", points = 365))]
///     days: Series<i32, 365>,
/// }
///
/// # async fn run(tables: Tables) -> Result<(), Error> {
/// let years = tables.wide::<Year>()?;
/// let year = Year { department: "Sales".into(), employee: 123, year: 2014, days: Series::default() };
/// years.insert(&year).await?;                                                            // one transaction
/// years.merge(Year::key("Sales", 123, 2014)?).set(Year::DAYS.point(299), 7).await?;      // one row
/// # Ok(())
/// # }
/// ```
pub struct WideTable<T> {
    rows: Table<Entity>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for WideTable<T> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), of: PhantomData }
    }
}

impl<T> fmt::Debug for WideTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WideTable").field(&self.rows).finish()
    }
}

/// A wide entity that was read, with the versions of its rows.
#[derive(Clone, Debug)]
pub struct WideLoaded<T> {
    value: T,
    key: EntityKey,
    rows: Vec<RowVersion>,
}

/// A row as it was read.
#[derive(Clone, Debug)]
struct RowVersion {
    part: usize,
    key: EntityKey,
    etag: ETag,
    write_ids: WriteIds,
}

impl<T> WideLoaded<T> {
    /// The key it was read by, without a part number.
    pub fn loaded_key(&self) -> &EntityKey {
        &self.key
    }

    /// The version of one of its rows, from 1.
    pub fn etag(&self, part: usize) -> Option<&ETag> {
        self.rows.iter().find(|row| row.part == part).map(|row| &row.etag)
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for WideLoaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WideLoaded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: TableEntity> WideTable<T> {
    /// The same table, with each row encrypted on its own (E-51).
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn encrypted(
        self,
        encryption: impl Into<std::sync::Arc<crate::encryption::Encryption>>,
    ) -> Self {
        Self { rows: self.rows.encrypted(encryption), of: PhantomData }
    }

    /// The entities of a wide type in a table.
    pub fn new<U: TableEntity>(table: &Table<U>) -> Self {
        const { assert!(T::PARTS > 0, "the type is not wide: `#[table(wide(parts = ..))]`") };
        Self { rows: table.retyped(), of: PhantomData }
    }

    /// The rows as they are stored.
    pub fn rows(&self) -> &Table<Entity> {
        &self.rows
    }

    /// Reads an entity, applies `change`, and writes it back if none of its rows has changed in the meantime; otherwise
    /// starts over, up to eight times.
    pub async fn update_with<F>(&self, key: Key<T>, mut change: F) -> Result<Written, Error>
    where
        F: FnMut(&mut T) -> Result<Change, BoxError> + Send,
    {
        let env = &self.rows.account.0.env;
        for attempts in 1..=ATTEMPTS {
            let found = self.get(key.clone()).await?;
            let mut found =
                found.ok_or_else(|| self.place(Error::new(ErrorKind::NotFound), &key))?;
            let refused = |source| {
                let error = Error::new(ErrorKind::Refused);
                self.place(error.with(|context| context.source = Some(source)), &key)
            };
            if change(&mut found).map_err(refused)? == Change::Keep {
                let etag = found.etag(1).cloned();
                let etag = etag.ok_or_else(|| self.place(Error::new(ErrorKind::Torn), &key))?;
                return Ok(Written { etag, proof: crate::Proof::Answered });
            }
            match self.replace(&found).await {
                // A second execution is worse than an unknown outcome (C-10.3).
                Err(error) if error.may_have_been_applied() => {
                    return Err(error.with_kind(ErrorKind::OutcomeUnknown));
                }
                Err(error)
                    if error.is_precondition_failed()
                        || error.is_conflict()
                        || error.is_not_found() =>
                {
                    env.sleep(pause(env, attempts)).await;
                }
                outcome => return outcome,
            }
        }
        Err(self.place(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }), &key))
    }

    fn place(&self, error: Error, key: &Key<T>) -> Error {
        error.at("wide", Some(self.rows.name()), Some(key.as_entity_key()))
    }
}

/// The key of a part.
fn part_key(key: &EntityKey, part: usize) -> Result<EntityKey, Error> {
    Ok(EntityKey::parse(key.partition.as_str(), &format!("{}_{part:02}", key.row.as_str()))?)
}

/// The part number of a row of the entity `row`.
fn part_of(row_key: &str, row: &str) -> Option<usize> {
    let digits = row_key.strip_prefix(row)?.strip_prefix('_')?;
    let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().filter(|part| *part > 0)
}

/// The parts with some properties of a type.
fn parts_of<'n, T: TableEntity>(names: impl IntoIterator<Item = &'n str>) -> Vec<usize> {
    let mut dealt = Dealt::of(T::PROPERTIES);
    let mut parts: Vec<usize> = names.into_iter().map(|name| dealt.part_of(name)).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}
