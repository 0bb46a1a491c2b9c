//! Background work.

use lazuli_engine::{Engine, Reclaimed};
use lazuli_model::{Clock, SystemClock};
use lazuli_queue::QueueService;
use lazuli_server::{Analytics, Extent};
use lazuli_table::TableService;
use std::sync::Arc;
use std::time::Duration;

/// Pause between reclaim rounds when there is nothing to do.
const RECLAIM_REST: Duration = Duration::from_secs(2);

/// Pause between rounds of engine maintenance when there is nothing to do.
const TEND_REST: Duration = Duration::from_secs(60);

/// Pause between two searches of all queues for expired messages.
const EXPIRE_REST: Duration = Duration::from_secs(300);

/// Pause after a failure.
const FAILED_REST: Duration = Duration::from_secs(20);

/// Runs the engine's own maintenance.
pub(crate) async fn tend(engine: Arc<dyn Engine>) {
    let step = || {
        let engine = engine.clone();
        async move { engine.tend().await }
    };
    repeat("run engine maintenance", TEND_REST, step).await;
}

/// Reclaims the space of dropped tables.
pub(crate) async fn reclaim_dropped_tables(service: TableService) {
    let step = || {
        let service = service.clone();
        async move { service.reclaim_some().await }
    };
    repeat("reclaim a dropped table", RECLAIM_REST, step).await;
}

/// Reclaims the space of deleted and cleared queues.
pub(crate) async fn reclaim_dropped_queues(service: QueueService) {
    let step = || {
        let service = service.clone();
        async move { service.reclaim_some().await }
    };
    repeat("reclaim a dropped queue", RECLAIM_REST, step).await;
}

/// Deletes expired messages, which clients can no longer read.
pub(crate) async fn expire_messages(service: QueueService) {
    let step = || {
        let service = service.clone();
        async move { service.expire_some().await }
    };
    repeat("delete expired messages", EXPIRE_REST, step).await;
}

/// Runs a chore step by step, and pauses when there is nothing left to do or a step fails.
async fn repeat<E, F>(chore: &'static str, rest: Duration, step: impl Fn() -> F)
where
    E: std::fmt::Display,
    F: Future<Output = Result<Reclaimed, E>>,
{
    loop {
        match step().await {
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
