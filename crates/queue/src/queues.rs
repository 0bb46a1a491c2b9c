//! Creates, deletes and clears queues; reads and sets their metadata and access policies.

use crate::error::QueueError;
use crate::open::OpenQueue;
use crate::service::QueueService;
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Write};
use lazuli_layout::queue::QueueRecord;
use lazuli_layout::table as stored;
use lazuli_layout::{Generation, QueueId, key};
use lazuli_model::{AccessPolicies, AccountName, Metadata, QueueName};
use lazuli_service::StoreError;

/// The result of Create Queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    Created,
    /// The queue exists with the same metadata, and nothing changed.
    AlreadyThere,
}

/// The result of Get Queue Metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    pub metadata: Metadata,
    /// Messages, visible or not, without expired ones: exact, except that a message counts until
    /// the end of the hundredth of a second in which it expires.
    pub messages: u64,
}

impl QueueService {
    /// Create Queue.
    pub async fn create_queue(
        &self,
        account: &AccountName,
        name: &QueueName,
        metadata: &Metadata,
    ) -> Result<Created, QueueError> {
        let catalog = Key::from(key::queue::catalog(account, name));
        // Most attempts to create an existing queue end here, without using an id.
        match self.compare_metadata(&catalog, metadata).await {
            Err(QueueError::QueueNotFound) => {}
            other => return other,
        }
        let generation = Generation { queue: QueueId(self.store.next_id().await?), epoch: 0 };
        if self.only_we_write() {
            self.dispenser(generation).begins_empty();
        }
        let record = QueueRecord { generation, metadata: metadata.clone() };
        self.retry(|| self.try_to_create(&catalog, &record)).await
    }

    async fn compare_metadata(
        &self,
        catalog: &Key,
        metadata: &Metadata,
    ) -> Result<Created, QueueError> {
        let (_, found) = self.look_up(catalog.clone()).await?;
        match QueueRecord::decode(&found.value)?.metadata == *metadata {
            true => Ok(Created::AlreadyThere),
            false => Err(QueueError::QueueAlreadyExists),
        }
    }

    async fn try_to_create(
        &self,
        catalog: &Key,
        record: &QueueRecord,
    ) -> Attempt<Result<Created, QueueError>> {
        let put = Write::Put(catalog.clone(), record.encode().into());
        let commit = Commit {
            checks: vec![Check { key: catalog.clone(), expect: Expect::Absent }],
            ..Commit::new(self.store.now(), vec![put])
        };
        Attempt::Done(match self.store.engine.commit(commit).await {
            Ok(_) => Ok(Created::Created),
            Err(CommitError::CheckFailed { .. }) => {
                match self.compare_metadata(catalog, &record.metadata).await {
                    // It has been deleted again.
                    Err(QueueError::QueueNotFound) => return Attempt::Again,
                    other => other,
                }
            }
            Err(CommitError::Conflict) => return Attempt::Again,
            // No other queue has this id: if the catalog shows it, the queue is ours.
            Err(CommitError::Undetermined(_)) => match self.look_up(catalog.clone()).await {
                Ok((queue, _)) if queue.generation == record.generation => Ok(Created::Created),
                _ => Err(StoreError::Undetermined.into()),
            },
            Err(error) => Err(error.into()),
        })
    }

    /// Delete Queue: one small commit, whatever the size. The space is reclaimed by
    /// [`reclaim_some`](Self::reclaim_some).
    pub async fn delete_queue(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<(), QueueError> {
        self.commit_under(account, name, |queue, _| {
            vec![
                Write::Delete(queue.lives.key.clone()),
                Write::Delete(key::queue::access_policies(queue.generation.queue).into()),
                self.drop_messages(queue.generation),
            ]
        })
        .await
    }

    /// Clear Messages: one small commit, like [`delete_queue`](Self::delete_queue).
    pub async fn clear_messages(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<(), QueueError> {
        self.commit_under(account, name, |queue, record| {
            let Generation { queue: id, epoch } = queue.generation;
            // When the number wraps around, the first epochs have long been reclaimed.
            let generation = Generation { queue: id, epoch: epoch.wrapping_add(1) };
            let record = QueueRecord { generation, ..record };
            vec![
                Write::Put(queue.lives.key.clone(), record.encode().into()),
                self.drop_messages(queue.generation),
            ]
        })
        .await
    }

    /// Get Queue Metadata.
    pub async fn queue_info(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<QueueInfo, QueueError> {
        let catalog = Key::from(key::queue::catalog(account, name));
        let (queue, found) = self.look_up(catalog).await?;
        let messages = self.count(queue.generation).await?;
        Ok(QueueInfo { metadata: QueueRecord::decode(&found.value)?.metadata, messages })
    }

    /// Set Queue Metadata: replaces the whole set.
    pub async fn set_metadata(
        &self,
        account: &AccountName,
        name: &QueueName,
        metadata: &Metadata,
    ) -> Result<(), QueueError> {
        self.commit_under(account, name, |queue, record| {
            let record = QueueRecord { metadata: metadata.clone(), ..record };
            vec![Write::Put(queue.lives.key.clone(), record.encode().into())]
        })
        .await
    }

    /// Get Queue ACL.
    pub async fn access_policies(
        &self,
        account: &AccountName,
        name: &QueueName,
    ) -> Result<AccessPolicies, QueueError> {
        let view = self.store.engine.view().await?;
        let found = view.get(&key::queue::catalog(account, name)).await?;
        let found = found.ok_or(QueueError::QueueNotFound)?;
        let queue = QueueRecord::decode_generation(&found.value)?.queue;
        match view.get(&key::queue::access_policies(queue)).await? {
            Some(found) => Ok(stored::decode_access_policies(&found.value)?),
            None => Ok(AccessPolicies::default()),
        }
    }

    /// Set Queue ACL.
    pub async fn set_access_policies(
        &self,
        account: &AccountName,
        name: &QueueName,
        policies: &AccessPolicies,
    ) -> Result<(), QueueError> {
        let value = Bytes::from(stored::encode_access_policies(policies));
        self.commit_under(account, name, |queue, _| {
            let key = key::queue::access_policies(queue.generation.queue);
            vec![Write::Put(key.into(), value.clone())]
        })
        .await
    }

    /// The tombstone from which a background task finds the dropped messages.
    fn drop_messages(&self, generation: Generation) -> Write {
        let dropped = stored::encode_reclaim(self.clock());
        Write::Put(key::queue::reclaim(generation).into(), dropped.into())
    }

    /// Commits `writes` for a queue and its record, on the condition that the record is unchanged
    /// at the point of the commit: with a guard, two deletions could both succeed, and policies
    /// could outlive their queue.
    async fn commit_under(
        &self,
        account: &AccountName,
        name: &QueueName,
        writes: impl Fn(&OpenQueue, QueueRecord) -> Vec<Write>,
    ) -> Result<(), QueueError> {
        let catalog = Key::from(key::queue::catalog(account, name));
        self.retry(|| self.try_to_commit_under(&catalog, &writes)).await
    }

    async fn try_to_commit_under(
        &self,
        catalog: &Key,
        writes: impl Fn(&OpenQueue, QueueRecord) -> Vec<Write>,
    ) -> Attempt<Result<(), QueueError>> {
        let (queue, record) = match self.look_up_record(catalog).await {
            Ok(found) => found,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let not_before = self.store.now();
        let writes = writes(&queue, record);
        let keys: Vec<Key> = writes.iter().filter_map(Write::key).cloned().collect();
        let commit =
            Commit { checks: vec![queue.lives.clone()], ..Commit::new(not_before, writes) };
        let outcome = self.store.engine.commit(commit).await;
        self.forget(&queue);
        match outcome {
            Ok(_) => Attempt::Done(Ok(())),
            Err(CommitError::CheckFailed { .. } | CommitError::Conflict) => Attempt::Again,
            Err(CommitError::Undetermined(_))
                if self.store.did_not_happen(not_before, &keys).await =>
            {
                Attempt::Again
            }
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }

    async fn look_up_record(&self, catalog: &Key) -> Result<(OpenQueue, QueueRecord), QueueError> {
        let (queue, found) = self.look_up(catalog.clone()).await?;
        Ok((queue, QueueRecord::decode(&found.value)?))
    }
}
