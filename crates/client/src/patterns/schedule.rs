//! Tests protocols with every order of their requests: which client goes next, and which crashes, is enumerated or
//! drawn from a seed (P-0.8).

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

/// The next step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Carries out this client's request.
    Go(usize),
    /// Crashes this client.
    Die(usize),
}

/// The state that clients work on.
pub(super) trait World {
    /// Called when this client has finished or crashed.
    fn end(&self, client: usize);

    /// Checks the invariants that hold after each request.
    fn check_step(&self);
}

pub(super) trait Chooser {
    /// Chooses one of the running clients; `last` is the previous one, if it still runs.
    fn next(&mut self, alive: &[usize], last: Option<usize>) -> Next;
}

/// Runs all clients to their end, one request at a time.
pub(super) fn interleave<F: Future<Output = ()>>(
    chooser: &mut dyn Chooser,
    world: &dyn World,
    clients: Vec<(usize, F)>,
) {
    let mut clients: Vec<(usize, Pin<Box<F>>)> =
        clients.into_iter().map(|(number, future)| (number, Box::pin(future))).collect();
    let mut context = TaskContext::from_waker(Waker::noop());
    // Up to the first request of each.
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
        world.check_step();
    }
}

/// All schedules with this many switches away from a client that could continue, and this many crashes.
struct Listed {
    switches_max: usize,
    crashes_max: usize,
    switches: usize,
    crashes: usize,
    /// The choices of this run: each choice, and the number of alternatives.
    path: Vec<(usize, usize)>,
    depth: usize,
}

impl Listed {
    fn new(switches_max: usize, crashes_max: usize) -> Self {
        Self { switches_max, crashes_max, switches: 0, crashes: 0, path: Vec::new(), depth: 0 }
    }

    /// Advances to the next schedule; false if there is none.
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
fn explore(listed: &mut Listed, clients: &dyn Debug, run: impl Fn(&mut dyn Chooser)) -> usize {
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

/// Runs every pair of programs with every schedule of two switches, and of one switch and one crash anywhere; returns
/// how many schedules there were.
pub(super) fn every_pair<P: Clone + Debug>(
    programs: &[P],
    run: impl Fn(&mut dyn Chooser, &[P]),
) -> usize {
    let mut runs = 0;
    for (number, first) in programs.iter().enumerate() {
        for second in programs.iter().skip(number) {
            let clients = [first.clone(), second.clone()];
            for (switches, crashes) in [(2, 0), (1, 1)] {
                let mut listed = Listed::new(switches, crashes);
                runs += explore(&mut listed, &clients, |chooser| run(chooser, &clients));
            }
        }
    }
    runs
}

/// For each seed, runs three programs drawn from it, and those in `always`, in orders drawn from it. The number of
/// seeds is `LAZULI_SCHEDULES`, or `default`.
pub(super) fn drawn_triples<P: Clone + Debug>(
    default: u64,
    programs: &[P],
    always: &[P],
    run: impl Fn(&mut dyn Chooser, u64, &[P]),
) {
    let number = std::env::var("LAZULI_SCHEDULES").ok().and_then(|number| number.parse().ok());
    for seed in 0..number.unwrap_or(default) {
        let mut drawn = Drawn::new(seed);
        let three = (0..3).map(|_| programs[drawn.below(programs.len())].clone());
        let clients: Vec<P> = three.chain(always.iter().cloned()).collect();
        let context = Context(format!("seed {seed}: {clients:?}"));
        run(&mut drawn, seed, &clients);
        drop(context);
    }
}

/// Runs a future that never waits.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Stops once: this is where the scheduler chooses which client goes next.
pub(super) async fn stop() {
    let mut has_stopped = false;
    std::future::poll_fn(|_| {
        let was_stopped = std::mem::replace(&mut has_stopped, true);
        if was_stopped { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Schedules drawn from a seed: any client may go next, and one in forty crashes.
struct Drawn(u64);

impl Drawn {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn below(&mut self, bound: usize) -> usize {
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
        // Half of the time the same client continues: its long runs meet others at unusual points.
        match last {
            Some(last) if self.below(2) == 0 => Next::Go(last),
            _ => Next::Go(alive[self.below(alive.len())]),
        }
    }
}

/// Prints what was run when a test fails.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
