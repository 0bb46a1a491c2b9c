//! Operations that read first, and the comparison of copies with their entities.

use super::check::CopyFinding;
use super::table::{EventualTable, EventualWritten};
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::patterns::search::{self, PartPage, SearchPage, SearchToken};
use crate::patterns::upkeep::Upkeep;
use crate::shape::indexes_of;
use std::sync::Arc;

/// Attempts of a write that reads first.
const ATTEMPTS: u32 = 8;

impl<T: TableEntity> EventualTable<T> {
    /// Finds copies that are inconsistent with their entities, and changes nothing. Reads all tables of the type and
    /// its indexes, and for each row the one that it belongs to, 16 at a time. Writers may run concurrently.
    pub async fn verify(&self) -> Result<Vec<CopyFinding>, Error> {
        let mut findings = Vec::new();
        let each = |finding| {
            findings.push(finding);
            Ok(())
        };
        search::all(&self.copies(), each).await?;
        Ok(findings)
    }

    /// One page of [`EventualTable::verify`], from the beginning or where an earlier page ended.
    pub async fn verify_page(
        &self,
        resume: Option<&SearchToken>,
    ) -> Result<SearchPage<CopyFinding>, Error> {
        search::page(&self.copies(), resume).await
    }

    fn copies(&self) -> Copies {
        let table = self.clone();
        let upkeep = Upkeep {
            account: self.how.account.clone(),
            table: self.table.name().to_owned(),
            shape: Arc::new(move |entity: &Entity| table.shape(entity)),
            marks: indexes_of::<T>().map(|def| def.mark.to_owned()).collect(),
            declared: T::PROPERTIES,
            claim_age: self.how.claim_age,
            partition: None,
        };
        Copies { upkeep, tables: self.tables() }
    }

    /// Makes all copies agree with their entities: fills a new index, and repairs what other programs' writes have
    /// left. Reads the whole table. Writers may run concurrently. Returns the number of rows it checked.
    pub async fn repair(&self) -> Result<u64, Error> {
        let mut looked_at = 0;
        let each = |()| {
            looked_at += 1;
            Ok(())
        };
        search::all(&Mending { of: self, tables: self.tables() }, each).await?;
        Ok(looked_at)
    }

    /// One page of [`EventualTable::repair`]: the number of rows it checked, and where to continue.
    pub async fn repair_page(
        &self,
        resume: Option<&SearchToken>,
    ) -> Result<(u64, Option<SearchToken>), Error> {
        let mending = Mending { of: self, tables: self.tables() };
        let page = search::page(&mending, resume).await?;
        Ok((page.findings.len() as u64, page.next))
    }

    /// Fills an index that was declared after entities had been written: the same as [`EventualTable::repair`].
    pub async fn rebuild(&self) -> Result<u64, Error> {
        self.repair().await
    }

    /// Reads an entity, applies `change`, and writes it back if it has not changed in the meantime; otherwise starts
    /// over, up to eight times. `None` if the entity does not exist.
    pub async fn update_with(
        &self,
        key: Key<T>,
        mut change: impl FnMut(&mut T),
    ) -> Result<Option<EventualWritten>, Error> {
        for attempts in 1..=ATTEMPTS {
            let Some(mut loaded) = self.get(key.clone()).await? else { return Ok(None) };
            change(&mut loaded);
            let written = self.replace(&loaded).await;
            if !self.is_disturbed(&written, attempts).await {
                return written.map(Some);
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
    }

    /// Inserts an entity, or replaces the one with its key. Reads it first, because its old copies must be known.
    pub async fn upsert(&self, value: &T) -> Result<EventualWritten, Error>
    where
        T: Clone,
    {
        let key = Key::<T>::new(value.key()?);
        for attempts in 1..=ATTEMPTS {
            let written = match self.get(key.clone()).await? {
                Some(mut loaded) => {
                    *loaded = value.clone();
                    self.replace(&loaded).await
                }
                None => self.insert(value).await,
            };
            if !self.is_disturbed(&written, attempts).await {
                return written;
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
    }

    /// Deletes an entity if it exists; returns whether it did.
    pub async fn delete_key(&self, key: Key<T>) -> Result<bool, Error> {
        for attempts in 1..=ATTEMPTS {
            let Some(loaded) = self.get(key.clone()).await? else { return Ok(false) };
            let deleted = self.delete(&loaded).await;
            if !self.is_disturbed(&deleted, attempts).await {
                return deleted.map(|_| true);
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
    }

    /// Whether another client came in between, so that the entity must be read again; if so, waits a little.
    async fn is_disturbed<R>(&self, outcome: &Result<R, Error>, attempts: u32) -> bool {
        let Err(error) = outcome else { return false };
        let is_disturbed = (error.is_precondition_failed() || *error.kind() == ErrorKind::Conflict)
            && !error.may_have_been_applied();
        if is_disturbed {
            let env = &self.how.account.0.env;
            env.sleep(crate::update::pause(env, attempts)).await;
        }
        is_disturbed
    }
}

/// Finds copies that are inconsistent with their entities.
struct Copies {
    upkeep: Upkeep,
    tables: Vec<String>,
}

impl search::Search for Copies {
    type Finding = CopyFinding;

    fn parts(&self) -> usize {
        self.tables.len()
    }

    async fn page(&self, part: usize, page: Option<&str>) -> Result<PartPage<CopyFinding>, Error> {
        let name = self.tables.get(part).map_or("", String::as_str);
        let query = self.upkeep.account.tables().table(name)?.scan();
        let (rows, next) = search::read(query, page).await?;
        // A row that cannot be decoded has another type.
        let looked = self.upkeep.look(name, &rows).await?;
        let findings = looked.found.into_iter().map(|examined| examined.finding).collect();
        Ok(PartPage { findings, looked_at: rows.len() as u64, next })
    }
}

/// Repairs the same rows.
struct Mending<'a, T> {
    of: &'a EventualTable<T>,
    tables: Vec<String>,
}

impl<T: TableEntity> search::Search for Mending<'_, T> {
    type Finding = ();

    fn parts(&self) -> usize {
        self.tables.len()
    }

    async fn page(&self, part: usize, page: Option<&str>) -> Result<PartPage<()>, Error> {
        let name = self.tables.get(part).map_or("", String::as_str);
        let rows = self.of.how.account.tables().table(name)?;
        let mend = |row: Loaded<Entity>| async move {
            let is_ours = self.of.mend(name, row.into_inner()).await?;
            Ok(is_ours.then_some(()).into_iter().collect())
        };
        search::rows(rows.scan(), page, mend).await
    }
}
