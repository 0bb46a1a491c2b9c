//! Processes a large result and continues after a crash (P-16.1).
//!
//! When a page has been processed, the token of the next page is stored in a row of a table that you choose. After a
//! crash, the next run begins with the page at which the last one stopped: each page is processed at least once, and
//! each crash repeats at most one page.

use crate::BoxError;
use crate::entity::{ETag, Entity, Loaded};
use crate::error::{Error, ErrorKind};
use crate::page_token::PageToken;
use crate::query::Query;
use crate::table::Table;

const PARTITION: &str = "job";
const TOKEN: &str = "Token";
const PAGES: &str = "Pages";
const IS_DONE: &str = "IsDone";

/// A query whose pages are processed by a program that may crash.
///
/// The state is the row (`job`, name) of the state table. A job must be run by one program at a time: a second one
/// fails with [`ErrorKind::PreconditionFailed`] or [`ErrorKind::Conflict`] after its first page.
#[must_use = "nothing is read before `run`"]
pub struct Job<T> {
    query: Query<T>,
    state: Table<Entity>,
    name: String,
}

/// A page of a job.
#[derive(Debug)]
pub struct JobPage<T> {
    number: u64,
    items: Vec<Loaded<T>>,
}

impl<T> JobPage<T> {
    /// The number of the page, counted from zero over all runs. A repeated page has the same number and begins at the
    /// same place, so a consumer can recognize repeats. The service may end it at another place: some rows of this page
    /// may come with the next page when it is repeated.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The entities.
    pub fn items(&self) -> &[Loaded<T>] {
        &self.items
    }

    /// Takes the entities out.
    pub fn into_items(self) -> Vec<Loaded<T>> {
        self.items
    }
}

/// The result of a run of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobReport {
    /// Pages that earlier runs processed.
    pub pages_before: u64,
    /// Pages that this run processed.
    pub pages: u64,
    /// Entities that this run processed.
    pub entities: u64,
}

impl<T: Send + 'static> Query<T> {
    /// Processes all pages, over as many runs of the program as it takes. The progress is stored in `state` under
    /// `name`.
    pub fn job(self, name: &str, state: &Table<Entity>) -> Job<T> {
        Job { query: self, state: state.clone(), name: name.to_owned() }
    }
}

impl<T: Send + 'static> Job<T> {
    /// Passes the remaining pages to `consume`, one by one. A finished job has none.
    ///
    /// If `consume` fails, the run ends with [`ErrorKind::Refused`] and the next run begins with that page.
    pub async fn run<C, W>(self, mut consume: C) -> Result<JobReport, Error>
    where
        C: FnMut(JobPage<T>) -> W,
        W: Future<Output = Result<(), BoxError>>,
    {
        let mut progress = self.load().await?;
        let pages_before = progress.pages;
        let mut report = JobReport { pages_before, ..JobReport::default() };
        if progress.is_done {
            return Ok(report);
        }
        let mut pages = self.query.resume(progress.token.take()).pages();
        while let Some(page) = pages.next_page().await? {
            let token = page.token().cloned();
            let items = page.into_items();
            report.entities += items.len() as u64;
            let consumed = consume(JobPage { number: progress.pages, items }).await;
            consumed.map_err(|source| {
                Error::new(ErrorKind::Refused)
                    .at("job", Some(self.state.name()), None)
                    .with(|context| context.source = Some(source))
            })?;
            report.pages += 1;
            progress.pages += 1;
            progress.is_done = token.is_none();
            progress.token = token;
            progress.etag = Some(store(&self.state, &self.name, &progress).await?);
        }
        Ok(report)
    }

    /// Discards the progress: the next run starts from the beginning.
    pub async fn restart(self) -> Result<Self, Error> {
        self.state.delete_key((PARTITION, &*self.name)).await?;
        Ok(self)
    }

    async fn load(&self) -> Result<Progress, Error> {
        let Some(row) = self.state.get((PARTITION, &*self.name)).await? else {
            return Ok(Progress::default());
        };
        let token: Option<String> = row.opt(TOKEN)?;
        Ok(Progress {
            token: token.map(|text| text.parse()).transpose()?,
            pages: u64::try_from(row.get::<i64>(PAGES)?).unwrap_or(0),
            is_done: row.get(IS_DONE)?,
            etag: Some(row.etag().clone()),
        })
    }
}

/// The progress of a job.
#[derive(Default)]
struct Progress {
    token: Option<PageToken>,
    pages: u64,
    is_done: bool,
    /// The version of its row.
    etag: Option<ETag>,
}

/// Stores the progress, if no other run has since it was read.
async fn store(state: &Table<Entity>, name: &str, progress: &Progress) -> Result<ETag, Error> {
    let pages = i64::try_from(progress.pages).unwrap_or(i64::MAX);
    let mut row = Entity::new(PARTITION, name).with(PAGES, pages).with(IS_DONE, progress.is_done);
    if let Some(token) = &progress.token {
        row.set(TOKEN, token.to_string());
    }
    let write = match &progress.etag {
        Some(etag) => state.replace_if_match(&row, etag),
        None => state.insert(&row),
    };
    // With an id, so that after a lost answer another run's write is not mistaken for ours.
    Ok(write.write_id().await?.etag)
}
