//! Every kind of request at random, on so few entities that clients often conflict.

use super::{Client, Marks};
use crate::history::{
    Change, ChangeKind, Condition, EntityId, IndexUpkeep, Request, Response, Scan, Slots, Version,
};
use lazuli_testkit::seed::Seeded;
use std::collections::BTreeMap;

const PARTITIONS: usize = 2;
const ROWS: usize = 4;
/// The values of `A` in an indexed table: few, so that entities share them.
pub(super) const VALUES: u32 = 3;

/// What clients do in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// The table is created and dropped.
    Tables,
    /// Queries name values of `A`, which several entities share, and an index is rebuilt.
    Indexed,
}

pub(super) struct Mix {
    random: Seeded,
    marks: Marks,
    kind: Kind,
    /// The version at which an entity was last seen.
    seen: BTreeMap<EntityId, Version>,
    /// Where the last page left off.
    resume: Option<EntityId>,
}

impl Mix {
    pub(super) fn new(random: Seeded, marks: Marks, kind: Kind) -> Self {
        Self { random, marks, kind, seen: BTreeMap::new(), resume: None }
    }

    fn entity(&mut self, partition: u8) -> EntityId {
        EntityId::new(partition, self.random.below(ROWS) as u8)
    }

    fn partition(&mut self) -> u8 {
        self.random.below(PARTITIONS) as u8
    }

    fn change(&mut self, entity: EntityId) -> Change {
        let kind = match self.random.below(10) {
            0..=2 => ChangeKind::Insert,
            3 => ChangeKind::InsertOrReplace,
            4 => ChangeKind::InsertOrMerge,
            5 | 6 => ChangeKind::Replace(self.condition(entity)),
            7 => ChangeKind::Merge(self.condition(entity)),
            _ => ChangeKind::Delete(self.condition(entity)),
        };
        Change { entity, kind, slots: self.slots() }
    }

    /// Usually the last version seen, which may be outdated.
    fn condition(&mut self, entity: EntityId) -> Condition {
        match self.seen.get(&entity) {
            Some(version) if !self.random.one_in(4) => Condition::At(*version),
            _ => Condition::Any,
        }
    }

    fn slots(&mut self) -> Slots {
        let mut slots = [None; 3];
        for slot in &mut slots {
            if !self.random.one_in(3) {
                *slot = self.marks.next();
            }
        }
        if let (Kind::Indexed, [Some(a), ..]) = (self.kind, &mut slots) {
            *a = self.value();
        }
        slots
    }

    /// A value that an index finds.
    fn value(&mut self) -> u32 {
        self.random.below(VALUES as usize) as u32
    }

    /// Two to all rows of a partition, each once.
    fn batch(&mut self) -> Request {
        let partition = self.partition();
        let mut rows: Vec<u8> = (0..ROWS as u8).collect();
        while rows.len() > 2 && self.random.one_in(2) {
            rows.swap_remove(self.random.below(rows.len()));
        }
        let change = |row| self.change(EntityId::new(partition, row));
        Request::Batch(rows.into_iter().map(change).collect())
    }

    fn scan(&mut self) -> Request {
        let partition = (!self.random.one_in(3)).then(|| self.partition());
        let from = self.resume.take().filter(|from| partition.is_none_or(|p| p == from.partition));
        let top = 1 + self.random.below(ROWS + 2);
        let by_index = self.kind == Kind::Indexed && !self.random.one_in(4);
        let value = by_index.then(|| self.value());
        Request::Scan(Scan { partition, from, top, value })
    }

    fn on_table(&mut self) -> Request {
        if self.random.one_in(3) { Request::DeleteTable } else { Request::CreateTable }
    }
}

impl Client for Mix {
    fn next(&mut self) -> Request {
        let partition = self.partition();
        match self.random.below(20) {
            0..=4 => Request::Get(self.entity(partition)),
            5..=11 => {
                let entity = self.entity(partition);
                Request::Change(self.change(entity))
            }
            12..=15 => self.batch(),
            16..=18 => self.scan(),
            _ if self.kind == Kind::Tables => self.on_table(),
            _ if self.kind == Kind::Indexed && self.random.one_in(2) => {
                Request::Index(IndexUpkeep::Rebuild)
            }
            _ => self.batch(),
        }
    }

    fn learn(&mut self, request: &Request, response: &Response) {
        match (request, response) {
            (Request::Get(entity), Response::Entity(Some(found))) => {
                self.seen.insert(*entity, found.version);
            }
            (_, Response::Written(Some(version))) => {
                for change in request.changes() {
                    self.seen.insert(change.entity, *version);
                }
            }
            (_, Response::Page { entities, next }) => {
                self.resume = *next;
                self.seen.extend(entities.iter().map(|(entity, found)| (*entity, found.version)));
            }
            _ => {}
        }
    }
}
