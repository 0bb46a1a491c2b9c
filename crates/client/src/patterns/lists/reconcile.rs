//! Makes a list agree with an entity, by anybody and any number of times (P-4.5).

use super::note::{Entry, Note};
use super::{ATTEMPTS, ListTable, items};
use crate::entity::TableEntity;
use crate::error::{Error, ErrorKind};
use crate::update::pause;
use lazuli_model::EntityKey;

impl<T: TableEntity> ListTable<T> {
    pub(super) async fn settle(&self, note: &Note) -> Result<(), Error> {
        for entry in &note.entries {
            self.reconcile(&note.primary, entry).await?;
        }
        Ok(())
    }

    /// The list holds the item if and only if the entity, read after the list, says so; and the entity is the same
    /// after the write as before it. A writer that slept between would else leave what nobody's note names.
    ///
    /// Returns whether anything was written.
    pub(super) async fn reconcile(
        &self,
        primary: &EntityKey,
        entry: &Entry,
    ) -> Result<bool, Error> {
        let env = &self.rows.account.0.env;
        let mut has_written = false;
        for attempts in 1..=ATTEMPTS {
            let list = self.read_list(entry.number, &entry.place).await?;
            let (is_wanted, before) = self.wants(primary, entry).await?;
            let mut items = list.as_ref().map(|list| list.items.clone()).unwrap_or_default();
            if !items::set(&mut items, &entry.item, is_wanted) {
                return Ok(has_written);
            }
            if self.write_list(entry.number, &entry.place, &items, list.as_ref()).await? {
                has_written = true;
                if self.wants(primary, entry).await?.1 == before {
                    return Ok(true);
                }
            }
            env.sleep(pause(env, attempts)).await;
        }
        let error = Error::new(ErrorKind::Contended { attempts: ATTEMPTS });
        Err(error.at("list", Some(self.rows.name()), Some(&entry.place)))
    }

    /// Whether an entity says that it is in a list as this item; and its version.
    pub(super) async fn wants(
        &self,
        primary: &EntityKey,
        entry: &Entry,
    ) -> Result<(bool, Option<crate::ETag>), Error> {
        let Some(row) = self.rows.get(primary.clone()).await? else { return Ok((false, None)) };
        let etag = row.etag().clone();
        Ok((self.entries_of_row(row.into_inner())?.contains(entry), Some(etag)))
    }
}
