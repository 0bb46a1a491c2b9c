//! The reference table: one state, one request at a time.

use crate::history::{
    Call, Change, ChangeKind, Condition, EntityId, Refusal, Request, Response, Scan, Slots, Span,
    Stored, Version,
};
use std::collections::BTreeMap;

/// The state of a table between two requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    exists: bool,
    /// How long entities live after their last write, in ticks; `None` means forever.
    life: Option<u64>,
    entities: BTreeMap<EntityId, Entity>,
    /// The last known version of each entity: versions only increase, even across deletion.
    floors: BTreeMap<EntityId, Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entity {
    slots: Slots,
    /// Other possible values, if it is unknown whether the entity it was merged into had expired.
    or_slots: Vec<Slots>,
    version: Stamp,
}

/// The version of an entity, as far as responses revealed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stamp {
    Known(Version),
    /// The version from the write with this number, whose response was lost. All its entities have
    /// the same version.
    LostAnswer {
        number: usize,
        /// The version is no earlier.
        since: Version,
    },
}

/// Whether an entity exists for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    /// It expires during the call, which may or may not see it.
    Either,
    Gone,
}

impl Table {
    /// A table that exists and is empty.
    pub fn created() -> Self {
        Self { exists: true, ..Self::missing() }
    }

    /// No table.
    pub const fn missing() -> Self {
        Self { exists: false, life: None, entities: BTreeMap::new(), floors: BTreeMap::new() }
    }

    /// The same table, with entities that expire this many ticks after their last write.
    pub fn with_life(self, ticks: u64) -> Self {
        Self { life: Some(ticks), ..self }
    }

    /// The state after a call, if its response is one that this state can give; `number` identifies the call.
    ///
    /// A request of unknown outcome counts as done: the caller leaves out those that were not done
    /// or refused.
    pub fn after(&self, number: usize, call: &Call) -> Option<Self> {
        let Call { request, response, span, .. } = call;
        if matches!(response, Response::TableNotFound) {
            return (!self.exists).then(|| self.clone());
        }
        match request {
            Request::CreateTable => match response {
                Response::TableCreated | Response::Unknown => {
                    (!self.exists).then(|| Self { life: self.life, ..Self::created() })
                }
                Response::TableAlreadyExists => self.exists.then(|| self.clone()),
                _ => None,
            },
            _ if !self.exists => None,
            Request::DeleteTable => match response {
                Response::TableDeleted | Response::Unknown => {
                    Some(Self { life: self.life, ..Self::missing() })
                }
                _ => None,
            },
            Request::Get(entity) => match response {
                Response::Entity(found) => self.showing(*entity, *found, *span),
                _ => None,
            },
            Request::Scan(scan) => match response {
                Response::Page { entities, next } => self.paged(scan, entities, *next, *span),
                _ => None,
            },
            Request::Index(_) | Request::SetExpiry => Some(self.clone()),
            Request::Change(_) | Request::Batch(_) => {
                self.changed(number, request.changes(), response, *span)
            }
        }
    }

    /// Whether an entity exists at some time in `span`.
    fn presence(&self, entity: EntityId, span: Span) -> Presence {
        let Some(held) = self.entities.get(&entity) else { return Presence::Gone };
        let Some(life) = self.life else { return Presence::There };
        let (first, last) = match held.version {
            Stamp::Known(version) => (version, version),
            Stamp::LostAnswer { since, .. } => (since, Version::MAX),
        };
        if first.saturating_add(life) > span.to {
            Presence::There
        } else if last.saturating_add(life) <= span.from {
            Presence::Gone
        } else {
            Presence::Either
        }
    }

    fn may_hold(&self, entity: EntityId, span: Span) -> bool {
        self.presence(entity, span) != Presence::Gone
    }

    fn may_lack(&self, entity: EntityId, span: Span) -> bool {
        self.presence(entity, span) != Presence::There
    }

    /// This state, known to show `found` as `entity`.
    fn showing(&self, entity: EntityId, found: Option<Stored>, span: Span) -> Option<Self> {
        let mut next = self.clone();
        let Some(found) = found else { return self.may_lack(entity, span).then_some(next) };
        let held = next.entities.get_mut(&entity)?;
        if held.slots != found.slots && !held.or_slots.contains(&found.slots) {
            return None;
        }
        (held.slots, held.or_slots) = (found.slots, Vec::new());
        next.learn(entity, found.version)?;
        // Only now is the version known for certain.
        next.may_hold(entity, span).then_some(next)
    }

    /// This state, known to show exactly `entities` before `next`.
    fn paged(
        &self,
        scan: &Scan,
        entities: &[(EntityId, Stored)],
        next: Option<EntityId>,
        span: Span,
    ) -> Option<Self> {
        // A page thinned out by a filter or expiry may end at an entity that is not selected.
        let full = next.is_none_or(|next| {
            let is_thin = scan.value.is_some() || self.life.is_some();
            let is_there = is_thin || self.may_hold(next, span);
            entities.len() == scan.top && scan.covers(next) && is_there
        });
        let in_page = |id: &EntityId| scan.covers(*id) && next.is_none_or(|next| *id < next);
        let listed = |id: &EntityId| entities.iter().any(|(listed, _)| listed == id);
        let held =
            self.entities.iter().filter(|(id, held)| in_page(id) && scan.selects(&held.slots));
        let held = held.map(|(id, _)| *id).filter(|id| listed(id) || !self.may_lack(*id, span));
        if !full || entities.len() > scan.top || !held.eq(entities.iter().map(|(id, _)| *id)) {
            return None;
        }
        let show =
            |table: Self, (id, found): &(EntityId, Stored)| table.showing(*id, Some(*found), span);
        entities.iter().try_fold(self.clone(), show)
    }

    /// The state after `changes`, all or none of them.
    fn changed(
        &self,
        number: usize,
        changes: &[Change],
        response: &Response,
        span: Span,
    ) -> Option<Self> {
        let stamp = match response {
            Response::Written(Some(version)) => Stamp::Known(*version),
            Response::Written(None) | Response::Unknown => {
                Stamp::LostAnswer { number, since: span.from }
            }
            Response::Refused { index, reason } => {
                return self.refused(changes, *index, *reason, span);
            }
            _ => return None,
        };
        let mut next = self.clone();
        for change in changes {
            next.admit(change, span)?;
        }
        for change in changes {
            next.apply(change, stamp, span)?;
        }
        Some(next)
    }

    /// This state, known to refuse the change at `index` and none before it.
    fn refused(
        &self,
        changes: &[Change],
        index: usize,
        reason: Refusal,
        span: Span,
    ) -> Option<Self> {
        let (refused, before) = (changes.get(index)?, changes.get(..index)?);
        let mut next = self.clone();
        for change in before {
            next.admit(change, span)?;
        }
        next.refuses(refused, reason, span).then_some(next)
    }

    /// Checks that the condition of a change holds, and learns the version from it.
    fn admit(&mut self, change: &Change, span: Span) -> Option<()> {
        match change.kind {
            ChangeKind::Insert => self.may_lack(change.entity, span).then_some(()),
            ChangeKind::InsertOrReplace | ChangeKind::InsertOrMerge => Some(()),
            ChangeKind::Replace(condition)
            | ChangeKind::Merge(condition)
            | ChangeKind::Delete(condition) => match condition {
                Condition::Any => self.may_hold(change.entity, span).then_some(()),
                Condition::At(version) => {
                    self.learn(change.entity, version)?;
                    self.may_hold(change.entity, span).then_some(())
                }
            },
        }
    }

    /// Whether a change can be refused for this reason.
    fn refuses(&self, change: &Change, reason: Refusal, span: Span) -> bool {
        let held = self.entities.get(&change.entity).filter(|_| self.may_hold(change.entity, span));
        let may_lack = self.may_lack(change.entity, span);
        match change.kind {
            ChangeKind::Insert => held.is_some() && reason == Refusal::EntityAlreadyExists,
            ChangeKind::InsertOrReplace | ChangeKind::InsertOrMerge => false,
            ChangeKind::Replace(condition)
            | ChangeKind::Merge(condition)
            | ChangeKind::Delete(condition) => match (held, condition, reason) {
                (_, _, Refusal::EntityNotFound) => may_lack,
                (Some(held), Condition::At(version), Refusal::ConditionNotMet) => {
                    held.version != Stamp::Known(version)
                }
                _ => false,
            },
        }
    }

    fn apply(&mut self, change: &Change, stamp: Stamp, span: Span) -> Option<()> {
        if let ChangeKind::Delete(_) = change.kind {
            self.entities.remove(&change.entity);
            return Some(());
        }
        if let Stamp::Known(version) = stamp {
            self.raise(change.entity, version)?;
        }
        let (slots, or_slots) = match change.kind {
            ChangeKind::Merge(_) => self.merged(change, Presence::There)?,
            ChangeKind::InsertOrMerge => self.merged(change, self.presence(change.entity, span))?,
            _ => (change.slots, Vec::new()),
        };
        self.entities.insert(change.entity, Entity { slots, or_slots, version: stamp });
        Some(())
    }

    /// The possible values of an entity after a merge; the first is no more likely than the others.
    fn merged(&self, change: &Change, presence: Presence) -> Option<(Slots, Vec<Slots>)> {
        if presence == Presence::Gone {
            return Some((change.slots, Vec::new()));
        }
        let held = self.entities.get(&change.entity)?;
        let onto = |held: &Slots| merged(*held, change.slots);
        let mut or_slots: Vec<Slots> = held.or_slots.iter().map(onto).collect();
        or_slots.extend((presence == Presence::Either).then_some(change.slots));
        Some((onto(&held.slots), or_slots))
    }

    /// Records that `entity` is at `version`; refuses a contradiction.
    fn learn(&mut self, entity: EntityId, version: Version) -> Option<()> {
        match self.entities.get(&entity)?.version {
            Stamp::Known(known) => (known == version).then_some(()),
            untold @ Stamp::LostAnswer { since, .. } => {
                if version < since && self.life.is_some() {
                    return None;
                }
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
