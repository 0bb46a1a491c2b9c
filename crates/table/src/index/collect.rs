//! Collects the entities of ranges of index entries, which are not in the order of entities.

use super::access::Ranged;
use crate::error::TableError;
use lazuli_engine::retry::give_way;
use lazuli_engine::{KeyRange, Revision, ScanEnd, View, Visit};
use lazuli_layout::key::index::entity_of_entry;
use lazuli_service::{Rows, step};

/// Maximum entities collected for one page; beyond that, a scan of the table costs less.
pub(crate) const COLLECTED_MAX: usize = 10_000;
/// Maximum entries read for one page, including those of entities before the page.
const ENTRIES_MAX: u64 = 100_000;

/// Maximum bytes of the keys collected for one page.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The entities that the entries of some ranges name.
pub(crate) enum Collected {
    /// Keys of entities without their table, sorted, without duplicates, and the number of entries read.
    All(Vec<Vec<u8>>, u64),
    /// More than the bounds allow, and the number of entries read.
    TooMany(u64),
}

/// Collects the entities that lie within any of `within`, given as keys without their table, sorted
/// and disjoint.
pub(crate) async fn collect(
    view: &dyn View,
    ranges: Vec<Ranged<'_>>,
    within: &[KeyRange],
) -> Result<Collected, TableError> {
    let (mut entities, mut entries, mut bytes) = (Vec::new(), 0, 0);
    let is_within = |entity: &[u8]| {
        let place = within.partition_point(|range| range.end.as_slice() <= entity);
        within.get(place).is_some_and(|range| range.contains(entity))
    };
    for Ranged { index, range } in ranges {
        let values = index.definition.on().len();
        let mut next =
            Some(KeyRange::new(range.start, range.end)).filter(|range| !range.is_empty());
        while let Some(range) = next.take() {
            let mut visit = |key: &[u8], _: &[u8], _: Revision| {
                entries += 1;
                let entity = entity_of_entry(key, values)?;
                if is_within(entity) {
                    bytes += entity.len();
                    entities.push(entity.to_vec());
                }
                let is_full =
                    entities.len() > COLLECTED_MAX || entries > ENTRIES_MAX || bytes > BYTES_MAX;
                Ok(if is_full { Visit::StopBefore } else { Visit::Continue })
            };
            match step(view, range, Rows::expecting(usize::MAX), &mut visit).await? {
                ScanEnd::Done => {}
                ScanEnd::More(rest) => next = Some(rest),
                ScanEnd::Stopped => return Ok(Collected::TooMany(entries)),
            }
            if next.is_some() {
                give_way().await;
            }
        }
    }
    entities.sort_unstable();
    entities.dedup();
    Ok(Collected::All(entities, entries))
}
