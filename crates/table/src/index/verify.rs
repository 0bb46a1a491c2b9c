//! Compares the indexes of a table with its entities, in both directions, while writes continue
//!
//!
//! A page is one snapshot, in which entities and entries agree or do not, whatever changes between
//! two pages. First the entities: each must have its entries. Then the entries of each index: each
//! must belong to its entity. Then the owners of unique values. Then the changes of the feed: none
//! may be newer than its entity (`feed/verify.rs`).

use super::derive::{Indexed, entry_of};
use crate::error::TableError;
use crate::expiry::verify::indexed_moments;
use crate::feed::verify::RecordedFeed;
use crate::scan::Timer;
use crate::service::TableService;
use lazuli_engine::retry::give_way;
use lazuli_engine::{Found, Key, KeyRange, Revision, ScanEnd, View, Visit};
use lazuli_layout::key::index::{entity_of_entry, join_entity, owner, split_entity};
use lazuli_layout::settings::{IndexState, TableExpiry, TableIndex, decode_owner};
use lazuli_layout::{CorruptRecord, FeedId, IndexId, TableId, key};
use lazuli_model::{AccountName, TableName};
use lazuli_service::{Rows, step};
use std::sync::Arc;

/// Entities or entries compared per step.
const STEP_ROWS: usize = 256;
/// Entities read by their keys at a time: each may be as large as 1 MiB.
const FETCHED_MAX: usize = 16;
/// Maximum disagreements named in one page.
const NAMED_MAX: usize = 100;

/// Where a verification continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyPlace {
    /// 0 for the entities; then two for each index number, for its entries and for its owners, so
    /// that it means the same when other indexes are added or dropped; the greatest number for the feed.
    pub part: u32,
    /// The first key not compared.
    pub from: Vec<u8>,
}

/// What one page of a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyPage {
    pub entities: u64,
    pub entries: u64,
    pub found: Vec<Disagreement>,
    /// `None` when everything is compared.
    pub next: Option<VerifyPlace>,
}

/// A disagreement of an index, the feed or the expiry with an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The name of the index, or [`FEED`] or [`EXPIRY`].
    pub index: String,
    pub partition_key: String,
    pub row_key: String,
    pub kind: DisagreementKind,
}

/// Names the feed in place of an index. No index has this name.
pub const FEED: &str = "change feed";
/// Names the index of moments.
pub const EXPIRY: &str = "expiry of entities";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisagreementKind {
    /// The entity has no entry.
    Missing,
    /// The entry does not match its entity, or its entity does not exist.
    Surplus,
    /// Another entity owns the unique values of the entity, or none does.
    NotOwner,
}

impl DisagreementKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Surplus => "surplus",
            Self::NotOwner => "not-owner",
        }
    }
}

impl TableService {
    /// Compares some of the entries of every ready index, and of the feed, with the entities, for as
    /// long as a query may run.
    pub async fn verify_indexes(
        &self,
        account: &AccountName,
        name: &TableName,
        from: Option<VerifyPlace>,
    ) -> Result<VerifyPage, TableError> {
        let view = self.view().await?;
        let (table, settings) = view.table(account, name).await?;
        let indexes = settings.iter().flat_map(|settings| &settings.indexes);
        let ready = indexes.clone().filter(|index| index.state == IndexState::Ready);
        let feed = match settings.as_ref().filter(|settings| settings.feed.is_some()) {
            Some(settings) => {
                let id = FeedId { table, number: settings.feeds };
                self.recorded_feed(&*view.entries, id).await?
            }
            None => None,
        };
        let moments = indexed_moments(&*view.entries, table, settings.as_deref()).await?;
        let comparison = Comparison {
            view: view.entries.clone(),
            table,
            indexes: ready.cloned().collect(),
            feed,
            moments,
            page: VerifyPage::default(),
        };
        comparison.run(from, Timer::start(&*self.store.clock)).await
    }
}

pub(crate) struct Comparison {
    pub(crate) view: Arc<dyn View>,
    pub(crate) table: TableId,
    indexes: Vec<TableIndex>,
    pub(crate) feed: Option<RecordedFeed>,
    pub(crate) moments: Option<TableExpiry>,
    pub(crate) page: VerifyPage,
}

/// A row as read.
pub(crate) struct ComparedRow {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) revision: Revision,
}

/// What a part of a comparison reads.
#[derive(Clone, Copy)]
enum Part {
    Entities,
    /// By the position of the index.
    Entries(usize),
    Owners(usize),
    Changes,
}

/// The number of the feed's part.
const CHANGES: u32 = u32::MAX;

/// The number of an index's part of entries; that of its owners is the next.
fn entries_part(index: &TableIndex) -> u32 {
    index.number.saturating_mul(2).saturating_add(1).min(CHANGES - 2)
}

impl Comparison {
    async fn run(
        mut self,
        from: Option<VerifyPlace>,
        mut timer: Timer<'_>,
    ) -> Result<VerifyPage, TableError> {
        self.indexes.sort_by_key(|index| index.number);
        let mut place = from.unwrap_or(VerifyPlace { part: 0, from: Vec::new() });
        while let Some((number, part)) = self.part(place.part) {
            // The part where it was to continue may be gone.
            let from = if number == place.part { place.from } else { Vec::new() };
            let whole = self.range(part);
            let range = KeyRange::new(from.max(whole.start), whole.end);
            let rest = match range.is_empty() {
                true => None,
                false => self.step(part, range).await?,
            };
            place = match (rest, number) {
                (Some(from), part) => VerifyPlace { part, from },
                (None, CHANGES) => break,
                (None, part) => VerifyPlace { part: part + 1, from: Vec::new() },
            };
            timer.look();
            if timer.is_over() || self.page.found.len() >= NAMED_MAX {
                self.page.next = self.part(place.part).map(|_| place);
                return Ok(self.page);
            }
            give_way().await;
        }
        Ok(self.page)
    }

    /// The first part numbered `number` or higher, and its number.
    fn part(&self, number: u32) -> Option<(u32, Part)> {
        let indexes = self.indexes.iter().enumerate().flat_map(|(place, index)| {
            let number = entries_part(index);
            [(number, Part::Entries(place)), (number + 1, Part::Owners(place))]
        });
        let entities = (!self.is_empty()).then_some((0, Part::Entities));
        let changes = self.feed.as_ref().map(|_| (CHANGES, Part::Changes));
        let mut parts = entities.into_iter().chain(indexes).chain(changes);
        parts.find(|(known, _)| *known >= number)
    }

    /// Whether there is nothing to compare entities with.
    fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.feed.is_none() && self.moments.is_none()
    }

    /// All keys of a part.
    fn range(&self, part: Part) -> KeyRange {
        let of_index = |place: usize| self.indexes.get(place).map(|index| index.id(self.table));
        let range = match part {
            Part::Entities => Some(key::table_range(self.table)),
            Part::Entries(place) => of_index(place).map(IndexId::entries),
            Part::Owners(place) => of_index(place).map(IndexId::owners),
            Part::Changes => self.feed.as_ref().map(|feed| feed.id.entries()),
        };
        let range = range.unwrap_or_default();
        KeyRange::new(range.start, range.end)
    }

    /// Compares some rows; returns where to continue in the same part.
    async fn step(&mut self, part: Part, range: KeyRange) -> Result<Option<Vec<u8>>, TableError> {
        let mut rows: Vec<ComparedRow> = Vec::new();
        let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
            rows.push(ComparedRow { key: key.to_vec(), value: value.to_vec(), revision });
            Ok(Visit::Continue)
        };
        let end = step(&*self.view, range, Rows::at_most(STEP_ROWS), &mut visit).await?;
        match part {
            Part::Entities => {
                self.compare_entities(&rows).await?;
                self.compare_recorded(&rows).await?;
                self.compare_moments(&rows).await?;
            }
            Part::Changes | Part::Entries(_) | Part::Owners(_) => {
                for rows in rows.chunks(FETCHED_MAX) {
                    match part {
                        Part::Entries(place) => self.compare_entries(place, rows).await?,
                        Part::Owners(place) => self.compare_owners(place, rows).await?,
                        Part::Entities | Part::Changes => self.compare_changes(rows).await?,
                    }
                }
            }
        }
        Ok(match end {
            ScanEnd::More(rest) => Some(rest.start),
            ScanEnd::Done | ScanEnd::Stopped => None,
        })
    }

    /// Checks that every entity has its entries and owns its unique values.
    async fn compare_entities(&mut self, rows: &[ComparedRow]) -> Result<(), TableError> {
        let (mut expected, mut keys) = (Vec::new(), Vec::new());
        for (row, ComparedRow { key, value, .. }) in rows.iter().enumerate() {
            self.page.entities += 1;
            let (_, entity) = split_entity(key)?;
            for (place, index) in self.indexes.iter().enumerate() {
                let indexed = Indexed::parse(key, Some(value))?;
                let Some(values) = indexed.as_ref().and_then(|e| e.values(&index.definition))
                else {
                    continue;
                };
                expected.push((row, place, DisagreementKind::Missing));
                keys.push(entry_of(self.table, index, &values, entity));
                if !index.definition.is_unique() {
                    continue;
                }
                if let Some(owner) = owner(index.id(self.table), values) {
                    expected.push((row, place, DisagreementKind::NotOwner));
                    keys.push(Key::from(owner));
                }
            }
        }
        let found = self.view.multi_get(&keys).await?;
        for ((row, place, kind), found) in expected.into_iter().zip(found) {
            let Some(ComparedRow { key, .. }) = rows.get(row) else { continue };
            let (_, entity) = split_entity(key)?;
            let is_right = match (kind, &found) {
                (_, None) => false,
                (DisagreementKind::NotOwner, Some(found)) => decode_owner(&found.value)? == entity,
                (_, Some(_)) => true,
            };
            if !is_right {
                self.disagree(place, entity, kind)?;
            }
        }
        Ok(())
    }

    /// Checks that every entry matches its entity.
    async fn compare_entries(
        &mut self,
        place: usize,
        rows: &[ComparedRow],
    ) -> Result<(), TableError> {
        let Some(index) = self.indexes.get(place).cloned() else { return Ok(()) };
        let properties = index.definition.on().len();
        let entities: Vec<&[u8]> = rows
            .iter()
            .map(|row| entity_of_entry(&row.key, properties))
            .collect::<Result<_, _>>()?;
        let found = self.entities(&entities).await?;
        for ((row, entity), found) in rows.iter().zip(entities).zip(found) {
            self.page.entries += 1;
            let key = join_entity(self.table, entity);
            let indexed = Indexed::parse(&key, found.as_ref().map(|found| &*found.value))?;
            let values = indexed.as_ref().and_then(|indexed| indexed.values(&index.definition));
            let expected = values.map(|values| entry_of(self.table, &index, &values, entity));
            if expected.is_none_or(|expected| expected.as_slice() != row.key.as_slice()) {
                self.disagree(place, entity, DisagreementKind::Surplus)?;
            }
        }
        Ok(())
    }

    /// Checks that every owner has the values that it owns.
    async fn compare_owners(
        &mut self,
        place: usize,
        rows: &[ComparedRow],
    ) -> Result<(), TableError> {
        let Some(index) = self.indexes.get(place).cloned() else { return Ok(()) };
        let entities: Vec<&[u8]> =
            rows.iter().map(|row| decode_owner(&row.value)).collect::<Result<_, _>>()?;
        let found = self.entities(&entities).await?;
        for ((row, entity), found) in rows.iter().zip(entities).zip(found) {
            let key = join_entity(self.table, entity);
            let indexed = Indexed::parse(&key, found.as_ref().map(|found| &*found.value))?;
            let values = indexed.as_ref().and_then(|indexed| indexed.values(&index.definition));
            let expected = values.and_then(|values| owner(index.id(self.table), values));
            if expected.as_ref() != Some(&row.key) {
                self.disagree(place, entity, DisagreementKind::Surplus)?;
            }
        }
        Ok(())
    }

    /// The entities that at most [`FETCHED_MAX`] rows name.
    pub(crate) async fn entities(
        &self,
        entities: &[&[u8]],
    ) -> Result<Vec<Option<Found>>, TableError> {
        let key = |entity: &&[u8]| Key::from(join_entity(self.table, entity));
        Ok(self.view.multi_get(&entities.iter().map(key).collect::<Vec<_>>()).await?)
    }

    fn disagree(
        &mut self,
        place: usize,
        entity: &[u8],
        kind: DisagreementKind,
    ) -> Result<(), CorruptRecord> {
        let Some(index) = self.indexes.get(place) else { return Ok(()) };
        let name = index.definition.name().as_str().to_owned();
        self.disagree_in(name, entity, kind)
    }

    pub(crate) fn disagree_in(
        &mut self,
        index: String,
        entity: &[u8],
        kind: DisagreementKind,
    ) -> Result<(), CorruptRecord> {
        let key = join_entity(self.table, entity);
        let names = key::decode_entity(&key)?;
        self.page.found.push(Disagreement {
            index,
            partition_key: names.partition.into_owned(),
            row_key: names.row.into_owned(),
            kind,
        });
        Ok(())
    }
}
