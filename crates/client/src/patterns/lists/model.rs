//! Runs the protocol with every order of its requests, and with crashes (P-0.8).
//!
//! Entities, lists and notes are in memory. When all notes have been handled, each list contains exactly the entities
//! with its value.

use super::note::Entry;
use super::reconcile::{self, Reply, Store};
use crate::BoxFuture;
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use crate::patterns::schedule::{self, Chooser, Next, block_on, drawn_triples, every_pair};
use lazuli_model::EntityKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Reads an entity and sets its value, or inserts the entity.
    Set(&'static str, &'static str),
    Delete(&'static str),
    /// Handles a note whose writer has ended.
    Work,
    /// Repairs the item of an entity in a list.
    Repair(&'static str, &'static str),
}

use Step::{Delete, Repair, Set, Work};

async fn run(client: Client, steps: Vec<Step>) {
    for step in steps {
        match step {
            Set(id, value) => client.change(id, Some(value)).await,
            Delete(id) => client.change(id, None).await,
            Work => drop(client.settle_one(false).await),
            Repair(id, value) => {
                let _ = reconcile::mend(&client, &key(id), &entry(id, value)).await;
            }
        }
    }
}

/// Runs clients as the chooser schedules them, heals, and checks.
fn scenario(chooser: &mut dyn Chooser, clients: &[Vec<Step>]) {
    let world = World(Arc::default());
    block_on(world.client(0).change("P", Some("a")));
    let futures = clients.iter().enumerate().map(|(number, steps)| {
        let client = world.client(number + 1);
        (number + 1, run(client, steps.clone()))
    });
    schedule::interleave(chooser, &world, futures.collect());
    let client = world.client(0);
    block_on(async { while client.settle_one(true).await {} });
    world.check();
}

fn programs() -> Vec<Vec<Step>> {
    vec![
        vec![Set("P", "b")],
        vec![Set("P", "c")],
        vec![Set("P", "b"), Set("P", "a")],
        vec![Set("P", "b"), Set("P", "a"), Set("P", "b")],
        vec![Delete("P")],
        vec![Delete("P"), Set("P", "a")],
        vec![Set("Q", "a")],
        vec![Set("Q", "a"), Set("Q", "b")],
        vec![Set("Q", "b"), Delete("Q")],
        vec![Work; 3],
        vec![Repair("P", "a")],
        vec![Repair("P", "b"), Repair("P", "a")],
        vec![Repair("Q", "a")],
    ]
}

#[test]
fn two_clients_leave_lists_as_their_entities_say_in_every_order() {
    let runs = every_pair(&programs(), scenario);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn three_clients_and_a_worker_leave_lists_as_their_entities_say_in_drawn_orders() {
    drawn_triples(5_000, &programs(), &[vec![Work; 8]], |chooser, _, clients| {
        scenario(chooser, clients);
    });
}

/// Clients, and how many requests of each are carried out in a row; then client 2 crashes.
struct Script(Vec<(usize, usize)>);

impl Chooser for Script {
    fn next(&mut self, alive: &[usize], _: Option<usize>) -> Next {
        while let Some((client, left)) = self.0.first_mut() {
            if *left > 0 && alive.contains(client) {
                *left -= 1;
                return Next::Go(*client);
            }
            self.0.remove(0);
        }
        Next::Die(2)
    }
}

#[test]
fn a_repair_that_dies_leaves_a_note() {
    // The repair has read that the list does not exist and that the entity wants it, before the writer has created and
    // deleted the list. Its write succeeds, and it crashes before it reads the entity again.
    let clients = [vec![Set("P", "b"), Set("P", "a")], vec![Repair("P", "b")]];
    let mut script = Script(vec![(1, 3), (2, 3), (1, usize::MAX), (2, 1)]);
    scenario(&mut script, &clients);
}

#[derive(Clone)]
struct World(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Values of entities, and their versions.
    entities: BTreeMap<EntityKey, (&'static str, u64)>,
    lists: BTreeMap<EntityKey, (Vec<String>, u64)>,
    notes: BTreeMap<u64, (EntityKey, Vec<Entry>, usize)>,
    ended: BTreeSet<usize>,
    /// Grows with every write.
    count: u64,
    trace: Vec<String>,
}

fn key(id: &str) -> EntityKey {
    EntityKey::parse("id", id).unwrap()
}

fn entry(id: &str, value: &str) -> Entry {
    Entry { number: 0, place: EntityKey::parse("value", value).unwrap(), item: id.to_owned() }
}

fn etag(version: u64) -> ETag {
    ETag::new(version.to_string())
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Client number 0 does not stop before its requests.
    fn client(&self, number: usize) -> Client {
        Client { world: self.clone(), number }
    }

    fn check(&self) {
        let state = self.lock();
        let mut expected: BTreeMap<EntityKey, Vec<String>> = BTreeMap::new();
        for (key, (value, _)) in &state.entities {
            let Entry { place, item, .. } = entry(key.row.as_str(), value);
            expected.entry(place).or_default().push(item);
        }
        let found: BTreeMap<_, _> =
            state.lists.iter().map(|(place, (items, _))| (place.clone(), items.clone())).collect();
        assert_eq!(found, expected, "\n{}", state.trace.join("\n"));
    }
}

impl schedule::World for World {
    fn end(&self, client: usize) {
        self.lock().ended.insert(client);
    }

    fn check_step(&self) {}
}

struct Client {
    world: World,
    number: usize,
}

impl Client {
    /// Stops once, then carries out a request.
    fn request<'a, T: Send + 'a>(
        &'a self,
        what: String,
        act: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> Reply<'a, T> {
        Box::pin(async move {
            if self.number > 0 {
                schedule::stop().await;
            }
            let mut state = self.world.lock();
            let answer = act(&mut state);
            let line = format!("{} {what}: {:?} {:?}", self.number, state.entities, state.lists);
            state.trace.push(line);
            Ok(answer)
        })
    }

    async fn change(&self, id: &'static str, value: Option<&'static str>) {
        let key = &key(id);
        let read = self.request(format!("get {id}"), |state| state.entities.get(key).copied());
        let read = read.await.unwrap();
        if read.is_none() && value.is_none() {
            return;
        }
        let old = read.map(|(value, _)| value).filter(|old| Some(*old) != value);
        let new = value.filter(|new| read.is_none_or(|(old, _)| old != *new));
        let entries: Vec<Entry> = old.into_iter().chain(new).map(|at| entry(id, at)).collect();
        let commit = self.request(format!("set {id} {value:?}"), move |state| {
            if state.entities.get(key).copied() != read {
                return false;
            }
            state.count += 1;
            match value {
                Some(value) => drop(state.entities.insert(key.clone(), (value, state.count))),
                None => drop(state.entities.remove(key)),
            }
            true
        });
        let commit = async {
            let refused = || Error::new(ErrorKind::PreconditionFailed);
            commit.await?.then_some(()).ok_or_else(refused)
        };
        match reconcile::write(self, key, &entries, commit).await {
            Ok(_) => {}
            Err(error) => assert!(error.is_precondition_failed(), "{error}"),
        }
    }

    /// Handles a note: any, if `heals`; otherwise only one whose writer has ended (the grace of W1).
    async fn settle_one(&self, heals: bool) -> bool {
        let _ = self.request("receive".to_owned(), |_| ()).await;
        let next = {
            let state = self.world.lock();
            let is_due = |owner: &usize| heals || state.ended.contains(owner);
            let mut notes = state.notes.iter();
            let next = notes.find(|(_, (.., owner))| is_due(owner));
            next.map(|(id, (primary, entries, _))| (*id, primary.clone(), entries.clone()))
        };
        let Some((id, primary, entries)) = next else { return false };
        for entry in &entries {
            if reconcile::reconcile(self, &primary, entry).await.is_err() {
                assert!(!heals, "the note stays");
                return true;
            }
        }
        let _ = self.delete_note(&id).await;
        true
    }
}

impl Store for Client {
    type List = (Vec<String>, u64);
    type NoteId = u64;

    fn items<'l>(&self, list: &'l Self::List) -> &'l [String] {
        &list.0
    }

    fn list<'a>(&'a self, entry: &'a Entry) -> Reply<'a, Option<Self::List>> {
        let what = format!("list {}", entry.place.row.as_str());
        self.request(what, |state| state.lists.get(&entry.place).cloned())
    }

    fn wants<'a>(
        &'a self,
        primary: &'a EntityKey,
        wanted: &'a Entry,
    ) -> Reply<'a, (bool, Option<ETag>)> {
        self.request("look".to_owned(), |state| {
            let Some((value, version)) = state.entities.get(primary) else { return (false, None) };
            (entry(primary.row.as_str(), value) == *wanted, Some(etag(*version)))
        })
    }

    fn write<'a>(
        &'a self,
        entry: &'a Entry,
        items: &'a [String],
        read: Option<&'a Self::List>,
    ) -> Reply<'a, bool> {
        let what = format!("write {} {items:?}", entry.place.row.as_str());
        self.request(what, move |state| {
            let version = |list: &Self::List| list.1;
            if state.lists.get(&entry.place).map(version) != read.map(version) {
                return false;
            }
            state.count += 1;
            match items {
                [] => drop(state.lists.remove(&entry.place)),
                _ => {
                    let list = (items.to_vec(), state.count);
                    state.lists.insert(entry.place.clone(), list);
                }
            }
            true
        })
    }

    fn leave_note<'a>(
        &'a self,
        primary: &'a EntityKey,
        entries: &'a [Entry],
    ) -> Reply<'a, Option<u64>> {
        self.request("note".to_owned(), move |state| {
            state.count += 1;
            let note = (primary.clone(), entries.to_vec(), self.number);
            state.notes.insert(state.count, note);
            Some(state.count)
        })
    }

    fn delete_note<'a>(&'a self, note: &'a u64) -> Reply<'a, ()> {
        self.request("delete note".to_owned(), |state| {
            state.notes.remove(note);
        })
    }

    fn pause(&self, _: u32) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
