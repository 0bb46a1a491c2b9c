//! Unique numbers for many clients (P-23.5).
//!
//! A row stores the next number. A client reserves a block of numbers under the row's ETag, and hands them out one by
//! one. A client that crashes leaves a gap; no number is ever handed out twice.

use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::table::Table;
use crate::update::Change;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Mutex;

const NEXT: &str = "Next";
const BLOCK: i64 = 100;
/// How many blocks in a row may be lost before an error is returned.
const LOST_MAX: u32 = 8;

/// A source of numbers, from 1. Clones share their block.
#[derive(Clone, Debug)]
pub struct Sequence {
    table: Table<Entity>,
    key: (String, String),
    block: i64,
    /// The rest of the block. Locked while the next one is reserved, so that all waiting callers use it.
    left: Arc<Mutex<Range<i64>>>,
}

impl Sequence {
    /// A sequence in this row, which is created when the first number is requested. Makes no request.
    pub fn new<T: TableEntity>(table: &Table<T>, partition: &str, row: &str) -> Self {
        let key = (partition.to_owned(), row.to_owned());
        Self { table: table.retyped(), key, block: BLOCK, left: Arc::new(Mutex::new(0..0)) }
    }

    /// The size of a block; 100 by default. A larger block means fewer requests and larger gaps.
    #[must_use]
    pub fn block(self, numbers: u32) -> Self {
        Self { block: i64::from(numbers.max(1)), ..self }
    }

    /// The next number. Numbers of one client increase; those of several are interleaved by blocks.
    pub async fn next(&self) -> Result<i64, Error> {
        let mut left = self.left.lock().await;
        if left.is_empty() {
            *left = self.take_block().await?;
        }
        left.next().ok_or_else(|| Error::config("the sequence has no more numbers"))
    }

    async fn take_block(&self) -> Result<Range<i64>, Error> {
        let block = self.block;
        let mut lost = 0;
        loop {
            // The function may run several times: the block is the one of its last run.
            let first = Arc::new(AtomicI64::new(0));
            let seen = first.clone();
            let take = move |entity: &mut Entity| {
                let next: i64 = entity.get(NEXT)?;
                seen.store(next, Ordering::Relaxed);
                entity.set(NEXT, next.checked_add(block).ok_or("the sequence has ended")?);
                Ok(Change::Write)
            };
            let fresh = Entity::new(self.key.0.clone(), self.key.1.clone()).with(NEXT, 1_i64);
            let update = self
                .table
                .update_with(self.key.clone(), take)
                .or_insert_with(move || fresh.clone());
            match update.await {
                Ok(_) => {
                    let first = first.load(Ordering::Relaxed);
                    return Ok(first..first + block);
                }
                // It may have been reserved: it is abandoned, which at most leaves a gap.
                Err(error) if *error.kind() == ErrorKind::OutcomeUnknown && lost < LOST_MAX => {
                    lost += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
