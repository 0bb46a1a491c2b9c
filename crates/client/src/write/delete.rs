//! A deletion.

use super::{Deleted, Proof};
use crate::BoxFuture;
use crate::account::Account;
use crate::batch::Operation;
use crate::call::{Call, CallOptions, text_value};
use crate::error::{Error, ErrorKind};
use crate::index::{self, Indexing};
use crate::key::KeyError;
use crate::options::verb_options;
use crate::table::entity_path;
use crate::tables;
use bytes::Bytes;
use http::header::IF_MATCH;
use http::{Method, StatusCode};
use lazuli_model::{EntityKey, TableName};
use std::future::IntoFuture;

/// A deletion of one entity.
#[must_use = "nothing is sent before `.await`"]
pub struct Delete {
    account: Account,
    table: TableName,
    key: Result<EntityKey, KeyError>,
    /// `None` deletes any version, and succeeds if there is none.
    etag: Option<String>,
    options: CallOptions,
    indexing: Option<Indexing>,
    fault: Option<Error>,
}

impl Delete {
    pub(crate) fn new(
        account: &Account,
        table: &TableName,
        key: Result<EntityKey, KeyError>,
        etag: Option<&str>,
    ) -> Self {
        let (account, table) = (account.clone(), table.clone());
        let etag = etag.map(str::to_owned);
        let options = CallOptions::default();
        Self { account, table, key, etag, options, indexing: None, fault: None }
    }

    /// Deletes the copies of the entity too, if its type has indexes.
    pub(crate) fn indexed(self, indexing: Option<Indexing>) -> Self {
        Self { indexing, ..self }
    }

    /// Makes the deletion fail if there is an error.
    pub(crate) fn unless(self, fault: Option<Error>) -> Self {
        Self { fault, ..self }
    }

    verb_options!();

    async fn run(self) -> Result<Deleted, Error> {
        let operation = if self.etag.is_some() { "delete" } else { "delete_key" };
        let table = self.table.as_str();
        let key = self.key.map_err(|error| Error::from(error).at(operation, Some(table), None))?;
        let place = |error: Error| error.at(operation, Some(table), Some(&key));
        if let Some(fault) = self.fault {
            return Err(place(fault));
        }
        if let Some(indexing) = self.indexing {
            let remove = Operation::remove(key.clone(), self.etag.as_deref().unwrap_or("*"));
            let sent =
                index::send(&self.account, &self.table, remove, indexing, self.options).await;
            return Ok(match sent.map_err(place)? {
                Some(committed) => Deleted::Now(committed.proof()),
                None if self.etag.is_none() => Deleted::WasAbsent,
                None => return Err(place(Error::new(ErrorKind::NotFound))),
            });
        }
        let path = entity_path(&self.table, &key);
        let mut call = Call {
            options: self.options,
            ..tables::write(operation, Method::DELETE, path, Bytes::new())
        };
        #[cfg(feature = "patterns")]
        {
            call.about.subjects = self.account.subjects([(operation, &key, None)]);
        }
        if self.etag.is_none() {
            call.about.is_idempotent = true;
            call.about.expected = Some(StatusCode::NOT_FOUND);
        }
        let if_match = text_value(self.etag.as_deref().unwrap_or("*")).map_err(place)?;
        call.headers.insert(IF_MATCH, if_match);
        let answer = self.account.exchange(&call).await.map_err(place)?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(Deleted::Now(Proof::Answered));
        }
        let is_after_lost = answer.is_after_lost;
        let error = answer.into_error(operation);
        match error.is_absence() {
            // It is gone, deleted by us or another client (C-13).
            true if is_after_lost => Ok(Deleted::Now(Proof::State)),
            true if self.etag.is_none() => Ok(Deleted::WasAbsent),
            _ => Err(place(error)),
        }
    }
}

impl IntoFuture for Delete {
    type Output = Result<Deleted, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
