//! The reference table: one state, one request at a time.

use crate::history::{
    Change, ChangeKind, Condition, EntityId, Refusal, Request, Response, Scan, Slots, Stored,
    Version,
};
use std::collections::BTreeMap;

/// The state of a table between two requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    exists: bool,
    entities: BTreeMap<EntityId, Entity>,
    /// The last known version of each entity: versions only increase, even across deletion.
    floors: BTreeMap<EntityId, Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entity {
    slots: Slots,
    version: Stamp,
}

/// The version of an entity, as far as responses revealed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stamp {
    Known(Version),
    /// The version from the write with this number, whose response was lost. All entities that it
    /// wrote have the same version.
    LostAnswer(usize),
}

impl Table {
    /// A table that exists and is empty.
    pub fn created() -> Self {
        Self { exists: true, ..Self::missing() }
    }

    /// No table.
    pub const fn missing() -> Self {
        Self { exists: false, entities: BTreeMap::new(), floors: BTreeMap::new() }
    }

    /// The state after `request`, if `response` is one that this state can give; `number` is
    /// the request's own.
    ///
    /// A request of unknown outcome counts as done: the caller leaves out those that were not done
    /// or refused.
    pub fn after(&self, number: usize, request: &Request, response: &Response) -> Option<Self> {
        if matches!(response, Response::TableNotFound) {
            return (!self.exists).then(|| self.clone());
        }
        match request {
            Request::CreateTable => match response {
                Response::TableCreated | Response::Unknown => (!self.exists).then(Self::created),
                Response::TableAlreadyExists => self.exists.then(|| self.clone()),
                _ => None,
            },
            _ if !self.exists => None,
            Request::DeleteTable => match response {
                Response::TableDeleted | Response::Unknown => Some(Self::missing()),
                _ => None,
            },
            Request::Get(entity) => match response {
                Response::Entity(found) => self.showing(*entity, *found),
                _ => None,
            },
            Request::Scan(scan) => match response {
                Response::Page { entities, next } => self.paged(scan, entities, *next),
                _ => None,
            },
            Request::Index(_) => Some(self.clone()),
            Request::Change(_) | Request::Batch(_) => {
                self.changed(number, request.changes(), response)
            }
        }
    }

    /// This state, known to show `found` as `entity`.
    fn showing(&self, entity: EntityId, found: Option<Stored>) -> Option<Self> {
        let mut next = self.clone();
        match (self.entities.get(&entity), found) {
            (None, None) => Some(next),
            (Some(held), Some(found)) if held.slots == found.slots => {
                next.learn(entity, found.version)?;
                Some(next)
            }
            _ => None,
        }
    }

    /// This state, known to show exactly `entities` before `next`.
    fn paged(
        &self,
        scan: &Scan,
        entities: &[(EntityId, Stored)],
        next: Option<EntityId>,
    ) -> Option<Self> {
        // A page that a filter thins out may end at an entity that it does not select.
        let full = next.is_none_or(|next| {
            let is_there = scan.value.is_some() || self.entities.contains_key(&next);
            entities.len() == scan.top && scan.covers(next) && is_there
        });
        let in_page = |id: &EntityId| scan.covers(*id) && next.is_none_or(|next| *id < next);
        let held =
            self.entities.iter().filter(|(id, held)| in_page(id) && scan.selects(&held.slots));
        let held = held.map(|(id, _)| *id);
        if !full || entities.len() > scan.top || !held.eq(entities.iter().map(|(id, _)| *id)) {
            return None;
        }
        let show = |table: Self, (id, found): &(EntityId, Stored)| table.showing(*id, Some(*found));
        entities.iter().try_fold(self.clone(), show)
    }

    /// The state after `changes`, all or none of them.
    fn changed(&self, number: usize, changes: &[Change], response: &Response) -> Option<Self> {
        let stamp = match response {
            Response::Written(Some(version)) => Stamp::Known(*version),
            Response::Written(None) | Response::Unknown => Stamp::LostAnswer(number),
            Response::Refused { index, reason } => return self.refused(changes, *index, *reason),
            _ => return None,
        };
        let mut next = self.clone();
        for change in changes {
            next.admit(change)?;
        }
        for change in changes {
            next.apply(change, stamp)?;
        }
        Some(next)
    }

    /// This state, known to refuse the change at `index` and none before it.
    fn refused(&self, changes: &[Change], index: usize, reason: Refusal) -> Option<Self> {
        let (refused, before) = (changes.get(index)?, changes.get(..index)?);
        let mut next = self.clone();
        for change in before {
            next.admit(change)?;
        }
        next.refuses(refused, reason).then_some(next)
    }

    /// Checks that the condition of a change holds, and learns the version from it.
    fn admit(&mut self, change: &Change) -> Option<()> {
        let held = self.entities.contains_key(&change.entity);
        match change.kind {
            ChangeKind::Insert => (!held).then_some(()),
            ChangeKind::InsertOrReplace | ChangeKind::InsertOrMerge => Some(()),
            ChangeKind::Replace(condition)
            | ChangeKind::Merge(condition)
            | ChangeKind::Delete(condition) => match condition {
                _ if !held => None,
                Condition::Any => Some(()),
                Condition::At(version) => self.learn(change.entity, version),
            },
        }
    }

    /// Whether a change can be refused for this reason.
    fn refuses(&self, change: &Change, reason: Refusal) -> bool {
        let held = self.entities.get(&change.entity);
        match change.kind {
            ChangeKind::Insert => held.is_some() && reason == Refusal::EntityAlreadyExists,
            ChangeKind::InsertOrReplace | ChangeKind::InsertOrMerge => false,
            ChangeKind::Replace(condition)
            | ChangeKind::Merge(condition)
            | ChangeKind::Delete(condition) => match (held, condition, reason) {
                (None, _, Refusal::EntityNotFound) => true,
                (Some(held), Condition::At(version), Refusal::ConditionNotMet) => {
                    held.version != Stamp::Known(version)
                }
                _ => false,
            },
        }
    }

    fn apply(&mut self, change: &Change, stamp: Stamp) -> Option<()> {
        if let ChangeKind::Delete(_) = change.kind {
            self.entities.remove(&change.entity);
            return Some(());
        }
        if let Stamp::Known(version) = stamp {
            self.raise(change.entity, version)?;
        }
        let slots = match change.kind {
            ChangeKind::Merge(_) | ChangeKind::InsertOrMerge => {
                let held = self.entities.get(&change.entity).map(|held| held.slots);
                merged(held.unwrap_or_default(), change.slots)
            }
            _ => change.slots,
        };
        self.entities.insert(change.entity, Entity { slots, version: stamp });
        Some(())
    }

    /// Records that `entity` is at `version`; refuses a contradiction.
    fn learn(&mut self, entity: EntityId, version: Version) -> Option<()> {
        match self.entities.get(&entity)?.version {
            Stamp::Known(known) => (known == version).then_some(()),
            untold @ Stamp::LostAnswer(_) => {
                let mut written = Vec::new();
                for (id, held) in &mut self.entities {
                    if held.version == untold {
                        held.version = Stamp::Known(version);
                        written.push(*id);
                    }
                }
                written.into_iter().try_for_each(|id| self.raise(id, version))
            }
        }
    }

    /// A new version is greater than every earlier one of its entity.
    fn raise(&mut self, entity: EntityId, version: Version) -> Option<()> {
        let floor = self.floors.insert(entity, version);
        floor.is_none_or(|floor| floor < version).then_some(())
    }
}

fn merged(held: Slots, patch: Slots) -> Slots {
    let mut slots = held;
    for (slot, patch) in slots.iter_mut().zip(patch) {
        *slot = patch.or(*slot);
    }
    slots
}
