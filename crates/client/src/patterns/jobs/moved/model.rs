//! Runs the protocol with every order of its requests, and with crashes (P-0.8).
//!
//! Rows and notes are in memory. The test also records the expected state of each entity: after every request, a
//! client that reads the original and then the copy finds it with all its changes, from insertion to deletion.

mod world;

use super::protocol::{self, Moved};
use crate::error::{Error, ErrorKind};
use crate::patterns::schedule::{self, Chooser, block_on, drawn_triples, every_pair};
use world::{Client, Job, World};

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Runs a job that was sent without reading the entity.
    Move,
    /// Runs a job that was sent for the first state of the entity.
    MoveFirst,
    /// Reads the entity, sends a job for that state, and runs it.
    MoveSeen,
    /// Copies without deleting.
    MakeCopy,
    /// Changes the entity where it is; `typed` drops unknown properties, as a type does.
    Change { typed: bool },
    /// Deletes the entity where it is.
    Delete,
    /// Creates an entity with the same key again.
    Insert,
}

use Step::{Change, Delete, Insert, MakeCopy, Move, MoveFirst, MoveSeen};

async fn run(client: Client, steps: Vec<Step>) {
    for step in steps {
        match step {
            Move => client.work(Job::Any).await,
            MoveFirst => client.work(client.first()).await,
            MoveSeen => {
                if let Some(job) = client.see().await {
                    client.work(job).await;
                }
            }
            MakeCopy => client.work(Job::Copy).await,
            Change { typed } => client.change(typed).await,
            Delete => client.delete().await,
            Insert => client.insert().await,
        }
    }
}

impl Client {
    async fn work(&self, job: Job) {
        self.note_job(&job);
        let shape = |original: &protocol::Original<world::Life>| {
            Ok::<_, Error>((world::key(), original.entity.clone()))
        };
        match protocol::run(self, &job.goal(), shape).await {
            Ok(Moved::Done | Moved::WasDone | Moved::Changed | Moved::Absent | Moved::Taken) => {}
            Err(error) => {
                let is_contended = matches!(error.kind(), ErrorKind::Contended { .. });
                assert!(is_contended && !self.is_alone(), "{error}");
            }
        }
    }
}

/// Runs clients as the chooser schedules them, runs all jobs once more, and checks.
fn scenario(chooser: &mut dyn Chooser, clients: &[Vec<Step>]) {
    let steps = || clients.iter().flatten();
    let world = World::new(steps().any(|step| matches!(step, Move | MakeCopy)));
    block_on(world.free_client().insert());
    let futures = clients.iter().enumerate().map(|(number, steps)| {
        let client = world.client(number + 1);
        (number + 1, run(client, steps.clone()))
    });
    schedule::interleave(chooser, &world, futures.collect());
    // The messages are delivered until the jobs are done.
    for job in world.jobs() {
        block_on(world.free_client().work(job));
    }
    world.check_end();
}

const TYPED: Step = Change { typed: true };
const PLAIN: Step = Change { typed: false };

fn others() -> Vec<Vec<Step>> {
    vec![
        vec![PLAIN],
        vec![TYPED],
        vec![PLAIN, TYPED],
        vec![Delete],
        vec![Delete, Insert],
        vec![Delete, Delete, Insert, PLAIN],
        vec![Insert],
        vec![Insert, TYPED, Delete],
    ]
}

#[test]
fn a_job_for_what_its_sender_saw_moves_that_and_nothing_else_in_every_order() {
    // P-3.6c.
    let mut programs = others();
    programs.extend([
        vec![MoveFirst],
        vec![MoveFirst, MoveFirst],
        vec![MoveSeen],
        vec![MoveSeen, Insert, MoveSeen],
        vec![MoveFirst, Insert, PLAIN],
        vec![MoveFirst, Delete, Insert],
    ]);
    let runs = every_pair(&programs, scenario);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn a_job_that_moves_whatever_is_there_loses_nothing_in_every_order() {
    // P-3.6b.
    let mut programs = others();
    programs.extend([
        vec![Move],
        vec![Move, Move],
        vec![Move, Insert, Move],
        vec![Move, TYPED, Delete],
        vec![Move, Delete, Insert],
        vec![MakeCopy],
        vec![MoveFirst],
        vec![MoveSeen],
    ]);
    let runs = every_pair(&programs, scenario);
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn three_clients_and_two_jobs_lose_nothing_in_drawn_orders() {
    // P-3.6d.
    let mut programs = others();
    programs.extend([
        vec![MoveFirst],
        vec![MoveSeen, Insert, MoveSeen],
        vec![MoveFirst, Delete, Insert],
    ]);
    for jobs in [[vec![MoveFirst], vec![MoveFirst]], [vec![MoveFirst], vec![MoveSeen]]] {
        drawn_triples(5_000, &programs, &jobs, |chooser, _, clients| scenario(chooser, clients));
    }
    programs.push(vec![Move, Insert, Move]);
    drawn_triples(5_000, &programs, &[vec![Move], vec![MoveFirst]], |chooser, _, clients| {
        scenario(chooser, clients);
    });
}
