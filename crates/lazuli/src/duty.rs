//! Decides which process runs the chores of the store: this one if it is the only writer, else the gateway that holds
//! the lease.

use crate::pace::RuntimePace;
use lazuli_engine::retry::Pace;
use lazuli_engine::{Engine, Writers};
use lazuli_layout::cluster::GatewayRecord;
use lazuli_model::{Clock, SystemClock, Timestamp};
use lazuli_service::{ChoreLease, Store, Turn};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

/// How often a gateway announces itself, in beats.
const BEATS_PER_ANNOUNCEMENT: u64 = 3;
/// How long a beat counts if the next ones fail, in milliseconds: shorter than the others wait.
const BEAT_COUNTS_MS: u64 = 10_000;

/// The id of this process: the name of the machine and a random number.
pub(crate) fn gateway_id(pace: &dyn Pace) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = match machine.trim() {
        "" => "gateway",
        name => name,
    };
    format!("{machine}-{:08x}", pace.random() as u32)
}

/// Whether this process runs the chores.
#[derive(Clone)]
pub(crate) enum Duty {
    /// Yes: it is the only writer.
    Always,
    /// While it holds the lease: the time of the last beat by the store's clock.
    Leased(watch::Receiver<Option<Timestamp>>),
}

impl Duty {
    /// Waits for this process's turn; returns the time by the clock that stamps the revisions.
    pub(crate) async fn turn(&mut self) -> Timestamp {
        match self {
            Self::Always => SystemClock.now(),
            Self::Leased(held) => match held.wait_for(Option::is_some).await.map(|held| *held) {
                Ok(Some(now)) => now,
                // The gateway is stopping.
                _ => std::future::pending().await,
            },
        }
    }
}

/// A gateway of a shared store: it announces itself, and takes its turn at the chores.
pub(crate) struct Gateway {
    member: Arc<Mutex<Member>>,
    beats: JoinHandle<()>,
}

struct Member {
    store: Store,
    lease: ChoreLease,
    id: String,
    record: GatewayRecord,
}

/// Joins the gateways of a shared store; `None` if this process is the only writer.
pub(crate) fn join(
    engine: &Arc<dyn Engine>,
    id: String,
    record: GatewayRecord,
) -> (Duty, Option<Gateway>) {
    if engine.nature().writers == Writers::Sole {
        return (Duty::Always, None);
    }
    let store = Store::new(engine.clone(), Arc::new(SystemClock));
    let lease = ChoreLease::new(store.clone(), id.clone());
    let member = Arc::new(Mutex::new(Member { store, lease, id, record }));
    let (held, duty) = watch::channel(None);
    let beats = tokio::spawn(beat_on(member.clone(), RuntimePace::new(), held));
    (Duty::Leased(duty), Some(Gateway { member, beats }))
}

impl Gateway {
    /// Leaves after the chores have stopped, so that the others need not wait for the lease to expire.
    pub(crate) async fn leave(self) {
        self.beats.abort();
        let _ = self.beats.await;
        let mut member = self.member.lock().await;
        member.lease.release().await;
        if let Err(error) = member.store.withdraw(&member.id).await {
            tracing::warn!(%error, "could not leave the list of gateways");
        }
    }
}

async fn beat_on(
    member: Arc<Mutex<Member>>,
    pace: RuntimePace,
    held: watch::Sender<Option<Timestamp>>,
) {
    let mut last_ms = None;
    for beats in 0_u64.. {
        let turn = member.lock().await.beat(beats, pace.now_ms()).await;
        match turn {
            Some(turn) => {
                let was_ours = held.borrow().is_some();
                let is_ours = turn.is_some();
                if was_ours != is_ours {
                    tracing::info!(is_ours, "the turn to run the chores of the store changed");
                }
                last_ms = is_ours.then(|| pace.now_ms());
                held.send_replace(turn);
            }
            None if last_ms.is_none_or(|last| pace.now_ms() - last > BEAT_COUNTS_MS) => {
                held.send_replace(None);
            }
            None => {}
        }
        tokio::time::sleep(Duration::from_millis(ChoreLease::BEAT_MS)).await;
    }
}

impl Member {
    /// One beat: its time by the store's clock if it is our turn, `Some(None)` if it is another gateway's, `None` if
    /// the store cannot tell.
    async fn beat(&mut self, beats: u64, now_ms: u64) -> Option<Option<Timestamp>> {
        let turn = self.lease.beat(now_ms).await;
        if beats.is_multiple_of(BEATS_PER_ANNOUNCEMENT) {
            if let Err(error) = self.store.announce(&self.id, &self.record).await {
                tracing::debug!(%error, "could not say that this gateway is well");
            }
            if let Ok(Turn::Ours(revision)) = turn
                && let Some(now) = Timestamp::from_ticks(revision.0)
                && let Err(error) = self.store.forget_silent_gateways(now).await
            {
                tracing::debug!(%error, "could not look for gateways that are gone");
            }
        }
        match turn {
            Ok(Turn::Ours(revision)) => Some(Timestamp::from_ticks(revision.0)),
            Ok(Turn::Others) => Some(None),
            Err(error) => {
                tracing::debug!(%error, "could not renew the lease of the chores");
                None
            }
        }
    }
}
