//! Turns the feed of a table on and off.

use crate::error::TableError;
use crate::index::build::SETTLES_MS;
use crate::service::TableService;
use bytes::Bytes;
use lazuli_engine::{Write, Writers};
use lazuli_layout::feed::{FeedRecord, HEAD};
use lazuli_layout::table::{self as stored, CatalogRecord};
use lazuli_layout::{FeedId, key};
use lazuli_model::{AccountName, Feed, TableName, Timestamp};

/// The feed of a table, and from when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedStatus {
    pub feed: Feed,
    /// Every change after this moment is recorded. On a store with other writers this is after the
    /// moment when the feed was turned on: a write already in progress may not have known of it.
    pub complete_from: Timestamp,
}

impl TableService {
    /// The feed of a table.
    pub async fn feed(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<FeedStatus, TableError> {
        let view = self.store.engine.view().await?;
        let found = view.get(&key::catalog(account, name.lower())).await?;
        let record = CatalogRecord::decode(&found.ok_or(TableError::TableNotFound)?.value)?;
        let feed = record.settings.feed.ok_or(TableError::NoFeed)?;
        let id = FeedId { table: record.id, number: record.settings.feeds };
        let found = view.get(&id.record()).await?.ok_or(TableError::NoFeed)?;
        let begun = FeedRecord::decode(&found.value)?.begun;
        Ok(FeedStatus { feed, complete_from: self.complete_from(begun) })
    }

    /// From when a feed that was turned on at `begun` has every change.
    pub(crate) fn complete_from(&self, begun: Timestamp) -> Timestamp {
        match self.nature().writers {
            Writers::Sole => begun,
            Writers::Many => {
                let ms = self.index_settles_ms.unwrap_or(SETTLES_MS);
                begun.plus_seconds(ms.div_ceil(1000))
            }
        }
    }

    /// Turns the feed of a table on, or changes what it records from now on.
    pub async fn set_feed(
        &self,
        account: &AccountName,
        name: &TableName,
        feed: Feed,
    ) -> Result<(), TableError> {
        let now = self.store.clock.now();
        self.change_catalog(account, name, |record| {
            let settings = &mut record.settings;
            if settings.feed.replace(feed).is_some() {
                return Vec::new();
            }
            settings.feeds += 1;
            let id = FeedId { table: record.id, number: settings.feeds };
            let (account, table) = (account.clone(), name.clone());
            let begun = FeedRecord { account, table, begun: now, floor: 0 };
            vec![
                Write::Put(id.record().into(), begun.encode().into()),
                Write::Put(id.head().into(), Bytes::from_static(HEAD)),
            ]
        })
        .await
    }

    /// Turns the feed of a table off, if it has one, and drops what it recorded.
    pub async fn drop_feed(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        let now = self.store.clock.now();
        self.change_catalog(account, name, |record| {
            let settings = &mut record.settings;
            if settings.feed.take().is_none() {
                return Vec::new();
            }
            let id = FeedId { table: record.id, number: settings.feeds };
            vec![
                Write::Delete(id.record().into()),
                Write::Put(id.dropped(u64::MAX).into(), stored::encode_reclaim(now).into()),
            ]
        })
        .await?;
        self.news.tell_all();
        Ok(())
    }
}
