//! A lease: only one of many workers does something (P-23.4).
//!
//! A row names the holder and the end of its lease. A holder that is suspended for too long loses the lease without
//! noticing, so every holder has a fencing number that only grows: rows that it writes keep the number, and a write
//! with a smaller one is refused.

use crate::BoxError;
use crate::entity::{ETag, Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::patterns::after;
use crate::table::Table;
use crate::update::Change;
use lazuli_model::Timestamp;
use std::time::Duration;

const HOLDER: &str = "Holder";
const UNTIL: &str = "Until";
const FENCE: &str = "Fence";
/// The property of rows written under a lease: the fencing number of their last writer.
const FENCED_BY: &str = "_fence";
const DURATION: Duration = Duration::from_secs(60);
/// How much workers' clocks may differ: others wait that much longer than the holder may act.
const MARGIN: Duration = Duration::from_secs(5);

/// A lease that workers compete for.
///
/// ```
/// # use lazuli_client::patterns::lease::Lease;
/// # use lazuli_client::prelude::*;
/// # async fn run(table: Table) -> Result<(), Error> {
/// let lease = Lease::new(&table, "leases", "nightly-report");
/// if let Some(mut held) = lease.acquire().await? {
///     // Do the work, and renew while it lasts.
///     held.renew().await?;
///     held.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lease {
    table: Table<Entity>,
    key: (String, String),
    duration: Duration,
    margin: Duration,
}

impl Lease {
    /// A lease in this row, which is created when the lease is first acquired. Makes no request.
    pub fn new<T: TableEntity>(table: &Table<T>, partition: &str, row: &str) -> Self {
        let key = (partition.to_owned(), row.to_owned());
        Self { table: table.retyped(), key, duration: DURATION, margin: MARGIN }
    }

    /// How long it lasts without renewal; 60 s by default.
    #[must_use]
    pub fn duration(self, duration: Duration) -> Self {
        Self { duration, ..self }
    }

    /// The greatest expected difference between workers' clocks; 5 s by default. If they differ by more, two workers
    /// may hold the lease at the same time, but with different fencing numbers.
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// Acquires the lease if it is free; `None` if another worker holds it.
    pub async fn acquire(&self) -> Result<Option<Held>, Error> {
        let env = &self.table.account.0.env;
        let (now, holder) = (env.now(), env.guid().to_string());
        let until = after(now, self.duration);
        let taken = |fence: i64| {
            Entity::new(self.key.0.clone(), self.key.1.clone())
                .with(HOLDER, holder.clone())
                .with(UNTIL, until)
                .with(FENCE, fence)
        };
        let (written, fence) = match self.table.get(self.key.clone()).await? {
            None => (self.table.insert(&taken(1)).write_id().await, 1),
            Some(mut row) => {
                let held_until: Timestamp = row.get(UNTIL)?;
                if now < after(held_until, self.margin) {
                    return Ok(None);
                }
                let fence: i64 = row.get::<i64>(FENCE)? + 1;
                row.set(HOLDER, holder.clone());
                row.set(UNTIL, until);
                row.set(FENCE, fence);
                (self.table.replace(&row).write_id().await, fence)
            }
        };
        match written {
            Ok(written) => {
                let lease = self.clone();
                Ok(Some(Held { lease, holder, fence, until, etag: written.etag }))
            }
            // Another worker was faster; or the outcome is unknown: then nobody acts until the lease that we may hold
            // has ended.
            Err(error) if error.is_conflict() || error.is_precondition_failed() => Ok(None),
            Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A lease that this worker holds.
#[derive(Debug)]
pub struct Held {
    lease: Lease,
    holder: String,
    fence: i64,
    until: Timestamp,
    etag: ETag,
}

impl Held {
    /// The fencing number: greater than that of every earlier holder.
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// The end of the lease.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether it is still held, by the local clock.
    pub fn is_held(&self) -> bool {
        self.lease.table.account.0.env.now() < self.until
    }

    /// Renews the lease from now on. Fails with [`ErrorKind::LeaseLost`] if another worker has taken it.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let now = self.lease.table.account.0.env.now();
        let until = after(now, self.lease.duration);
        self.set_until(until).await
    }

    /// Releases the lease. The row stays, because its fencing number must not start again.
    pub async fn release(mut self) -> Result<(), Error> {
        self.set_until(Timestamp::UNIX_EPOCH).await
    }

    async fn set_until(&mut self, until: Timestamp) -> Result<(), Error> {
        let (table, key) = (&self.lease.table, self.lease.key.clone());
        let merge = table.merge(key.clone()).if_match(&self.etag).set(UNTIL, until);
        match merge.await {
            Ok(written) => {
                (self.etag, self.until) = (written.etag, until);
                return Ok(());
            }
            Err(error) if !error.is_precondition_failed() && !error.may_have_been_applied() => {
                return Err(error);
            }
            Err(_) => {}
        }
        // Our own attempt may have changed the version: the holder's name shows that.
        let row = table.get(key).required().await?;
        if row.str(HOLDER)? == self.holder && row.get::<i64>(FENCE)? == self.fence {
            self.etag = row.etag().clone();
            self.until = row.get(UNTIL)?;
            if self.until == until {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::LeaseLost).at("renew", Some(table.name()), None))
    }

    /// Changes an entity under this lease, or inserts it: the entity keeps the fencing number, and a change by a holder
    /// with a smaller one fails with [`ErrorKind::LeaseLost`]. All writes of the entity must go through this method.
    pub async fn update<F>(
        &self,
        table: &Table<Entity>,
        key: (&str, &str),
        f: F,
    ) -> Result<(), Error>
    where
        F: FnMut(&mut Entity) -> Result<(), BoxError> + Send + 'static,
    {
        let (fence, mut f) = (self.fence, f);
        let fresh = Entity::new(key.0, key.1);
        let change = move |entity: &mut Entity| {
            let last = entity.opt::<i64>(FENCED_BY)?.unwrap_or(0);
            if last > fence {
                return Err(BoxError::from(Stale));
            }
            f(entity)?;
            entity.set(FENCED_BY, fence);
            Ok(Change::Write)
        };
        let update = table.update_with(key, change).or_insert_with(move || fresh.clone());
        match update.await {
            Ok(_) => Ok(()),
            Err(error) if is_stale(&error) => Err(error.with_kind(ErrorKind::LeaseLost)),
            Err(error) => Err(error),
        }
    }
}

/// Another holder has written in the meantime.
#[derive(Debug, thiserror::Error)]
#[error("a later holder of the lease has written it")]
struct Stale;

fn is_stale(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Stale>())
}
