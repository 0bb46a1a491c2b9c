//! Rewrites rows with another key, or in another version of the format, one by one (E-31, E-32).

use super::error::CryptoError;
use super::keys::Keys;
use super::metadata::{Metadata, WrappedBy};
use super::open::check_key;
use super::protection::{LIST, METADATA};
use super::settings::Encryption;
use crate::account::Account;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::Filter;
use crate::page_token::PageToken;
use crate::shape::Declared;
use crate::table::{Table, get};
use crate::value::Value;
use crate::write::{Write, WriteVerb};
use crate::{BoxFuture, call::CallOptions};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use lazuli_model::EntityKey;
use std::future::IntoFuture;
use std::sync::Arc;

/// Rows that are rewritten concurrently.
const AT_ONCE: usize = 16;
/// Attempts for a row that other clients keep writing to.
const ATTEMPTS: u32 = 8;

impl<T: TableEntity> Table<T> {
    /// Wraps the keys of entities with another key, without touching the data. `keys` must contain both keys. First
    /// let all programs write with the new key, then rotate, then retire the old key.
    ///
    /// ```no_run
    /// # async fn run(patients: lazuli_client::Table, keys: lazuli_client::encryption::Keys)
    /// #     -> Result<(), lazuli_client::Error> {
    /// let report = patients.rotate_keys(&keys).from("key1").to("key2").await?;
    /// println!("{} rotated, {} had the new key", report.rewritten, report.already_new);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rotate_keys(&self, keys: &Keys) -> Rewrite<Rotation> {
        let to = keys.current().id().to_owned();
        Rewrite::new(self, Rotation { keys: keys.clone(), from: None, to })
    }

    /// Rewrites entities that are encrypted in another version than the table writes: those of old
    /// clients in version 2, padded and with the blind indexes that the type declares. Clear entities stay as
    /// they are.
    pub fn reencrypt(&self) -> Rewrite<Reencryption> {
        let encryption = self.account.1.encryption().cloned();
        Rewrite::new(self, Reencryption { encryption, declared: Declared::by::<T>() })
    }
}

/// The progress of rewriting many rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Rows that were rewritten.
    pub rewritten: u64,
    /// Rows that needed no change.
    pub already_new: u64,
    /// Rows that are not encrypted.
    pub clear: u64,
    /// Rows with a key that was not selected, and rows that were deleted in the meantime.
    pub left_out: u64,
    /// How often another client wrote to a row in the meantime. The row is then read again.
    pub conflicts: u64,
    /// Where to continue; `None` at the end.
    pub next: Option<PageToken>,
}

/// The outcome for a row.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Rewritten,
    AlreadyNew,
    Clear,
    LeftOut,
    Conflict,
}

/// The change made to each row.
#[doc(hidden)]
pub trait Job: Send + Sync + 'static {
    /// Rewrites a row whose metadata and version were read.
    fn step<'a>(
        &'a self,
        at: &'a Place,
        row: &'a Loaded<Entity>,
    ) -> BoxFuture<'a, Result<Step, Error>>;
}

/// Where the rows are.
#[doc(hidden)]
pub struct Place {
    /// Reads and writes rows as stored.
    account: Account,
    table: lazuli_model::TableName,
}

type OnPage = dyn FnMut(&Rewritten) + Send;

/// Rewrites many rows concurrently, each conditionally on its version. It can be restarted at any time: rows that
/// are done are not rewritten again.
#[must_use = "nothing is sent before `.await`"]
pub struct Rewrite<J> {
    table: Table<Entity>,
    job: J,
    filter: Option<Filter>,
    resume: Option<PageToken>,
    on_page: Option<Box<OnPage>>,
}

impl<J: Job> Rewrite<J> {
    fn new<T: TableEntity>(table: &Table<T>, job: J) -> Self {
        let table = Table::new(table.account.unprotected(), table.name.clone());
        Self { table, job, filter: None, resume: None, on_page: None }
    }

    /// Only the rows that match a filter, such as those of one partition.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Continues an earlier run: see [`Rewritten::next`].
    pub fn resume(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.resume = token.into();
        self
    }

    /// Calls a function after each page of rows, for example to store the token.
    pub fn on_page(mut self, on_page: impl FnMut(&Rewritten) + Send + 'static) -> Self {
        self.on_page = Some(Box::new(on_page));
        self
    }

    async fn run(mut self) -> Result<Rewritten, Error> {
        let place = Place { account: self.table.account.clone(), table: self.table.name.clone() };
        let mut rows = self.table.scan().select_names([METADATA, LIST]).resume(self.resume);
        if let Some(filter) = self.filter {
            rows = rows.filter(filter);
        }
        let mut pages = rows.pages();
        let mut report = Rewritten::default();
        while let Some(page) = pages.next_page().await? {
            report.next = page.token().cloned();
            let (place, job) = (&place, &self.job);
            let steps = stream::iter(page.into_items()).map(|row| rewrite(place, job, row));
            let counted = steps
                .buffer_unordered(AT_ONCE)
                .try_fold(report, |report, steps| std::future::ready(Ok(report.counting(&steps))));
            report = counted.await?;
            if let Some(on_page) = &mut self.on_page {
                on_page(&report);
            }
        }
        Ok(report)
    }
}

impl<J: Job> IntoFuture for Rewrite<J> {
    type Output = Result<Rewritten, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Rewritten {
    fn counting(mut self, steps: &[Step]) -> Self {
        for step in steps {
            *match step {
                Step::Rewritten => &mut self.rewritten,
                Step::AlreadyNew => &mut self.already_new,
                Step::Clear => &mut self.clear,
                Step::LeftOut => &mut self.left_out,
                Step::Conflict => &mut self.conflicts,
            } += 1;
        }
        self
    }
}

/// Rewrites a row, retrying after other clients' writes.
async fn rewrite<J: Job>(at: &Place, job: &J, mut row: Loaded<Entity>) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    for _ in 0..ATTEMPTS {
        let step = job.step(at, &row).await.map_err(|error| at.place(error, row.loaded_key()))?;
        steps.push(step);
        if step != Step::Conflict {
            return Ok(steps);
        }
        row = match at.read(row.loaded_key()).await? {
            Some(row) => row,
            None => {
                steps.push(Step::LeftOut);
                return Ok(steps);
            }
        };
    }
    let error = Error::new(ErrorKind::Contended { attempts: ATTEMPTS });
    Err(at.place(error, row.loaded_key()))
}

impl Place {
    fn place(&self, error: Error, key: &EntityKey) -> Error {
        error.at("rewrite", Some(self.table.as_str()), Some(key))
    }

    /// A row as it is stored.
    async fn read(&self, key: &EntityKey) -> Result<Option<Loaded<Entity>>, Error> {
        get(&self.account, &self.table, key, CallOptions::default()).await
    }

    /// The outcome of a write of a row.
    async fn write(&self, write: Write) -> Result<Step, Error> {
        match write.await {
            Ok(_) => Ok(Step::Rewritten),
            // A repetition does no harm, so a lost answer is treated like another client's write.
            Err(error) if error.is_precondition_failed() || error.may_have_been_applied() => {
                Ok(Step::Conflict)
            }
            Err(error) if error.is_not_found() => Ok(Step::LeftOut),
            Err(error) => Err(error),
        }
    }
}

/// The encryption metadata of a row, if it is encrypted.
fn metadata(row: &Entity) -> Result<Option<Metadata>, CryptoError> {
    match row.value(METADATA) {
        None => Ok(None),
        Some(Value::String(text)) => Metadata::parse(text).map(Some),
        Some(_) => Err(CryptoError::Metadata),
    }
}

/// Wraps keys of entities with another key.
pub struct Rotation {
    keys: Keys,
    from: Option<String>,
    to: String,
}

impl Rewrite<Rotation> {
    /// Only entities with this key. By default, entities with any other key than the new one.
    pub fn from(mut self, id: impl Into<String>) -> Self {
        self.job.from = Some(id.into());
        self
    }

    /// The new key. By default, the key that entities are written with.
    pub fn to(mut self, id: impl Into<String>) -> Self {
        self.job.to = id.into();
        self
    }
}

impl Rotation {
    async fn rewrap(
        &self,
        metadata: Metadata,
        row: &Loaded<Entity>,
    ) -> Result<String, CryptoError> {
        let (old, new) = (metadata.wrapped(), self.keys.find(&self.to).await?);
        let key = self.keys.find(old.key_id).await?;
        let cek = key.unwrap(old.algorithm, old.encrypted_key).await?;
        // The wrapped key that is there is the only one: another must not take its place.
        let list = row.value(LIST).ok_or(CryptoError::Metadata)?;
        check_key(&metadata, &cek, row.loaded_key(), list)?;
        let wrapped = new.wrap(cek.expose()).await?;
        let by = WrappedBy {
            key_id: &self.to,
            algorithm: &wrapped.algorithm,
            encrypted_key: &wrapped.bytes,
        };
        Ok(metadata.rewrapped(by).to_text())
    }
}

impl Job for Rotation {
    fn step<'a>(
        &'a self,
        at: &'a Place,
        row: &'a Loaded<Entity>,
    ) -> BoxFuture<'a, Result<Step, Error>> {
        Box::pin(async move {
            let Some(metadata) = metadata(row)? else { return Ok(Step::Clear) };
            let id = metadata.wrapped().key_id;
            if id == self.to {
                return Ok(Step::AlreadyNew);
            }
            if self.from.as_ref().is_some_and(|from| from != id) {
                return Ok(Step::LeftOut);
            }
            let text = self.rewrap(metadata, row).await?;
            let key = row.loaded_key().clone();
            let mut properties = crate::entity::Properties::default();
            properties.push(METADATA, Value::String(text.into()));
            let encoded = Ok((key, properties));
            let etag = Some(row.etag().as_str());
            at.write(Write::new(&at.account, &at.table, WriteVerb::Merge, encoded, etag)).await
        })
    }
}

/// Decrypts entities, and encrypts them in the version that the table writes.
pub struct Reencryption {
    encryption: Result<Arc<Encryption>, CryptoError>,
    /// What the types of the table declare.
    declared: Declared,
}

impl Job for Reencryption {
    fn step<'a>(
        &'a self,
        at: &'a Place,
        row: &'a Loaded<Entity>,
    ) -> BoxFuture<'a, Result<Step, Error>> {
        Box::pin(async move {
            let encryption = self.encryption.as_ref().map_err(CryptoError::clone)?;
            let Some(metadata) = metadata(row)? else { return Ok(Step::Clear) };
            if encryption.writes_as(metadata.format()) {
                return Ok(Step::AlreadyNew);
            }
            let key = row.loaded_key();
            let Some(stored) = at.read(key).await? else { return Ok(Step::LeftOut) };
            if stored.etag() != row.etag() {
                return Ok(Step::Conflict);
            }
            let (etag, env) = (stored.etag().clone(), &at.account.0.env);
            let (declared, table) = (self.declared.of(&stored), at.table.as_str());
            let properties =
                encryption.reseal(stored.into_inner(), declared, table, key, env).await?;
            let encoded = Ok((key.clone(), properties));
            let etag = Some(etag.as_str());
            at.write(Write::new(&at.account, &at.table, WriteVerb::Replace, encoded, etag)).await
        })
    }
}
