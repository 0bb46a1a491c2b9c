//! Compares the index of moments with the entities.
//!
//! Every entity that expires has an entry by which the sweeper finds it. A surplus entry does no
//! harm: the sweeper removes it when its time comes.

use super::moment;
use crate::error::TableError;
use crate::index::verify::{ComparedRow, Comparison, DisagreementKind, EXPIRY};
use lazuli_engine::{Key, View};
use lazuli_layout::key::index::split_entity;
use lazuli_layout::settings::{TableExpiry, TableSettings};
use lazuli_layout::{EntityRecord, TableId, key};

/// How many buckets early the entry of the slowest possible commit may lie.
const BUCKETS_EARLY_MAX: u64 = 9;

/// The moments to be compared: `None` if entities do not expire, or while the index is built.
pub(crate) async fn indexed_moments(
    view: &dyn View,
    table: TableId,
    settings: Option<&TableSettings>,
) -> Result<Option<TableExpiry>, TableError> {
    let Some(setting) = settings.and_then(|settings| settings.expiry.clone()) else {
        return Ok(None);
    };
    let build = view.get(&setting.id(table).build()).await?;
    Ok(build.is_none().then_some(setting))
}

impl Comparison {
    /// Every entity that expires has an entry.
    pub(crate) async fn compare_moments(&mut self, rows: &[ComparedRow]) -> Result<(), TableError> {
        let Some(setting) = self.moments.clone() else { return Ok(()) };
        let id = setting.id(self.table);
        for row in rows {
            let record = EntityRecord::parse(&row.value)?;
            let Some(moment) = moment(&setting.expiry, &record, row.revision) else { continue };
            let (_, entity) = split_entity(&row.key)?;
            let own = moment.bucket();
            let near = own.saturating_sub(BUCKETS_EARLY_MAX)..=own.saturating_add(1);
            let entry = |bucket| Key::from(key::expiry::moment(id, bucket, entity));
            let found = self.view.multi_get(&near.map(entry).collect::<Vec<_>>()).await?;
            self.page.entries += found.iter().flatten().count() as u64;
            if found.iter().all(Option::is_none) {
                self.disagree_in(EXPIRY.to_owned(), entity, DisagreementKind::Missing)?;
            }
        }
        Ok(())
    }
}
