//! The queues of one measurement: creates and fills them, and builds the requests.

mod message;
pub(crate) mod used;

pub(crate) use message::{Consumer, Message, TEXT_BYTES};

use crate::entity::Dataset;
use crate::exchange::expect_status;
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds};
use crate::measure::Case;
use crate::process::ProcessId;
use crate::request::{Plain, Signer};
use crate::script::{Expect, Pool, Script};
use crate::target::{Target, TargetName};
use crate::workload::Workload;
use anyhow::{Context, Result, bail, ensure};
use std::net::SocketAddr;
use std::sync::Arc;

/// The number of different messages that connections put.
const PUTS: usize = 4 * 1024;
/// Connections that fill a queue, and the messages that they put with one signature.
const FILLERS: usize = 64;
const FILL_STEP: usize = 100_000;
/// Longer than any run, so that a received message does not reappear.
const INVISIBLE_SECONDS: usize = 24 * 3600;

/// Maximum messages that wait in Azurite's queues. Each of its gets sorts all messages, so a longer queue
/// makes it slower; and when 64 of them take more than five seconds, it closes connections.
pub(crate) const AZURITE_MESSAGES_MAX: usize = 1_000;

/// Messages that wait in the queues when a workload begins.
pub(crate) fn messages(target: TargetName, dataset: Dataset) -> usize {
    match target {
        TargetName::Azurite => dataset.entities().min(AZURITE_MESSAGES_MAX),
        _ => dataset.entities(),
    }
}

/// One queue that all connections use, or one for each of them.
pub(crate) struct Queues {
    workload: Workload,
    connections: usize,
    names: Vec<String>,
}

impl Queues {
    /// The queues of the measurement called `label`.
    pub(crate) fn new(case: Case, label: &str) -> Self {
        let Case { workload, connections } = case;
        let count = if workload == Workload::OwnQueues { connections } else { 1 };
        let names = (0..count).map(|number| format!("own{label}q{number}")).collect();
        Self { workload, connections, names }
    }

    /// A single queue called `name`.
    pub(crate) fn named(case: Case, name: &str) -> Self {
        let Case { workload, connections } = case;
        Self { workload, connections, names: vec![name.to_owned()] }
    }

    pub(crate) fn create(&self, address: SocketAddr) -> Result<()> {
        let create = |name: &String| expect(address, "PUT", name, 201);
        self.names.iter().try_for_each(create).context("create a queue")
    }

    pub(crate) fn delete(&self, address: SocketAddr) -> Result<()> {
        let delete = |name: &String| expect(address, "DELETE", name, 204);
        self.names.iter().try_for_each(delete).context("delete a queue")
    }

    /// Puts `messages` in total, evenly over the queues.
    pub(crate) fn fill(
        &self,
        target: &Target,
        messages: usize,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let Target { address, pid, .. } = *target;
        let filled = self.fill_at(address, pid, messages, interrupt);
        filled.with_context(|| format!("fill a queue of {}", target.name.text()))
    }

    fn fill_at(
        &self,
        address: SocketAddr,
        pid: ProcessId,
        messages: usize,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut left = messages;
        while left > 0 {
            let step = left.min(FILL_STEP);
            let signer = Signer::new(address)?;
            let bounds = Bounds::operations(step as u64);
            let outcome = load::run(address, pid, self.fillers(&signer, step), &bounds, interrupt)?;
            if let Some(error) = outcome.first_error {
                bail!(error);
            }
            ensure!(outcome.operations == step as u64, "it ended early");
            left -= step;
        }
        Ok(())
    }

    /// Scripts that put `messages` in total.
    fn fillers(&self, signer: &Signer, messages: usize) -> Vec<Script> {
        let queues = self.names.len().max(1);
        let each = FILLERS.div_ceil(queues);
        let mut scripts = Vec::with_capacity(queues * each);
        for (number, name) in self.names.iter().enumerate() {
            let pool = Arc::new(puts(signer, name));
            let in_queue = share(messages, queues, number);
            scripts.extend((0..each).map(|filler| {
                let puts = share(in_queue, each, filler) as u64;
                Script::drawing(pool.clone(), filler as u64).at_most(puts)
            }));
        }
        scripts
    }

    /// The scripts of the connections; `messages` wait in the queues.
    pub(crate) fn scripts(&self, signer: &Arc<Signer>, messages: usize) -> Vec<Script> {
        let pools = self.names.iter().map(|name| (name, Arc::new(self.pool(signer, name))));
        let pools: Vec<_> = pools.collect();
        let script = |(number, (name, pool)): (usize, &(&String, Arc<Pool>))| {
            let script = Script::drawing(pool.clone(), number as u64);
            let consumer = || Consumer::new(signer.clone(), name);
            match self.workload {
                Workload::GetDelete => script.consumed_by(consumer()),
                Workload::OwnQueues => {
                    let waiting = share(messages, self.names.len(), number) as u64;
                    script.consumed_by(consumer()).at_most(waiting)
                }
                _ => script,
            }
        };
        pools.iter().cycle().take(self.connections).enumerate().map(script).collect()
    }

    /// The requests that begin the operations.
    fn pool(&self, signer: &Signer, name: &str) -> Pool {
        let messages = format!("/{name}/messages");
        let target = match self.workload {
            Workload::Put => return puts(signer, name),
            Workload::Peek => messages + "?peekonly=true",
            Workload::Get => format!("{messages}?visibilitytimeout={INVISIBLE_SECONDS}"),
            _ => messages,
        };
        let mut pool = Pool::default();
        pool.push(signer.sign(&Plain::queue("GET", &target, "")), Expect::Message);
        pool
    }
}

/// The share of part `number` when `whole` is divided evenly.
fn share(whole: usize, parts: usize, number: usize) -> usize {
    whole * (number + 1) / parts - whole * number / parts
}

fn puts(signer: &Signer, name: &str) -> Pool {
    let target = format!("/{name}/messages");
    let mut pool = Pool::default();
    for number in 0..PUTS {
        let body = message::body(number);
        let request = Plain::queue("POST", &target, &body);
        pool.push(signer.sign(&request), Expect::Status(201));
    }
    pool
}

fn expect(address: SocketAddr, method: &str, name: &str, status: u16) -> Result<()> {
    let target = format!("/{name}");
    expect_status(address, &Plain::queue(method, &target, ""), status)
}

#[cfg(test)]
mod tests;
