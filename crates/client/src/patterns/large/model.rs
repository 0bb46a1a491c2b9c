//! Runs the protocol with every order of its requests, with crashes and with clients that sleep (P-0.8).
//!
//! A client is a future that stops before each request; a scheduler decides which client's request is carried out
//! next, and which client crashes. One client only lets time pass.

mod world;

use crate::patterns::schedule::{self, Chooser, drawn_triples, every_pair};
use world::World;

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Reads an entity and gives it a new value, or inserts the entity.
    Set(&'static str),
    /// Reads an entity and replaces it with the same value.
    Touch(&'static str),
    /// Reads an entity and deletes it.
    Delete(&'static str),
    /// Reads an entity and its value.
    Read(&'static str),
    /// Handles a note that is due.
    Work,
    /// Lets time pass; after two of these a note is due.
    Sleep,
}

use Step::{Delete, Read, Set, Sleep, Touch, Work};

async fn run(client: world::Client, steps: Vec<Step>) {
    for step in steps {
        match step {
            Set(id) => client.set(id).await,
            Touch(id) => client.touch(id).await,
            Delete(id) => client.delete(id).await,
            Read(id) => client.read(id).await,
            Work => client.work().await,
            Sleep => client.sleep().await,
        }
    }
}

/// Runs clients as the chooser schedules them, lets time pass, heals, and checks.
fn scenario(chooser: &mut dyn Chooser, clients: &[Vec<Step>]) {
    let world = World::default();
    world.prepare("P");
    let futures = clients.iter().enumerate().map(|(number, steps)| {
        let client = world.client(number + 1);
        (number + 1, run(client, steps.clone()))
    });
    schedule::interleave(chooser, &world, futures.collect());
    world.heal();
    world.check();
}

fn programs() -> Vec<Vec<Step>> {
    vec![
        vec![Set("P")],
        vec![Set("P"), Set("P")],
        vec![Touch("P")],
        vec![Delete("P")],
        vec![Delete("P"), Set("P")],
        vec![Set("Q")],
        vec![Read("P")],
        vec![Sleep, Sleep, Work],
        vec![Sleep, Work, Sleep, Work],
    ]
}

#[test]
fn two_clients_leave_no_blob_and_name_none_that_is_gone_in_every_order() {
    // P-11.2, P-11.2a.
    let runs = every_pair(&programs(), scenario);
    assert!(runs > 5_000, "{runs}");
}

#[test]
fn three_clients_a_worker_and_time_do_neither_in_drawn_orders() {
    let always = [vec![Work; 6], vec![Sleep; 4]];
    drawn_triples(3_000, &programs(), &always, |chooser, _, clients| scenario(chooser, clients));
}
