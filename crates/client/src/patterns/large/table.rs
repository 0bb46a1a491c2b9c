//! A table whose type has large values.

use super::address::{BlobOwner, BlobPlace};
use super::note::Note;
use super::protocol::{Blobs, Protocol, sha256};
use super::service::ServiceStore;
use super::worker::LargeWorker;
use crate::account::Account;
use crate::chunks::Chunked;
use crate::codec::{check_key, encode_whole};
use crate::entity::{ETag, Loaded, Properties, TableEntity};
use crate::error::Error;
use crate::key::Key;
use crate::large::{BlobLink, Large, large_properties};
use crate::queue::Queue;
use crate::table::Table;
use crate::value::Value;
use crate::write::{Deleted, WriteVerb, Written};
use bytes::Bytes;
use lazuli_model::EntityKey;
use lazuli_wire::sas::Permissions;
use std::time::Duration;

/// The largest value that a read accepts by default.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How large values are stored (P-11).
#[derive(Clone, Debug)]
pub struct LargeValues {
    pub(super) account: Account,
    pub(super) queue: Option<Queue>,
    pub(super) grace: Duration,
    pub(super) keep: Duration,
}

impl Account {
    /// Stores large values in blobs, with notes in a queue. The queue and the containers must exist, and a
    /// [`LargeValues::worker`] must read the queue.
    pub fn large(&self, queue: &str) -> Result<LargeValues, Error> {
        let queue = self.queues().queue(queue)?;
        Ok(LargeValues { queue: Some(queue), ..LargeValues::without_notes(self) })
    }
}

impl LargeValues {
    /// Without notes: unused blobs stay until [`LargeTable::collect_garbage`].
    pub fn without_notes(account: &Account) -> Self {
        let (grace, keep) = (Duration::from_secs(60), Duration::from_secs(300));
        Self { account: account.clone(), queue: None, grace, keep }
    }

    /// Longer than any write takes: 60 s by default. A write fails if it has not written its blobs in half of this
    /// time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long an unused blob stays, for readers that still hold the previous entity: 5 minutes by default.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// The table that the type names.
    pub fn table<T: TableEntity>(&self) -> Result<LargeTable<T>, Error> {
        Ok(self.over(self.account.tables().of::<T>()?))
    }

    /// A table with another name.
    pub fn over<T: TableEntity>(&self, table: Table<T>) -> LargeTable<T> {
        LargeTable { how: self.clone(), table, bytes_max: BYTES_MAX }
    }

    /// The worker for the notes of all types that share the queue.
    pub fn worker(&self) -> Result<LargeWorker, Error> {
        let queue = self.queue.clone();
        let queue = queue.ok_or_else(|| Error::config("without notes there is no worker"))?;
        Ok(LargeWorker { how: self.clone(), queue })
    }

    pub(super) fn store(&self) -> ServiceStore {
        ServiceStore { account: self.account.clone(), queue: self.queue.clone() }
    }

    pub(super) fn protocol<'a>(&self, store: &'a ServiceStore) -> Protocol<'a> {
        let (grace, keep) = (self.grace, self.keep);
        Protocol { store, grace, keep, has_notes: self.queue.is_some() }
    }
}

/// A table whose type has large values. Cheap to clone.
#[derive(Debug)]
pub struct LargeTable<T> {
    pub(super) how: LargeValues,
    pub(super) table: Table<T>,
    bytes_max: usize,
}

impl<T> Clone for LargeTable<T> {
    fn clone(&self) -> Self {
        let (how, table) = (self.how.clone(), self.table.clone());
        Self { how, table, bytes_max: self.bytes_max }
    }
}

/// An encoded value, and its blobs.
struct Prepared {
    key: EntityKey,
    properties: Properties,
    new: Vec<(BlobPlace, Bytes)>,
    /// The addresses of existing blobs that it keeps.
    kept: Vec<String>,
}

impl<T: TableEntity> LargeTable<T> {
    /// The table itself, for queries, and for writes of other properties.
    pub fn table(&self) -> &Table<T> {
        &self.table
    }

    /// The largest value to read: 64 MiB by default.
    #[must_use]
    pub fn bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Reads an entity. Its large values are read on demand: [`LargeTable::read`].
    pub async fn get(&self, key: Key<T>) -> Result<Option<Loaded<T>>, Error> {
        self.table.get(key).await
    }

    /// Reads a large value of an entity: no request if it is in the entity, else one. If the blob is gone, reads the
    /// entity again and returns its current value.
    pub async fn read(
        &self,
        loaded: &Loaded<T>,
        field: impl Fn(&T) -> &Large,
    ) -> Result<Bytes, Error> {
        let found = self.read_optional(loaded, |value| Some(field(value))).await?;
        found.ok_or_else(|| Error::new(crate::ErrorKind::NotFound))
    }

    /// The same for an optional value.
    pub async fn read_optional(
        &self,
        loaded: &Loaded<T>,
        field: impl Fn(&T) -> Option<&Large>,
    ) -> Result<Option<Bytes>, Error> {
        let Some(large) = field(loaded) else { return Ok(None) };
        let Some(link) = large.link() else { return Ok(large.bytes().cloned()) };
        let store = self.how.store();
        let key = loaded.loaded_key();
        let again = async || {
            let found = self.table.get(Key::<T>::new(key.clone())).await?;
            Ok(found.and_then(|found| field(&found).cloned()))
        };
        let read = self.how.protocol(&store).read(link, self.bytes_max, again).await;
        read.map(Some).map_err(|error| error.at("read", Some(self.table.name()), Some(key)))
    }

    /// An address with which anybody can read a large value for `life`, without a key: for a device (P-11.6). `None` if
    /// the value is in the entity itself. It is signed locally, without a request.
    pub fn sas(
        &self,
        loaded: &Loaded<T>,
        field: impl Fn(&T) -> &Large,
        life: Duration,
    ) -> Result<Option<String>, Error> {
        let Some(link) = field(loaded).link() else { return Ok(None) };
        let place = BlobPlace::of(&link.address);
        let place = place.ok_or_else(|| Error::protocol("the address names no blob"))?;
        let blob = self.how.store().blob(&place)?;
        let token = blob.sas(Permissions::READ).expires_in(life).build()?;
        Ok(Some(format!("{}?{}", blob.address()?, token.as_str())))
    }

    /// Inserts an entity with its large values.
    pub async fn insert(&self, value: &T) -> Result<Written, Error> {
        let prepared = self.prepare(value, &[]);
        let prepared =
            prepared.map_err(|error| error.at("insert", Some(self.table.name()), None))?;
        self.write(WriteVerb::Insert, value, None, prepared, Vec::new()).await
    }

    /// Replaces an entity that was read, if it has not changed. Blobs that it no longer refers to are deleted later, by
    /// the worker. A value that has another key by now is refused.
    pub async fn replace(&self, loaded: &Loaded<T>) -> Result<Written, Error> {
        let place = |error: Error| error.at("replace", Some(self.table.name()), None);
        let before = blobs_of(loaded).map_err(place)?;
        let prepared = self.prepare(loaded, before).map_err(place)?;
        check_key(&prepared.key, loaded).map_err(place)?;
        let is_left = |address: &&String| !prepared.kept.contains(*address);
        let old = before.iter().filter(is_left).filter_map(|address| BlobPlace::of(address));
        let old = old.collect();
        self.write(WriteVerb::Replace, loaded, Some(loaded), prepared, old).await
    }

    /// Deletes an entity that was read, if it has not changed. Its blobs are deleted later, by the worker.
    pub async fn delete(&self, loaded: &Loaded<T>) -> Result<Deleted, Error> {
        let place = |error: Error| error.at("delete", Some(self.table.name()), None);
        let before = blobs_of(loaded).map_err(place)?;
        let old = before.iter().filter_map(|address| BlobPlace::of(address)).collect();
        let note = self.note(loaded.loaded_key());
        let commit = async |time| self.table.delete(loaded).timeout(time).await;
        let blobs = Blobs { note, new: Vec::new(), old };
        self.how.protocol(&self.how.store()).write(blobs, commit).await
    }

    async fn write(
        &self,
        verb: WriteVerb,
        value: &T,
        loaded: Option<&Loaded<T>>,
        prepared: Prepared,
        old: Vec<BlobPlace>,
    ) -> Result<Written, Error> {
        let Prepared { key, properties, new, .. } = prepared;
        let note = self.note(&key);
        let etag = loaded.map(Loaded::etag).map(ETag::as_str);
        let commit = async |time| {
            let encoded = Ok((key, properties));
            let write = self.table.write_encoded(verb, value, encoded, loaded, etag);
            let write = match loaded {
                Some(loaded) => write.based_on(loaded.write_ids()),
                None => write,
            };
            write.timeout(time).await
        };
        self.how.protocol(&self.how.store()).write(Blobs { note, new, old }, commit).await
    }

    fn note(&self, key: &EntityKey) -> Note {
        Note { table: self.table.name().to_owned(), key: key.clone(), blobs: Vec::new() }
    }

    /// Replaces values that go to blobs by addresses (P-11.1). A blob that the value already refers to must be in
    /// `before`, those of the version being replaced.
    fn prepare(&self, value: &T, before: &[String]) -> Result<Prepared, Error> {
        let (key, mut properties) = encode_whole(value)?;
        let (mut new, mut kept) = (Vec::new(), Vec::new());
        let store = self.how.store();
        for (name, rule) in large_properties(T::PROPERTIES) {
            let found = properties.values().find(|(known, _)| *known == name);
            match found.map(|(_, value)| value) {
                None => continue,
                Some(Value::String(address)) if before.iter().any(|known| known == address) => {
                    kept.push(address.to_string());
                    continue;
                }
                Some(Value::String(_)) => return Err(foreign_value(&name)),
                Some(_) => {}
            }
            let bytes = joined(&properties, &name);
            if rule.keeps(bytes.len()) {
                continue;
            }
            let owner = BlobOwner {
                table: self.table.name().to_owned(),
                key: key.clone(),
                property: name.clone(),
            };
            let id = self.how.account.0.env.guid();
            let place =
                BlobPlace { container: rule.container.to_owned(), name: owner.new_name(id)? };
            let address = store.blob(&place)?.address()?;
            let link = BlobLink { address, bytes: bytes.len() as u64, sha256: sha256(&bytes) };
            let mut part = 0;
            while properties.remove(&Chunked::name(&name, part)).is_some() {
                part += 1;
            }
            link.write(&name, &mut properties);
            new.push((place, bytes));
        }
        Ok(Prepared { key, properties, new, kept })
    }
}

/// The blobs that an entity referred to when it was read.
fn blobs_of<T>(loaded: &Loaded<T>) -> Result<&[String], Error> {
    loaded.blobs().ok_or_else(|| Error::config("the entity was not read as this type"))
}

/// A blob belongs to one entity and one version: replacing that version may delete the blob.
fn foreign_value(name: &str) -> Error {
    let reason = format!("the value of {name} belongs to another entity, or to a former version");
    let hint = "read it, and give its bytes".to_owned();
    Error::config(reason).with(|context| context.hint = Some(hint))
}

/// The bytes of a value that is stored in several properties.
fn joined(properties: &Properties, name: &str) -> Bytes {
    let mut bytes = Vec::new();
    for part in 0.. {
        let part = Chunked::name(name, part);
        match properties.values().find(|(known, _)| *known == part) {
            Some((_, Value::Binary(more))) => bytes.extend_from_slice(more),
            _ => break,
        }
    }
    bytes.into()
}
