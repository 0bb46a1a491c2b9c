//! Rows and notes in memory, and their invariants.

use super::super::protocol::{
    Committed, Found, Goal, Gone, Inserted, Mark, Note, Original, Reply, Store, Wanted,
};
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

/// The expected fate of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Should {
    Live(Vec<u64>),
    Deleted,
    /// A later one with the same key was moved to its place.
    Followed,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Any,
    For(Wanted),
    Copy,
}

impl Job {
    pub(super) fn goal(&self) -> Goal {
        let wanted = match self {
            Self::For(wanted) => Some(wanted.clone()),
            Self::Any | Self::Copy => None,
        };
        Goal { wanted, deletes: !matches!(self, Self::Copy), at: Some(key()) }
    }
}

#[derive(Clone)]
pub(super) struct World {
    state: Arc<Mutex<State>>,
    /// Whether a job moves any state: then a copy may stay of an entity that is deleted while it runs.
    is_loose: bool,
}

#[derive(Default)]
struct State {
    original: Option<(Life, u64)>,
    copy: Option<(Life, Option<Mark>, u64)>,
    note: Option<(Note, u64)>,
    should: BTreeMap<u64, Should>,
    /// The very first version.
    first: Option<u64>,
    jobs: Vec<Job>,
    /// Grows with every write: used for versions, times and births.
    count: u64,
    trace: Vec<String>,
}

/// Both tables hold the entity under one key.
pub(super) fn key() -> EntityKey {
    EntityKey::parse("p", "r").unwrap()
}

fn etag(version: u64) -> ETag {
    ETag::new(version.to_string())
}

impl World {
    pub(super) fn new(is_loose: bool) -> Self {
        Self { state: Arc::default(), is_loose }
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

    pub(super) fn jobs(&self) -> Vec<Job> {
        self.lock().jobs.clone()
    }

    /// Checks that no mark or note is left, and no deleted entity.
    pub(super) fn check_end(&self) {
        schedule::World::check_step(self);
        let state = self.lock();
        let trace = state.trace.join("\n");
        assert!(state.note.is_none(), "{:?}\n{trace}", state.note);
        let Some((life, mark, _)) = &state.copy else { return };
        assert!(mark.is_none_or(|mark| mark.moving.is_none()), "{life:?} is in doubt\n{trace}");
        let is_deleted = state.should.get(&life.birth) == Some(&Should::Deleted);
        assert!(!is_deleted || self.is_loose, "{life:?} came back\n{trace}");
    }
}

impl schedule::World for World {
    fn end(&self, client: usize) {
        self.lock().trace.push(format!("{client} ended"));
    }

    /// Checks that a client which reads the original first finds every living entity with its changes.
    fn check_step(&self) {
        let state = self.lock();
        for (birth, should) in &state.should {
            let original = state.original.as_ref().map(|(life, _)| life);
            let copy = state.copy.as_ref().map(|(life, ..)| life);
            let is_it = |life: &&Life| life.birth == *birth;
            let found = original.filter(is_it).or(copy.filter(is_it));
            let is_right = match should {
                Should::Live(changes) => found.is_some_and(|life| life.changes == *changes),
                Should::Deleted => original.filter(is_it).is_none(),
                Should::Followed => true,
            };
            let trace = state.trace.join("\n");
            assert!(is_right, "{birth} should be {should:?}, is {found:?}\n{trace}");
        }
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn put_copy(&mut self, life: &Life, mark: Option<Mark>) -> ETag {
        if let Some((before, ..)) = &self.copy
            && before.birth < life.birth
            && self.original.as_ref().is_none_or(|(original, _)| original.birth != before.birth)
        {
            let followed = before.birth;
            self.should.insert(followed, Should::Followed);
        }
        let version = self.next();
        self.copy = Some((life.clone(), mark, version));
        etag(version)
    }

    fn is_original(&self, version: &ETag) -> bool {
        self.original.as_ref().is_some_and(|(_, found)| etag(*found) == *version)
    }

    fn is_copy(&self, version: &ETag) -> bool {
        self.copy.as_ref().is_some_and(|(.., found)| etag(*found) == *version)
    }

    /// Whether a copy represents an entity: neither one that a job has yet to clean up, nor one written next to an
    /// original that did not exist when a client read it.
    fn is_entity(&self, copy: &Life) -> bool {
        let is_alive = matches!(self.should.get(&copy.birth), Some(Should::Live(_)));
        is_alive && self.original.as_ref().is_none_or(|(life, _)| life.birth != copy.birth)
    }
}

#[derive(Clone)]
pub(super) struct Client {
    world: World,
    number: usize,
    is_free: bool,
}

/// Where an entity was found.
enum Place {
    Original,
    Copy(Option<Mark>),
}

impl Client {
    pub(super) fn is_alone(&self) -> bool {
        self.is_free
    }

    pub(super) fn note_job(&self, job: &Job) {
        if !self.is_free {
            self.world.lock().jobs.push(job.clone());
        }
    }

    /// The job that was sent for the first version.
    pub(super) fn first(&self) -> Job {
        let first = self.world.lock().first.unwrap();
        Job::For(Wanted { etag: etag(first), ticks: first })
    }

    /// A job for the current state.
    pub(super) async fn see(&self) -> Option<Job> {
        let found = self.original().await.unwrap()?;
        Some(Job::For(Wanted { etag: found.etag, ticks: found.ticks }))
    }

    pub(super) async fn insert(&self) {
        let insert = self.request("insert", |state| {
            if state.original.is_none() {
                let birth = state.next();
                state.original = Some((Life { birth, changes: Vec::new() }, birth));
                state.first.get_or_insert(birth);
                state.should.insert(birth, Should::Live(Vec::new()));
            }
        });
        insert.await.unwrap();
    }

    /// Finds the entity in the order of P-3.6a.
    async fn find(&self) -> Option<(Life, ETag, Place)> {
        if let Some(found) = self.original().await.unwrap() {
            return Some((found.entity, found.etag, Place::Original));
        }
        let found = self.copy(&key()).await.unwrap()?;
        Some((found.entity, found.etag, Place::Copy(found.mark)))
    }

    pub(super) async fn change(&self, typed: bool) {
        let Some((mut life, version, place)) = self.find().await else { return };
        let change = self.request("change", move |state| {
            life.changes.push(state.count);
            let should = Should::Live(life.changes.clone());
            match place {
                Place::Original if state.is_original(&version) => {
                    state.should.insert(life.birth, should);
                    let version = state.next();
                    state.original = Some((life, version));
                }
                Place::Copy(mark) if state.is_copy(&version) && state.is_entity(&life) => {
                    state.should.insert(life.birth, should);
                    state.put_copy(&life, mark.filter(|_| !typed));
                }
                _ => {}
            }
        });
        change.await.unwrap();
    }

    pub(super) async fn delete(&self) {
        let Some((life, version, place)) = self.find().await else { return };
        let delete = self.request("delete", move |state| {
            match place {
                Place::Original if state.is_original(&version) => state.original = None,
                Place::Copy(_) if state.is_copy(&version) && state.is_entity(&life) => {
                    state.copy = None;
                }
                _ => return,
            }
            state.should.insert(life.birth, Should::Deleted);
        });
        delete.await.unwrap();
    }

    /// Stops once, then carries out a request.
    fn request<'a, T: Send + 'a>(
        &'a self,
        what: impl ToString,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> Reply<'a, T> {
        let what = what.to_string();
        Box::pin(async move {
            if !self.is_free {
                schedule::stop().await;
            }
            let mut state = self.world.lock();
            let answer = act(&mut state);
            let rows = (&state.original, &state.copy, state.note.is_some());
            let line = format!("{} {what}: {rows:?}", self.number);
            state.trace.push(line);
            Ok(answer)
        })
    }
}

impl Store for Client {
    type Entity = Life;

    fn original(&self) -> Reply<'_, Option<Original<Life>>> {
        self.request("get original", |state| {
            state.original.as_ref().map(|(life, version)| Original {
                entity: life.clone(),
                etag: etag(*version),
                ticks: *version,
            })
        })
    }

    fn copy<'a>(&'a self, _: &'a EntityKey) -> Reply<'a, Option<Found<Life>>> {
        self.request("get copy", |state| {
            state.copy.as_ref().map(|(life, mark, version)| Found {
                entity: life.clone(),
                etag: etag(*version),
                mark: *mark,
            })
        })
    }

    fn insert<'a>(&'a self, _: &'a EntityKey, life: &'a Life, mark: Mark) -> Reply<'a, Inserted> {
        self.request("insert copy", move |state| match state.copy {
            Some(_) => Inserted::Refused,
            None => Inserted::Now(state.put_copy(life, Some(mark)), true),
        })
    }

    fn replace<'a>(
        &'a self,
        _: &'a EntityKey,
        life: &'a Life,
        mark: Mark,
        version: &'a ETag,
    ) -> Reply<'a, Option<ETag>> {
        self.request("replace copy", move |state| {
            state.is_copy(version).then(|| state.put_copy(life, Some(mark)))
        })
    }

    fn remove<'a>(&'a self, _: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool> {
        self.request("remove copy", move |state| {
            let is_as_read = state.is_copy(version);
            if is_as_read {
                state.copy = None;
            }
            is_as_read
        })
    }

    fn delete<'a>(&'a self, version: &'a ETag) -> Reply<'a, Gone> {
        self.request("delete original", move |state| match state.original {
            None => Gone::Before,
            Some(_) if !state.is_original(version) => Gone::Changed,
            Some(_) => {
                state.original = None;
                Gone::Now
            }
        })
    }

    fn commit<'a>(&'a self, version: &'a ETag, note: &'a Note) -> Reply<'a, Committed> {
        self.request("commit", move |state| {
            if !state.is_original(version) || state.note.is_some() {
                return Committed::Refused;
            }
            state.original = None;
            let number = state.next();
            state.note = Some((note.clone(), number));
            Committed::Done(Some(etag(number)))
        })
    }

    fn note(&self) -> Reply<'_, Option<(Note, ETag)>> {
        self.request("get note", |state| {
            state.note.as_ref().map(|(note, version)| (note.clone(), etag(*version)))
        })
    }

    fn forget<'a>(&'a self, version: &'a ETag) -> Reply<'a, bool> {
        self.request("forget", move |state| {
            let is_as_read = state.note.as_ref().is_some_and(|(_, found)| etag(*found) == *version);
            if is_as_read {
                state.note = None;
            }
            is_as_read
        })
    }

    fn number(&self) -> i64 {
        i64::try_from(self.world.lock().next()).unwrap()
    }
}
