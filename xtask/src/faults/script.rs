//! The faults: what is done to the cluster while clients work, and what must hold.

use super::derived::{self, Derived};
use super::gateways::Cluster;
use super::probe::Probed;
use super::{Store, load, loads, probe, tikv};
use anyhow::{Context, Result, anyhow, ensure};
use lazuli_sim::record::Report;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::wire_cut::Weather;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    GatewayKilled,
    GatewayStopped,
    AnswersLost,
    LineCut,
    LineHalfOpen,
    LineSlow,
    LineResets,
    StoreRestarted,
    StoreStopped,
    PrimaryLost,
    Deadlocks,
    ConnectionsUsedUp,
    Clocks,
    CallsLost,
    RegionsMove,
    StoreAway,
    OnePhaseDeclined,
    OrphanedLocks,
    LocksOfTheDead,
}

impl Fault {
    /// The faults of a store.
    pub(crate) const fn of(store: Store) -> &'static [Self] {
        match store {
            Store::Postgres => &Self::POSTGRES,
            Store::Tikv => &Self::TIKV,
        }
    }

    const TIKV: [Self; 17] = [
        Self::GatewayKilled,
        Self::GatewayStopped,
        Self::AnswersLost,
        Self::CallsLost,
        Self::LineCut,
        Self::LineHalfOpen,
        Self::LineSlow,
        Self::LineResets,
        Self::StoreRestarted,
        Self::StoreStopped,
        Self::RegionsMove,
        Self::StoreAway,
        Self::OnePhaseDeclined,
        Self::OrphanedLocks,
        Self::LocksOfTheDead,
        Self::Deadlocks,
        Self::Clocks,
    ];

    const POSTGRES: [Self; 13] = [
        Self::GatewayKilled,
        Self::GatewayStopped,
        Self::AnswersLost,
        Self::LineCut,
        Self::LineHalfOpen,
        Self::LineSlow,
        Self::LineResets,
        Self::StoreRestarted,
        Self::StoreStopped,
        Self::PrimaryLost,
        Self::Deadlocks,
        Self::ConnectionsUsedUp,
        Self::Clocks,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GatewayKilled => "gateway-killed",
            Self::GatewayStopped => "gateway-stopped",
            Self::AnswersLost => "answers-lost",
            Self::LineCut => "line-cut",
            Self::LineHalfOpen => "line-half-open",
            Self::LineSlow => "line-slow",
            Self::LineResets => "line-resets",
            Self::StoreRestarted => "store-restarted",
            Self::StoreStopped => "store-stopped",
            Self::PrimaryLost => "primary-lost",
            Self::Deadlocks => "deadlocks",
            Self::ConnectionsUsedUp => "connections-used-up",
            Self::Clocks => "clocks",
            Self::CallsLost => "calls-lost",
            Self::RegionsMove => "regions-move",
            Self::StoreAway => "store-away",
            Self::OnePhaseDeclined => "one-phase-declined",
            Self::OrphanedLocks => "orphaned-locks",
            Self::LocksOfTheDead => "locks-of-the-dead",
        }
    }

    /// How far the clock of a gateway is off.
    pub(crate) const fn clock(self, gateway: usize) -> Option<&'static str> {
        match (self, gateway) {
            (Self::Clocks, 0) => Some("-5s"),
            (Self::Clocks, 2) => Some("+5s"),
            _ => None,
        }
    }

    /// Whether queues are recorded too. Visibility follows the clock of the gateway, so differing clocks
    /// break the promises that the checker assumes.
    fn asks_queues(self) -> bool {
        !matches!(self, Self::Clocks)
    }

    /// Whether the first gateway is killed.
    fn kills_a_gateway(self) -> bool {
        matches!(self, Self::GatewayKilled | Self::OrphanedLocks | Self::LocksOfTheDead)
    }

    /// Whether no client may notice it.
    fn is_hidden(self) -> bool {
        matches!(self, Self::RegionsMove | Self::StoreAway | Self::OnePhaseDeclined)
    }

    /// The longest time that a response of a gateway may take, in seconds. The machine that runs this is
    /// busy: the limits are looser than those promised to users.
    fn slowest_max(self) -> Duration {
        Duration::from_secs(match self {
            // The probe of the suspended gateway waits for it.
            Self::GatewayStopped => 75,
            // A write in flight on a line that falls silent gets a response after 10 s.
            _ => 15,
        })
    }
}

/// What was done and observed.
pub(crate) struct Outcome {
    pub(crate) derived: Derived,
    tables: Report,
    queues: Report,
    probed: Vec<Probed>,
    /// Chunks and answers that the lines dropped.
    lost: u64,
    note: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { derived, tables, queues, probed, lost, note } = self;
        let slowest = probed.iter().map(|probed| probed.slowest).max().unwrap_or_default();
        let gap = probed.iter().map(|probed| probed.longest_gap).max().unwrap_or_default();
        write!(
            f,
            "{} + {} + {} calls ({} + {} + {} unknown, {} undecided), lines lost {lost}; probes: {} \
             good, {} failed, slowest {:.1} s, longest gap {:.1} s{note}",
            tables.calls,
            queues.calls,
            derived.writes,
            tables.unknown,
            queues.unknown,
            derived.doubts,
            tables.undecided + queues.undecided,
            probed.iter().map(|probed| probed.answered).sum::<u64>(),
            probed.iter().map(|probed| probed.failed).sum::<u64>(),
            slowest.as_secs_f64(),
            gap.as_secs_f64(),
        )
    }
}

/// Makes clients work during the fault, and checks everything they saw. Derived writes are compared
/// afterwards.
pub(crate) fn run(fault: Fault, cluster: &mut Cluster, mut random: Seeded) -> Result<Outcome> {
    let seed = random.next_u64();
    let derived = derived::set_up(cluster, fault.asks_queues())?;
    let random_of_derived = random.stream(seed);
    let (tables, queues) = (cluster.tables(), cluster.queues());
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let of_tables = scope.spawn(|| load::tables(&tables, seed, &is_over));
        let of_queues = scope.spawn(|| match fault.asks_queues() {
            true => load::queues(&queues, seed, &is_over),
            false => Ok(Report::default()),
        });
        let of_derived = scope.spawn(|| derived.write(&tables, &random_of_derived, &is_over));
        let probes: Vec<_> = tables
            .iter()
            .enumerate()
            .map(|(number, address)| {
                scope.spawn({
                    let is_over = &is_over;
                    move || probe::run(*address, number, is_over)
                })
            })
            .collect();
        pause(random_ms(&mut random, 300, 1_500));
        let note = happen(fault, cluster, &mut random);
        is_over.store(true, Ordering::SeqCst);
        let (tables, queues, derived) = (join(of_tables), join(of_queues), join(of_derived));
        let mut probed = Vec::new();
        for thread in probes {
            let seen = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            probed.push(seen.map_err(|wrong| anyhow!(wrong))?);
        }
        let lost = cluster.lines().map(|line| line.lost()).sum();
        Ok::<_, anyhow::Error>(Outcome {
            note: note?,
            derived: derived?,
            tables: tables?,
            queues: queues?,
            probed,
            lost,
        })
    })
    .with_context(|| logs(cluster))?;
    let killed = usize::from(fault.kills_a_gateway());
    for (number, probed) in outcome.probed.iter().enumerate().skip(killed) {
        ensure!(probed.answered > 0, "gateway {number} never answered\n{}", logs(cluster));
        ensure!(
            !fault.is_hidden() || probed.failed == 0,
            "gateway {number} failed {} times\n{}",
            probed.failed,
            logs(cluster)
        );
        ensure!(
            probed.slowest <= fault.slowest_max(),
            "an answer of gateway {number} took {:?}\n{}",
            probed.slowest,
            logs(cluster)
        );
    }
    Ok(outcome)
}

/// Compares the derived writes once the indexes are built, and stops the gateways.
pub(crate) fn end(mut cluster: Cluster, mut outcome: Outcome) -> Result<String> {
    let compared = outcome.derived.compare(&cluster);
    compared.with_context(|| logs(&cluster))?;
    cluster.stop()?;
    Ok(outcome.to_string())
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Applies the fault to the cluster, and waits until the cluster should have recovered.
fn happen(fault: Fault, cluster: &mut Cluster, random: &mut Seeded) -> Result<String> {
    let seconds = Duration::from_secs;
    match fault {
        Fault::GatewayKilled => {
            cluster.kill_gateway(0)?;
            pause(seconds(4));
        }
        Fault::GatewayStopped => {
            // Longer than the index builder waits for writes that do not know of a new index.
            cluster.server(0)?.signal("STOP")?;
            pause(random_ms(random, 0, 2_000));
            derived::rebuild_index(cluster)?;
            match cluster.tikv() {
                Ok(_) => pause(seconds(10)),
                Err(_) => pause(seconds(48)),
            }
            cluster.pass_time_of_store();
            pause(seconds(10));
            cluster.server(0)?.signal("CONT")?;
            pause(seconds(3));
        }
        Fault::AnswersLost => {
            for line in cluster.lines() {
                line.set(Weather::LosesAnswers { one_in: 10 + random.below(30) });
            }
            pause(seconds(6));
            mend(cluster);
        }
        Fault::LineCut => bad_line(cluster, Weather::Cut, seconds(10))?,
        Fault::LineHalfOpen => bad_line(cluster, Weather::HalfOpen, seconds(10))?,
        Fault::LineSlow => {
            bad_line(cluster, Weather::Slow(Duration::from_millis(300)), seconds(8))?;
        }
        Fault::LineResets => {
            for line in cluster.lines() {
                line.set(Weather::Resets { one_in: 100 });
            }
            pause(seconds(6));
            mend(cluster);
        }
        Fault::StoreRestarted => {
            cluster.kill_store()?;
            pause(random_ms(random, 0, 2_000));
            cluster.resume_store()?;
            pause(seconds(4));
        }
        Fault::StoreStopped => {
            // Earlier requests are executed late, some after the gateways have given them up.
            for _ in 0..2 {
                cluster.signal_store("STOP")?;
                pause(random_ms(random, 1_000, 9_000));
                cluster.signal_store("CONT")?;
                pause(seconds(3));
            }
        }
        Fault::PrimaryLost => {
            cluster.kill_store()?;
            pause(random_ms(random, 0, 1_000));
            cluster.standby()?.promote()?;
            pause(seconds(10));
        }
        Fault::Deadlocks => return loads::overlapping_batches(&cluster.tables(), random),
        Fault::ConnectionsUsedUp => return loads::writes_beside_long_queries(cluster),
        Fault::Clocks => return clocks(cluster),
        Fault::CallsLost
        | Fault::RegionsMove
        | Fault::StoreAway
        | Fault::OnePhaseDeclined
        | Fault::OrphanedLocks
        | Fault::LocksOfTheDead => return tikv::happen(fault, cluster, random),
    }
    Ok(String::new())
}

/// The clocks of the gateways are 10 s apart, and the store's clock jumps: back by days where possible.
fn clocks(cluster: &mut Cluster) -> Result<String> {
    pause(Duration::from_secs(3));
    let addresses = cluster.tables();
    if let Ok(tikv) = cluster.tikv() {
        return loads::timestamps_increase(&addresses, || {
            tikv.forward(Duration::from_secs(20));
            Ok(())
        });
    }
    let set_back = |by: &str| -> Result<()> {
        let primary = cluster.primary()?;
        primary.kill()?;
        Ok(primary.resume(Some(by))?)
    };
    set_back("-1d")?;
    pause(Duration::from_secs(5));
    loads::timestamps_increase(&addresses, || set_back("-2d"))
}

fn bad_line(cluster: &Cluster, weather: Weather, time: Duration) -> Result<()> {
    cluster.set_lines_of(0, weather)?;
    pause(time);
    mend(cluster);
    Ok(())
}

/// Repairs all lines, and waits for the gateways to notice.
fn mend(cluster: &Cluster) {
    cluster.lines().for_each(|line| line.set(Weather::Clear));
    pause(Duration::from_secs(3));
}

fn logs(cluster: &Cluster) -> String {
    let servers = cluster.gateways.iter().filter_map(|gateway| gateway.server.as_ref());
    servers.enumerate().map(|(n, server)| format!("log {n} ends:\n{}\n", server.log())).collect()
}

pub(crate) fn random_ms(random: &mut Seeded, least: usize, most: usize) -> Duration {
    Duration::from_millis((least + random.below(most - least)) as u64)
}

/// A fault lasts for a time; there is no event to wait for.
#[expect(clippy::disallowed_methods, reason = "a fault is a matter of time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
