//! Work over a large result that goes on after a crash (P-16.1).
//!
//! The token of the next page is stored when a page has been consumed, in a row of a table of your choice. A run
//! that died is followed by one that begins with the page it was at: each page is consumed at least once, and at
//! most one page twice for each death.

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

/// A query whose pages are consumed by a program that may die.
///
/// The state is the row (`job`, name) of the state table. One program at a time runs a job: a second one fails with
/// [`ErrorKind::PreconditionFailed`] or [`ErrorKind::Conflict`] after its first page.
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
    /// The page, counted from zero over all runs. A page that is consumed again has the same number and begins at
    /// the same place, so a consumer can tell repeats by it. The service may end it at another place: rows that
    /// the first time were in this page may then come with the next.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The entities.
    pub fn items(&self) -> &[Loaded<T>] {
        &self.items
    }

    /// The entities alone.
    pub fn into_items(self) -> Vec<Loaded<T>> {
        self.items
    }
}

/// What a run of a job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobReport {
    /// Pages that earlier runs had consumed.
    pub pages_before: u64,
    /// Pages that this run consumed.
    pub pages: u64,
    /// Entities that this run consumed.
    pub entities: u64,
}

impl<T: Send + 'static> Query<T> {
    /// Consumes all pages, over as many runs of the program as it takes. The state is kept in `state` under
    /// `name`.
    pub fn job(self, name: &str, state: &Table<Entity>) -> Job<T> {
        Job { query: self, state: state.clone(), name: name.to_owned() }
    }
}

impl<T: Send + 'static> Job<T> {
    /// Gives the pages that are left to `consume`, one after the other. A job that has ended gives none.
    ///
    /// If `consume` fails, the run ends with [`ErrorKind::Refused`] and the next one begins with that page.
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

    /// Forgets what was consumed: the next run begins at the beginning.
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

/// How far a job has come.
#[derive(Default)]
struct Progress {
    token: Option<PageToken>,
    pages: u64,
    is_done: bool,
    /// The version of the row that holds it.
    etag: Option<ETag>,
}

/// Stores the progress, if nobody else has since it was read.
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
    // With an id, so that a lost answer is not taken for another run's write.
    Ok(write.write_id().await?.etag)
}
