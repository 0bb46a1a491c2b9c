//! Background work.

use crate::duty::Duty;
use lazuli_engine::{Engine, Reclaimed, Writers};
use lazuli_model::{Clock, SystemClock, Timestamp};
use lazuli_queue::QueueService;
use lazuli_server::{Advice, Analytics, AutoIndex, Extent, Snapshots};
use lazuli_table::{BuildTrouble, TableService};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pause between reclaim rounds when there is nothing to do.
const RECLAIM_REST: Duration = Duration::from_secs(2);

/// Pause between checks for indexes to build.
const BUILD_REST: Duration = Duration::from_millis(200);

/// The same on a store outside this process.
const BUILD_REST_SHARED: Duration = Duration::from_secs(2);

/// Pause between checks for expired changes of feeds.
const CHANGES_REST: Duration = Duration::from_secs(60);

/// Pause between checks for expired entities.
const SWEEP_REST: Duration = Duration::from_secs(5);

/// Pause between rounds of engine maintenance when there is nothing to do.
const TEND_REST: Duration = Duration::from_secs(60);

/// Pause between two searches of all queues for expired messages.
const EXPIRE_REST: Duration = Duration::from_secs(300);

/// Pause between evaluations of the traffic.
const ADVICE_REST: Duration = Duration::from_millis(500);

/// Pause between saves of the state of advice.
const KEEP_REST: Duration = Duration::from_secs(60);

/// Pause between checks for filters that deserve an index.
const AUTO_INDEX_REST: Duration = Duration::from_secs(5);

/// Pause between checks for abandoned snapshots.
const SNAPSHOTS_REST: Duration = Duration::from_secs(5);

/// Pause after a failure.
const FAILED_REST: Duration = Duration::from_secs(20);

/// The chores of a store: engine maintenance, index builds, old changes, space of what was dropped, expired entities
/// and messages.
pub(crate) fn of_store(
    engine: Arc<dyn Engine>,
    tables: TableService,
    queues: QueueService,
    duty: &Duty,
) -> Vec<JoinHandle<()>> {
    let (dropped, expired) = (queues.clone(), queues);
    let (built, recorded, swept) = (tables.clone(), tables.clone(), tables.clone());
    let build_rest = match engine.nature().writers {
        Writers::Sole => BUILD_REST,
        Writers::Many => BUILD_REST_SHARED,
    };
    let build = move |_| {
        let tables = built.clone();
        async move {
            let built = tables.build_some().await;
            for trouble in tables.new_build_troubles() {
                let BuildTrouble { account, table, error } = trouble;
                tracing::warn!(account, table, error, "could not build an index; will retry");
            }
            built
        }
    };
    let tend = move |_| {
        let engine = engine.clone();
        async move { engine.tend().await }
    };
    let reclaim_tables = move |now| {
        let tables = tables.clone();
        async move { tables.reclaim_some(now).await }
    };
    let reclaim_queues = move |now| {
        let queues = dropped.clone();
        async move { queues.reclaim_some(now).await }
    };
    let drop_changes = move |now| {
        let tables = recorded.clone();
        async move { tables.drop_old_changes(now).await }
    };
    let sweep = move |_| {
        let tables = swept.clone();
        async move { tables.sweep_some().await }
    };
    let expire = move |_| {
        let queues = expired.clone();
        async move { queues.expire_some().await }
    };
    vec![
        tokio::spawn(repeat("run engine maintenance", TEND_REST, duty.clone(), tend)),
        tokio::spawn(repeat("build an index", build_rest, duty.clone(), build)),
        tokio::spawn(repeat("drop old changes", CHANGES_REST, duty.clone(), drop_changes)),
        tokio::spawn(repeat("delete expired entities", SWEEP_REST, duty.clone(), sweep)),
        tokio::spawn(repeat("reclaim a dropped table", RECLAIM_REST, duty.clone(), reclaim_tables)),
        tokio::spawn(repeat("reclaim a dropped queue", RECLAIM_REST, duty.clone(), reclaim_queues)),
        tokio::spawn(repeat("delete expired messages", EXPIRE_REST, duty.clone(), expire)),
    ]
}

/// The chores of advice: evaluating the traffic, and storing the results. On a shared store every gateway evaluates its
/// own traffic and stores which indexes it used; the one that runs the chores also stores its other results.
pub(crate) fn of_advice(advice: &Arc<Advice>, duty: &Duty) -> Vec<JoinHandle<()>> {
    let (watched, kept) = (advice.clone(), advice.clone());
    let watch = async move {
        loop {
            tokio::time::sleep(ADVICE_REST).await;
            watched.round();
        }
    };
    let used = advice.clone();
    let keep_uses = async move {
        loop {
            tokio::time::sleep(KEEP_REST).await;
            if let Err(error) = used.keep_index_uses().await {
                tracing::warn!(%error, "could not store which indexes were used; will retry");
            }
        }
    };
    let keep = move |_| {
        let advice = kept.clone();
        async move { advice.keep().await.map(|()| Reclaimed::Fully) }
    };
    vec![
        tokio::spawn(watch),
        tokio::spawn(keep_uses),
        tokio::spawn(repeat("store what advice rests on", KEEP_REST, duty.clone(), keep)),
    ]
}

/// Ends snapshots that clients of this process no longer use.
pub(crate) async fn end_snapshots(snapshots: Arc<Snapshots>) {
    loop {
        tokio::time::sleep(SNAPSHOTS_REST).await;
        snapshots.end_unused(SystemClock.now());
    }
}

/// Declares indexes for queries that scan, and drops unused ones.
pub(crate) fn auto_index(auto: AutoIndex, duty: &Duty) -> JoinHandle<()> {
    let auto = Arc::new(auto);
    let step = move |_| {
        let auto = auto.clone();
        async move { auto.round().await.map(|()| Reclaimed::Fully) }
    };
    tokio::spawn(repeat("declare indexes", AUTO_INDEX_REST, duty.clone(), step))
}

/// Runs a chore step by step while it is this process's turn, and pauses when there is nothing left
/// to do or a step fails.
async fn repeat<E, F>(
    chore: &'static str,
    rest: Duration,
    mut duty: Duty,
    step: impl Fn(Timestamp) -> F,
) where
    E: std::fmt::Display,
    F: Future<Output = Result<Reclaimed, E>>,
{
    loop {
        match step(duty.turn().await).await {
            Ok(Reclaimed::Partly) => tokio::task::yield_now().await,
            Ok(Reclaimed::Fully) => tokio::time::sleep(rest).await,
            Err(error) => {
                tracing::warn!(%error, "could not {chore}; will retry");
                tokio::time::sleep(FAILED_REST).await;
            }
        }
    }
}

/// Writes the analytics counts of each minute when the next one begins.
pub(crate) async fn write_analytics(analytics: Arc<Analytics>) {
    const MINUTE: Duration = Duration::from_secs(60);
    loop {
        let second = SystemClock.now().unix_seconds() % MINUTE.as_secs();
        tokio::time::sleep(MINUTE - Duration::from_secs(second)).await;
        let analytics = analytics.clone();
        // In its own task: this one may be cancelled at any await, and a flush must finish.
        let flush = async move { analytics.flush(Extent::Complete).await };
        if let Err(error) = tokio::spawn(flush).await {
            tracing::error!(%error, "could not write the analytics counts");
        }
    }
}
