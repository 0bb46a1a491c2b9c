//! List Queues.

use crate::error::QueueError;
use crate::service::QueueService;
use lazuli_engine::retry::give_way;
use lazuli_engine::{ScanEnd, Visit};
use lazuli_layout::key;
use lazuli_layout::queue::QueueRecord;
use lazuli_model::limits::QUEUES_PER_PAGE_MAX;
use lazuli_model::{AccountName, Metadata, QueueName};
use lazuli_service::{Rows, key_range, step};
use std::ops::Bound;

/// Which queues to list.
#[derive(Clone, Debug)]
pub struct ListQueues {
    /// The prefix of the names.
    pub prefix: String,
    /// The name to start at, whether or not such a queue exists.
    pub from: String,
    /// Queues in the page; capped at [`QUEUES_PER_PAGE_MAX`].
    pub max: usize,
}

impl Default for ListQueues {
    fn default() -> Self {
        Self { prefix: String::new(), from: String::new(), max: QUEUES_PER_PAGE_MAX }
    }
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueItem {
    pub name: QueueName,
    pub metadata: Metadata,
}

/// How a page ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEnd {
    /// The first queue not returned; `None` at the end of the list.
    pub next: Option<QueueName>,
}

impl QueueService {
    /// List Queues: passes one page to `sink`, sorted by name.
    pub async fn list_queues(
        &self,
        account: &AccountName,
        list: &ListQueues,
        sink: &mut (dyn FnMut(QueueItem) + Send),
    ) -> Result<ListEnd, QueueError> {
        let view = self.store.engine.view().await?;
        let mut room = list.max.min(QUEUES_PER_PAGE_MAX);
        let mut end = ListEnd::default();
        let low = list.prefix.as_str().max(&list.from);
        let range = key::queue::catalog_range(account, Bound::Included(low), Bound::Unbounded);
        let mut next = Some(key_range(range));
        while let Some(range) = next.take() {
            let rows = Rows::at_most(room.saturating_add(1));
            let mut visit = |key: &[u8], value: &[u8], _| {
                let name = key::queue::decode_catalog(key)?;
                if !name.as_str().starts_with(&list.prefix) {
                    return Ok(Visit::StopBefore);
                }
                if room == 0 {
                    end.next = Some(name);
                    return Ok(Visit::StopBefore);
                }
                room -= 1;
                sink(QueueItem { name, metadata: QueueRecord::decode(value)?.metadata });
                Ok(Visit::Continue)
            };
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut visit).await? {
                next = Some(rest);
                give_way().await;
            }
        }
        Ok(end)
    }
}
