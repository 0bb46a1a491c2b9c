//! What runs beside the requests.

use lazuli_engine::{Engine, Reclaimed};
use lazuli_model::{Clock, SystemClock};
use lazuli_queue::QueueService;
use lazuli_server::{Analytics, Extent};
use lazuli_table::TableService;
use std::sync::Arc;
use std::time::Duration;

/// How long reclaiming rests when there is nothing to do.
const RECLAIM_REST: Duration = Duration::from_secs(2);

/// How long the engine's own upkeep rests when there is nothing to do.
const TEND_REST: Duration = Duration::from_secs(60);

/// Lets the engine do its own upkeep, step by step.
pub(crate) async fn tend(engine: Arc<dyn Engine>) {
    loop {
        match engine.tend().await {
            Ok(Reclaimed::Partly) => tokio::task::yield_now().await,
            Ok(Reclaimed::Fully) => tokio::time::sleep(TEND_REST).await,
            Err(error) => {
                tracing::warn!(%error, "the engine's upkeep failed; trying again");
                tokio::time::sleep(TEND_REST).await;
            }
        }
    }
}

/// Gives back the space of dropped tables, bit by bit.
pub(crate) async fn reclaim_dropped_tables(service: TableService) {
    loop {
        match service.reclaim_some().await {
            Ok(Reclaimed::Partly) => tokio::task::yield_now().await,
            Ok(Reclaimed::Fully) => tokio::time::sleep(RECLAIM_REST).await,
            Err(error) => {
                tracing::warn!(%error, "could not reclaim a dropped table; trying again");
                tokio::time::sleep(RECLAIM_REST * 10).await;
            }
        }
    }
}

/// Gives back the space of deleted and cleared queues, bit by bit.
pub(crate) async fn reclaim_dropped_queues(service: QueueService) {
    loop {
        match service.reclaim_some().await {
            Ok(Reclaimed::Partly) => tokio::task::yield_now().await,
            Ok(Reclaimed::Fully) => tokio::time::sleep(RECLAIM_REST).await,
            Err(error) => {
                tracing::warn!(%error, "could not reclaim a dropped queue; trying again");
                tokio::time::sleep(RECLAIM_REST * 10).await;
            }
        }
    }
}

/// Writes the counts of each minute when the next one begins.
pub(crate) async fn write_analytics(analytics: Arc<Analytics>) {
    const MINUTE: Duration = Duration::from_secs(60);
    loop {
        let second = SystemClock.now().unix_seconds() % MINUTE.as_secs();
        tokio::time::sleep(MINUTE - Duration::from_secs(second)).await;
        let analytics = analytics.clone();
        // In a task of its own: this one may be stopped at any await, and a flush must run to its end.
        let flush = async move { analytics.flush(Extent::Complete).await };
        if let Err(error) = tokio::spawn(flush).await {
            tracing::error!(%error, "the counts for analytics were not written");
        }
    }
}
