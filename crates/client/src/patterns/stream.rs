//! Event streams (P-23.1): events in order, without gaps.
//!
//! A stream is a partition:
//!
//! | row | content |
//! | --- | --- |
//! | `!head` | the version of the stream, `_v`: the number of its last event |
//! | `e_0000000001` | the events, from 1 on |
//! | `id_{id}` | the version of the event with that id, if it has one |
//! | `s_{9999999999 - version}` | snapshots, the newest first |
//!
//! An append is one transaction: the head under its ETag, the events, their ids, and rows of the caller that are
//! derived from them (inline projections). So an append happens completely or not at all, and two concurrent ones
//! cannot take the same version.

use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{partition, row};
use crate::table::Table;
use crate::transaction::Transaction;
use crate::value::{IntoValue, Value};
use lazuli_model::key_text::{escape, write_bucket};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

const HEAD: &str = "!head";
const VERSION: &str = "_v";
const EVENT: &str = "e_";
const SNAPSHOT: &str = "s_";
const EVENT_ID: &str = "_id";
/// The greatest version: ten digits.
const VERSION_MAX: i64 = 9_999_999_999;
/// Attempts of an append without an expected version.
const ATTEMPTS: u32 = 32;

/// A stream of events.
///
/// ```
/// # use lazuli_client::patterns::stream::{Event, EventStream};
/// # use lazuli_client::prelude::*;
/// # async fn run(table: Table) -> Result<(), Error> {
/// let order = EventStream::new(&table, "order-17");
/// let placed = Event::new().with("Type", "Placed").with("Total", 12.5).id("4711");
/// let appended = order.append([placed]).await?;
/// for event in order.read(1, 100).await? {
///     println!("{} {}", event.version, event.entity.str("Type")?);
/// }
/// # let _ = appended;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EventStream {
    table: Table<Entity>,
    partition: String,
}

/// An event to be appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    id: Option<String>,
    properties: Vec<(Cow<'static, str>, Value)>,
}

impl Event {
    /// An event without properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property. Names that begin with an underscore are reserved for the library.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) -> Self {
        self.properties.push((name.into(), value.into_value()));
        self
    }

    /// Sets an id: an event appended again is recognized and not appended. Costs one more row.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }
}

/// An event that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its number in the stream, from 1.
    pub version: i64,
    /// Its properties, and the time of the append.
    pub entity: Loaded<Entity>,
}

/// Events that were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version of the first.
    pub first: i64,
    /// The version of the last.
    pub last: i64,
    /// Whether they had been appended before, by their ids.
    pub is_repeated: bool,
}

impl EventStream {
    /// The stream in this partition. Makes no request.
    pub fn new<T: TableEntity>(table: &Table<T>, partition: &str) -> Self {
        Self { table: table.retyped(), partition: partition.to_owned() }
    }

    /// The stream called `name`, in a partition whose key begins with one of `buckets` numbers: streams whose names
    /// grow with time do not all go to the end of the table (P-13).
    pub fn spread<T: TableEntity>(table: &Table<T>, name: &str, buckets: u64) -> Self {
        let mut partition = String::new();
        write_bucket(&mut partition, name, buckets);
        partition.push('_');
        escape(&mut partition, name, None);
        Self { table: table.retyped(), partition }
    }

    /// The partition of the stream.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The version of the last event; 0 for an empty stream.
    pub async fn version(&self) -> Result<i64, Error> {
        let head = self.table.get((&*self.partition, HEAD)).await?;
        head.map_or(Ok(0), |head| Ok(head.get(VERSION)?))
    }

    /// Appends events after the last one, regardless of who wrote it.
    pub async fn append(&self, events: impl IntoIterator<Item = Event>) -> Result<Appended, Error> {
        self.append_with(None, events, async |_, _| Ok(())).await
    }

    /// Appends events after event `version`; fails with [`ErrorKind::StreamConflict`] if the stream has another
    /// version.
    pub async fn append_after(
        &self,
        version: i64,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Appended, Error> {
        self.append_with(Some(version), events, async |_, _| Ok(())).await
    }

    /// Appends events together with rows derived from them: `project` reads and writes rows of the stream's partition,
    /// and receives the version of the first event. It may run several times.
    ///
    /// All of it is one transaction of up to 100 rows: the head, one row for each event or two for an event with an id,
    /// and the rows of `project`. More is refused, never split.
    pub async fn append_with<F, W>(
        &self,
        after: Option<i64>,
        events: impl IntoIterator<Item = Event>,
        project: F,
    ) -> Result<Appended, Error>
    where
        F: Fn(Transaction, i64) -> W + Send + Sync,
        W: Future<Output = Result<(), Error>> + Send,
    {
        let events: Vec<Event> = events.into_iter().collect();
        if events.is_empty() {
            return Err(Error::config("an append has at least one event"));
        }
        let rounds = AtomicU32::new(0);
        let (events, project, rounds) = (&*events, &project, &rounds);
        let append = self.table.transact(&self.partition, |tx| async move {
            // Existing ids are checked only after another client came in between.
            if rounds.fetch_add(1, Ordering::Relaxed) > 0
                && let Some(appended) = self.find(&tx, events).await?
            {
                return Ok(appended);
            }
            let head = tx.get((&*self.partition, HEAD)).await?;
            let version = match &head {
                Some(head) => head.get::<i64>(VERSION)?,
                None => 0,
            };
            if let Some(expected) = after.filter(|expected| *expected != version) {
                if let Some(appended) = self.find(&tx, events).await? {
                    return Ok(appended);
                }
                let actual = version;
                return Err(Error::new(ErrorKind::StreamConflict { expected, actual }));
            }
            let appended = self.write(&tx, head, version, events)?;
            project(tx, appended.first).await?;
            Ok(appended)
        });
        append.attempts(ATTEMPTS).await
    }

    /// Writes the head and the events.
    fn write(
        &self,
        tx: &Transaction,
        head: Option<Loaded<Entity>>,
        version: i64,
        events: &[Event],
    ) -> Result<Appended, Error> {
        let last = version.saturating_add(i64::try_from(events.len()).unwrap_or(i64::MAX));
        if last > VERSION_MAX {
            return Err(Error::config("a stream has at most 9,999,999,999 events"));
        }
        match head {
            Some(mut head) => {
                head.set(VERSION, last);
                tx.replace(&head)?;
            }
            None => tx.insert(&Entity::new(&*self.partition, HEAD).with(VERSION, last))?,
        }
        for (event, version) in events.iter().zip(version + 1..) {
            let mut entity = Entity::new(&*self.partition, event_key(version));
            for (name, value) in &event.properties {
                entity.set(name.clone(), value.clone());
            }
            if let Some(id) = &event.id {
                entity.set(EVENT_ID, &**id);
                tx.insert(&Entity::new(&*self.partition, id_key(id)).with(VERSION, version))?;
            }
            tx.insert(&entity)?;
        }
        Ok(Appended { first: version + 1, last, is_repeated: false })
    }

    /// The versions of events that were appended already, if all of them have ids and all were.
    async fn find(&self, tx: &Transaction, events: &[Event]) -> Result<Option<Appended>, Error> {
        let mut versions: Option<(i64, i64)> = None;
        for (index, event) in events.iter().enumerate() {
            let Some(id) = &event.id else { return Ok(None) };
            let Some(known) = tx.get((&*self.partition, &*id_key(id))).await? else {
                return match index {
                    0 => Ok(None),
                    _ => Err(partly()),
                };
            };
            let version: i64 = known.get(VERSION)?;
            versions = match versions {
                None => Some((version, version)),
                Some((first, last)) if version == last + 1 => Some((first, version)),
                Some(_) => return Err(partly()),
            };
        }
        Ok(versions.map(|(first, last)| Appended { first, last, is_repeated: true }))
    }

    /// Up to `count` events, starting with `version`.
    pub async fn read(&self, version: i64, count: usize) -> Result<Vec<Recorded>, Error> {
        let from = row().ge(event_key(version.clamp(0, VERSION_MAX)));
        let events = partition(&self.partition).and(from).and(row().starts_with(EVENT));
        let rows = self.table.query(events).take(count).collect_at_most(count).await?;
        let recorded = |entity: Loaded<Entity>| {
            let number = entity.row_key().strip_prefix(EVENT).and_then(|text| text.parse().ok());
            let version = number.ok_or_else(|| Error::protocol("a row that is no event"))?;
            Ok(Recorded { version, entity })
        };
        rows.into_iter().map(recorded).collect()
    }

    /// Stores the state after the events up to `version`.
    pub async fn save_snapshot(&self, version: i64, state: Event) -> Result<(), Error> {
        let mut entity =
            Entity::new(&*self.partition, snapshot_key(version)).with(VERSION, version);
        for (name, value) in state.properties {
            entity.set(name, value);
        }
        self.table.upsert(&entity).await.map(drop)
    }

    /// The newest snapshot: read the events after its version to continue from it.
    pub async fn snapshot(&self) -> Result<Option<Recorded>, Error> {
        let snapshots = partition(&self.partition).and(row().starts_with(SNAPSHOT));
        let found = self.table.query(snapshots).take(1).collect_at_most(1).await?;
        found
            .into_iter()
            .next()
            .map(|entity| Ok(Recorded { version: entity.get(VERSION)?, entity }))
            .transpose()
    }
}

fn event_key(version: i64) -> String {
    format!("{EVENT}{version:010}")
}

fn snapshot_key(version: i64) -> String {
    format!("{SNAPSHOT}{:010}", VERSION_MAX - version.clamp(0, VERSION_MAX))
}

fn id_key(id: &str) -> String {
    let mut key = String::from("id_");
    escape(&mut key, id, None);
    key
}

fn partly() -> Error {
    Error::new(ErrorKind::Conflict).with(|context| {
        context.hint = Some("some of the events were appended before, and not all together".into());
    })
}
