//! Entities, blobs and notes in memory, and their invariants.

use super::super::address::{BlobOwner, BlobPlace};
use super::super::note::Note;
use super::super::protocol::{Blobs, NoteId, Protocol, Store, sha256};
use crate::BoxFuture;
use crate::entity::Entity;
use crate::error::{Error, ErrorKind};
use crate::fields::{Fields, TableFields};
use crate::large::{BlobLink, Large};
use crate::patterns::schedule::{self, block_on};
use bytes::Bytes;
use lazuli_model::{EntityKey, Guid, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(60);
const KEEP: Duration = Duration::from_secs(60);
/// How long a client sleeps: a note is due after two of these.
const SLEEP: Duration = Duration::from_secs(60);
/// An assumption of the protocol: no request takes longer to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(90);

#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The versions of entities, and the blob that each refers to.
    entities: BTreeMap<&'static str, (u64, BlobPlace)>,
    blobs: BTreeMap<BlobPlace, Bytes>,
    /// With the time at which they become visible.
    notes: BTreeMap<u64, (Note, Duration)>,
    /// Grows with every write: used for versions and ids.
    count: u64,
    time: Duration,
    trace: Vec<String>,
}

fn key(id: &str) -> EntityKey {
    EntityKey::parse("p", id).unwrap()
}

fn note(id: &str) -> Note {
    Note { table: "T".into(), key: key(id), blobs: Vec::new() }
}

/// The value of an entity that refers to a blob.
fn large(place: &BlobPlace, bytes: &Bytes) -> Large {
    let link = BlobLink {
        address: format!("https://a/{}/{}", place.container, place.name),
        bytes: bytes.len() as u64,
        sha256: sha256(bytes),
    };
    let mut properties = crate::Properties::default();
    link.write("Photo", &mut properties);
    let entity = properties.values().fold(Entity::new("p", "r"), |entity, (name, value)| {
        entity.with(name.to_owned(), value.clone())
    });
    Large::read_fields("Photo", &mut Fields::new(entity)).unwrap()
}

fn content(place: &BlobPlace) -> Bytes {
    place.name.clone().into()
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn client(&self, number: usize) -> Client {
        Client { world: self.clone(), number, is_free: false }
    }

    fn free_client(&self) -> Client {
        Client { world: self.clone(), number: 0, is_free: true }
    }

    pub(super) fn prepare(&self, id: &'static str) {
        block_on(self.free_client().set(id));
        assert!(self.lock().notes.is_empty(), "an insert leaves no note");
    }

    /// Lets time pass, then has a worker handle all notes.
    pub(super) fn heal(&self) {
        self.lock().time += 2 * (GRACE + KEEP);
        let client = self.free_client();
        block_on(async { while client.settle_one().await {} });
    }

    /// Checks that exactly the blobs that entities refer to exist, and no note is left.
    pub(super) fn check(&self) {
        schedule::World::check_step(self);
        let state = self.lock();
        let named: Vec<_> = state.entities.values().map(|(_, place)| place.clone()).collect();
        let mut left: Vec<_> = state.blobs.keys().filter(|blob| !named.contains(blob)).collect();
        left.sort();
        assert!(left.is_empty(), "left: {left:?}\n{}", state.trace.join("\n"));
        assert!(state.notes.is_empty());
    }
}

impl schedule::World for World {
    fn end(&self, client: usize) {
        self.lock().trace.push(format!("{client} ended"));
    }

    /// At every step: no entity refers to a missing blob.
    fn check_step(&self) {
        let state = self.lock();
        for (_, place) in state.entities.values() {
            let trace = state.trace.join("\n");
            assert!(state.blobs.contains_key(place), "dangling: {place:?}\n{trace}");
        }
    }
}

#[derive(Clone)]
pub(super) struct Client {
    world: World,
    number: usize,
    is_free: bool,
}

/// The change to an entity.
enum Commit {
    Insert(BlobPlace),
    Replace(u64, BlobPlace),
    Delete(u64),
}

impl Client {
    fn protocol(&self) -> Protocol<'_> {
        Protocol { store: self, grace: GRACE, keep: KEEP, has_notes: true }
    }

    pub(super) async fn set(&self, id: &'static str) {
        let Some(found) = self.entity(id).await else { return };
        let number = {
            let mut state = self.world.lock();
            state.count += 1;
            state.count
        };
        let owner = BlobOwner { table: "T".into(), key: key(id), property: "Photo".into() };
        let name = owner.new_name(Guid(u128::from(number).to_be_bytes())).unwrap();
        let place = BlobPlace { container: "photos".into(), name };
        let new = vec![(place.clone(), content(&place))];
        let (commit, old) = match found {
            Some((version, old)) => (Commit::Replace(version, place), vec![old]),
            None => (Commit::Insert(place), Vec::new()),
        };
        self.write(id, Blobs { note: note(id), new, old }, commit).await;
    }

    pub(super) async fn touch(&self, id: &'static str) {
        let Some(Some((version, place))) = self.entity(id).await else { return };
        let blobs = Blobs { note: note(id), new: Vec::new(), old: Vec::new() };
        self.write(id, blobs, Commit::Replace(version, place)).await;
    }

    pub(super) async fn delete(&self, id: &'static str) {
        let Some(Some((version, place))) = self.entity(id).await else { return };
        let blobs = Blobs { note: note(id), new: Vec::new(), old: vec![place] };
        self.write(id, blobs, Commit::Delete(version)).await;
    }

    /// A reader that is faster than `keep` finds the blob that its entity refers to.
    pub(super) async fn read(&self, id: &'static str) {
        let Some(Some((_, place))) = self.entity(id).await else { return };
        let read_at = self.world.lock().time;
        let value = large(&place, &content(&place));
        let mut read_again_at = None;
        let again = async || {
            let now = self.world.lock().time;
            let trace = self.world.lock().trace.join("\n");
            assert!(now - read_at >= KEEP, "the blob went too soon\n{trace}");
            let found = self.entity(id).await.flatten();
            read_again_at = Some(self.world.lock().time);
            Ok(found.map(|(_, place)| large(&place, &content(&place))))
        };
        let read = self.protocol().read(value.link().unwrap(), 1000, again).await;
        match read.map_err(|error| error.kind().clone()) {
            Ok(_) | Err(ErrorKind::NotFound | ErrorKind::Timeout) => {}
            Err(ErrorKind::Dangling { .. }) => {
                let state = self.world.lock();
                let quick = state.time - read_again_at.unwrap() < KEEP;
                assert!(!quick, "dangling\n{}", state.trace.join("\n"));
            }
            Err(other) => panic!("{other}"),
        }
    }

    pub(super) async fn work(&self) {
        self.settle_one().await;
    }

    pub(super) async fn sleep(&self) {
        let _ = self.request("sleep".into(), |state| state.time += SLEEP).await;
    }

    async fn settle_one(&self) -> bool {
        let due = self.request("receive".into(), |state| {
            let mut notes = state.notes.iter();
            let due = notes.find(|(_, (_, seen))| *seen <= state.time);
            due.map(|(id, (note, _))| (*id, note.clone()))
        });
        let Ok(Some((id, note))) = due.await else { return false };
        if self.protocol().settle(&note).await.is_ok() {
            let _ = self.delete_note(&NoteId(id.to_string(), String::new())).await;
        }
        true
    }

    /// `None` if there was no answer in time.
    async fn entity(&self, id: &'static str) -> Option<Option<(u64, BlobPlace)>> {
        self.request(format!("get {id}"), |state| state.entities.get(id).cloned()).await.ok()
    }

    async fn write(&self, id: &'static str, blobs: Blobs, commit: Commit) {
        let what = match &commit {
            Commit::Insert(place) => format!("insert {id} {}", place.name),
            Commit::Replace(_, place) => format!("replace {id} {}", place.name),
            Commit::Delete(_) => format!("delete {id}"),
        };
        let commit = async |time| {
            let sent = self.world.lock().time;
            let outcome = self.request_with_answer(what, |state| state.commit(id, commit)).await;
            // No answer within the client's timeout: the outcome is unknown.
            if self.world.lock().time - sent > time {
                return Err(Error::new(ErrorKind::OutcomeUnknown));
            }
            let is_done = outcome?;
            is_done.then_some(()).ok_or_else(|| Error::new(ErrorKind::PreconditionFailed))
        };
        let _ = self.protocol().write(blobs, commit).await;
    }

    /// Lets other clients run.
    async fn stop(&self) {
        if !self.is_free {
            schedule::stop().await;
        }
    }

    /// The same as [`Client::request`], with an answer that may take long.
    fn request_with_answer<'a, T: Send + 'a>(
        &'a self,
        what: String,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        let request = self.request(what, act);
        Box::pin(async move {
            let answer = request.await;
            self.stop().await;
            answer
        })
    }

    /// Stops once, then carries out a request, unless it took too long to arrive.
    fn request<'a, T: Send + 'a>(
        &'a self,
        what: String,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Error>> {
        let sent = self.world.lock().time;
        Box::pin(async move {
            self.stop().await;
            let mut state = self.world.lock();
            let number = self.number;
            if state.time - sent > ARRIVAL_MAX {
                state.trace.push(format!("{number} {what} never arrives"));
                return Err(Error::new(ErrorKind::Timeout));
            }
            let answer = act(&mut state);
            state.trace.push(format!("{number} {what}"));
            Ok(answer)
        })
    }
}

impl State {
    fn commit(&mut self, id: &'static str, commit: Commit) -> bool {
        let version = self.entities.get(id).map(|(version, _)| *version);
        self.count += 1;
        match commit {
            Commit::Insert(place) if version.is_none() => {
                self.entities.insert(id, (self.count, place));
            }
            Commit::Replace(read, place) if version == Some(read) => {
                self.entities.insert(id, (self.count, place));
            }
            Commit::Delete(read) if version == Some(read) => {
                self.entities.remove(id);
            }
            _ => return false,
        }
        true
    }
}

impl Store for Client {
    fn send_note(&self, note: Note, hidden: Duration) -> BoxFuture<'_, Result<NoteId, Error>> {
        self.request_with_answer("note".into(), move |state| {
            state.count += 1;
            state.notes.insert(state.count, (note, state.time + hidden));
            NoteId(state.count.to_string(), String::new())
        })
    }

    fn delete_note<'a>(&'a self, note: &'a NoteId) -> BoxFuture<'a, Result<(), Error>> {
        self.request("delete note".into(), move |state| {
            state.notes.remove(&note.0.parse::<u64>().unwrap());
        })
    }

    fn put<'a>(&'a self, blob: &'a BlobPlace, bytes: Bytes) -> BoxFuture<'a, Result<(), Error>> {
        self.request_with_answer(format!("put {}", blob.name), move |state| {
            state.blobs.insert(blob.clone(), bytes);
        })
    }

    fn get<'a>(
        &'a self,
        blob: &'a BlobPlace,
        _: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        self.request(format!("get {}", blob.name), |state| state.blobs.get(blob).cloned())
    }

    fn delete<'a>(&'a self, blob: &'a BlobPlace) -> BoxFuture<'a, Result<(), Error>> {
        self.request(format!("delete {}", blob.name), move |state| {
            state.blobs.remove(blob);
        })
    }

    fn named<'a>(&'a self, note: &'a Note) -> BoxFuture<'a, Result<Vec<BlobPlace>, Error>> {
        self.request(format!("look at {}", note.key.row), move |state| {
            let named = state.entities.get(note.key.row.as_str());
            named.map(|(_, place)| place.clone()).into_iter().collect()
        })
    }

    fn now(&self) -> (Timestamp, Duration) {
        let time = self.world.lock().time;
        let ticks = u64::try_from(time.as_nanos() / 100).unwrap();
        (Timestamp::from_ticks((1 << 40) + ticks).unwrap(), time)
    }
}
