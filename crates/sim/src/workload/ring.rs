//! FoundationDB's cycle: each entity points to the next; a batch turns the middle of three around.

use super::{Client, Marks, Seen, replace, whole};
use crate::history::{EntityId, Request, Response, Slots, Stored};
use lazuli_testkit::seed::Seeded;

const PARTITION: u8 = 0;
const NODES: u8 = 10;

/// The first slot points to the next row.
pub(super) fn initial() -> Vec<(EntityId, Slots)> {
    let node = |row: u8| {
        let next = u32::from((row + 1) % NODES);
        (EntityId::new(PARTITION, row), [Some(next), None, None])
    };
    (0..NODES).map(node).collect()
}

/// Whether following the pointers from the first entity visits each of them once and comes back.
pub(super) fn is_one_ring(entities: &[(EntityId, Stored)]) -> bool {
    let next = |row: u8| {
        let (_, found) = entities.iter().find(|(entity, _)| entity.row == row)?;
        u8::try_from(found.slots[0]?).ok()
    };
    let mut visited = vec![0];
    while let Some(row) = visited.last().and_then(|row| next(*row)) {
        if row == 0 {
            return visited.len() == usize::from(NODES) && entities.len() == visited.len();
        }
        if visited.contains(&row) {
            return false;
        }
        visited.push(row);
    }
    false
}

/// Reads three entities in a row, then turns the second and third around.
pub(super) struct Walker {
    random: Seeded,
    marks: Marks,
    path: Vec<Seen>,
}

impl Walker {
    pub(super) fn new(random: Seeded, marks: Marks) -> Self {
        Self { random, marks, path: Vec::new() }
    }

    /// `a → b → c → d` becomes `a → c → b → d`.
    fn rearrange(&mut self) -> Option<Request> {
        let [a, b, c] = self.path.as_slice() else { return None };
        let mut pointing_to = |next: Option<u32>| [next, self.marks.next(), None];
        let changes = vec![
            replace(a, pointing_to(Some(u32::from(c.0.row)))),
            replace(c, pointing_to(Some(u32::from(b.0.row)))),
            replace(b, pointing_to(c.1.slots[0])),
        ];
        Some(Request::Batch(changes))
    }
}

impl Client for Walker {
    fn next(&mut self) -> Request {
        if let Some(batch) = self.rearrange() {
            self.path.clear();
            return batch;
        }
        if self.path.is_empty() && self.random.one_in(3) {
            return whole(Some(PARTITION));
        }
        let row = match self.path.last() {
            Some((_, found)) => found.slots[0].and_then(|next| u8::try_from(next).ok()),
            None => Some(self.random.below(usize::from(NODES)) as u8),
        };
        Request::Get(EntityId::new(PARTITION, row.unwrap_or_default()))
    }

    fn learn(&mut self, request: &Request, response: &Response) {
        if let (Request::Get(entity), Response::Entity(Some(found))) = (request, response) {
            // A ring that changes during the reads may lead back; then there is nothing to swap.
            if self.path.iter().any(|(known, _)| known == entity) {
                self.path.clear();
            }
            self.path.push((*entity, *found));
        } else if matches!(request, Request::Get(_)) {
            self.path.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(next: &[u32]) -> Vec<(EntityId, Stored)> {
        let node = |(row, next): (usize, &u32)| {
            let stored = Stored { version: 1, slots: [Some(*next), None, None] };
            (EntityId::new(PARTITION, row as u8), stored)
        };
        next.iter().enumerate().map(node).collect()
    }

    #[test]
    fn one_ring_is_told_from_several_and_from_none() {
        assert!(is_one_ring(&page(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0])));
        assert!(is_one_ring(&page(&[2, 3, 1, 4, 5, 6, 7, 8, 9, 0])));
        assert!(!is_one_ring(&page(&[1, 0, 3, 4, 5, 6, 7, 8, 9, 2])));
        assert!(!is_one_ring(&page(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 5])));
        assert!(!is_one_ring(&page(&[1, 2, 3, 4, 5, 6, 7, 8, 0])));
        assert!(!is_one_ring(&[]));
    }
}
