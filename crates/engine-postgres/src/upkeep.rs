//! Reclaiming ranges, and removing the rows of deleted keys (K-7.5, K-7.20).

use crate::Store;
use crate::fault::Fault;
use crate::pool::Use;
use crate::session::Parameters;
use crate::statement::Statement;
use crate::stored::split;
use lazuli_engine::meter::Retry;
use lazuli_engine::{EngineError, KeyRange, Reclaimed};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Rows that one call of reclaim removes: few enough to finish within the statement timeout even with
/// large values.
const RECLAIM_ROWS: i64 = 2_000;

/// How long a step may take; the statement itself ends after 10 s.
const UPKEEP_MAX: Duration = Duration::from_secs(12);

/// Deleted rows that one step of `tend` removes.
const TEND_ROWS: i64 = 1_000;

impl Store {
    pub(crate) async fn reclaim(&self, range: &KeyRange) -> Result<Reclaimed, EngineError> {
        if range.is_empty() {
            return Ok(Reclaimed::Fully);
        }
        let ((start, start_rest), (end, end_rest)) = (split(&range.start), split(&range.end));
        let bounds: Parameters<'_> = &[&start, &start_rest, &end, &end_rest, &RECLAIM_ROWS];
        let removed = self.query(Statement::Reclaim, bounds).await?;
        let removed: i64 = removed.first().map_or(0, |row| row.get(0));
        Ok(if removed < RECLAIM_ROWS { Reclaimed::Fully } else { Reclaimed::Partly })
    }

    /// Removes deleted rows below the floor, and raises the floor above the next ones.
    ///
    /// A deleted row keeps the revisions of its key increasing. Once the floor is above it, it is no longer
    /// needed, except by commits that began before the floor was raised: so it is removed only some time
    /// later.
    pub(crate) async fn tend(&self) -> Result<Reclaimed, EngineError> {
        let settles_us = micros(self.options.floor_settles);
        let parameters: Parameters<'_> = &[&settles_us, &TEND_ROWS];
        let rows = self.query(Statement::RemoveGone, parameters).await?;
        let removed: i64 = rows.first().map_or(0, |row| row.get(0));
        if removed >= TEND_ROWS {
            return Ok(Reclaimed::Partly);
        }
        let age_us = micros(self.options.deleted_kept);
        self.query(Statement::RaiseFloor, &[&settles_us, &age_us]).await?;
        Ok(Reclaimed::Fully)
    }

    /// Rows of a statement that may be sent again.
    pub(crate) async fn query(
        &self,
        statement: Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, EngineError> {
        let deadline = Instant::now() + UPKEEP_MAX;
        self.query_within(statement, parameters, deadline, deadline).await
    }

    /// Like [`Self::query`]; the first attempt may take until `patience`.
    pub(crate) async fn query_within(
        &self,
        statement: Statement,
        parameters: Parameters<'_>,
        mut patience: Instant,
        deadline: Instant,
    ) -> Result<Vec<Row>, EngineError> {
        loop {
            let lease = self.pool.get(Use::OneStatement, deadline).await?;
            match lease.query(statement, parameters, patience).await {
                Ok(rows) => {
                    lease.give_back();
                    return Ok(rows);
                }
                Err(Fault::Conflict) if Instant::now() < deadline => {
                    self.meter.retried(Retry::Conflict);
                }
                Err(fault) if fault.is_of_the_connection() && Instant::now() < deadline => {
                    self.meter.retried(Retry::Store);
                }
                Err(fault) => return Err(fault.into_engine_error()),
            }
            patience = deadline;
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
