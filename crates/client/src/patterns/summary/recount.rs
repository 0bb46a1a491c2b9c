//! Verifies a summary against its sources, and recounts it (P-5.2, P-0.5).

use super::{Held, Summarized, Summary, is_own, shard_end};
use crate::Properties;
use crate::batch::{self, Operation};
use crate::codec::encode;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{partition, row};
use crate::key::Key;
use crate::options::CallOptions;
use crate::patterns::{Finding, FindingKind};
use crate::transaction::entity_of;
use crate::update::pause;
use lazuli_model::EntityKey;

/// Attempts of a recount that writers disturb.
const ATTEMPTS: u32 = 8;

/// The actual rows of a summary, and its correct value.
struct Counted<D> {
    rows: Vec<Loaded<Entity>>,
    found: Option<Properties>,
    expected: D,
}

impl<S: TableEntity + Sync, D: Summary<S>> Summarized<S, D> {
    /// Compares a summary with its sources; `None` if it is correct. Reads the partition. Writers may run concurrently:
    /// if one came in between, it reads again, up to eight times.
    pub async fn verify(&self, key: Key<D>) -> Result<Option<Finding>, Error> {
        let key = key.into_entity_key();
        let env = &self.table.account.0.env;
        for attempts in 1..=ATTEMPTS {
            let Some(counted) = self.count(&key).await? else { return Ok(None) };
            if self.is_unchanged(&key, &counted.rows).await? {
                let expected = encode(&counted.expected)?.1;
                return Ok((counted.found.as_ref() != Some(&expected)).then(|| Finding {
                    kind: FindingKind::Stale,
                    about: "summary",
                    row: key.clone(),
                    primary: None,
                    expected: Some(entity_of(&key, &expected)),
                    found: counted.found.as_ref().map(|found| entity_of(&key, found)),
                }));
            }
            env.sleep(pause(env, attempts)).await;
        }
        Err(self.place(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }), "verify", &key))
    }

    /// Recounts a summary from its sources, conditionally on the versions of its rows: a relevant write of a source
    /// in the meantime changes them, and the partition is read again. Shards are merged into one row.
    pub async fn recount(&self, key: Key<D>) -> Result<(), Error> {
        let key = key.into_entity_key();
        let (account, table) = (&self.table.account, &self.table.name);
        let env = &account.0.env;
        for attempts in 1..=ATTEMPTS {
            let Some(counted) = self.count(&key).await? else { return Ok(()) };
            // A shard created before the sources were read would be counted twice. One created later counts sources
            // that were not read.
            if !self.is_unchanged(&key, &counted.rows).await? {
                env.sleep(pause(env, attempts)).await;
                continue;
            }
            let (_, properties) = encode(&counted.expected)?;
            let mut writes = Vec::new();
            for row in &counted.rows {
                let etag = row.etag().as_str();
                if *row.loaded_key() == key {
                    let encoded = Ok((key.clone(), properties.clone()));
                    writes.push(Operation::write(
                        crate::write::WriteVerb::Replace,
                        encoded,
                        Some(etag),
                    )?);
                } else {
                    writes.push(Operation::remove(row.loaded_key().clone(), etag));
                }
            }
            if !counted.rows.iter().any(|row| *row.loaded_key() == key) {
                let encoded = Ok((key.clone(), properties));
                writes.push(Operation::write(crate::write::WriteVerb::Insert, encoded, None)?);
            }
            let own = env.guid();
            let sent = batch::send_with_id(account, table, writes, own, CallOptions::default());
            match sent.await {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::Batch { .. }) => {
                    env.sleep(pause(env, attempts)).await;
                }
                Err(error) => return Err(self.place(error, "recount", &key)),
            }
        }
        Err(self.place(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }), "recount", &key))
    }

    /// Reads the rows of the summary, then all sources; `None` if there are neither.
    async fn count(&self, key: &EntityKey) -> Result<Option<Counted<D>>, Error> {
        let rows = self.rows_of(key).await?;
        let mut found: Option<D> = None;
        for row in &rows {
            let part = Held::<D>::of_row(key, row.clone())?.value;
            match &mut found {
                None => found = Some(part),
                Some(total) => total.combine(&part),
            }
        }
        let found_properties = match &found {
            Some(found) => Some(encode(found)?.1),
            None => None,
        };
        let mut expected = found;
        if let Some(expected) = &mut expected {
            expected.clear();
        }
        let mut sources =
            self.table.retyped::<S>().query(partition(key.partition.as_str())).stream();
        let mut linked = None;
        while let Some(source) = sources.try_next().await? {
            if *D::key_of(&source)?.as_entity_key() != *key {
                continue;
            }
            let total = expected.get_or_insert_with(|| D::empty(&source));
            total.follow(None, Some(&source));
            if total.link()?.is_some_and(|link| link.as_entity_key() == source.loaded_key()) {
                linked = Some(source);
            }
        }
        let Some(mut expected) = expected else { return Ok(None) };
        expected.fill(linked.as_deref());
        Ok(Some(Counted { rows, found: found_properties, expected }))
    }

    /// Whether the rows of a summary are unchanged since they were read.
    async fn is_unchanged(&self, key: &EntityKey, rows: &[Loaded<Entity>]) -> Result<bool, Error> {
        let now = self.rows_of(key).await?;
        Ok(now.iter().map(Loaded::etag).eq(rows.iter().map(Loaded::etag)))
    }

    /// The row of a summary, and its shards.
    async fn rows_of(&self, key: &EntityKey) -> Result<Vec<Loaded<Entity>>, Error> {
        let from = partition(key.partition.as_str()).and(row().ge(key.row.as_str()));
        let range = from.and(row().lt(shard_end(key)));
        let rows = self.table.query(range).collect_at_most(ROWS_MAX).await?;
        Ok(rows.into_iter().filter(|row| is_own(key, row.row_key())).collect())
    }
}

/// Limit for the summary, its shards, and rows of others between them.
const ROWS_MAX: usize = 10_000;
