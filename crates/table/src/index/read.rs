//! Runs a query by its indexes: entries name the entities, which are read by their keys.

use super::IndexUse;
use super::access::{self, Access};
use super::collect::{Collected, collect};
use super::stream::{Place, Stream};
use crate::error::TableError;
use crate::page::{FETCH_ROWS_MAX, Page, continuation, fetch};
use crate::plan::{Plan, PlanKind};
use crate::scan::{Gather, rows_missing};
use lazuli_engine::retry::give_way;
use lazuli_engine::{Key, KeyRange, View};
use lazuli_layout::key::index::{join_entity, split_entity};
use lazuli_layout::settings::TableSettings;
use lazuli_layout::{CorruptRecord, TableId, key};
use lazuli_model::Filter;

/// How indexes serve a query; only where the keys alone would read much.
pub(crate) fn index_access<'s>(
    table: TableId,
    settings: Option<&'s TableSettings>,
    plan: &Plan<'_>,
    filter: Option<&Filter>,
) -> Option<Access<'s>> {
    if plan.kind < PlanKind::Partition {
        return None;
    }
    access::find(table, settings?, filter?)
}

/// How indexes served a query.
pub(crate) enum Served {
    /// They named the entities that were read.
    By(IndexUse),
    /// They name too many, and no entity was read.
    NotBy(IndexUse),
}

/// Reads the entities that `access` names and that lie within `ranges`.
pub(crate) async fn read_by_index(
    view: &dyn View,
    table: TableId,
    access: Access<'_>,
    ranges: &[KeyRange],
    page: &mut Page<'_>,
) -> Result<Served, TableError> {
    let used = access.used(0);
    let entity = |key: &[u8]| Ok::<_, CorruptRecord>(split_entity(key)?.1.to_vec());
    let within =
        ranges.iter().map(|range| Ok(KeyRange::new(entity(&range.start)?, entity(&range.end)?)));
    let within: Vec<KeyRange> = within.collect::<Result<_, CorruptRecord>>()?;
    let entries = match access {
        Access::Stream(tree) => {
            let end = within.last().map(|range| range.end.as_slice()).unwrap_or_default();
            let mut stream = Stream::before(end, tree);
            for range in &within {
                if !follow(view, table, &mut stream, range, page).await? {
                    break;
                }
            }
            stream.entries()
        }
        Access::Collect(ranges) => match collect(view, ranges, &within).await? {
            Collected::TooMany(entries) => {
                return Ok(Served::NotBy(IndexUse { entries, ..used }));
            }
            Collected::All(entities, entries) => {
                let key = |entity: &Vec<u8>| Key::from(join_entity(table, entity));
                fetch(view, &entities.iter().map(key).collect::<Vec<_>>(), page).await?;
                entries
            }
        },
    };
    Ok(Served::By(IndexUse { entries, ..used }))
}

/// Reads the entities of `stream` within `range`. Returns whether the page has room for more.
async fn follow(
    view: &dyn View,
    table: TableId,
    stream: &mut Stream,
    range: &KeyRange,
    page: &mut Page<'_>,
) -> Result<bool, TableError> {
    let mut at = range.start.clone();
    loop {
        let wanted = rows_missing(page.top, page.rows_returned).min(FETCH_ROWS_MAX);
        let (mut keys, mut is_over) = (Vec::with_capacity(wanted), false);
        while keys.len() < wanted {
            match stream.seek(view, &at).await? {
                Place::At(entity) if entity < range.end => {
                    keys.push(Key::from(join_entity(table, &entity)));
                    // The smallest key after it.
                    at = entity;
                    at.push(0);
                }
                Place::NotBefore(entity) if entity < range.end => {
                    at = entity;
                    break;
                }
                Place::At(_) | Place::NotBefore(_) | Place::End => {
                    is_over = true;
                    break;
                }
            }
        }
        fetch(view, &keys, page).await?;
        if page.next.is_some() {
            return Ok(false);
        }
        if is_over {
            return Ok(true);
        }
        page.pause();
        // If an entity has been found, the next step ends the page.
        if keys.is_empty() && page.timer.is_over() {
            page.next = Some(continuation(key::decode_entity(&join_entity(table, &at))?));
            return Ok(false);
        }
        give_way().await;
    }
}
