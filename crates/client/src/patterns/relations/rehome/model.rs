//! Runs the protocol with every order of its requests, and with crashes (P-0.8).
//!
//! Rows and notes are in memory. The test also records the expected state of each entity: after every request, the
//! entity must be in exactly one place, with all its changes, from insertion to deletion.

mod world;

use super::protocol::{self, Moved};
use crate::error::{Error, ErrorKind};
use crate::patterns::schedule::{self, Chooser, block_on, drawn_triples, every_pair};
use world::{Client, World};

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Moves the entity at the first key to the second.
    Move(&'static str, &'static str),
    /// Reads and replaces.
    Change(&'static str),
    /// Reads and deletes.
    Delete(&'static str),
    Insert(&'static str),
    /// Inserts or replaces without reading, as types without indexes may.
    Put(&'static str),
    /// Reads an entity that may be in the middle of a move.
    Find(&'static str, &'static str),
}

use Step::{Change, Delete, Find, Insert, Move, Put};

async fn run(client: Client, steps: Vec<Step>) {
    for step in steps {
        match step {
            Move(from, to) => client.rehome(from, to).await,
            Change(key) => client.change(key).await,
            Delete(key) => client.delete(key).await,
            Insert(key) => client.insert(key).await,
            Put(key) => client.put(key).await,
            Find(from, to) => client.find(from, to).await,
        }
    }
}

impl Client {
    async fn rehome(&self, from: &str, to: &str) {
        let (from, to) = (world::key(from), world::key(to));
        let outcome = protocol::run(self, &from, &to, |life| Ok::<_, Error>(life.clone())).await;
        match outcome {
            Ok(Moved::Done | Moved::WasDone | Moved::Absent | Moved::Taken) => {}
            Err(error) => {
                let is_contended = matches!(error.kind(), ErrorKind::Contended { .. });
                assert!(is_contended && !self.is_alone(), "{error}");
            }
        }
    }

    async fn find(&self, from: &str, to: &str) {
        let (from, to) = (world::key(from), world::key(to));
        let before = self.alive_at(&[&from, &to]);
        let Ok(None) = protocol::find(self, &from, &to).await else { return };
        let after = self.alive_at(&[&from, &to]);
        let missed: Vec<_> = before.iter().filter(|birth| after.contains(birth)).collect();
        assert!(missed.is_empty(), "not found: {missed:?}\n{}", self.trace());
    }
}

/// Runs clients as the chooser schedules them, runs all moves once more, and checks.
fn scenario(chooser: &mut dyn Chooser, clients: &[Vec<Step>]) {
    let steps = || clients.iter().flatten();
    let is_blind = steps().any(|step| matches!(step, Put(_)));
    let world = World::new(is_blind);
    world.prepare(["A", "C"]);
    let futures = clients.iter().enumerate().map(|(number, steps)| {
        let client = world.client(number + 1);
        (number + 1, run(client, steps.clone()))
    });
    schedule::interleave(chooser, &world, futures.collect());
    // The messages of jobs are delivered until they are done.
    for step in steps().filter(|step| matches!(step, Move(..))) {
        block_on(run(world.free_client(), vec![*step]));
    }
    world.check_end();
}

const THERE: Step = Move("A", "B");

fn programs() -> Vec<Vec<Step>> {
    vec![
        vec![THERE],
        vec![THERE, THERE],
        vec![Change("A")],
        vec![Change("B")],
        vec![Change("A"), Change("B")],
        vec![Delete("A")],
        vec![Delete("B")],
        vec![Insert("A")],
        vec![Insert("B")],
        vec![Delete("A"), Insert("A")],
        vec![Delete("B"), Insert("B"), Delete("B")],
        vec![THERE, Delete("B")],
        vec![THERE, Delete("B"), Insert("A")],
        vec![THERE, Insert("A"), Delete("B"), THERE],
        vec![Move("C", "B")],
        vec![Move("B", "C")],
    ]
}

#[test]
fn two_clients_leave_an_entity_in_one_place_in_every_order() {
    // PS-12.2a, P-12.6a, P-12.6b.
    let mut programs = programs();
    // A client that reads the old key first, and then the new one, misses nothing that moves in this direction.
    programs.pop();
    programs.push(vec![Find("A", "B")]);
    let runs = every_pair(&programs, scenario);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn moves_back_and_blind_writes_leave_an_entity_in_one_place_in_every_order() {
    // PS-12.2a, P-12.6c.
    let mut programs = programs();
    programs.extend([
        vec![Move("B", "A")],
        vec![THERE, Move("B", "A"), THERE],
        vec![Put("A")],
        vec![Put("B")],
    ]);
    let runs = every_pair(&programs, scenario);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn three_clients_and_two_moves_leave_an_entity_in_one_place_in_drawn_orders() {
    let mut programs = programs();
    programs.extend([vec![Move("B", "A")], vec![THERE, Move("B", "A")]]);
    drawn_triples(5_000, &programs, &[vec![THERE], vec![THERE]], |chooser, _, clients| {
        scenario(chooser, clients);
    });
}
