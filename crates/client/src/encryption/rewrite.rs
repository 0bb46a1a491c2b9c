//! Rows that get another key, or another version of the format, one by one (E-31, E-32).

use super::error::CryptoError;
use super::keys::Keys;
use super::metadata::{Metadata, WrappedBy};
use super::protection::METADATA;
use super::settings::Encryption;
use crate::account::Account;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::Filter;
use crate::page_token::PageToken;
use crate::table::{Table, get};
use crate::value::Value;
use crate::write::{Write, WriteVerb};
use crate::{BoxFuture, call::CallOptions};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use lazuli_model::EntityKey;
use std::future::IntoFuture;
use std::sync::Arc;

/// Rows that are rewritten at one time.
const AT_ONCE: usize = 16;
/// Tries with one row that others keep writing to.
const ATTEMPTS: u32 = 8;

impl<T: TableEntity> Table<T> {
    /// Wraps the keys of entities with another key, and leaves the data as it is. `keys` must have both
    /// keys. First let all programs write with the new key, then rotate, then retire the old one.
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
    /// clients in version 2. Clear entities stay as they are.
    pub fn reencrypt(&self) -> Rewrite<Reencryption> {
        let encryption = self.account.1.encryption().cloned();
        Rewrite::new(self, Reencryption { encryption })
    }
}

/// What a rewriting of many rows has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Rows that were rewritten.
    pub rewritten: u64,
    /// Rows that were as they should be.
    pub already_new: u64,
    /// Rows that are not encrypted.
    pub clear: u64,
    /// Rows with a key that was not named, and rows that were deleted meanwhile.
    pub left_out: u64,
    /// How often somebody else wrote to a row meanwhile. Such a row is read again.
    pub conflicts: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<PageToken>,
}

/// What became of a row.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Rewritten,
    AlreadyNew,
    Clear,
    LeftOut,
    Conflict,
}

/// What is done to each row.
#[doc(hidden)]
pub trait Job: Send + Sync + 'static {
    /// Rewrites a row of which the metadata and the version were read.
    fn step<'a>(
        &'a self,
        at: &'a Place,
        row: &'a Loaded<Entity>,
    ) -> BoxFuture<'a, Result<Step, Error>>;
}

/// Where rows are.
#[doc(hidden)]
pub struct Place {
    /// Returns what is stored.
    account: Account,
    table: lazuli_model::TableName,
}

type OnPage = dyn FnMut(&Rewritten) + Send;

/// A rewriting of many rows: in parallel, one by one, each under its version. It can be begun again at any
/// time: what is done is not done again.
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

    /// Only the rows that a filter names, such as those of one partition.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Goes on where a rewriting before this one was: see [`Rewritten::next`].
    pub fn resume(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.resume = token.into();
        self
    }

    /// Calls a function after each page of rows, such as one that stores the token.
    pub fn on_page(mut self, on_page: impl FnMut(&Rewritten) + Send + 'static) -> Self {
        self.on_page = Some(Box::new(on_page));
        self
    }

    async fn run(mut self) -> Result<Rewritten, Error> {
        let place = Place { account: self.table.account.clone(), table: self.table.name.clone() };
        let mut rows = self.table.scan().select_names([METADATA]).resume(self.resume);
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

/// Rewrites a row, however often others come between.
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

    /// What a write of a row came to.
    async fn write(&self, write: Write) -> Result<Step, Error> {
        match write.await {
            Ok(_) => Ok(Step::Rewritten),
            // Doing it again does no harm, so a lost answer is as good as somebody else's write.
            Err(error) if error.is_precondition_failed() || error.may_have_been_applied() => {
                Ok(Step::Conflict)
            }
            Err(error) if error.is_not_found() => Ok(Step::LeftOut),
            Err(error) => Err(error),
        }
    }
}

/// How a row is encrypted, if it is.
fn metadata(row: &Entity) -> Result<Option<Metadata>, CryptoError> {
    match row.value(METADATA) {
        None => Ok(None),
        Some(Value::String(text)) => Metadata::parse(text).map(Some),
        Some(_) => Err(CryptoError::Metadata),
    }
}

/// Keys of entities are wrapped with another key.
pub struct Rotation {
    keys: Keys,
    from: Option<String>,
    to: String,
}

impl Rewrite<Rotation> {
    /// Only entities with this key. By default those of all other keys.
    pub fn from(mut self, id: impl Into<String>) -> Self {
        self.job.from = Some(id.into());
        self
    }

    /// The new key. By default the key that entities are written with.
    pub fn to(mut self, id: impl Into<String>) -> Self {
        self.job.to = id.into();
        self
    }
}

impl Rotation {
    async fn rewrap(&self, metadata: Metadata) -> Result<String, CryptoError> {
        let (old, new) = (metadata.wrapped(), self.keys.find(&self.to).await?);
        let key = self.keys.find(old.key_id).await?;
        let cek = key.unwrap(old.algorithm, old.encrypted_key).await?;
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
            let text = self.rewrap(metadata).await?;
            let key = row.loaded_key().clone();
            let mut properties = crate::entity::Properties::default();
            properties.push(METADATA, Value::String(text.into()));
            let encoded = Ok((key, properties));
            let etag = Some(row.etag().as_str());
            at.write(Write::new(&at.account, &at.table, WriteVerb::Merge, encoded, etag)).await
        })
    }
}

/// Entities are decrypted, and encrypted in the version that the table writes.
pub struct Reencryption {
    encryption: Result<Arc<Encryption>, CryptoError>,
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
            let properties =
                encryption.reseal(stored.into_inner(), at.table.as_str(), key, env).await?;
            let encoded = Ok((key.clone(), properties));
            let etag = Some(etag.as_str());
            at.write(Write::new(&at.account, &at.table, WriteVerb::Replace, encoded, etag)).await
        })
    }
}
