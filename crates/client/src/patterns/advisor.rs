//! The design advisor for an account's own traffic (P-20): see `docs/patterns/20-design-advisor.md`.

use crate::account::Account;
use crate::call::{Answer, Call};
use crate::codec::INDEX_MARK;
use crate::entity::Properties;
use crate::write_ids::WRITE_IDS;
use http::header::IF_MATCH;
use lazuli_advice::{
    Advisor, Class, FINGERPRINT_PLACES, Fingerprint, QueryFacts, Sample, SizeFacts, Verb,
};
use lazuli_model::entity::size_bytes;
use lazuli_model::key_text::fnv1a;
use lazuli_model::{EntityKey, ValueRef};
use lazuli_wire::odata::json;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use lazuli_advice::FilterFacts;
pub use lazuli_advice::{Code, Finding, Thresholds};

/// Entities of at least this size have their versions compared (ADV-18).
const LARGE_BYTES: usize = 4 * 1024;
/// Texts of an entity that was read that may be keys of others, and their greatest length (ADV-16).
const VALUES_MAX: usize = 8;
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 2..=40;

/// Watches the traffic of an account until it is dropped.
///
/// ```
/// # use lazuli_client::patterns::advisor::{Thresholds, Watch};
/// # use lazuli_client::prelude::*;
/// # async fn run(account: Account) -> Result<(), Error> {
/// let watch = Watch::new(&account, Thresholds::default());
/// let people = account.tables().table("People")?;
/// people.scan().filter(col("LastName").eq("Jones")).collect_at_most(100).await?;
/// for finding in watch.findings() {
///     println!("{}: {} ({})", finding.code, finding.advice, finding.evidence);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch {
    account: Account,
    advisor: Arc<Mutex<Advisor>>,
}

impl Watch {
    /// Watches all handles of an account from now on, in place of an earlier watch.
    pub fn new(account: &Account, thresholds: Thresholds) -> Self {
        let advisor = Arc::new(Mutex::new(Advisor::new(thresholds)));
        account.0.advisor.store(Some(advisor.clone()));
        Self { account: account.clone(), advisor }
    }

    /// The findings so far.
    pub fn findings(&self) -> Vec<Finding> {
        lock(&self.advisor).findings().cloned().collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let is_ours = |current: &Option<Arc<Mutex<Advisor>>>| {
            current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.advisor))
        };
        self.account.0.advisor.rcu(|current| if is_ours(current) { None } else { current.clone() });
    }
}

/// Panics if the traffic seen by a [`Watch`] could be improved: for tests of applications.
#[macro_export]
macro_rules! assert_no_advice {
    ($watch:expr) => {
        let findings = $watch.findings();
        assert!(findings.is_empty(), "{findings:#?}");
    };
}

fn lock(advisor: &Mutex<Advisor>) -> MutexGuard<'_, Advisor> {
    advisor.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys that a call reads or writes, each with its verb: several for a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects(Vec<Subject>);

#[derive(Clone, Debug)]
struct Subject {
    verb: &'static str,
    key: EntityKey,
    /// For a write.
    size: Option<SizeFacts>,
    /// For a write of a whole large entity.
    fingerprint: Option<Box<Fingerprint>>,
    /// The index whose copy is written.
    index: Option<String>,
}

impl Subject {
    fn new(verb: &'static str, key: &EntityKey, properties: Option<&Properties>) -> Self {
        let size = properties.map(|properties| size(key, properties));
        let is_whole = matches!(verb, "replace" | "overwrite" | "upsert" | "insert");
        let is_large = size.is_some_and(|size| size.entity_bytes >= LARGE_BYTES);
        let fingerprint = properties.filter(|_| is_whole && is_large).map(fingerprint);
        let index = properties.and_then(|properties| index_of(properties.iter()));
        Self { verb, key: key.clone(), size, fingerprint, index }
    }
}

/// The index that a row is a copy in. Shards, and rows of moves, belong to none.
fn index_of<'v>(mut properties: impl Iterator<Item = (&'v str, ValueRef<'v>)>) -> Option<String> {
    match properties.find(|(name, _)| *name == INDEX_MARK)?.1 {
        ValueRef::String(mark) if mark.contains('/') && !mark.starts_with('!') => {
            Some(mark.to_owned())
        }
        _ => None,
    }
}

fn size(key: &EntityKey, properties: &Properties) -> SizeFacts {
    let values = properties.iter().map(|(_, value)| value.size_bytes());
    SizeFacts {
        entity_bytes: size_bytes(key, properties.iter()),
        property_bytes: values.max().unwrap_or(0),
        properties: properties.len(),
        list_percent: 0,
    }
}

/// A number for each property, at a position that depends on its name. Write ids are not the caller's properties.
fn fingerprint(properties: &Properties) -> Box<Fingerprint> {
    let mut places = Box::new([0; FINGERPRINT_PLACES]);
    for (name, value) in properties.iter().filter(|(name, _)| *name != WRITE_IDS) {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        match value {
            ValueRef::String(text) => text.hash(&mut hasher),
            ValueRef::Binary(bytes) => bytes.hash(&mut hasher),
            other => format!("{other:?}").hash(&mut hasher),
        }
        let place = fnv1a(name.as_bytes()) as usize % FINGERPRINT_PLACES;
        if let Some(place) = places.get_mut(place) {
            *place ^= hasher.finish() as u32;
        }
    }
    places
}

/// What is recorded of an entity that was read by its key.
#[derive(Default)]
struct Seen {
    properties: u64,
    /// Hashes of its string values.
    values: Vec<u64>,
    /// The index that it is a copy in.
    index: Option<String>,
}

impl Seen {
    fn of(answer: &Answer) -> Self {
        let Ok(entity) = json::read_answered_entity(&answer.body) else { return Self::default() };
        let texts = entity.body.properties.iter().filter_map(|(_, value)| match value.as_ref() {
            ValueRef::String(text) if VALUE_BYTES.contains(&text.len()) => {
                Some(fnv1a(text.as_bytes()))
            }
            _ => None,
        });
        let values = texts.take(VALUES_MAX).collect();
        let properties = &entity.body.properties;
        let index = index_of(properties.iter().map(|(name, value)| (&**name, value.as_ref())));
        Self { properties: properties.len() as u64, values, index }
    }
}

/// A page of a query.
pub(crate) struct Page {
    pub(crate) returned: usize,
    /// Whether it is not the last.
    pub(crate) has_more: bool,
    /// Empty pages just before it.
    pub(crate) empty_before: u32,
}

/// The number of properties in a page, and the index that its first entity is a copy in.
fn properties_of(answer: &Answer) -> (u64, Option<String>) {
    let (mut properties, mut index) = (0, None);
    let read = json::read_feed(&answer.body, |entity| {
        let own = &entity.body.properties;
        if properties == 0 {
            index = index_of(own.iter().map(|(name, value)| (&**name, value.as_ref())));
        }
        properties += own.len() as u64;
    });
    read.map_or((0, None), |()| (properties, index))
}

/// Whether whole entities were requested.
fn is_whole(call: &Call) -> bool {
    !call.query.contains("select=")
}

impl Account {
    /// Whether anybody wants advice: nothing is recorded otherwise.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.advisor.load().is_some()
    }

    /// The subjects of a call; none if nobody wants advice.
    pub(crate) fn subjects<'k>(
        &self,
        keys: impl IntoIterator<Item = (&'static str, &'k EntityKey, Option<&'k Properties>)>,
    ) -> Subjects {
        if !self.is_watched() {
            return Subjects::default();
        }
        let subjects = keys.into_iter();
        Subjects(subjects.map(|(verb, key, written)| Subject::new(verb, key, written)).collect())
    }

    /// Reports a call on entities, and its answer, to the advisor.
    pub(crate) fn advise(&self, call: &Call, answer: &Answer) {
        let (Some(advisor), Some(table)) = (&*self.0.advisor.load(), call.table()) else { return };
        let is_batched = call.about.operations > 0;
        let if_match = call.headers.get(IF_MATCH);
        for Subject { verb, key, size, fingerprint, index } in &call.about.subjects.0 {
            let Some(verb) = verb_of(verb) else { continue };
            let is_read = verb == Verb::Get && answer.status.is_success();
            let seen = if is_read { Seen::of(answer) } else { Seen::default() };
            let query = (is_read && is_whole(call)).then(|| QueryFacts {
                returned: 1,
                bytes: answer.body.len() as u64,
                whole_properties: Some(seen.properties),
                ..QueryFacts::new(Class::Point)
            });
            let sample = Sample {
                size: *size,
                fingerprint: fingerprint.as_deref(),
                values: &seen.values,
                index: index.as_deref().or(seen.index.as_deref()),
                query,
                status: answer.status.as_u16(),
                is_batched,
                is_conditional: if_match.is_some_and(|value| value != "*"),
                ..Sample::new(self.0.env.now(), table, verb)
            };
            let sample = sample.with_keys(key.partition.as_str(), key.row.as_str());
            lock(advisor).observe(&sample);
        }
    }

    /// Reports a page of a query to the advisor.
    pub(crate) fn advise_query(&self, call: &Call, answer: &Answer, page: &Page) {
        let (Some(advisor), Some(table)) = (&*self.0.advisor.load(), call.table()) else { return };
        let (Some(facts), Some(class)) = (&call.about.facts, call.about.query_class) else {
            return;
        };
        let (properties, index) = properties_of(answer);
        let query = QueryFacts {
            property: facts.property.as_deref(),
            is_on_time: facts.is_on_time,
            has_or_of_keys: facts.has_or_of_keys,
            has_row_alone: facts.has_row_alone,
            returned: u32::try_from(page.returned).unwrap_or(u32::MAX),
            has_more: page.has_more,
            empty_pages: (page.returned == 0 && page.has_more).into(),
            empty_pages_before: page.empty_before,
            bytes: answer.body.len() as u64,
            whole_properties: is_whole(call).then_some(properties),
            ..QueryFacts::new(class_of(class))
        };
        let sample = Sample::new(self.0.env.now(), table, Verb::Query).with_query(query);
        let (partition, index) = (facts.partition.as_deref(), index.as_deref());
        let sample = Sample { partition, index, ..sample };
        lock(advisor).observe(&sample);
    }
}

fn verb_of(operation: &str) -> Option<Verb> {
    Some(match operation {
        "get" => Verb::Get,
        "insert" => Verb::Insert,
        "replace" | "overwrite" => Verb::Replace,
        "merge" => Verb::Merge,
        "upsert" | "upsert_merge" => Verb::Upsert,
        "delete" | "delete_key" => Verb::Delete,
        _ => return None,
    })
}

fn class_of(name: &str) -> Class {
    match name {
        "point" | "multi_point" => Class::Point,
        "range" => Class::Range,
        "partition_scan" => Class::PartitionScan,
        "partition_range" => Class::PartitionRange,
        _ => Class::TableScan,
    }
}
