//! Who goes next, and who dies: enumerated, or drawn from a seed.

use super::Step;
use super::world::World;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

/// What a scheduler does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This client's request is carried out.
    Go(usize),
    /// This client dies.
    Die(usize),
}

pub(super) trait Chooser {
    /// Chooses among clients that live; `last` is the one that went before, if it lives.
    fn next(&mut self, alive: &[usize], last: Option<usize>) -> Next;
}

/// Runs all clients to their end, one request at a time.
pub(super) fn interleave<F: Future<Output = ()>>(
    chooser: &mut dyn Chooser,
    world: &World,
    clients: Vec<(usize, F)>,
) {
    let mut clients: Vec<(usize, Pin<Box<F>>)> =
        clients.into_iter().map(|(number, future)| (number, Box::pin(future))).collect();
    let mut context = TaskContext::from_waker(Waker::noop());
    // To the first request of each.
    clients.retain_mut(|(number, future)| {
        let is_alive = future.as_mut().poll(&mut context) == Poll::Pending;
        if !is_alive {
            world.end(*number);
        }
        is_alive
    });
    let mut last = None;
    while !clients.is_empty() {
        let alive: Vec<usize> = clients.iter().map(|(number, _)| *number).collect();
        let next = chooser.next(&alive, last.filter(|number| alive.contains(number)));
        let (Next::Go(number) | Next::Die(number)) = next;
        let at = alive.iter().position(|other| *other == number).unwrap();
        let is_over = match next {
            Next::Go(_) => clients[at].1.as_mut().poll(&mut context).is_ready(),
            Next::Die(_) => true,
        };
        if is_over {
            drop(clients.remove(at));
            world.end(number);
        }
        last = Some(number);
        world.check_unique();
    }
}

/// All schedules with so many switches from a client that could go on, and so many deaths.
pub(super) struct Listed {
    switches_max: usize,
    crashes_max: usize,
    switches: usize,
    crashes: usize,
    /// The choices of this run: which, and of how many.
    path: Vec<(usize, usize)>,
    depth: usize,
}

impl Listed {
    pub(super) fn new(switches_max: usize, crashes_max: usize) -> Self {
        Self { switches_max, crashes_max, switches: 0, crashes: 0, path: Vec::new(), depth: 0 }
    }

    /// Moves on to the next schedule; false when there is none.
    fn advance(&mut self) -> bool {
        (self.switches, self.crashes, self.depth) = (0, 0, 0);
        while let Some((choice, of)) = self.path.pop() {
            if choice + 1 < of {
                self.path.push((choice + 1, of));
                return true;
            }
        }
        false
    }

    fn pick(&mut self, of: usize) -> usize {
        if self.depth == self.path.len() {
            self.path.push((0, of));
        }
        let (choice, known) = self.path[self.depth];
        assert_eq!(known, of, "a run does not repeat itself");
        self.depth += 1;
        choice
    }
}

impl Chooser for Listed {
    fn next(&mut self, alive: &[usize], last: Option<usize>) -> Next {
        let mut options = Vec::new();
        match last {
            Some(last) => {
                options.push(Next::Go(last));
                if self.switches < self.switches_max {
                    options.extend(alive.iter().filter(|n| **n != last).map(|n| Next::Go(*n)));
                }
                if self.crashes < self.crashes_max {
                    options.push(Next::Die(last));
                }
            }
            None => options.extend(alive.iter().map(|n| Next::Go(*n))),
        }
        let choice = match options.len() {
            1 => 0,
            of => self.pick(of),
        };
        let next = options[choice];
        match next {
            Next::Go(number) if last.is_some_and(|last| last != number) => self.switches += 1,
            Next::Die(_) => self.crashes += 1,
            Next::Go(_) => {}
        }
        next
    }
}

/// Runs `run` with every schedule; returns how many there were.
pub(super) fn explore(
    listed: &mut Listed,
    clients: &[Vec<Step>],
    run: impl Fn(&mut dyn Chooser),
) -> usize {
    let mut runs = 0;
    loop {
        let context = Context(format!("{clients:?}"));
        run(listed);
        drop(context);
        runs += 1;
        if !listed.advance() {
            return runs;
        }
    }
}

/// Schedules drawn from a seed: anybody may go next, one in forty dies.
pub(super) struct Drawn(u64);

impl Drawn {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap() % bound
    }
}

impl Chooser for Drawn {
    fn next(&mut self, alive: &[usize], last: Option<usize>) -> Next {
        if self.below(40) == 0 {
            return Next::Die(alive[self.below(alive.len())]);
        }
        // Half of the time the same goes on: long runs of one client meet others in odd places.
        match last {
            Some(last) if self.below(2) == 0 => Next::Go(last),
            _ => Next::Go(alive[self.below(alive.len())]),
        }
    }
}

/// Says what was run when a test failed.
pub(super) struct Context(pub(super) String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
