//! An entity and its copies in one commit, on a service with transactions across partitions (P-2.7).

use super::table::{EventualTable, EventualWritten};
use crate::batch::{Operation, Spanning, Trust, mark, seal};
use crate::codec;
use crate::entity::{Loaded, TableEntity};
use crate::error::Error;
use crate::index;
use crate::options::CallOptions;
use crate::patterns::property::PRIMARY_PARTITION;
use crate::value::IntoValue;
use crate::write::WriteVerb;

impl<T: TableEntity> EventualTable<T> {
    /// Writes a value, or deletes the entity if there is none, together with its copies. `loaded` is the state that was
    /// read, if any: its version is the condition, and its copies are replaced.
    pub(super) async fn commit(
        &self,
        verb: WriteVerb,
        value: Option<&T>,
        loaded: Option<&Loaded<T>>,
    ) -> Result<EventualWritten, Error> {
        let name = match value {
            Some(_) => verb.name(),
            None => "delete",
        };
        let key = match (value, loaded) {
            (Some(value), _) => value.key()?,
            (None, Some(loaded)) => loaded.loaded_key().clone(),
            (None, None) => return Err(Error::config("there is nothing to write")),
        };
        let place = |error: Error| error.at(name, Some(self.table.name()), Some(&key));
        self.how.account.check_unranged().map_err(place)?;
        let operation = self.operation(verb, value, loaded).map_err(place)?;
        let mut operations = vec![seal(&self.how.account, operation).await.map_err(place)?];
        let account = &self.how.account;
        let own = account.0.env.guid();
        mark(&mut operations);
        let messages = Vec::new();
        let whole = Spanning { operations, messages, own, trust: Trust::State };
        let sent = whole.send(account, CallOptions::default()).await;
        let committed = sent.map_err(index::as_lone).map_err(place)?;
        Ok(EventualWritten { etag: committed.etag(0).cloned(), pending: false })
    }

    /// The write of the entity and those of its copies, each with its table.
    fn operation(
        &self,
        verb: WriteVerb,
        value: Option<&T>,
        loaded: Option<&Loaded<T>>,
    ) -> Result<Operation, Error> {
        let old = match loaded {
            Some(loaded) => {
                loaded.copies().ok_or_else(|| Error::config("the entity was not read"))?
            }
            None => &[],
        };
        let etag = loaded.map(|loaded| loaded.etag().as_str());
        let (mut write, new) = match value {
            Some(value) => {
                let (key, properties) = codec::encode(value)?;
                let new = index::copies(value, &key, &properties)?;
                (Operation::write(verb, Ok((key, properties)), etag)?, new)
            }
            None => {
                let key = loaded.map(|loaded| loaded.loaded_key().clone());
                let key = key.ok_or_else(|| Error::config("the entity was not read"))?;
                (Operation::remove(key, etag.unwrap_or("*")), Vec::new())
            }
        };
        write.base = loaded.map(|loaded| loaded.write_ids().clone()).unwrap_or_default();
        let mut copies = index::changes(old, &new);
        for copy in &mut copies {
            // A copy in another table may be in a partition with the same name.
            if copy.verb.is_some() {
                let partition = write.key.partition.as_str().into_value();
                copy.properties.set(PRIMARY_PARTITION, partition);
            }
            let table = copy.copy.and_then(|copy| copy.def.table);
            copy.table = match table {
                Some(table) => Some(crate::tables::parse(table)?),
                None => None,
            };
        }
        Ok(write.with_copies(copies).of_table(&self.table.name))
    }
}
