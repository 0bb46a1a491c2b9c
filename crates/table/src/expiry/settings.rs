//! Reads and changes a table's expiry setting.

use crate::error::TableError;
use crate::service::TableService;
use crate::settings::drop_index;
use lazuli_engine::Write;
use lazuli_layout::key;
use lazuli_layout::settings::{BuildRecord, ExpiryRecord, TableExpiry};
use lazuli_layout::table::CatalogRecord;
use lazuli_model::{AccountName, Expiry, TableName, Timestamp};

impl TableService {
    /// The expiry setting of a table.
    pub async fn expiry(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Expiry, TableError> {
        let catalog = key::catalog(account, name.lower()).into();
        let found = self.store.read_one(&catalog).await?.ok_or(TableError::TableNotFound)?;
        let settings = CatalogRecord::decode(&found.value)?.settings;
        Ok(settings.expiry.ok_or(TableError::NoExpiry)?.expiry)
    }

    /// Sets when entities of a table expire, including existing ones. It takes effect at once; the
    /// moments of existing entities are indexed later, so that their space is reclaimed.
    pub async fn set_expiry(
        &self,
        account: &AccountName,
        name: &TableName,
        expiry: &Expiry,
    ) -> Result<(), TableError> {
        let now = self.store.clock.now();
        self.change_catalog(account, name, |record| {
            if record.settings.expiry.as_ref().is_some_and(|known| known.expiry == *expiry) {
                return Vec::new();
            }
            let mut writes = drop_expiry(record, now);
            let settings = &mut record.settings;
            let new = TableExpiry { number: settings.next_index, expiry: expiry.clone() };
            settings.next_index += 1;
            let id = new.id(record.id);
            settings.expiry = Some(new);
            let owner = ExpiryRecord { account: account.clone(), table: name.clone() };
            let build = BuildRecord::new(account.clone(), name.clone());
            writes.push(Write::Put(key::expiry::record(id).into(), owner.encode().into()));
            writes.push(Write::Put(id.build().into(), build.encode().into()));
            writes
        })
        .await
    }

    /// Turns expiry off for a table. Expired entities that are still stored exist again.
    pub async fn drop_expiry(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        let now = self.store.clock.now();
        self.change_catalog(account, name, |record| drop_expiry(record, now)).await
    }
}

fn drop_expiry(record: &mut CatalogRecord, now: Timestamp) -> Vec<Write> {
    let Some(old) = record.settings.expiry.take() else { return Vec::new() };
    let id = old.id(record.id);
    let mut writes: Vec<Write> = drop_index(id, now).into();
    writes.push(Write::Delete(key::expiry::record(id).into()));
    writes
}
