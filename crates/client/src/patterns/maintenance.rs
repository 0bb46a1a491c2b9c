//! Maintains the indexes of a table whose type this program does not have (P-0.5).

use super::eventual::CopyFinding;
use super::eventual::protocol::Copy;
use super::eventual::store::Place;
use super::upkeep::Upkeep;
use crate::entity::Entity;
use crate::error::{Error, ErrorKind};
use crate::filter::partition;
use crate::index::IndexLayout;
use crate::page_token::PageToken;
use crate::query::Pages;
use crate::table::Table;
use lazuli_model::EntityKey;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The age from which a claim of a unique value is considered abandoned (P-2.3).
const CLAIM_AGE: Duration = Duration::from_secs(600);

impl Table<Entity> {
    /// Maintains the indexes of this table, whichever program writes it: verifies their copies, and repairs them.
    pub fn indexes(&self, layout: &IndexLayout) -> IndexMaintenance {
        IndexMaintenance {
            table: self.clone(),
            layout: layout.clone(),
            only: None,
            partition: None,
            resume: None,
            mends: false,
        }
    }
}

/// A check of index copies. It changes nothing, unless [`IndexMaintenance::mending`] says so.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before the pages are asked for"]
pub struct IndexMaintenance {
    table: Table<Entity>,
    layout: IndexLayout,
    only: Option<String>,
    partition: Option<String>,
    resume: Option<IndexToken>,
    mends: bool,
}

impl IndexMaintenance {
    /// Only this index.
    pub fn only(self, index: &str) -> Result<Self, Error> {
        if !self.layout.names().any(|name| name == index) {
            return Err(Error::config(format!("the layout has no index {index}")));
        }
        Ok(Self { only: Some(index.to_owned()), ..self })
    }

    /// Only this partition of each table.
    pub fn partition(self, key: &str) -> Self {
        Self { partition: Some(key.to_owned()), ..self }
    }

    /// Continues from an [`IndexPage::token`].
    pub fn resume(self, token: impl Into<Option<IndexToken>>) -> Self {
        Self { resume: token.into(), ..self }
    }

    /// Repairs what is found. Creates tables of copies that do not exist.
    pub fn mending(self) -> Self {
        Self { mends: true, ..self }
    }

    /// Runs the check, page by page.
    pub fn pages(self) -> IndexPages {
        let name = self.table.name().to_owned();
        let layout = self.layout;
        let marks = match &self.only {
            Some(only) => vec![layout.mark(only)],
            None => layout.marks(),
        };
        let mut tables: VecDeque<String> = [name.clone()].into();
        tables.extend(layout.other_tables().into_iter().filter(|other| *other != name));
        let shape = {
            let (marks, name) = (marks.clone(), name.clone());
            move |entity: &Entity| copies(&layout, &marks, &name, entity)
        };
        let upkeep = Upkeep {
            account: self.table.account.clone(),
            table: name,
            shape: Arc::new(shape),
            marks,
            declared: &[],
            claim_age: CLAIM_AGE,
            partition: self.partition,
        };
        IndexPages {
            upkeep,
            tables,
            at: None,
            resume: self.resume,
            mends: self.mends,
            began: false,
        }
    }
}

/// The copies of an entity in some of the layout's indexes.
fn copies(
    layout: &IndexLayout,
    marks: &[String],
    table: &str,
    entity: &Entity,
) -> Result<Vec<Copy>, Error> {
    let wanted = layout.copies(entity).map_err(Error::config)?;
    let wanted = wanted.into_iter().filter(|copy| marks.contains(&copy.mark));
    let copy = |copy: crate::index::DeclaredCopy| Copy {
        // Not used: the finding reports a copy that cannot be repaired.
        index: "",
        is_unique: copy.is_unique,
        place: Place { table: copy.table.unwrap_or_else(|| table.to_owned()), key: copy.key },
        entity: copy.entity,
    };
    Ok(wanted.map(copy).collect())
}

/// Pages of a check of index copies.
pub struct IndexPages {
    upkeep: Upkeep,
    /// The remaining tables, the current one first.
    tables: VecDeque<String>,
    at: Option<Pages<Entity>>,
    resume: Option<IndexToken>,
    mends: bool,
    began: bool,
}

/// The findings on a page of rows.
#[derive(Debug)]
#[non_exhaustive]
pub struct IndexPage {
    /// How many rows were checked.
    pub rows: u64,
    /// The inconsistencies.
    pub findings: Vec<CopyFinding>,
    /// How many findings were repaired; the others are in `left`.
    pub mended: u64,
    /// The findings that were not repaired.
    pub left: Vec<CopyFinding>,
    /// Entities whose copies cannot be determined, and why.
    pub unreadable: Vec<(EntityKey, Error)>,
    /// Where to continue; `None` after the last page.
    pub token: Option<IndexToken>,
}

impl IndexPages {
    /// The next page; `None` at the end.
    pub async fn next_page(&mut self) -> Result<Option<IndexPage>, Error> {
        self.begin().await?;
        loop {
            let Some(table) = self.tables.front().cloned() else { return Ok(None) };
            let page = match self.pages_of(&table)?.next_page().await {
                // The table of an index that was never filled does not exist.
                Err(error)
                    if *error.kind() == ErrorKind::TableNotFound && table != self.upkeep.table =>
                {
                    None
                }
                page => page?,
            };
            let Some(page) = page else {
                self.at = None;
                self.tables.pop_front();
                continue;
            };
            let next = match page.token() {
                Some(token) => Some(IndexToken { table: table.clone(), page: Some(token.clone()) }),
                None => {
                    self.tables.get(1).map(|next| IndexToken { table: next.clone(), page: None })
                }
            };
            return self.look(&table, page.items(), next).await.map(Some);
        }
    }

    async fn look(
        &self,
        table: &str,
        rows: &[crate::Loaded<Entity>],
        token: Option<IndexToken>,
    ) -> Result<IndexPage, Error> {
        let looked = self.upkeep.look(table, rows).await?;
        let findings: Vec<CopyFinding> =
            looked.found.iter().map(|examined| examined.finding.clone()).collect();
        let left = match self.mends {
            true => self.upkeep.mend_all(looked.found).await?,
            false => findings.clone(),
        };
        let mended = (findings.len() - left.len()) as u64;
        let (rows, unreadable) = (rows.len() as u64, looked.unreadable);
        Ok(IndexPage { rows, findings, mended, left, unreadable, token })
    }

    /// Continues at the token, and creates the tables that it writes to.
    async fn begin(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.began, true) {
            return Ok(());
        }
        if self.mends {
            for table in self.tables.iter().filter(|table| **table != self.upkeep.table) {
                self.upkeep.account.tables().create_if_missing(table).await?;
            }
        }
        if let Some(token) = &self.resume {
            let at = self.tables.iter().position(|table| *table == token.table);
            let at = at.ok_or_else(|| Error::new(ErrorKind::TokenMismatch))?;
            self.tables.drain(..at);
        }
        Ok(())
    }

    fn pages_of(&mut self, table: &str) -> Result<&mut Pages<Entity>, Error> {
        let pages = match self.at.take() {
            Some(pages) => pages,
            None => {
                let rows = self.upkeep.account.tables().table(table)?;
                let query = match &self.upkeep.partition {
                    Some(key) => rows.query(partition(key)),
                    None => rows.scan(),
                };
                let token = self.resume.take().filter(|token| token.table == table);
                query.resume(token.and_then(|token| token.page)).pages()
            }
        };
        Ok(self.at.insert(pages))
    }
}

/// Where a check of index copies continues. Its text can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexToken {
    table: String,
    page: Option<PageToken>,
}

const PREFIX: &str = "lzi1.";

impl fmt::Display for IndexToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.table)?;
        self.page.as_ref().map_or(Ok(()), |page| write!(f, ".{page}"))
    }
}

impl FromStr for IndexToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fault = || Error::config("not the text of a token of an index search");
        let rest = text.strip_prefix(PREFIX).ok_or_else(fault)?;
        let (table, page) = match rest.split_once('.') {
            Some((table, page)) => (table, Some(page.parse()?)),
            None => (rest, None),
        };
        Ok(Self { table: table.to_owned(), page })
    }
}
