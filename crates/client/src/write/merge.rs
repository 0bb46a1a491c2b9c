//! A change of some properties.

use super::{Write, WriteVerb, Written};
use crate::BoxFuture;
use crate::account::Account;
use crate::batch::Operation;
use crate::call::CallOptions;
use crate::column::Settable;
use crate::entity::{ETag, Entity, Loaded, Properties, Reading, TableEntity};
use crate::error::Error;
use crate::index::{Indexing, blind};
use crate::key::{IntoKey, KeyError, ReadVersion};
use crate::options::verb_options;
use crate::property::PropertyDef;
use crate::shape::Rule;
use crate::value::{IntoValue, TableValue};
use crate::write_ids::{WINDOW, WriteIds};
use lazuli_model::{EntityKey, TableName};
use std::borrow::Cow;
use std::future::IntoFuture;
use std::marker::PhantomData;

/// A change of some properties of an entity.
///
/// ```no_run
/// use lazuli_client::prelude::*;
/// use std::time::SystemTime;
///
/// #[derive(TableEntity)]
/// #[table(name = "Players", partition = "{team}", row = "{number:03}", rename_all = "PascalCase")]
/// struct Player { team: String, number: u32, goals: i32 }
///
/// # async fn run(players: Table<Player>) -> Result<(), Error> {
/// let seven = players.get(Player::key("Reds", 7)?).required().await?;
/// players
///     .merge(Player::key("Reds", 7)?)
///     .set(Player::GOALS, seven.goals + 1)
///     .set_raw("Nick", "JJ") // not a field of `Player`
///     .try_set("Seen", &SystemTime::now()) // an error at `.await` if the time cannot be stored
///     .if_unchanged(&seven)
///     .write_id()
///     .await?;
/// players.merge(Player::key("Reds", 9)?).set(Player::GOALS, 0).or_insert().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before `.await`"]
pub struct Merge<T = Entity> {
    account: Account,
    table: TableName,
    key: Result<EntityKey, KeyError>,
    properties: Properties,
    fault: Option<Error>,
    if_match: Option<String>,
    base: WriteIds,
    with_write_id: bool,
    options: CallOptions,
    of: PhantomData<fn(T)>,
}

impl<T> Merge<T> {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        key: Result<EntityKey, KeyError>,
        declared: &'static [PropertyDef],
    ) -> Self {
        Self {
            account: account.clone(),
            table: table.clone(),
            key,
            properties: Properties::of(declared),
            fault: None,
            if_match: Some("*".to_owned()),
            base: WriteIds::default(),
            with_write_id: false,
            options: CallOptions::default(),
            of: PhantomData,
        }
    }

    /// A merge into the entity that a key, or an entity that was read, names.
    pub(crate) fn of<K: IntoKey>(
        account: &Account,
        table: &TableName,
        key: K,
        declared: &'static [PropertyDef],
    ) -> Self {
        let version = key.version();
        let merge = Self::new(account, table, key.into_key(), declared);
        match version {
            Some(ReadVersion { etag, base, reading }) => {
                let if_match = Some(etag.as_str().to_owned());
                Self { if_match, base, ..merge }.unless(half_upgraded(reading))
            }
            None => merge,
        }
    }

    /// Sets a property: a typed column, or a name if the entities are untyped. A merge cannot remove a property, so
    /// `None` does not compile (C-9.3); use a replace for that.
    ///
    /// ```compile_fail,E0277
    /// use lazuli_client::prelude::*;
    ///
    /// #[derive(TableEntity)]
    /// #[table(partition = "{team}", row = "r")]
    /// struct Player { team: String, nick: Option<String> }
    ///
    /// fn forget(players: &Table<Player>) -> Result<(), Error> {
    ///     let _ = players.merge(Player::key("a")?).set(Player::NICK, None);
    ///     Ok(())
    /// }
    /// ```
    pub fn set<C: Settable<T, V>, V>(mut self, column: C, value: V) -> Self {
        match column.property(value) {
            (name, Ok(value)) => self.properties.push(name, value),
            (_, Err(fault)) => {
                self.fault.get_or_insert(fault.into());
            }
        }
        self
    }

    /// Sets a property that the type does not declare.
    pub fn set_raw(mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) -> Self {
        self.properties.push(name, value.into_value());
        self
    }

    /// Sets a property to a value that may not be storable.
    pub fn try_set<V: TableValue>(mut self, name: impl Into<Cow<'static, str>>, value: &V) -> Self {
        if let Err(fault) = self.properties.add(name, value) {
            self.fault.get_or_insert(fault.into());
        }
        self
    }

    /// Applies the rule of the table's type.
    pub(crate) fn under(mut self, rule: Rule, is_dynamic: bool) -> Self {
        self.properties.settle(rule.secrets, is_dynamic);
        self
    }

    /// Makes the merge fail if there is an error.
    pub(crate) fn unless(self, fault: Option<Error>) -> Self {
        Self { fault: self.fault.or(fault), ..self }
    }

    /// Only if the entity has not changed since it was read.
    pub fn if_unchanged<U>(mut self, loaded: &Loaded<U>) -> Self {
        self.base = loaded.write_ids().clone();
        self.if_match(loaded.etag()).unless(half_upgraded(loaded.reading()))
    }

    /// Stores an id of this write in the entity (see [`Write::write_id`]).
    pub fn write_id(self) -> Self {
        Self { with_write_id: true, ..self }
    }

    /// Only if the entity still has this version.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.if_match = Some(etag.as_str().to_owned());
        self
    }

    /// Inserts the entity if it does not exist.
    pub fn or_insert(mut self) -> Self {
        self.if_match = None;
        self
    }

    verb_options!();

    /// The same as an operation of a transaction.
    pub(crate) fn into_operation(self) -> Result<Operation, Error>
    where
        T: TableEntity,
    {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (key, if_match) = (self.key?, self.if_match.as_deref());
        let mut properties = self.properties;
        properties.keep_ids(T::WRITE_IDS);
        if self.with_write_id {
            properties.keep_ids(WINDOW);
        }
        let verb = verb(if_match);
        if Indexing::of_merge::<T>(verb, &key, &properties, if_match).is_some() {
            return Err(blind(key));
        }
        let write = Operation::write(verb, Ok((key, properties)), if_match)?;
        Ok(Operation { base: self.base, ..write })
    }

    fn into_write(self) -> Write
    where
        T: TableEntity,
    {
        let Self {
            account,
            table,
            key,
            properties,
            fault,
            if_match,
            base,
            with_write_id,
            options,
            of: _,
        } = self;
        let encoded = key.map_err(Error::from).and_then(|key| match fault {
            Some(fault) => Err(fault),
            None => Ok((key, properties)),
        });
        let verb = verb(if_match.as_deref());
        let indexing = match &encoded {
            Ok((key, properties)) => {
                Indexing::of_merge::<T>(verb, key, properties, if_match.as_deref())
            }
            Err(_) => None,
        };
        let write = Write::new(&account, &table, verb, encoded, if_match.as_deref());
        let write = write.indexed(Ok(indexing)).keeping(T::WRITE_IDS);
        let with_write_id = with_write_id || T::WRITE_IDS > 0;
        Write { options, with_write_id, ..write.based_on(&base) }
    }
}

/// The error of a merge into a row of an older version than the value that was read shows: the row would keep its
/// version, and whoever reads it next would upgrade what was merged.
fn half_upgraded(reading: Reading) -> Option<Error> {
    (reading == Reading::Upgraded).then(|| {
        let error = Error::config("the entity is stored in an older version of its type");
        error.with(|context| {
            context.hint =
                Some("replace it, or use update_with: both write the new version".into());
        })
    })
}

fn verb(if_match: Option<&str>) -> WriteVerb {
    match if_match {
        None => WriteVerb::UpsertMerge,
        // Unconditional: it may be repeated, and the outcome need not be checked.
        Some(_) => WriteVerb::Merge,
    }
}

impl<T: TableEntity> IntoFuture for Merge<T> {
    type Output = Result<Written, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_write().run())
    }
}
