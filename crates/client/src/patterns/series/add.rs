//! Adds to a point, exactly once (P-9.2).

use super::{DataSeries, SeriesPoint, SeriesTable, SeriesValue, shard_key};
use crate::entity::{ETag, Entity, Loaded, Properties};
use crate::error::{Error, ErrorKind};
use crate::update::pause;
use crate::value::TableValue;
use crate::write::{Write, WriteVerb};
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::{EntityKey, Guid};

/// Ids of increases that a row keeps.
const WINDOW: usize = 32;
/// Attempts of an increase that other clients disturb.
const ATTEMPTS: u32 = 32;

/// An increase that is under way.
struct Increase<'a, S: DataSeries> {
    table: &'a SeriesTable<S>,
    point: &'a SeriesPoint<S>,
    amount: S::Value,
    /// The same in all rounds, so that an increase is recognized whichever round wrote it.
    own: Guid,
    /// A write whose outcome is unknown.
    sent: Option<Sent>,
}

/// What a write was based on: the row as it was read.
struct Sent {
    ids: WriteIds,
    /// `None` if the row did not exist.
    etag: Option<ETag>,
}

impl<S: DataSeries> SeriesTable<S> {
    /// Adds to a point, exactly once: reads the row and merges one property conditionally on its version, retrying if
    /// another client wrote in between. The row keeps the ids of the last 32 increases, so that one whose answer was
    /// lost is recognized.
    ///
    /// An error of kind [`ErrorKind::OutcomeUnknown`] means that the amount may or may not have been added: more than
    /// 32 increases followed, or the service could not be reached.
    pub async fn add(&self, point: &SeriesPoint<S>, amount: S::Value) -> Result<(), Error> {
        let place = |error: Error| error.at("add", Some(self.rows.name()), Some(&point.key));
        let env = &self.rows.account.0.env;
        let own = env.guid();
        let mut increase = Increase { table: self, point, amount, own, sent: None };
        let mut key = increase.choose_row().map_err(place)?;
        for attempts in 1..=ATTEMPTS {
            match increase.round(&key).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if increase.sent.is_some() => {
                    return Err(place(error.with_kind(ErrorKind::OutcomeUnknown)));
                }
                Err(error) => return Err(place(error)),
            }
            // A write under way may still arrive: adding to another row would count it twice.
            if increase.sent.is_none() {
                key = increase.choose_row().map_err(place)?;
            }
            env.sleep(pause(env, attempts)).await;
        }
        Err(place(Error::new(match increase.sent {
            Some(_) => ErrorKind::OutcomeUnknown,
            None => ErrorKind::Contended { attempts: ATTEMPTS },
        })))
    }
}

impl<S: DataSeries> Increase<'_, S> {
    /// Chooses one of the rows that share the increases.
    fn choose_row(&self) -> Result<EntityKey, Error> {
        let env = &self.table.rows.account.0.env;
        Ok(shard_key::<S>(&self.point.key, env.below(u64::from(S::SHARDS)))?)
    }

    /// One round; false if another client came in between, or the outcome has to be checked.
    async fn round(&mut self, key: &EntityKey) -> Result<bool, Error> {
        let found = self.table.rows.get(key.clone()).await?;
        let ids = found.as_ref().map(|row| row.write_ids().clone()).unwrap_or_default();
        let etag = found.as_ref().map(|row| row.etag().clone());
        if ids.contains(self.own) {
            return Ok(true);
        }
        if let Some(sent) = &self.sent {
            // Increases only put their id in front of those they read. So a list that has never been full, or that
            // still has the newest id of that time, includes all later ones. A row that is gone has no increase.
            let is_complete = ids.len() < WINDOW || ids.follows(&sent.ids);
            if !is_complete {
                return Err(Error::new(ErrorKind::OutcomeUnknown));
            }
            // It was not carried out, and the version that it requires will not come back.
            if etag.is_some() && etag != sent.etag {
                self.sent = None;
            }
        }
        let write = self.write(key, found.as_ref(), &ids)?;
        match write.await {
            Ok(_) => Ok(true),
            Err(error) if error.may_have_been_applied() => {
                self.sent = Some(Sent { ids, etag });
                Ok(false)
            }
            Err(error)
                if error.is_precondition_failed()
                    || error.is_conflict()
                    || *error.kind() == ErrorKind::NotFound =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The merge of the sum, or the insert of the first value.
    fn write(
        &self,
        key: &EntityKey,
        found: Option<&Loaded<Entity>>,
        ids: &WriteIds,
    ) -> Result<Write, Error> {
        let property = self.point.property();
        let before: Option<S::Value> = match found {
            Some(row) => row.opt(&property)?,
            None => None,
        };
        let sum = before.unwrap_or_default().plus(self.amount);
        let sum =
            sum.ok_or_else(|| Error::config("the sum does not fit the type of the series"))?;
        let mut properties = Properties::default();
        properties.push(property, sum.to_value()?);
        properties.push(WRITE_IDS, ids.followed_within(self.own, WINDOW).to_value());
        if let Some(kind) = S::KIND {
            properties.push_text(kind.property, kind.text());
        }
        let rows = &self.table.rows;
        let (verb, etag) = match found {
            Some(row) => (WriteVerb::Merge, Some(row.etag().as_str())),
            None => (WriteVerb::Insert, None),
        };
        let write =
            Write::new(&rows.account, &rows.name, verb, Ok((key.clone(), properties)), etag);
        // A row with our id is ours.
        Ok(write.trusting_content(true))
    }
}
