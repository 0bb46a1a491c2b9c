//! Optimistic updates: read, change, write if unchanged (C-10.1 to C-10.3).

use crate::call::CallOptions;
use crate::entity::{ETag, Entity, TableEntity};
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::key::KeyError;
use crate::options::verb_options;
use crate::shape::Rule;
use crate::table::Table;
use crate::{BoxError, BoxFuture};
use lazuli_model::EntityKey;
use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The result of the function that changes an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The entity is to be written.
    Write,
    /// Nothing is to be written.
    Keep,
}

/// An update that was carried out, or was not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// The current version.
    pub etag: ETag,
    /// How often the entity was read.
    pub attempts: u32,
    /// Whether anything was written.
    pub change: Change,
}

/// An update by a function, which may run several times: it must have no other side effects.
///
/// By default each write stores its id in the entity (`_WriteIds`), so that the change does not happen twice after
/// a lost answer.
///
/// ```no_run
/// # use lazuli_client::{Change, Entity, Error, Table};
/// # async fn run(counters: Table) -> Result<(), Error> {
/// let updated = counters
///     .update_with(("hits", "home"), |row: &mut Entity| {
///         let hits: i64 = row.opt("Hits")?.unwrap_or(0);
///         row.set("Hits", hits + 1);
///         Ok(Change::Write)
///     })
///     .or_insert_with(|| Entity::new("hits", "home"))
///     .attempts(20)
///     .await?;
/// println!("read {} times, now {}", updated.attempts, updated.etag);
///
/// // Sets a value: written twice is as good as once, so the row needs no `_WriteIds`.
/// counters
///     .update_with(("hits", "home"), |row: &mut Entity| {
///         row.set("Title", "Home");
///         Ok(Change::Write)
///     })
///     .idempotent()
///     .without_write_id()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before `.await`"]
pub struct Update<T, F> {
    table: Table<T>,
    key: Result<EntityKey, KeyError>,
    change: F,
    absent: Option<Box<dyn FnMut() -> T + Send>>,
    attempts: u32,
    with_write_id: bool,
    is_idempotent: bool,
    options: CallOptions,
    fault: Option<Error>,
    /// The rule that the table's type imposes on untyped entities.
    rule: Rule,
}

impl<T, F> Update<T, F>
where
    T: TableEntity,
    F: FnMut(&mut T) -> Result<Change, BoxError> + Send + 'static,
{
    pub(crate) fn new(table: Table<T>, key: Result<EntityKey, KeyError>, change: F) -> Self {
        Self {
            table,
            key,
            change,
            absent: None,
            attempts: ATTEMPTS,
            with_write_id: true,
            is_idempotent: false,
            options: CallOptions::default(),
            fault: None,
            rule: Rule::of::<T>(),
        }
    }

    /// Sets the rule of the table's type.
    pub(crate) fn under(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Makes the update fail if there is an error.
    pub(crate) fn unless(self, fault: Option<Error>) -> Self {
        Self { fault, ..self }
    }

    /// The number of attempts before it fails with [`ErrorKind::Contended`]; eight by default.
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// If the entity does not exist, starts from the value of `make` and inserts it, even if the function then answers
    /// [`Change::Keep`].
    pub fn or_insert_with(self, make: impl FnMut() -> T + Send + 'static) -> Self {
        Self { absent: Some(Box::new(make)), ..self }
    }

    /// Stores no id. After a lost answer the outcome is unknown, unless the change is idempotent.
    pub fn without_write_id(self) -> Self {
        Self { with_write_id: false, ..self }
    }

    /// Declares that the change sets values instead of adding to them: if the stored entity is what was to be written,
    /// the update has succeeded, whoever wrote it.
    pub fn idempotent(self) -> Self {
        Self { is_idempotent: true, ..self }
    }

    verb_options!();

    async fn run(mut self) -> Result<Updated, Error> {
        let table = self.table.clone();
        let place = |error: Error, key: Option<&EntityKey>| {
            error.at("update_with", Some(table.name()), key)
        };
        let key = match std::mem::replace(&mut self.key, Err(KeyError::ForbiddenCharacter)) {
            Ok(key) => key,
            Err(error) => return Err(place(error.into(), None)),
        };
        if let Some(fault) = self.fault.take() {
            return Err(place(fault, Some(&key)));
        }
        let env = table.account.0.env.clone();
        let deadline = self.options.deadline(&env);
        for attempts in 1..=self.attempts {
            match self.once(&key, attempts, deadline).await {
                Ok(Some(updated)) => return Ok(updated),
                Ok(None) if attempts == self.attempts => {}
                Ok(None) => env.sleep(pause(&env, attempts)).await,
                Err(error) => return Err(place(error, Some(&key))),
            }
        }
        Err(place(Error::new(ErrorKind::Contended { attempts: self.attempts }), Some(&key)))
    }

    /// One round; `None` if somebody came between.
    async fn once(
        &mut self,
        key: &EntityKey,
        attempts: u32,
        deadline: Option<Duration>,
    ) -> Result<Option<Updated>, Error> {
        let env = self.table.account.0.env.clone();
        let refused =
            |source| Error::new(ErrorKind::Refused).with(|context| context.source = Some(source));
        let typed = crate::Key::<T>::new(key.clone());
        let get = self.table.retyped::<Entity>().get(typed.into_entity_key());
        let found = match get.with_options(self.options.until(deadline, &env)).await? {
            Some(found) => {
                warn_of_unknown::<T>(&found);
                found.decode::<T>()?
            }
            None => None,
        };
        let write = match (found, &mut self.absent) {
            (Some(mut loaded), _) => {
                match (self.change)(&mut loaded).map_err(refused)? {
                    Change::Keep => {
                        let etag = loaded.etag().clone();
                        return Ok(Some(Updated { etag, attempts, change: Change::Keep }));
                    }
                    Change::Write => {}
                }
                self.table.replace(&loaded)
            }
            (None, Some(make)) => {
                let mut value = make();
                (self.change)(&mut value).map_err(refused)?;
                if value.key()? != *key {
                    return Err(Error::config(
                        "the entity to insert has another key than was asked for",
                    ));
                }
                self.table.insert(&value)
            }
            (None, None) => return Err(Error::new(ErrorKind::NotFound)),
        };
        let write = write
            .under(self.rule, T::IS_DYNAMIC)
            .trusting_content(self.is_idempotent)
            .with_options(self.options.until(deadline, &env));
        let write = if self.with_write_id { write.write_id() } else { write };
        match write.await {
            Ok(written) => {
                let etag = written.etag;
                Ok(Some(Updated { etag, attempts, change: Change::Write }))
            }
            // Adding twice is worse than an unknown outcome (C-10.3).
            Err(error) if error.may_have_been_applied() => {
                Err(error.with_kind(ErrorKind::OutcomeUnknown))
            }
            Err(error) if error.is_precondition_failed() || error.is_conflict() => Ok(None),
            // Deleted in the meantime: the next round will see it.
            Err(error) if *error.kind() == ErrorKind::NotFound && self.absent.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Warns once per type that writing an entity back drops unknown properties (C-5.5).
fn warn_of_unknown<T: TableEntity>(found: &Entity) {
    if T::KEEPS_UNKNOWN || T::PROPERTIES.is_empty() {
        return;
    }
    let is_known = |name: &str| {
        name.starts_with('_')
            || T::KIND.is_some_and(|kind| kind.property == name)
            || T::PROPERTIES.iter().any(|property| property.holds(name))
    };
    let Some((unknown, _)) = found.properties().find(|(name, _)| !is_known(name)) else { return };
    if T::warned().is_some_and(|warned| !warned.swap(true, Ordering::Relaxed)) {
        let of = std::any::type_name::<T>();
        tracing::warn!(
            property = unknown,
            of,
            "writing the entity back drops what the type does not know"
        );
    }
}

/// The pause after this many attempts that failed because of other clients.
pub(crate) fn pause(env: &Env, attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    env.jitter(PAUSE.saturating_mul(1 << doublings).min(PAUSE_MAX))
}

impl<T, F> IntoFuture for Update<T, F>
where
    T: TableEntity,
    F: FnMut(&mut T) -> Result<Change, BoxError> + Send + 'static,
{
    type Output = Result<Updated, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
