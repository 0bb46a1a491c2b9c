//! Rows and notes in memory, and their invariants.

use super::super::note::Note;
use super::super::protocol::{Copy, Protocol, Settled};
use super::super::store::{NoteId, Outcome, Place, Row, Store, Stored};
use crate::BoxFuture;
use crate::entity::{ETag, Entity};
use crate::error::Error;
use crate::patterns::schedule::{self, block_on};
use lazuli_model::{EntityKey, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const CLAIM_AGE: Duration = Duration::from_secs(600);

type CopiesOf = dyn Fn(&Entity) -> Result<Vec<Copy>, Error> + Send + Sync;

#[derive(Clone)]
pub(super) struct World {
    state: Arc<Mutex<State>>,
    shape: Arc<CopiesOf>,
    is_unique: bool,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<Place, (Entity, u64)>,
    notes: BTreeMap<u64, (Note, usize)>,
    /// Grows with every write: used for versions and times.
    ticks: u64,
    ended: BTreeSet<usize>,
    trace: Vec<String>,
}

pub(super) fn primary(id: &str) -> Place {
    Place { table: "T".into(), key: EntityKey::parse("id", id).unwrap() }
}

fn copy_place(value: &str, id: &str, is_unique: bool) -> Place {
    let row = if is_unique { value.to_owned() } else { format!("{value}_{id}") };
    Place { table: "T".into(), key: EntityKey::parse("value", &row).unwrap() }
}

pub(super) fn entity(id: &str, value: &str) -> Entity {
    Entity::new("id", id).with("Id", id).with("Value", value)
}

impl World {
    pub(super) fn new(is_unique: bool) -> Self {
        let shape = move |entity: &Entity| {
            let (id, value) = (entity.str("Id")?.to_owned(), entity.str("Value")?.to_owned());
            let place = copy_place(&value, &id, is_unique);
            let key = &place.key;
            let copy = Entity::new(key.partition.as_str(), key.row.as_str())
                .with("_ix", "T/value")
                .with("Id", id)
                .with("Value", value);
            Ok(vec![Copy { index: "value", is_unique, place: place.clone(), entity: copy }])
        };
        let state = State { ticks: 1 << 40, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), shape: Arc::new(shape), is_unique }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn client(&self, number: usize) -> Client {
        Client { world: self.clone(), number, is_free: false }
    }

    /// A client whose requests are carried out at once.
    fn free_client(&self) -> Client {
        Client { world: self.clone(), number: 0, is_free: true }
    }

    pub(super) fn prepare(&self, id: &str, value: &str) {
        let client = self.free_client();
        let write = async {
            let change = super::Change::Insert(entity(id, value));
            client.protocol().write(&primary(id), &[], change).await.unwrap();
        };
        block_on(write);
        assert!(self.lock().notes.is_empty());
    }

    /// At every step: no value has two holders.
    pub(super) fn check_unique(&self) {
        let state = self.lock();
        let primaries = state.rows.iter().filter(|(place, _)| place.key.partition.as_str() == "id");
        let values: Vec<_> =
            primaries.map(|(_, (entity, _))| entity.str("Value").unwrap().to_owned()).collect();
        let set: BTreeSet<_> = values.iter().collect();
        assert!(
            !self.is_unique || set.len() == values.len(),
            "two holders:\n{}",
            state.trace.join("\n")
        );
    }

    /// Lets time pass, then has workers handle all notes.
    pub(super) fn heal(&self) {
        self.lock().ticks += 2 * u64::try_from(CLAIM_AGE.as_nanos() / 100).unwrap();
        let client = self.free_client();
        block_on(async { while client.settle_one(true).await {} });
    }

    /// Checks that copies agree with the primaries, and no note is left.
    pub(super) fn check(&self) {
        self.check_unique();
        let state = self.lock();
        let mut expected = BTreeMap::new();
        for (place, (entity, ticks)) in &state.rows {
            if place.key.partition.as_str() == "id" {
                for copy in (self.shape)(entity).unwrap() {
                    expected.insert(copy.place, (place.key.row.as_str().to_owned(), *ticks));
                }
            }
        }
        let copies = state.rows.iter().filter(|(place, _)| place.key.partition.as_str() != "id");
        let found: BTreeMap<_, _> = copies
            .map(|(place, (entity, _))| {
                assert_eq!(entity.value("_st"), None, "{}", state.trace.join("\n"));
                let source: i64 = entity.get("_src").unwrap();
                let id = entity.str("_rk").unwrap().to_owned();
                (place.clone(), (id, u64::try_from(source).unwrap()))
            })
            .collect();
        assert_eq!(found, expected, "\n{}", state.trace.join("\n"));
        assert!(state.notes.is_empty());
    }
}

impl schedule::World for World {
    fn end(&self, client: usize) {
        self.lock().ended.insert(client);
        self.lock().trace.push(format!("{client} ended"));
    }

    fn check_step(&self) {
        self.check_unique();
    }
}

#[derive(Clone)]
pub(super) struct Client {
    world: World,
    number: usize,
    is_free: bool,
}

impl Client {
    pub(super) fn protocol(&self) -> Protocol<'_> {
        Protocol {
            store: self,
            shape: &*self.world.shape,
            table: "T",
            kind: "T",
            claim_age: CLAIM_AGE,
            has_notes: true,
            is_deferred: false,
            is_thorough: false,
        }
    }

    /// Handles one note whose writer has ended (the grace of W1).
    pub(super) async fn work(&self) {
        self.settle_one(false).await;
    }

    /// Repairs a primary: the copies it should have, and those that exist (P-2.6a).
    pub(super) async fn repair(&self, id: &'static str) {
        let place = primary(id);
        let there = self.request("scan".to_owned(), |state| {
            let points = |entity: &Entity| entity.str("_rk") == Ok(id);
            let copies = state.rows.iter().filter(|(_, (entity, _))| points(entity));
            copies.map(|(place, _)| place.clone()).collect::<Vec<_>>()
        });
        let mut candidates = there.await.unwrap();
        if let Some(found) = self.get(&place).await.unwrap() {
            let wanted = (self.world.shape)(&found.entity).unwrap();
            candidates.extend(wanted.into_iter().map(|copy| copy.place));
        }
        for copy in candidates {
            let protocol = Protocol { is_thorough: true, ..self.protocol() };
            let _ = protocol.mend(&place, &copy).await;
        }
    }

    async fn settle_one(&self, heals: bool) -> bool {
        let _ = self.request("receive".to_owned(), |_| ()).await;
        let next = {
            let state = self.world.lock();
            let mut notes = state.notes.iter();
            let is_due = |owner: &usize| heals || state.ended.contains(owner);
            notes.find(|(_, (_, owner))| is_due(owner)).map(|(id, (note, _))| (*id, note.clone()))
        };
        let Some((id, note)) = next else { return false };
        if let Ok(Settled::Done) = self.protocol().settle(&note).await {
            let id = NoteId(id.to_string(), String::new());
            let _ = self.delete_note(&id).await;
        } else if heals {
            panic!("the note stays: {note:?}\n{}", self.world.lock().trace.join("\n"));
        }
        true
    }

    /// Stops once, then carries out a request.
    fn request<'a, T: Send + 'a>(
        &'a self,
        what: String,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        Box::pin(async move {
            if !self.is_free {
                schedule::stop().await;
            }
            let mut state = self.world.lock();
            let number = self.number;
            let answer = act(&mut state);
            state.trace.push(format!("{number} {what}"));
            Ok(answer)
        })
    }
}

fn name(place: &Place) -> &str {
    place.key.row.as_str()
}

impl State {
    fn put(&mut self, place: &Place, entity: Entity) -> Outcome {
        self.ticks += 1;
        self.rows.insert(place.clone(), (entity, self.ticks));
        Outcome::Done(Some(ETag::new(self.ticks.to_string())))
    }

    fn is_version(&self, place: &Place, etag: &ETag) -> bool {
        self.rows.get(place).is_some_and(|(_, ticks)| ticks.to_string() == etag.as_str())
    }
}

impl Store for Client {
    fn get<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Option<Stored>, Error>> {
        self.request(format!("get {}", name(place)), move |state| {
            state.rows.get(place).map(|(entity, ticks)| Stored {
                entity: entity.clone(),
                etag: ETag::new(ticks.to_string()),
                timestamp: Timestamp::from_ticks(*ticks).unwrap(),
            })
        })
    }

    fn insert<'a>(&'a self, row: Row) -> BoxFuture<'a, Result<Outcome, Error>> {
        self.request(format!("insert {} {:?}", name(&row.place), row.entity), move |state| {
            match state.rows.contains_key(&row.place) {
                true => Outcome::Refused,
                false => state.put(&row.place, row.entity),
            }
        })
    }

    fn replace<'a>(&'a self, row: Row, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>> {
        self.request(format!("replace {} {:?}", name(&row.place), row.entity), move |state| {
            match state.is_version(&row.place, &etag) {
                true => state.put(&row.place, row.entity),
                false => Outcome::Refused,
            }
        })
    }

    fn delete<'a>(&'a self, place: &'a Place, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>> {
        self.request(format!("delete {}", name(place)), move |state| {
            if !state.is_version(place, &etag) {
                return Outcome::Refused;
            }
            state.rows.remove(place);
            Outcome::Done(None)
        })
    }

    fn send_note(&self, note: Note) -> BoxFuture<'_, Result<NoteId, Error>> {
        let owner = self.number;
        self.request("note".to_owned(), move |state| {
            state.ticks += 1;
            let id = state.ticks;
            state.notes.insert(id, (note, owner));
            NoteId(id.to_string(), String::new())
        })
    }

    fn delete_note<'a>(&'a self, note: &'a NoteId) -> BoxFuture<'a, Result<(), Error>> {
        self.request("delete note".to_owned(), move |state| {
            state.notes.remove(&note.0.parse::<u64>().unwrap());
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ticks(self.world.lock().ticks).unwrap()
    }
}
