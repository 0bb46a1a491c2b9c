//! Point reads of many entities at once (C-7.3).

use crate::BoxFuture;
use crate::account::Account;
use crate::call::CallOptions;
use crate::entity::{Loaded, TableEntity};
use crate::error::Error;
use crate::key::KeyError;
use crate::options::{read_options, verb_options};
use crate::query::POINTS_AT_ONCE;
use crate::table::read_point;
use futures_util::{StreamExt, TryStreamExt};
use lazuli_model::{EntityKey, TableName};
use std::collections::HashMap;
use std::future::IntoFuture;
use std::marker::PhantomData;

/// Reads several entities by their keys: one request each, never a scan.
#[must_use = "nothing is sent before `.await`"]
pub struct GetMany<T> {
    account: Account,
    table: TableName,
    keys: Result<Vec<EntityKey>, Error>,
    concurrency: usize,
    options: CallOptions,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> GetMany<T> {
    pub(crate) fn new(
        account: Account,
        table: TableName,
        keys: Result<Vec<EntityKey>, KeyError>,
    ) -> Self {
        Self {
            account,
            table,
            keys: keys.map_err(Error::from),
            concurrency: POINTS_AT_ONCE,
            options: CallOptions::default(),
            of: PhantomData,
        }
    }

    /// Concurrent requests, 16 by default; zero counts as one.
    pub fn concurrency(self, requests: usize) -> Self {
        Self { concurrency: requests.max(1), ..self }
    }

    read_options!();

    async fn run(self) -> Result<Vec<Option<Loaded<T>>>, Error> {
        let place = |error: Error| error.at("get_many", Some(self.table.as_str()), None);
        let keys = self.keys.map_err(place)?;
        let mut places: HashMap<&EntityKey, usize> = HashMap::new();
        let mut distinct = Vec::new();
        for key in &keys {
            places.entry(key).or_insert_with(|| {
                distinct.push(key);
                distinct.len() - 1
            });
        }
        let (account, table) = (&self.account, &self.table);
        let env = &account.0.env;
        let deadline = self.options.deadline(env);
        let read = async |key: &EntityKey| {
            let options = self.options.until(deadline, env);
            read_point(account, table, key, String::new(), options).await
        };
        let reads: Vec<_> = distinct.into_iter().map(read).collect();
        let reads = futures_util::stream::iter(reads).buffered(self.concurrency);
        let answers: Vec<_> = reads.try_collect().await?;
        // The answer for a repeated key is decoded twice, so that `T` need not be `Clone`.
        let mut found = Vec::with_capacity(keys.len());
        for key in &keys {
            let answer = places.get(key).and_then(|place| answers.get(*place)?.as_ref());
            found.push(match answer {
                Some(answer) => answer.decode(account, table, key).await?,
                None => None,
            });
        }
        Ok(found)
    }
}

impl<T: TableEntity> IntoFuture for GetMany<T> {
    type Output = Result<Vec<Option<Loaded<T>>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
