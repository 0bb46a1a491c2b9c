//! Idempotency keys: the answer to a request is stored, and a repeated request gets it again (P-23.6).

use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{col, partition};
use crate::patterns::after;
use crate::table::Table;
use lazuli_model::Timestamp;
use lazuli_model::key_text::{escape, write_bucket};
use std::time::Duration;

const ANSWER: &str = "Answer";
const EXPIRES: &str = "Expires";
const STARTED: &str = "Started";
const KEEP: Duration = Duration::from_secs(24 * 3600);
const RUN_MAX: Duration = Duration::from_secs(5 * 60);
/// Partitions that the keys are spread over.
const BUCKETS: u64 = 16;
/// The longest answer: the size of one property.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Stores the answers to requests by their idempotency keys.
///
/// ```
/// # use lazuli_client::patterns::once::Once;
/// # use lazuli_client::prelude::*;
/// # async fn charge() -> Result<Vec<u8>, Error> { Ok(b"charged".to_vec()) }
/// # async fn run(table: Table) -> Result<(), Error> {
/// let once = Once::new(&table);
/// let answer = once.run("request-4711", charge).await?;
/// let again = once.run("request-4711", charge).await?;
/// assert_eq!((answer.bytes, again.is_repeated), (again.bytes, true));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Once {
    table: Table<Entity>,
    keep: Duration,
    run_max: Duration,
}

/// An answer, and whether it is a repeated one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub bytes: Vec<u8>,
    /// Whether the function did not run this time.
    pub is_repeated: bool,
}

impl Once {
    /// Stores answers in a table. Makes no request.
    pub fn new<T: TableEntity>(table: &Table<T>) -> Self {
        Self { table: table.retyped(), keep: KEEP, run_max: RUN_MAX }
    }

    /// How long answers are kept; a day by default.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Assumes that a function which has run for this long without an answer has crashed; 5 minutes by default. The
    /// next request with its key then runs it again.
    #[must_use]
    pub fn run_max(self, run_max: Duration) -> Self {
        Self { run_max, ..self }
    }

    /// Runs `f` unless there is an answer for `key`, and stores its answer of at most 64 KiB.
    ///
    /// While one caller runs it, others get [`ErrorKind::Contended`]. If `f` fails, nothing is stored. If the caller
    /// crashes while it runs, it is run again: `f` must tolerate that, or write its effects in one transaction. Once an
    /// answer was returned, `f` does not run again.
    pub async fn run<F, W>(&self, key: &str, f: F) -> Result<Answered, Error>
    where
        F: FnOnce() -> W,
        W: Future<Output = Result<Vec<u8>, Error>>,
    {
        let started = match self.start(key).await? {
            Start::Answered(bytes) => return Ok(Answered { bytes, is_repeated: true }),
            Start::Started(row) => row,
        };
        let bytes = match f().await {
            Ok(bytes) if bytes.len() > ANSWER_BYTES_MAX => {
                self.table.delete(&started).await?;
                let (bytes, bytes_max) = (bytes.len() as u64, ANSWER_BYTES_MAX as u64);
                return Err(Error::new(ErrorKind::TooLarge { bytes, bytes_max }));
            }
            Ok(bytes) => bytes,
            Err(error) => {
                // Lets the next request try. If this fails too, it can try after `run_max`.
                let _ = self.table.delete(&started).await;
                return Err(error);
            }
        };
        let mut row = started;
        row.set(ANSWER, bytes.clone());
        row.set(EXPIRES, after(self.now(), self.keep));
        self.table.replace(&row).write_id().await?;
        Ok(Answered { bytes, is_repeated: false })
    }

    /// Deletes expired answers; returns how many.
    pub async fn purge(&self) -> Result<usize, Error> {
        let mut deleted = 0;
        for bucket in 0..BUCKETS {
            let mut name = String::new();
            lazuli_model::key_text::write_padded(&mut name, u128::from(bucket), 2);
            let old = partition(&name).and(col(EXPIRES).lt(self.now()));
            let mut rows = self.table.query(old).stream();
            while let Some(row) = rows.try_next().await? {
                // One that was restarted in the meantime stays.
                match self.table.delete(&row).await {
                    Ok(_) => deleted += 1,
                    Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(deleted)
    }

    /// Finds the answer, or marks the key as started.
    async fn start(&self, key: &str) -> Result<Start, Error> {
        let now = self.now();
        let (mut bucket, mut row_key) = (String::new(), String::new());
        write_bucket(&mut bucket, key, BUCKETS);
        escape(&mut row_key, key, None);
        let fresh = Entity::new(bucket.clone(), row_key.clone())
            .with(STARTED, now)
            .with(EXPIRES, after(now, self.run_max));
        let busy = || Error::new(ErrorKind::Contended { attempts: 1 });
        let written = match self.table.get((&*bucket, &*row_key)).await? {
            None => self.table.insert(&fresh).write_id().await,
            Some(known) => {
                let is_over = known.get::<Timestamp>(EXPIRES)? <= now;
                match known.opt::<Vec<u8>>(ANSWER)? {
                    Some(bytes) if !is_over => return Ok(Start::Answered(bytes)),
                    None if !is_over => return Err(busy()),
                    _ => {}
                }
                let again = known.map(|_| fresh);
                self.table.replace(&again).write_id().await
            }
        };
        match written {
            // Read for its write ids, so that the answer can be written based on them.
            Ok(written) => {
                let row = self.table.get((&*bucket, &*row_key)).required().await?;
                if *row.etag() == written.etag { Ok(Start::Started(row)) } else { Err(busy()) }
            }
            Err(error) if error.is_conflict() || error.is_precondition_failed() => Err(busy()),
            Err(error) => Err(error),
        }
    }

    fn now(&self) -> Timestamp {
        self.table.account.0.env.now()
    }
}

enum Start {
    Answered(Vec<u8>),
    Started(Loaded<Entity>),
}
