//! One run of a job: steps that may be repeated (P-3.5).

use super::moved::MoveEntity;
use super::{Job, JobError, Jobs};
use crate::blob::Blob;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::key::IntoKey;
use crate::table::Table;
use bytes::Bytes;

/// The table for completed steps.
const STEPS: &str = "JobSteps";

/// One run of a job.
#[derive(Clone, Debug)]
pub struct Run {
    pub(super) job_id: String,
    pub(super) dequeue_count: u32,
    pub(super) account: crate::Account,
}

impl Run {
    /// The id of the job, the same in all its runs.
    pub fn job_id(&self) -> &str {
        &self.job_id
    }

    /// How often the message was received, including this time.
    pub fn dequeue_count(&self) -> u32 {
        self.dequeue_count
    }

    /// Moves an entity to another table, or to another key in the same table. If another row, not a copy of it, has its
    /// new key, the result is [`JobError::Never`]; likewise for a type with more than one row per entity.
    pub fn move_entity<T: TableEntity, U: TableEntity>(
        &self,
        from: &Table<T>,
        key: impl IntoKey,
        to: &Table<U>,
    ) -> MoveEntity {
        MoveEntity::new(from, key.into_key(), to, true)
    }

    /// Copies an entity to another table, unless a later state of it is already there.
    pub fn copy_entity<T: TableEntity, U: TableEntity>(
        &self,
        from: &Table<T>,
        key: impl IntoKey,
        to: &Table<U>,
    ) -> MoveEntity {
        MoveEntity::new(from, key.into_key(), to, false)
    }

    /// Inserts or replaces an entity. A run that was suspended may overwrite a newer state with an old one: where that
    /// matters, compare versions.
    pub async fn upsert<T: TableEntity>(
        &self,
        table: &Table<T>,
        value: &T,
    ) -> Result<(), JobError> {
        table.upsert(value).await?;
        Ok(())
    }

    /// Deletes an entity if it exists.
    pub async fn delete_if_present<T: TableEntity>(
        &self,
        table: &Table<T>,
        key: impl IntoKey,
    ) -> Result<(), JobError> {
        table.delete_key(key).await?;
        Ok(())
    }

    /// Writes a blob, replacing any existing one.
    pub async fn put_blob(&self, blob: &Blob, bytes: impl Into<Bytes>) -> Result<(), JobError> {
        blob.put(bytes).await?;
        Ok(())
    }

    /// Deletes a blob if it exists.
    pub async fn delete_blob(&self, blob: &Blob) -> Result<(), JobError> {
        blob.delete().await?;
        Ok(())
    }

    /// Sends another job. It may be sent twice, as any job may.
    pub async fn send<J: Job>(&self, jobs: &Jobs, job: &J) -> Result<(), JobError> {
        jobs.send(job).await?;
        Ok(())
    }

    /// Runs `step` unless an earlier run of this job has finished it, and records that in the table
    /// `JobSteps`: partition key the job's id, row key `name`.
    ///
    /// Not exactly once: after a crash between the step and the record, the next run repeats it, and two concurrent
    /// runs may both do it. Returns whether this run did.
    pub async fn once<F>(&self, name: &str, step: F) -> Result<bool, JobError>
    where
        F: Future<Output = Result<(), JobError>> + Send,
    {
        let steps = self.account.tables().table(STEPS)?;
        match steps.get((&*self.job_id, name)).await {
            Ok(Some(_)) => return Ok(false),
            Ok(None) => {}
            Err(error) if error.is_not_found() => {
                self.account.tables().create_if_missing(STEPS).await?;
            }
            Err(error) => return Err(error.into()),
        }
        step.await?;
        steps.upsert(&Entity::new(&*self.job_id, name)).await?;
        Ok(true)
    }

    /// Deletes the records that [`Run::once`] made for a job.
    pub async fn forget_steps(&self) -> Result<(), Error> {
        let steps = self.account.tables().table(STEPS)?;
        let noted = steps.query(crate::partition(&self.job_id)).collect_at_most(1000).await;
        let noted = match noted {
            Err(error) if error.is_not_found() => return Ok(()),
            noted => noted?,
        };
        for step in noted {
            steps.delete_key((step.partition_key(), step.row_key())).await?;
        }
        Ok(())
    }
}
