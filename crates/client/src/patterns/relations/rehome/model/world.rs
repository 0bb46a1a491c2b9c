//! Rows and notes in memory, and their invariants.

use super::super::protocol::{Committed, Found, Note, Origin, Reply, Row, Store};
use crate::entity::ETag;
use crate::patterns::schedule;
use lazuli_model::EntityKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// An entity: its identity, and the changes made to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    birth: u64,
    changes: Vec<u64>,
}

#[derive(Clone)]
pub(super) struct World {
    state: Arc<Mutex<State>>,
    /// Whether a client writes without reading.
    is_blind: bool,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<EntityKey, (Row<Life>, u64)>,
    notes: BTreeMap<EntityKey, (Note, u64)>,
    /// The expected state of each entity; `None` if it was deleted.
    should: BTreeMap<u64, Option<Vec<u64>>>,
    /// Grows with every write: used for versions, numbers and births.
    count: u64,
    trace: Vec<String>,
}

pub(super) fn key(name: &str) -> EntityKey {
    EntityKey::parse(name, "r").unwrap()
}

fn etag(version: u64) -> ETag {
    ETag::new(version.to_string())
}

impl World {
    pub(super) fn new(is_blind: bool) -> Self {
        Self { state: Arc::default(), is_blind }
    }

    pub(super) fn prepare(&self, names: [&str; 2]) {
        for name in names {
            schedule::block_on(self.free_client().insert(name));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn client(&self, number: usize) -> Client {
        Client { world: self.clone(), number, is_free: false }
    }

    /// A client whose requests are carried out at once.
    pub(super) fn free_client(&self) -> Client {
        Client { world: self.clone(), number: 0, is_free: true }
    }

    /// Checks that no staged copy or note is left.
    pub(super) fn check_end(&self) {
        schedule::World::check_step(self);
        let state = self.lock();
        let staged: Vec<_> =
            state.rows.iter().filter(|(_, (row, _))| matches!(row, Row::Staged(..))).collect();
        assert!(staged.is_empty(), "staged: {staged:?}\n{}", state.trace.join("\n"));
        assert!(state.notes.is_empty(), "notes: {:?}\n{}", state.notes, state.trace.join("\n"));
    }
}

impl schedule::World for World {
    fn end(&self, client: usize) {
        self.lock().trace.push(format!("{client} ended"));
    }

    /// At every step, each entity is in one place with the expected content, or gone if it was deleted. If a client
    /// writes without reading, an entity may have been overwritten, and is then in no place.
    fn check_step(&self) {
        let state = self.lock();
        for (birth, should) in &state.should {
            let places: Vec<_> = state.lives().filter(|(_, life)| life.birth == *birth).collect();
            let is_right = match (&*places, should) {
                ([], None) => true,
                ([], Some(_)) => self.is_blind,
                ([(_, life)], Some(changes)) => life.changes == *changes,
                _ => false,
            };
            let trace = state.trace.join("\n");
            assert!(is_right, "{birth} should be {should:?}, is {places:?}\n{trace}");
        }
    }
}

impl State {
    /// Entities and their keys: a staged copy named by a note is an entity.
    fn lives(&self) -> impl Iterator<Item = (&EntityKey, &Life)> {
        self.rows.iter().filter_map(|(key, (row, _))| match row {
            Row::Entity(life) => Some((key, life)),
            Row::Staged(life, origin) => {
                let note = self.notes.get(&origin.key);
                let is_named = note.is_some_and(|(note, _)| note.number == origin.number);
                is_named.then_some((key, life))
            }
            Row::Foreign => None,
        })
    }

    fn put(&mut self, key: &EntityKey, row: Row<Life>) -> ETag {
        self.count += 1;
        self.rows.insert(key.clone(), (row, self.count));
        etag(self.count)
    }

    fn is_version(&self, key: &EntityKey, version: &ETag) -> bool {
        self.rows.get(key).is_some_and(|(_, found)| etag(*found) == *version)
    }

    fn born(&mut self, key: &EntityKey) {
        let birth = self.count + 1;
        self.put(key, Row::Entity(Life { birth, changes: Vec::new() }));
        self.should.insert(birth, Some(Vec::new()));
    }
}

#[derive(Clone)]
pub(super) struct Client {
    world: World,
    number: usize,
    is_free: bool,
}

impl Client {
    pub(super) fn is_alone(&self) -> bool {
        self.is_free
    }

    pub(super) fn trace(&self) -> String {
        self.world.lock().trace.join("\n")
    }

    /// The entities at these keys.
    pub(super) fn alive_at(&self, keys: &[&EntityKey]) -> Vec<u64> {
        let state = self.world.lock();
        let here = state.lives().filter(|(key, _)| keys.contains(key));
        here.map(|(_, life)| life.birth).collect()
    }

    pub(super) async fn insert(&self, name: &str) {
        let key = &key(name);
        let insert = self.request(format!("insert {name}"), |state| {
            if !state.rows.contains_key(key) {
                state.born(key);
            }
        });
        insert.await.unwrap();
    }

    pub(super) async fn put(&self, name: &str) {
        let key = &key(name);
        let put = self.request(format!("put {name}"), |state| {
            if let Some((Row::Entity(life), _)) = state.rows.get(key) {
                let birth = life.birth;
                state.should.insert(birth, None);
            }
            state.born(key);
        });
        put.await.unwrap();
    }

    pub(super) async fn change(&self, name: &str) {
        let key = &key(name);
        let Some(Found { etag, row: Row::Entity(mut life), .. }) = self.get(key).await.unwrap()
        else {
            return;
        };
        let change = self.request(format!("change {name}"), |state| {
            if state.is_version(key, &etag) {
                life.changes.push(state.count);
                state.should.insert(life.birth, Some(life.changes.clone()));
                state.put(key, Row::Entity(life));
            }
        });
        change.await.unwrap();
    }

    pub(super) async fn delete(&self, name: &str) {
        let key = &key(name);
        let Some(Found { etag, row: Row::Entity(life), .. }) = self.get(key).await.unwrap() else {
            return;
        };
        let delete = self.request(format!("delete {name}"), |state| {
            if state.is_version(key, &etag) {
                state.should.insert(life.birth, None);
                state.rows.remove(key);
            }
        });
        delete.await.unwrap();
    }

    /// Stops once, then carries out a request.
    fn request<'a, T: Send + 'a>(
        &'a self,
        what: String,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> Reply<'a, T> {
        Box::pin(async move {
            if !self.is_free {
                schedule::stop().await;
            }
            let mut state = self.world.lock();
            let number = self.number;
            state.trace.push(format!("{number} {what}"));
            Ok(act(&mut state))
        })
    }
}

fn name(key: &EntityKey) -> &str {
    key.partition.as_str()
}

impl Store for Client {
    type Entity = Life;

    fn get<'a>(&'a self, key: &'a EntityKey) -> Reply<'a, Option<Found<Life>>> {
        self.request(format!("get {}", name(key)), move |state| {
            state.rows.get(key).map(|(row, version)| Found {
                key: key.clone(),
                etag: etag(*version),
                row: row.clone(),
            })
        })
    }

    fn stage<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Life,
        origin: &'a Origin,
    ) -> Reply<'a, Option<ETag>> {
        self.request(format!("stage {} {origin:?}", name(at)), move |state| {
            let is_free = !state.rows.contains_key(at);
            is_free.then(|| state.put(at, Row::Staged(entity.clone(), origin.clone())))
        })
    }

    fn commit<'a>(&'a self, original: &'a Found<Life>, note: &'a Note) -> Reply<'a, Committed> {
        self.request(format!("commit {} {note:?}", name(&original.key)), move |state| {
            let is_as_read = state.is_version(&original.key, &original.etag);
            if !is_as_read || state.notes.contains_key(&original.key) {
                return Committed::Refused;
            }
            state.rows.remove(&original.key);
            state.count += 1;
            state.notes.insert(original.key.clone(), (note.clone(), state.count));
            Committed::Done(Some(etag(state.count)))
        })
    }

    fn finish<'a>(&'a self, staged: &'a Found<Life>) -> Reply<'a, bool> {
        self.request(format!("finish {}", name(&staged.key)), move |state| {
            let Row::Staged(life, _) = &staged.row else { return false };
            let is_as_read = state.is_version(&staged.key, &staged.etag);
            if is_as_read {
                state.put(&staged.key, Row::Entity(life.clone()));
            }
            is_as_read
        })
    }

    fn unstage<'a>(&'a self, staged: &'a Found<Life>) -> Reply<'a, bool> {
        self.request(format!("unstage {}", name(&staged.key)), move |state| {
            let is_as_read = state.is_version(&staged.key, &staged.etag);
            if is_as_read {
                state.rows.remove(&staged.key);
            }
            is_as_read
        })
    }

    fn note<'a>(&'a self, original: &'a EntityKey) -> Reply<'a, Option<(Note, ETag)>> {
        self.request(format!("note of {}", name(original)), move |state| {
            state.notes.get(original).map(|(note, version)| (note.clone(), etag(*version)))
        })
    }

    fn forget<'a>(&'a self, original: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool> {
        self.request(format!("forget {}", name(original)), move |state| {
            let note = state.notes.get(original);
            let is_as_read = note.is_some_and(|(_, found)| etag(*found) == *version);
            if is_as_read {
                state.notes.remove(original);
            }
            is_as_read
        })
    }

    fn number(&self) -> i64 {
        let mut state = self.world.lock();
        state.count += 1;
        i64::try_from(state.count).unwrap()
    }
}
