//! The stand-in TiKV cluster below the gateways, and the faults that only its control port can cause.

use super::gateways::Cluster;
use super::script::{Fault, pause, random_ms};
use anyhow::{Context, Result, bail};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::stores::tikv::{STORES, StandIn};
use lazuli_testkit::wire_cut::WireCut;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The initial region borders: the kinds of keys (`lazuli_layout::key`). So the commit that creates a
/// table, or puts a message, has keys in several regions.
const BORDERS: [&[u8]; 8] = [b"L", b"Ld", b"Le", b"Lg", b"Lm", b"Ln", b"Lq", b"Lt"];
/// Calls whose answers are lost.
const CALLS: [&str; 9] = [
    "OnePC",
    "KvPrewrite",
    "KvCommit",
    "KvGet",
    "KvBatchGet",
    "KvScan",
    "KvCheckTxnStatus",
    "KvBatchRollback",
    "KvResolveLock",
];
/// How long a fault that consists of many small ones lasts.
const TIME: Duration = Duration::from_secs(6);
/// How long others may need to find and remove the locks of a killed gateway.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// Keys are chosen among those of the newest tables and queues.
const NEWEST: usize = 300;
/// How long the cluster may take to hold a lock while clients write.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Tikv {
    stand_in: StandIn,
    /// Survives a kill of the stand-in.
    data: tempfile::TempDir,
}

impl Tikv {
    pub(crate) fn start() -> Result<Self> {
        let data = tempfile::tempdir().context("create a data directory")?;
        let stand_in = StandIn::start_in(data.path());
        for (number, border) in BORDERS.into_iter().enumerate() {
            stand_in.control_at("split", border);
            stand_in.lead(border, number % STORES + 1);
        }
        Ok(Self { stand_in, data })
    }

    /// The address for one gateway, which reaches the driver and every store through separate lines.
    pub(crate) fn engine(&mut self, seed: u64) -> Result<(String, Vec<WireCut>)> {
        let mut lines = Vec::new();
        let mut line = |target: SocketAddr| -> Result<SocketAddr> {
            let line = WireCut::before(target, seed ^ ((lines.len() as u64) << 32))?;
            let address = line.address();
            lines.push(line);
            Ok(address)
        };
        let [one, two, three] = self.stand_in.stores();
        let stores = [line(one)?, line(two)?, line(three)?];
        let driver = line(self.stand_in.open_door(stores))?;
        Ok((format!("tikv://{driver}"), lines))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.stand_in.pid()
    }

    pub(crate) fn kill(&mut self) {
        self.stand_in.kill();
    }

    pub(crate) fn resume(&mut self) {
        self.stand_in.resume_in(self.data.path());
    }

    /// Advances the cluster's clock, which never goes back.
    pub(crate) fn forward(&self, by: Duration) {
        self.stand_in.control(&format!("forward {}", by.as_millis()));
    }

    /// An existing key, in hexadecimal.
    fn some_key(&self, random: &mut Seeded) -> Option<String> {
        // Entities or messages: kinds of which clients write several keys at once.
        let kind = if random.one_in(3) { "4c6d" } else { "4c65" };
        let keys = self.stand_in.control(&format!("keys {kind} {NEWEST}"));
        let keys: Vec<&str> = keys.split_whitespace().collect();
        Some((*keys.get(random.below(keys.len().max(1)))?).to_owned())
    }

    /// Does `step` again and again.
    fn repeat(&self, random: &mut Seeded, mut step: impl FnMut(&StandIn, &mut Seeded)) -> u64 {
        let (began, mut steps) = (Instant::now(), 0);
        while began.elapsed() < TIME {
            step(&self.stand_in, random);
            steps += 1;
            pause(random_ms(random, 5, 60));
        }
        self.stand_in.control("reset");
        steps
    }

    fn wait_for_locks(&self) -> Result<usize> {
        let began = Instant::now();
        loop {
            match self.stand_in.locks() {
                0 if began.elapsed() > PATIENCE => bail!("no commit gets as far as a lock"),
                0 => std::thread::yield_now(),
                locks => return Ok(locks),
            }
        }
    }
}

/// Applies the fault to the cluster, and waits until all should have recovered.
pub(crate) fn happen(fault: Fault, cluster: &mut Cluster, random: &mut Seeded) -> Result<String> {
    match fault {
        Fault::CallsLost => Ok(calls_lost(cluster.tikv()?, random)),
        Fault::RegionsMove => Ok(regions_move(cluster.tikv()?, random)),
        Fault::StoreAway => Ok(store_away(cluster.tikv()?, random)),
        Fault::OnePhaseDeclined => Ok(one_phase_declined(cluster.tikv()?, random)),
        Fault::OrphanedLocks => orphaned_locks(cluster, random),
        Fault::LocksOfTheDead => locks_of_the_dead(cluster, random),
        other => bail!("{} is no fault of a TiKV cluster", other.name()),
    }
}

fn calls_lost(tikv: &Tikv, random: &mut Seeded) -> String {
    let lost = tikv.repeat(random, |stand_in, random| {
        let call = CALLS.get(random.below(CALLS.len())).unwrap_or(&"OnePC");
        stand_in.control(&format!("lose {call} 1"));
    });
    format!("; {lost} answers of calls were to be lost")
}

/// Regions split and merge inside tables that are scanned and written, and change their leader.
fn regions_move(tikv: &Tikv, random: &mut Seeded) -> String {
    let moves = tikv.repeat(random, |stand_in, random| {
        let Some(key) = tikv.some_key(random) else { return };
        let store = random.below(STORES) + 1;
        let command = match random.below(4) {
            0 | 1 => format!("split {key}"),
            2 => format!("lead {key} {store}"),
            _ => format!("merge {key}"),
        };
        stand_in.control(&command);
    });
    format!("; regions changed {moves} times")
}

/// A store goes away, its regions move to the next one, and it comes back.
fn store_away(tikv: &Tikv, random: &mut Seeded) -> String {
    let times = tikv.repeat(random, |stand_in, random| {
        let store = random.below(STORES) + 1;
        stand_in.control(&format!("stop {store}"));
        pause(random_ms(random, 1, 500));
        for border in BORDERS {
            stand_in.lead(border, store % STORES + 1);
        }
        pause(random_ms(random, 1, 300));
        stand_in.control(&format!("start {store}"));
    });
    format!("; stores went away {times} times")
}

fn one_phase_declined(tikv: &Tikv, random: &mut Seeded) -> String {
    let times = tikv.repeat(random, |stand_in, random| {
        stand_in.control(if random.one_in(4) { "onepc on" } else { "onepc off" });
    });
    format!("; one phase was declined or allowed {times} times")
}

/// Prewrites of some keys fail while others of the same commit succeed; then a gateway is killed between
/// prewrites (K-6.14).
fn orphaned_locks(cluster: &mut Cluster, random: &mut Seeded) -> Result<String> {
    let tikv = cluster.tikv()?;
    let refused = tikv.repeat(random, |stand_in, random| {
        if let Some(key) = tikv.some_key(random) {
            stand_in.control(&format!("split {key}"));
            stand_in.control(&format!("refuse KvPrewrite 1 {key}"));
        }
    });
    for border in BORDERS {
        if random.one_in(2) {
            tikv.stand_in.control_at("hold KvPrewrite 1000000", border);
        }
    }
    let locks = tikv.wait_for_locks()?;
    cluster.kill_gateway(0)?;
    let tikv = cluster.tikv()?;
    pause(random_ms(random, 1, 1_500));
    tikv.stand_in.control("release");
    pause(AFTER_KILL);
    Ok(format!("; {refused} prewrites were to be refused, {locks} locks at the kill"))
}

/// A gateway is killed after its commits have locked their keys and before they are decided.
fn locks_of_the_dead(cluster: &mut Cluster, random: &mut Seeded) -> Result<String> {
    let tikv = cluster.tikv()?;
    tikv.stand_in.control("onepc off");
    tikv.stand_in.control("refuse KvCommit 1000000");
    tikv.wait_for_locks()?;
    pause(random_ms(random, 1, 500));
    let locks = tikv.wait_for_locks()?;
    cluster.kill_gateway(0)?;
    cluster.tikv()?.stand_in.control("reset");
    pause(AFTER_KILL);
    Ok(format!("; {locks} locks at the kill"))
}
