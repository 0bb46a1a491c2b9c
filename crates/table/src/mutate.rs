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

use crate::error::{BatchFailure, TableError};
use crate::service::{OpenTable, TableService, timestamp};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Expect, Key, Modify, Revision, Write,
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

    /// The same, with a merge limited only by storage.
    pub fn relaxed(self) -> Self {
        Self { properties: self.properties.relaxed(), ..self }
    }

    pub fn key(&self) -> &EntityKey {
        &self.key
    }

    pub fn kind(&self) -> MutationKind {
        self.kind
    }

    /// In the order in which they will be stored.
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
        let commit = commit_of(steps, &keys, not_before, table);
        match self.store.engine.commit(commit).await {
            Ok(revision) => Attempt::Done(Ok(timestamp(revision))),
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
            Err(error) => Attempt::Done(Err(failure_of(steps, error))),
        }
    }
}

/// The commit of `steps`, to be stored under `keys`, guarded by the existence of the table.
fn commit_of(steps: &[Step<'_>], keys: &[Key], not_before: Revision, table: OpenTable) -> Commit {
    let with_keys = || steps.iter().zip(keys);
    let check = |(step, key): (&Step<'_>, &Key)| {
        let key = key.clone();
        step.expect.map(|expect| Check { key, expect })
    };
    Commit {
        guards: vec![table.lives],
        checks: with_keys().filter_map(check).collect(),
        ..Commit::new(not_before, with_keys().map(|(step, key)| step.write(key.clone())).collect())
    }
}

/// Finds the step that made a commit fail: writes are the steps in order, checks are those of the
/// steps that have one.
fn failure_of(steps: &[Step<'_>], error: CommitError) -> BatchFailure {
    match error {
        CommitError::CheckFailed { index, found } => {
            let mut checked = steps.iter().enumerate().filter(|(_, step)| step.expect.is_some());
            match checked.nth(index) {
                Some((index, step)) => BatchFailure::new(index, step.check_error(found)),
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
    fn write(&self, key: Key) -> Write {
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

    fn stored_key(&self, table: TableId) -> Key {
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
