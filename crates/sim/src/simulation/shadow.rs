//! The data that the simulation derives from every commit: an index and a feed of all entities.
//! After a run both must agree with the entities, whatever faults the commits met.

use lazuli_engine::{
    Change, Derive, Derived, Direction, Engine, EngineError, Key, KeyRange, MemoryEngine, Refusal,
    Revision, Scan, Visit, Write,
};
use lazuli_layout::TableId;
use lazuli_layout::table::CatalogRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ENTITIES: &[u8] = b"Le";
const CATALOG: &[u8] = b"Lc";
/// Followed by the key of an entity; the value is the entity's. No key of the layout has this prefix.
const INDEX: &[u8] = b"L0";
/// Appended entries: the length of a key, the key, and its value unless it was deleted.
const FEED: &[u8] = b"L1";

/// Derives index and feed of the entities that a commit changes, after the commit's own derived writes.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) own: Option<Arc<dyn Derive>>,
}

impl Derive for Shadow {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        if let Some(own) = &self.own {
            own.derive(changes, derived)?;
        }
        for change in changes.iter().filter(|change| change.key.starts_with(ENTITIES)) {
            let entry = Key::from([INDEX, change.key].concat());
            let write = match change.after {
                Some(value) => Write::Put(entry, value.to_vec().into()),
                None => Write::Delete(entry),
            };
            derived.write(change.index, write);
            let length = (change.key.len() as u16).to_be_bytes();
            let recorded = [&length, change.key, change.after.unwrap_or_default()].concat();
            derived.write(change.index, Write::Append(Key::from(FEED.to_vec()), recorded.into()));
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.held_bytes())
    }
}

/// Entries by key: value and revision.
type Entries = BTreeMap<Vec<u8>, (Vec<u8>, Revision)>;

/// Whether index and feed agree with the entities. Reclaiming removes the entities of a dropped
/// table but not the data derived from them, so only the remaining entities are checked.
pub(super) async fn check(engine: &MemoryEngine) -> Result<(), String> {
    let failed = |error: EngineError| error.to_string();
    let entities = all(engine, ENTITIES).await.map_err(failed)?;
    let index = all(engine, INDEX).await.map_err(failed)?;
    let feed = all(engine, FEED).await.map_err(failed)?;
    let catalog = all(engine, CATALOG).await.map_err(failed)?;
    let ids =
        catalog.values().map(|(record, _)| CatalogRecord::decode_facts(record).map(|(id, _)| id));
    let live: BTreeSet<TableId> =
        ids.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let index = index
        .into_iter()
        .filter_map(|(key, found)| key.strip_prefix(INDEX).map(|entity| (entity.to_vec(), found)));
    agree("index", &entities, &index.collect(), &live)?;
    agree("feed", &entities, &replayed(&feed), &live)
}

/// The entities after replaying all recorded changes.
fn replayed(feed: &Entries) -> Entries {
    let mut replayed = Entries::new();
    for (recorded, revision) in feed.values() {
        let Some((length, rest)) = recorded.split_first_chunk() else { continue };
        let Some((key, value)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
        else {
            continue;
        };
        match value {
            [] => replayed.remove(key),
            value => replayed.insert(key.to_vec(), (value.to_vec(), *revision)),
        };
    }
    replayed
}

/// The derived data equals the entities, and contains nothing that an existing table lacks.
fn agree(
    what: &str,
    entities: &Entries,
    derived: &Entries,
    live: &BTreeSet<TableId>,
) -> Result<(), String> {
    for (key, entity) in entities {
        if derived.get(key) != Some(entity) {
            let found = derived.get(key);
            return Err(format!("the {what} has {found:?} for {key:?}, which is {entity:?}"));
        }
    }
    let is_live = |key: &[u8]| {
        let id = key.strip_prefix(ENTITIES).and_then(|rest| rest.first_chunk());
        id.is_some_and(|id| live.contains(&TableId(u64::from_be_bytes(*id))))
    };
    match derived.keys().find(|key| is_live(key) && !entities.contains_key(*key)) {
        Some(key) => Err(format!("the {what} has {key:?}, which does not exist")),
        None => Ok(()),
    }
}

async fn all(engine: &MemoryEngine, prefix: &[u8]) -> Result<Entries, EngineError> {
    let mut entries = Entries::new();
    let scan = Scan {
        range: KeyRange::prefix(prefix),
        direction: Direction::Forward,
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        rows_expected: usize::MAX,
    };
    let visitor = &mut |key: &[u8], value: &[u8], revision: Revision| {
        entries.insert(key.to_vec(), (value.to_vec(), revision));
        Visit::Continue
    };
    engine.view().await?.scan(scan, visitor).await?;
    Ok(entries)
}
