//! Reads of keys, in one statement.

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::pool::Use;
use crate::session::Session;
use crate::statement::Statement;
use crate::stored::{INDEXED_BYTES, StoredKey};
use bytes::Bytes;
use lazuli_engine::meter::Retry;
use lazuli_engine::{EngineError, Found, Key};
use std::collections::HashMap;
use tokio::time::Instant;
use tokio_postgres::Row;

impl Store {
    /// The values of `keys`, all as of one moment. A read may be sent again.
    pub(crate) async fn read(
        &self,
        keys: &[Key],
        patience: Patience,
    ) -> Result<Vec<Option<Found>>, EngineError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = patience.deadline();
        let mut patience = patience.first_of_late();
        loop {
            let lease = self.pool.get(Use::OneStatement, deadline).await?;
            match read(&lease, keys, patience).await {
                Ok(found) => {
                    lease.give_back();
                    return Ok(found);
                }
                Err(fault) if fault.is_of_the_connection() && Instant::now() < deadline => {
                    patience = deadline;
                    self.meter.retried(Retry::Store);
                }
                Err(fault) => return Err(fault.into_engine_error()),
            }
        }
    }
}

/// The values of `keys`, in their order.
pub(crate) async fn read(
    session: &Session,
    keys: &[Key],
    deadline: Instant,
) -> Result<Vec<Option<Found>>, Fault> {
    let rows = if keys.iter().all(|key| key.as_slice().len() <= INDEXED_BYTES) {
        let k: Vec<&[u8]> = keys.iter().map(Key::as_slice).collect();
        session.query(Statement::Read, &[&k], deadline).await?
    } else {
        let stored: Vec<StoredKey<'_>> = keys.iter().map(Into::into).collect();
        let (k, d): (Vec<&[u8]>, Vec<&[u8]>) = stored.iter().map(|key| (key.k, key.d())).unzip();
        session.query(Statement::ReadLong, &[&k, &d], deadline).await?
    };
    Ok(in_order(keys, &rows))
}

/// Like [`read`], and locks the rows found.
pub(crate) async fn read_locked(
    session: &Session,
    keys: &[Key],
    deadline: Instant,
) -> Result<Vec<Option<Found>>, Fault> {
    let stored: Vec<StoredKey<'_>> = keys.iter().map(Into::into).collect();
    let (k, d): (Vec<&[u8]>, Vec<&[u8]>) = stored.iter().map(|key| (key.k, key.d())).unzip();
    let rows = session.query(Statement::ReadLocked, &[&k, &d], deadline).await?;
    Ok(in_order(keys, &rows))
}

/// Rows of key, revision and value, matched to `keys`.
fn in_order(keys: &[Key], rows: &[Row]) -> Vec<Option<Found>> {
    // Two keys, the table's and the entity's, are the common case.
    if keys.len() <= 4 {
        let find = |key: &Key| rows.iter().find(|row| row.get::<_, &[u8]>(0) == key.as_slice());
        return keys.iter().map(|key| find(key).and_then(found)).collect();
    }
    let by_key: HashMap<&[u8], &Row> = rows.iter().map(|row| (row.get(0), row)).collect();
    keys.iter().map(|key| by_key.get(key.as_slice()).and_then(|row| found(row))).collect()
}

fn found(row: &Row) -> Option<Found> {
    let value: Option<&[u8]> = row.get(2);
    Some(Found { value: Bytes::copy_from_slice(value?), revision: revision(row.get(1)) })
}
