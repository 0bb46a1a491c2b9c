//! Insert, replace, merge, upsert and delete, each as a check and a write of one commit.
//!
//! | mutation | check | write |
//! | --- | --- | --- |
//! | insert | absent | put |
//! | insert or replace | – | put |
//! | replace | present, or at the version named | put |
//! | insert or merge | – | modify |
//! | merge | present, or at the version named | modify |
//! | delete | present, or at the version named | delete |
//!
//! None of them reads the entity first: the engine decides when it orders the commit.

use crate::derive::{Derivation, WriteKind};
use crate::error::{BatchFailure, TableError};
use crate::expiry::write::{Judged, JudgedEffect};
use crate::index::IndexConflict;
use crate::service::{OpenTable, TableService, timestamp};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{
    BoxError, Change, Check, Commit, CommitError, Current, Derive, Derived, Expect, Key, Modify,
    Refusal, Revision, Write, Writers,
};
use lazuli_layout::{EntityRecord, TableId, entity, key};
use lazuli_model::entity::{check_size, merge};
use lazuli_model::{
    AccountName, ETag, EntityError, EntityKey, IfMatch, Properties, TableName, Timestamp, Value,
    ValueRef,
};
use std::borrow::Cow;
use std::sync::Arc;

/// A change of one entity that satisfies every limit that can be checked without the stored entity.
#[derive(Clone, Debug)]
pub struct Mutation<'a> {
    key: EntityKey,
    kind: MutationKind,
    properties: Properties<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    Insert,
    InsertOrReplace,
    Replace(IfMatch),
    InsertOrMerge,
    Merge(IfMatch),
    /// The properties are ignored.
    Delete(IfMatch),
}

impl<'a> Mutation<'a> {
    /// Refuses an entity over 1 MiB. A merge can still exceed it later, together with the stored
    /// properties.
    pub fn new(
        key: EntityKey,
        kind: MutationKind,
        mut properties: Properties<'a>,
    ) -> Result<Self, EntityError> {
        if !matches!(kind, MutationKind::Delete(_)) {
            check_size(&key, properties.iter())?;
        }
        // Only an insert keeps the order of the request (T-2.34).
        if kind != MutationKind::Insert {
            properties.sort();
        }
        Ok(Self { key, kind, properties })
    }

    /// The same, with merges limited only by storage.
    pub fn relaxed(self) -> Self {
        Self { properties: self.properties.relaxed(), ..self }
    }

    pub fn key(&self) -> &EntityKey {
        &self.key
    }

    pub fn kind(&self) -> MutationKind {
        self.kind
    }

    /// The properties in the order in which they will be stored.
    pub fn properties(&self) -> &Properties<'a> {
        &self.properties
    }
}

impl TableService {
    /// Changes one entity; returns its new Timestamp.
    pub async fn mutate(
        &self,
        account: &AccountName,
        table: &TableName,
        mutation: &Mutation<'_>,
    ) -> Result<Timestamp, TableError> {
        let steps = [Step::from(mutation)];
        let applied = self.apply(account, table, &steps).await;
        applied.map_err(|failure| failure.error)
    }

    /// Applies all steps in one commit, which fails if the table was dropped.
    pub(crate) async fn apply(
        &self,
        account: &AccountName,
        name: &TableName,
        steps: &[Step<'_>],
    ) -> Result<Timestamp, BatchFailure> {
        let tried = self.retry(|| self.try_to_apply(account, name, steps)).await;
        tried.unwrap_or_else(|busy| Err(BatchFailure::new(0, busy)))
    }

    async fn try_to_apply(
        &self,
        account: &AccountName,
        name: &TableName,
        steps: &[Step<'_>],
    ) -> Attempt<Result<Timestamp, BatchFailure>> {
        let table = match self.open_to_prove(account, name).await {
            Ok(table) => table,
            // A failure before any step is attributed to the first one (T-6.46).
            Err(error) => return Attempt::Done(Err(BatchFailure::new(0, error))),
        };
        let keys: Vec<Key> = steps.iter().map(|step| step.stored_key(table.id)).collect();
        let not_before = self.store.now();
        let recorded = table.feed_id();
        let expiring = table.expiring().then(|| table.clone());
        let commit = self.commit_of(steps, &keys, not_before, [table]);
        match self.store.engine.commit(commit).await {
            Ok(revision) => {
                if let Some(feed) = recorded {
                    self.changes.recorded.add(steps.len() as u64);
                    self.news.tell(feed.table);
                }
                Attempt::Done(Ok(timestamp(revision)))
            }
            // The table was dropped, and perhaps recreated.
            Err(CommitError::GuardFailed { .. }) => {
                self.forget(account, name);
                Attempt::Again
            }
            Err(CommitError::Conflict) => Attempt::Again,
            Err(CommitError::Undetermined(_))
                if self.store.did_not_happen(not_before, &keys).await =>
            {
                Attempt::Again
            }
            Err(error) => {
                let failure = failure_of(steps, &keys, expiring.as_slice(), error);
                match self.frees_values(expiring.as_slice(), &failure).await {
                    true => Attempt::Again,
                    false => Attempt::Done(Err(failure)),
                }
            }
        }
    }

    /// Whether a commit failed only because of the unique values of an expired entity, which has now been
    /// deleted.
    pub(crate) async fn frees_values(&self, tables: &[OpenTable], failure: &BatchFailure) -> bool {
        let TableError::IndexConflict(IndexConflict { owner: Some(owner), .. }) = &failure.error
        else {
            return false;
        };
        let table = tables.iter().find(|table| table.has_entity(owner));
        match table {
            Some(table) => self.sweep_one(table, owner).await.unwrap_or(false),
            None => false,
        }
    }
}

impl TableService {
    /// The commit of `steps`, to be stored under `keys`, guarded by the existence of their tables (K-4.4).
    pub(crate) fn commit_of(
        &self,
        steps: &[Step<'_>],
        keys: &[Key],
        not_before: Revision,
        tables: impl IntoIterator<Item = OpenTable, IntoIter: ExactSizeIterator>,
    ) -> Commit {
        let with_keys = || steps.iter().zip(keys);
        let check = |(step, key): (&Step<'_>, &Key)| {
            let key = key.clone();
            step.expect.map(|expect| Check { key, expect })
        };
        let mut commit = Commit {
            checks: with_keys().filter_map(check).collect(),
            ..Commit::new(
                not_before,
                with_keys().map(|(step, key)| step.write(key.clone())).collect(),
            )
        };
        let tables = tables.into_iter();
        commit.guards.reserve_exact(tables.len());
        let mut derivations = Derivations::new(not_before, self.nature().writers);
        for table in tables {
            if table.expiring() {
                judge_in_commit(&mut commit, steps, keys, &table);
            }
            if let Some(feed) = table.feed_id()
                && self.nature().writers == Writers::Many
            {
                commit.turns.push(feed.head().into());
            }
            derivations.add(table.derive, steps);
            commit.guards.push(table.lives);
        }
        commit.derive = derivations.into_derive();
        commit
    }
}

/// Makes the commit itself judge the conditions of the steps on `table`, whose entities expire: to a check,
/// an expired entity exists.
fn judge_in_commit(commit: &mut Commit, steps: &[Step<'_>], keys: &[Key], table: &OpenTable) {
    let Some(settings) = &table.settings else { return };
    let now = timestamp(commit.not_before);
    let is_of_table = |key: &Key| table.has_entity(key.as_slice());
    commit.checks.retain(|check| !is_of_table(&check.key));
    let writes = commit.writes.iter_mut().zip(steps.iter().zip(keys));
    for (write, (step, key)) in writes.filter(|(_, (_, key))| is_of_table(key)) {
        let judged = Judged {
            expect: step.expect,
            effect: step.effect.judged(),
            settings: settings.clone(),
            now,
        };
        *write = Write::Modify(key.clone(), Arc::new(judged));
    }
}

/// The derivations of the tables of a commit.
struct Derivations {
    now: Timestamp,
    writers: Writers,
    kinds: Option<Arc<[WriteKind]>>,
    all: Option<Arc<dyn Derive>>,
}

impl Derivations {
    fn new(now: Revision, writers: Writers) -> Self {
        Self { now: timestamp(now), writers, kinds: None, all: None }
    }

    fn add(&mut self, derivation: Option<Arc<Derivation>>, steps: &[Step<'_>]) {
        let Some(derivation) = derivation else { return };
        let derive: Arc<dyn Derive> = match derivation.needs_kinds() {
            false => derivation,
            true => {
                let kinds = || steps.iter().map(Step::kind).collect();
                derivation.of_commit(self.kinds.get_or_insert_with(kinds), self.now, self.writers)
            }
        };
        self.all = Some(match self.all.take() {
            None => derive,
            Some(earlier) => Arc::new(Both(earlier, derive)),
        });
    }

    fn into_derive(self) -> Option<Arc<dyn Derive>> {
        self.all
    }
}

/// What follows from changes of several tables; each derivation ignores keys of the others.
#[derive(Debug)]
struct Both(Arc<dyn Derive>, Arc<dyn Derive>);

impl Derive for Both {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        self.0.derive(changes, derived)?;
        self.1.derive(changes, derived)
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes() + self.1.held_bytes()
    }
}

/// Finds the step that made a commit fail. Writes are the steps in order. Checks are those of the steps that
/// have one, in order, without the steps of `expiring` tables, whose conditions are part of their writes.
pub(crate) fn failure_of(
    steps: &[Step<'_>],
    keys: &[Key],
    expiring: &[OpenTable],
    error: CommitError,
) -> BatchFailure {
    match error {
        CommitError::CheckFailed { index, found } => {
            let is_judged =
                |key: &Key| expiring.iter().any(|table| table.has_entity(key.as_slice()));
            let mut checked = steps
                .iter()
                .zip(keys)
                .enumerate()
                .filter(|(_, (step, key))| step.expect.is_some() && !is_judged(key));
            match checked.nth(index) {
                Some((index, (step, _))) => BatchFailure::new(index, step.check_error(found)),
                None => BatchFailure::new(0, TableError::Busy),
            }
        }
        CommitError::Refused { index, .. } => BatchFailure::new(index, error.into()),
        other => BatchFailure::new(0, other.into()),
    }
}

/// A mutation prepared for the engine, except for its table.
pub(crate) struct Step<'a> {
    key: &'a EntityKey,
    expect: Option<Expect>,
    effect: Effect,
}

enum Effect {
    Put(Bytes),
    Modify(Arc<dyn Modify>),
    Delete,
}

impl Effect {
    fn judged(&self) -> JudgedEffect {
        match self {
            Self::Put(value) => JudgedEffect::Put(value.clone()),
            Self::Modify(function) => JudgedEffect::Modify(Arc::clone(function)),
            Self::Delete => JudgedEffect::Delete,
        }
    }
}

impl<'a> From<&'a Mutation<'_>> for Step<'a> {
    fn from(mutation: &'a Mutation<'_>) -> Self {
        let expect = match mutation.kind {
            MutationKind::Insert => Some(Expect::Absent),
            MutationKind::InsertOrReplace | MutationKind::InsertOrMerge => None,
            MutationKind::Replace(if_match)
            | MutationKind::Merge(if_match)
            | MutationKind::Delete(if_match) => Some(expectation(if_match)),
        };
        let effect = match mutation.kind {
            MutationKind::Insert | MutationKind::InsertOrReplace | MutationKind::Replace(_) => {
                Effect::Put(entity::encode(mutation.properties.iter()).into())
            }
            MutationKind::InsertOrMerge | MutationKind::Merge(_) => {
                Effect::Modify(Arc::new(MergePatch {
                    key: mutation.key.clone(),
                    patch: mutation.properties.clone().into_owned(),
                }))
            }
            MutationKind::Delete(_) => Effect::Delete,
        };
        Self { key: &mutation.key, expect, effect }
    }
}

impl Step<'_> {
    fn kind(&self) -> WriteKind {
        match self.effect {
            Effect::Put(_) => WriteKind::Put,
            Effect::Modify(_) => WriteKind::Merge,
            Effect::Delete => WriteKind::Delete,
        }
    }

    pub(crate) fn write(&self, key: Key) -> Write {
        match &self.effect {
            Effect::Put(value) => Write::Put(key, value.clone()),
            Effect::Modify(function) => Write::Modify(key, Arc::clone(function)),
            Effect::Delete => Write::Delete(key),
        }
    }

    /// The error of this step if its check found `found`.
    fn check_error(&self, found: Option<Revision>) -> TableError {
        match (self.expect, found) {
            (Some(Expect::Absent), _) => TableError::EntityAlreadyExists,
            (_, None) => TableError::EntityNotFound,
            (_, Some(_)) => TableError::ConditionNotMet,
        }
    }

    pub(crate) fn stored_key(&self, table: TableId) -> Key {
        key::entity(table, self.key).into()
    }
}

fn expectation(if_match: IfMatch) -> Expect {
    match if_match {
        IfMatch::Any => Expect::Present,
        IfMatch::Version(ETag(timestamp)) => Expect::At(Revision(timestamp.ticks())),
    }
}

/// Merges the properties of a request into whatever is stored when the commit happens.
#[derive(Debug)]
struct MergePatch {
    key: EntityKey,
    patch: Properties<'static>,
}

impl Modify for MergePatch {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let stored = match current {
            Some(current) => EntityRecord::parse(current.value)?,
            None => EntityRecord::default(),
        };
        // A corrupt property must not disappear in a merge.
        stored.verify()?;
        let merged = merge(stored.iter(), &self.patch)?;
        check_size(&self.key, merged.iter().copied())?;
        Ok(Some(entity::encode(merged.iter().copied())))
    }

    fn reads_revision(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        let keys = self.key.partition.as_str().len() + self.key.row.as_str().len();
        keys + self.patch.iter().map(|(name, value)| property_bytes(name, value)).sum::<usize>()
    }
}

/// The memory use of a retained property.
fn property_bytes(name: &str, value: ValueRef<'_>) -> usize {
    let text = match value {
        ValueRef::String(text) => text.len(),
        ValueRef::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<(Cow<'static, str>, Value<'static>)>() + name.len() + text
}
