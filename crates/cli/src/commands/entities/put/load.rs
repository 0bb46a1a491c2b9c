//! Many entities, grouped into transactions that run concurrently.

use super::{Written, stopped};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Error, Result};
use futures_util::stream;
use lazuli_client::{Entity, Table, WriteOp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::Receiver;

/// How often the position from which a load can resume is recorded.
const CHECKPOINT_WRITES: u64 = 100;

/// Why the input ended early.
type Fault = Arc<Mutex<Option<Error>>>;

/// Inserts or replaces entities, or merges them, until the input ends or the user stops it. Writes under way are
/// finished.
pub(super) async fn run(
    session: &Session,
    table: &Table,
    entities: Receiver<Result<Entity>>,
    is_merge: bool,
) -> Written {
    let fault = Fault::default();
    let (input_fault, interrupt) = (fault.clone(), session.interrupt.clone());
    let writes = stream::unfold(entities, move |mut entities| {
        let (fault, interrupt) = (input_fault.clone(), interrupt.clone());
        async move {
            let failure = match interrupt.or(entities.recv()).await {
                Some(Some(Ok(entity))) => return Some((Ok(write(&entity, is_merge)), entities)),
                Some(Some(Err(error))) => error,
                Some(None) => return None,
                None => stopped(),
            };
            if let Ok(mut slot) = fault.lock() {
                *slot = Some(failure);
            }
            None
        }
    });
    let durable = Arc::new(AtomicU64::new(0));
    let noted = durable.clone();
    let mut progress = Progress::new(&session.out, "entities");
    let outcome = table
        .bulk()
        .checkpoint(CHECKPOINT_WRITES, move |count| noted.store(count, Ordering::Relaxed))
        .progress(move |so_far| progress.set(so_far.written))
        .run(writes)
        .await;
    let failed = match outcome {
        Ok(report) => report.into_result().err().map(Error::from),
        Err(error) => Some(error.into()),
    };
    let of_input = fault.lock().ok().and_then(|mut fault| fault.take());
    Written { count: durable.load(Ordering::Relaxed), etag: None, failure: failed.or(of_input) }
}

fn write(entity: &Entity, is_merge: bool) -> WriteOp {
    match is_merge {
        true => WriteOp::upsert_merge(entity),
        false => WriteOp::upsert(entity),
    }
}
