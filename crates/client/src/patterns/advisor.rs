//! The design advisor on an account's own traffic (P-20): see `docs/patterns/20-design-advisor.md`.

use crate::account::Account;
use crate::call::{Answer, Call};
use http::header::IF_MATCH;
use lazuli_advice::{Advisor, Class, QueryFacts, Sample, Verb};
use lazuli_model::EntityKey;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use lazuli_advice::FilterFacts;
pub use lazuli_advice::{Code, Finding, Thresholds};

/// Watches the traffic of an account. Dropped, it stops.
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
    /// Watches all handles of an account, from now on. One that watched it before sees no more.
    pub fn new(account: &Account, thresholds: Thresholds) -> Self {
        let advisor = Arc::new(Mutex::new(Advisor::new(thresholds)));
        account.0.advisor.store(Some(advisor.clone()));
        Self { account: account.clone(), advisor }
    }

    /// What was found so far.
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

/// Panics if the traffic that a [`Watch`] has seen could be better: for tests of applications.
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

/// The keys that a call reads or writes, with the verb of each: more than one for a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects(Vec<(&'static str, EntityKey)>);

impl Account {
    /// Whether somebody wants advice: nothing is gathered otherwise.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.advisor.load().is_some()
    }

    /// The subjects of a call; none if nobody wants advice.
    pub(crate) fn subjects<'k>(
        &self,
        keys: impl IntoIterator<Item = (&'static str, &'k EntityKey)>,
    ) -> Subjects {
        if !self.is_watched() {
            return Subjects::default();
        }
        Subjects(keys.into_iter().map(|(verb, key)| (verb, key.clone())).collect())
    }

    /// Shows a call on entities, and its answer, to the advisor.
    pub(crate) fn advise(&self, call: &Call, answer: &Answer) {
        let (Some(advisor), Some(table)) = (&*self.0.advisor.load(), call.table()) else { return };
        let is_batched = call.about.operations > 0;
        let if_match = call.headers.get(IF_MATCH);
        for (verb, key) in &call.about.subjects.0 {
            let Some(verb) = verb_of(verb) else { continue };
            let sample = Sample {
                status: answer.status.as_u16(),
                is_batched,
                is_conditional: if_match.is_some_and(|value| value != "*"),
                ..Sample::new(self.0.env.now(), table, verb)
            };
            let sample = sample.with_keys(key.partition.as_str(), key.row.as_str());
            lock(advisor).observe(&sample);
        }
    }

    /// Shows a page of a query to the advisor.
    pub(crate) fn advise_query(&self, call: &Call, returned: usize) {
        let (Some(advisor), Some(table)) = (&*self.0.advisor.load(), call.table()) else { return };
        let (Some(facts), Some(class)) = (&call.about.facts, call.about.query_class) else {
            return;
        };
        let query = QueryFacts {
            property: facts.property.as_deref(),
            is_on_time: facts.is_on_time,
            has_or_of_keys: facts.has_or_of_keys,
            has_row_alone: facts.has_row_alone,
            returned: u32::try_from(returned).unwrap_or(u32::MAX),
            ..QueryFacts::new(class_of(class))
        };
        let sample = Sample::new(self.0.env.now(), table, Verb::Query).with_query(query);
        let sample = Sample { partition: facts.partition.as_deref(), ..sample };
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
