//! Runs the protocol with every order of its requests, and with crashes (P-0.8).
//!
//! Rows and notes are in memory. A client is a future that stops before each request; a scheduler decides which
//! client's request is carried out next, and which client crashes. Schedules are enumerated up to a number of
//! switches, and drawn from seeds beyond that.

mod world;

use super::protocol::{Change, Protocol};
use crate::error::ErrorKind;
use crate::patterns::schedule::{self, Chooser, drawn_triples, every_pair};
use world::{Client, World};

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Reads a primary and sets its value, or inserts the primary.
    Set(&'static str, &'static str),
    /// Deletes a primary.
    Delete(&'static str),
    /// Handles notes whose writers have ended.
    Work,
    /// Mends the copies of a primary, and those that point to it (P-2.6a).
    Repair(&'static str),
    /// The same as `Set`, but leaves the copies to the worker (P-2.4).
    Defer(&'static str, &'static str),
}

use Step::{Defer, Delete, Repair, Set, Work};

async fn run(client: Client, steps: Vec<Step>) {
    for step in steps {
        match step {
            Set(id, value) => client.set(id, value, false).await,
            Defer(id, value) => client.set(id, value, true).await,
            Repair(id) => client.repair(id).await,
            Delete(id) => client.delete(id).await,
            Work => client.work().await,
        }
    }
}

impl Client {
    async fn set(&self, id: &'static str, value: &'static str, is_deferred: bool) {
        let place = world::primary(id);
        let protocol = Protocol { is_deferred, ..self.protocol() };
        let Ok(read) = protocol.store.get(&place).await else { return };
        let new = world::entity(id, value);
        let written = match &read {
            Some(old) => {
                let change = Change::Replace(new, old.etag.clone());
                let copies = (protocol.shape)(&old.entity).unwrap();
                protocol.write(&place, &copies, change).await
            }
            None => protocol.write(&place, &[], Change::Insert(new)).await,
        };
        self.note_outcome(&written);
    }

    async fn delete(&self, id: &'static str) {
        let place = world::primary(id);
        let protocol = self.protocol();
        if let Ok(Some(old)) = protocol.store.get(&place).await {
            let change = Change::Delete(old.etag.clone());
            let copies = (protocol.shape)(&old.entity).unwrap();
            let written = protocol.write(&place, &copies, change).await;
            self.note_outcome(&written);
        }
    }

    fn note_outcome(&self, written: &Result<super::protocol::Acknowledged, crate::Error>) {
        if let Err(error) = written {
            let expected = matches!(
                error.kind(),
                ErrorKind::Conflict
                    | ErrorKind::PreconditionFailed
                    | ErrorKind::Contended { .. }
                    | ErrorKind::UniqueViolation { .. }
            );
            assert!(expected, "{error}");
        }
    }
}

/// Runs clients as the chooser schedules them, lets time pass, heals, and checks.
fn scenario(chooser: &mut dyn Chooser, is_unique: bool, clients: &[Vec<Step>]) {
    let world = World::new(is_unique);
    // P has the value a, and its copy exists.
    world.prepare("P", "a");
    let futures = clients.iter().enumerate().map(|(number, steps)| {
        let client = world.client(number + 1);
        (number + 1, run(client, steps.clone()))
    });
    schedule::interleave(chooser, &world, futures.collect());
    world.heal();
    world.check();
}

/// Pairs and triples of programs, to be run concurrently.
fn programs() -> Vec<Vec<Step>> {
    vec![
        vec![Set("P", "b")],
        vec![Set("P", "c")],
        vec![Set("P", "b"), Set("P", "a")],
        vec![Delete("P")],
        vec![Delete("P"), Set("P", "a")],
        vec![Set("Q", "a")],
        vec![Set("Q", "b")],
        vec![Set("Q", "b"), Set("Q", "a")],
        vec![Work; 3],
        vec![Repair("P")],
        vec![Repair("Q"), Repair("P")],
        vec![Defer("P", "b")],
    ]
}

#[test]
fn two_clients_keep_copies_and_uniqueness_in_every_order() {
    // P-2.1 to P-2.6.
    let run = |is_unique| every_pair(&programs(), |chooser, all| scenario(chooser, is_unique, all));
    let runs = run(true) + run(false);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn three_clients_and_a_worker_keep_copies_and_uniqueness_in_drawn_orders() {
    drawn_triples(5_000, &programs(), &[vec![Work; 8]], |chooser, seed, clients| {
        scenario(chooser, seed % 4 > 0, clients);
    });
}
