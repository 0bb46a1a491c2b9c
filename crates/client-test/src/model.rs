//! Random operations on the real implementation and on a plain model: the answers must be equal (P-0.8).

use crate::clock::TestClock;
use crate::crash::{Context, TestClient};
use crate::server::{TestServer, TestServerBuilder};
use lazuli_testkit::seed::Seeded;
use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// Runs that may be spent on shrinking a failing case.
const SHRINK_RUNS_MAX: usize = 300;

/// For each seed, runs `steps` operations on the real implementation, on its own server, and on a model.
///
/// * `choose` invents an operation;
/// * `setup` creates the real implementation on an empty server;
/// * `real` carries out an operation and returns its answer, in a form that the model has too;
/// * `model` does the same on the model, which starts as its `Default`.
///
/// Panics if two answers differ, with the shortest list of operations found for which they do.
pub async fn compare<Op, A, R, M>(
    seeds: Range<u64>,
    steps: usize,
    choose: impl Fn(&mut Seeded) -> Op,
    setup: impl AsyncFn(&TestClient) -> R,
    real: impl AsyncFn(&R, &Op) -> A,
    model: impl Fn(&mut M, &Op) -> A,
) -> io::Result<()>
where
    Op: Clone + Debug,
    A: PartialEq + Debug,
    M: Default,
{
    compare_on(&TestServer::builder(), seeds, steps, choose, setup, real, model).await
}

/// The same on servers that `servers` starts, with a clock.
pub async fn compare_on<Op, A, R, M>(
    servers: &TestServerBuilder,
    seeds: Range<u64>,
    steps: usize,
    choose: impl Fn(&mut Seeded) -> Op,
    setup: impl AsyncFn(&TestClient) -> R,
    real: impl AsyncFn(&R, &Op) -> A,
    model: impl Fn(&mut M, &Op) -> A,
) -> io::Result<()>
where
    Op: Clone + Debug,
    A: PartialEq + Debug,
    M: Default,
{
    let differs = async |operations: &[Op]| -> io::Result<Option<Difference<A>>> {
        let clock = TestClock::default();
        let server = servers.clone().clock(clock.clone()).start().await?;
        let client = TestClient { account: server.account(), clock };
        let thing = setup(&client).await;
        let mut state = M::default();
        for (step, operation) in operations.iter().enumerate() {
            let (real, model) = (real(&thing, operation).await, model(&mut state, operation));
            if real != model {
                return Ok(Some(Difference { step, real, model }));
            }
        }
        Ok(None)
    };
    for seed in seeds {
        let _context = Context(format!("run it again with LAZULI_SEED={seed}"));
        let mut random = Seeded::new(seed);
        let mut operations: Vec<Op> = (0..steps).map(|_| choose(&mut random)).collect();
        let Some(mut difference) = differs(&operations).await? else { continue };
        operations.truncate(difference.step + 1);
        let mut runs = 0;
        let mut at = operations.len();
        while at > 0 && runs < SHRINK_RUNS_MAX {
            at -= 1;
            let mut fewer = operations.clone();
            fewer.remove(at);
            runs += 1;
            if let Some(found) = differs(&fewer).await? {
                fewer.truncate(found.step + 1);
                (operations, difference) = (fewer, found);
                at = at.min(operations.len());
            }
        }
        let Difference { real, model, .. } = difference;
        panic!(
            "after {operations:#?}\nthe last answer is\n  {real:?}\nand the model's\n  {model:?}"
        );
    }
    Ok(())
}

struct Difference<A> {
    step: usize,
    real: A,
    model: A,
}
