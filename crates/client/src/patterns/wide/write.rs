//! Writes of a wide entity: all rows in one transaction (P-10.2), or some properties (P-10.3).

use super::{ATTEMPTS, GENERATION, PARTS, WideLoaded, WideTable, part_key};
use crate::BoxFuture;
use crate::batch::{self, BatchFault, Committed, Operation};
use crate::column::Settable;
use crate::entity::{Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::as_lone;
use crate::key::Key;
use crate::options::CallOptions;
use crate::update::pause;
use crate::value::Value;
use crate::wide::Dealt;
use crate::write::{Write, WriteVerb, Written};
use lazuli_model::{EntityError, EntityKey};
use std::future::IntoFuture;
use std::marker::PhantomData;

impl<T: TableEntity> WideTable<T> {
    /// Inserts an entity; fails with a conflict if its key is taken.
    pub async fn insert(&self, value: &T) -> Result<Written, Error> {
        self.write_all("insert", value, |_, key, properties| {
            Operation::write(WriteVerb::Insert, Ok((key, properties)), None)
        })
        .await
    }

    /// Inserts or replaces an entity. If an earlier version of the type had more rows, the surplus rows stay; they
    /// are never read, and [`WideTable::verify`] finds them.
    pub async fn upsert(&self, value: &T) -> Result<Written, Error> {
        self.write_all("upsert", value, |_, key, properties| {
            Operation::write(WriteVerb::Upsert, Ok((key, properties)), None)
        })
        .await
    }

    /// Replaces the entity if none of its rows has changed since it was read.
    pub async fn replace(&self, loaded: &WideLoaded<T>) -> Result<Written, Error> {
        let key = T::key(loaded)?;
        if key != loaded.key {
            let error = Error::config("a replace cannot change the key");
            return Err(error.at("replace", Some(self.rows.name()), Some(&loaded.key)));
        }
        let surplus = loaded.rows.iter().filter(|row| row.part > T::PARTS);
        let surplus = surplus.map(|row| Operation::remove(row.key.clone(), row.etag.as_str()));
        let write = |part: usize, key, properties| {
            let Some(known) = loaded.rows.iter().find(|row| row.part == part) else {
                // The type has more parts now than when the entity was written.
                return Operation::write(WriteVerb::Insert, Ok((key, properties)), None);
            };
            let etag = Some(known.etag.as_str());
            let mut write = Operation::write(WriteVerb::Replace, Ok((key, properties)), etag)?;
            if part == 1 {
                write.base = known.write_ids.clone();
            }
            Ok(write)
        };
        let operations = self.operations(loaded, write);
        let operations = operations.map(|writes| writes.into_iter().chain(surplus).collect());
        self.send("replace", &key, operations).await
    }

    /// Deletes an entity if none of its rows has changed since it was read.
    pub async fn delete(&self, loaded: &WideLoaded<T>) -> Result<(), Error> {
        let rows = loaded.rows.iter();
        let removals = rows.map(|row| Operation::remove(row.key.clone(), row.etag.as_str()));
        self.commit("delete", &loaded.key, Ok(removals.collect())).await.map(drop)
    }

    /// Deletes an entity; returns whether it existed. First reads which rows exist, and also deletes those of a torn
    /// entity.
    pub async fn delete_key(&self, key: Key<T>) -> Result<bool, Error> {
        let env = &self.rows.account.0.env;
        for attempts in 1..=ATTEMPTS {
            let rows = self.read_range(key.as_entity_key()).await?;
            if rows.is_empty() {
                return Ok(false);
            }
            let removals = rows
                .iter()
                .map(|(_, row)| Operation::remove(row.loaded_key().clone(), row.etag().as_str()));
            let removals = Ok(removals.collect());
            match self.commit("delete_key", key.as_entity_key(), removals).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                    env.sleep(pause(env, attempts)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(self.place(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }), &key))
    }

    /// Sets the named properties and leaves the others. The entity must exist.
    ///
    /// Properties in one row are one merge of that row. Those in several rows are one transaction, which gives all
    /// rows of the entity a new number, so that readers never see half of it.
    pub fn merge(&self, key: Key<T>) -> WideMerge<T> {
        let (table, key) = (self.clone(), key.into_entity_key());
        WideMerge { table, key, properties: Vec::new(), fault: None, of: PhantomData }
    }

    /// A full write.
    async fn write_all(
        &self,
        verb: &'static str,
        value: &T,
        write: impl Fn(usize, EntityKey, Properties) -> Result<Operation, Error>,
    ) -> Result<Written, Error> {
        let key = value.key()?;
        self.send(verb, &key, self.operations(value, write)).await
    }

    /// The writes of all rows of a value.
    fn operations(
        &self,
        value: &T,
        write: impl Fn(usize, EntityKey, Properties) -> Result<Operation, Error>,
    ) -> Result<Vec<Operation>, Error> {
        let mut all = Properties::default();
        value.write(&mut all)?;
        let key = value.key()?;
        let rows = self.dealt(all.values())?;
        rows.into_iter()
            .enumerate()
            .map(|(index, properties)| write(index + 1, part_key(&key, index + 1)?, properties))
            .collect()
    }

    /// Distributes properties over their rows. Each row has the number of this write, the first also the number of
    /// rows.
    fn dealt<'v>(
        &self,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<Vec<Properties>, Error> {
        let mut rows = vec![Properties::of(T::PROPERTIES); T::PARTS];
        let mut dealt = Dealt::of(T::PROPERTIES);
        for (name, value) in values {
            if let Some(row) = rows.get_mut(dealt.part_of(name) - 1) {
                row.push(name.to_owned(), value.clone());
            }
        }
        // A random number unique to this write: two writes in one tick must not look like one.
        let env = &self.rows.account.0.env;
        let generation = i64::try_from(env.below(i64::MAX as u64)).unwrap_or_default();
        for row in &mut rows {
            row.push(GENERATION, Value::Int64(generation));
        }
        if let Some(first) = rows.first_mut() {
            first.push(PARTS, Value::Int32(i32::try_from(T::PARTS).map_err(Error::protocol)?));
        }
        Ok(rows)
    }

    /// Sends a full write, which keeps the first row.
    async fn send(
        &self,
        verb: &'static str,
        key: &EntityKey,
        operations: Result<Vec<Operation>, Error>,
    ) -> Result<Written, Error> {
        let committed = self.commit(verb, key, operations).await?;
        let etag = committed.etag(0).cloned();
        let etag = etag.ok_or_else(|| Error::protocol("a write without an ETag"))?;
        Ok(Written { etag, proof: committed.proof() })
    }

    async fn commit(
        &self,
        verb: &'static str,
        key: &EntityKey,
        operations: Result<Vec<Operation>, Error>,
    ) -> Result<Committed, Error> {
        let place = |error: Error| error.at(verb, Some(self.rows.name()), Some(key));
        let (account, table) = (&self.rows.account, &self.rows.name);
        let operations = operations.map_err(place)?;
        let own = account.0.env.guid();
        let sent = batch::send_with_id(account, table, operations, own, CallOptions::default());
        sent.await.map_err(|error| place(limit(as_lone(error))))
    }
}

/// The error of a write that is too large for one transaction (P-10.5), or whose row is too large.
fn limit(error: Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::InvalidBatch(refused) => match &refused.reason {
            BatchFault::Write(kind) => (**kind).clone(),
            BatchFault::TooLarge { .. } => ErrorKind::LimitExceeded(EntityError::EntityTooLarge),
            _ => return error,
        },
        _ => return error,
    };
    error.with_kind(kind).with(|context| {
        context.hint = Some("a row has at most 1 MiB, a wide entity 4 MiB in all".into());
    })
}

/// Sets some properties of a wide entity.
#[must_use = "nothing is sent before `.await`"]
pub struct WideMerge<T> {
    table: WideTable<T>,
    key: EntityKey,
    properties: Vec<(String, Value)>,
    fault: Option<Error>,
    of: PhantomData<fn(T)>,
}

impl<T: TableEntity> WideMerge<T> {
    /// Sets a property: a typed column, or a point of a series.
    pub fn set<C: Settable<T, V>, V>(mut self, column: C, value: V) -> Self {
        match column.property(value) {
            (name, Ok(value)) => self.properties.push((name.into_owned(), value)),
            (_, Err(fault)) => {
                self.fault.get_or_insert(fault.into());
            }
        }
        self
    }

    async fn run(self) -> Result<(), Error> {
        let Self { table: wide, key, properties, fault, .. } = self;
        let place = |error: Error| error.at("merge", Some(wide.rows.name()), Some(&key));
        if let Some(fault) = fault {
            return Err(place(fault));
        }
        let parts = super::parts_of::<T>(properties.iter().map(|(name, _)| name.as_str()));
        let values = properties.iter().map(|(name, value)| (name.as_str(), value));
        let (account, table) = (&wide.rows.account, &wide.rows.name);
        if let [part] = *parts {
            let mut row = Properties::of(T::PROPERTIES);
            values.for_each(|(name, value)| row.push(name.to_owned(), value.clone()));
            let encoded = part_key(&key, part).map(|key| (key, row));
            let merge = Write::new(account, table, WriteVerb::Merge, encoded, Some("*"));
            return merge.await.map(drop).map_err(place);
        }
        let merge = |(index, properties)| {
            let encoded = part_key(&key, index + 1).map(|key| (key, properties));
            Operation::write(WriteVerb::Merge, encoded, Some("*"))
        };
        let rows = wide.dealt(values).map_err(place)?.into_iter().enumerate();
        let merges = rows.map(merge).collect::<Result<Vec<_>, _>>().map_err(place)?;
        // Repeating it has the same effect as once: no id is needed.
        let changes = batch::ChangeSet::of(account, table, merges).map_err(place)?;
        let changes = changes.finish().await.map_err(place)?;
        let (trust, options) = (batch::Trust::Content, CallOptions::default());
        let sent = batch::send(account, table, &changes, trust, options).await;
        sent.map(drop).map_err(|error| place(limit(as_lone(error))))
    }
}

impl<T: TableEntity> IntoFuture for WideMerge<T> {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
