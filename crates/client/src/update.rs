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

/// What a function made of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something to write.
    Write,
    /// Nothing: leave it as it is.
    Keep,
}

/// A change that was carried out, or was not needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// The version that is there now.
    pub etag: ETag,
    /// How often the entity was read.
    pub attempts: u32,
    /// Whether anything was written.
    pub change: Change,
}

/// A change by a function, which may run several times: it must have no other effects.
///
/// By default each write stores its id in the entity (`_WriteIds`), so that a lost answer does not make the
/// change happen twice.
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
    /// What the type of the table asks of entities of any shape.
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

    /// In a table whose type asks this.
    pub(crate) fn under(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Fails if there is a fault.
    pub(crate) fn unless(self, fault: Option<Error>) -> Self {
        Self { fault, ..self }
    }

    /// So many attempts, instead of eight, before it fails with [`ErrorKind::Contended`].
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// Starts from the value of `make` if the entity does not exist, and inserts it.
    pub fn or_insert_with(self, make: impl FnMut() -> T + Send + 'static) -> Self {
        Self { absent: Some(Box::new(make)), ..self }
    }

    /// Stores no ids. After a lost answer the outcome is then unknown, unless the change is idempotent.
    pub fn without_write_id(self) -> Self {
        Self { with_write_id: false, ..self }
    }

    /// The change sets and does not add: if what is there is what was to be written, it is done, whoever
    /// did it.
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
        for attempts in 1..=self.attempts {
            match self.once(&key, attempts).await {
                Ok(Some(updated)) => return Ok(updated),
                Ok(None) => {}
                Err(error) => return Err(place(error, Some(&key))),
            }
            let env = &self.table.account.0.env;
            env.sleep(pause(env, attempts)).await;
        }
        Err(place(Error::new(ErrorKind::Contended { attempts: self.attempts }), Some(&key)))
    }

    /// One round; `None` if somebody came between.
    async fn once(&mut self, key: &EntityKey, attempts: u32) -> Result<Option<Updated>, Error> {
        let refused =
            |source| Error::new(ErrorKind::Refused).with(|context| context.source = Some(source));
        let typed = crate::Key::<T>::new(key.clone());
        let get = self.table.retyped::<Entity>().get(typed.into_entity_key());
        let found = match get.with_options(self.options.clone()).await? {
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
                self.table.insert(&value)
            }
            (None, None) => return Err(Error::new(ErrorKind::NotFound)),
        };
        let write = write
            .under(self.rule, T::IS_DYNAMIC)
            .trusting_content(self.is_idempotent)
            .with_options(self.options.clone());
        let write = if self.with_write_id { write.write_id() } else { write };
        match write.await {
            Ok(written) => {
                let etag = written.etag;
                Ok(Some(Updated { etag, attempts, change: Change::Write }))
            }
            // Adding twice is worse than not knowing (C-10.3).
            Err(error) if error.may_have_been_applied() => {
                Err(error.with_kind(ErrorKind::OutcomeUnknown))
            }
            Err(error) if error.is_precondition_failed() || error.is_conflict() => Ok(None),
            // Deleted meanwhile: the next round sees it.
            Err(error) if *error.kind() == ErrorKind::NotFound && self.absent.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Says once for a type that writing it back drops what it does not know (C-5.5).
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

/// The pause after so many attempts that others made fail.
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
