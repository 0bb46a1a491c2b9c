//! Finds and repairs lists that are inconsistent with their entities (P-0.5).

use super::ListTable;
use super::note::Entry;
use super::reconcile::{self, Store as _};
use crate::codec::INDEX_MARK;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::list::ListHome;
use crate::patterns::search::{self, PartPage, SearchPage, SearchToken};
use crate::patterns::{Finding, FindingKind};
use crate::table::Table;
use lazuli_model::EntityKey;

impl<T: TableEntity> ListTable<T> {
    /// Items that are missing in a list, or that no entity justifies. Fails if there are more than `max`. Reads the
    /// whole table, each list once for each of its entities, and each entity once for each of its lists. Writers may
    /// run concurrently; lists that lag behind them may be reported.
    pub async fn verify(&self, max: usize) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let each = |wrong: Wrong| {
            findings.push(wrong.finding);
            if findings.len() > max {
                return Err(Error::config(format!("there are more than {max} findings")));
            }
            Ok(())
        };
        search::all(&Items(self), each).await?;
        Ok(findings)
    }

    /// One page of [`ListTable::verify`], from the beginning or where an earlier page ended.
    pub async fn verify_page(
        &self,
        resume: Option<&SearchToken>,
    ) -> Result<SearchPage<Finding>, Error> {
        let SearchPage { findings, looked_at, next } = search::page(&Items(self), resume).await?;
        let findings = findings.into_iter().map(|wrong| wrong.finding).collect();
        Ok(SearchPage { findings, looked_at, next })
    }

    /// Repairs what [`ListTable::verify`] finds, and fills a list that was declared after entities had been written.
    /// Returns how many items it added or removed.
    pub async fn repair(&self) -> Result<usize, Error> {
        let (mut mended, mut token) = (0, None);
        loop {
            let (items, next) = self.repair_page(token.as_ref()).await?;
            mended += items;
            token = next;
            if token.is_none() {
                return Ok(mended);
            }
        }
    }

    /// One page of [`ListTable::repair`]: how many items it added or removed, and where to continue.
    pub async fn repair_page(
        &self,
        resume: Option<&SearchToken>,
    ) -> Result<(usize, Option<SearchToken>), Error> {
        let page = search::page(&Items(self), resume).await?;
        let mut mended = 0;
        for Wrong { primary, entry, .. } in page.findings {
            let mends = reconcile::mend(self, &primary, &entry).await;
            let place = |error: Error| error.at("list", Some(self.rows.name()), Some(&entry.place));
            mended += usize::from(mends.map_err(place)?);
        }
        Ok((mended, page.next))
    }

    /// The findings about a list in a row, or about the lists that an entity should be in.
    async fn check_row(&self, row: Loaded<Entity>) -> Result<Vec<Wrong>, Error> {
        let key = row.loaded_key().clone();
        if let Some(mark) = mark_of(&row) {
            let Some(number) = self.number_of(&mark) else { return Ok(Vec::new()) };
            let list = self.read_list(number, &key).await?;
            let items = list.map(|list| list.items).unwrap_or_default();
            return self.check_items(number, &key, items).await;
        }
        let mut all = Vec::new();
        // A row of another type has no lists.
        let row = self.opened(row).await?;
        for entry in self.entries_of_row(row.into_inner()).unwrap_or_default() {
            let list = self.read_list(entry.number, &entry.place).await?;
            let is_listed = list.is_some_and(|list| list.items.contains(&entry.item));
            // An item without text is reported and left: no list can hold it (P-4.1).
            let is_wanted = entry.item.is_empty() || self.wants(&key, &entry).await?.0;
            if !is_listed && is_wanted {
                all.push(self.wrong(FindingKind::Missing, key.clone(), entry));
            }
        }
        Ok(all)
    }

    /// All rows as they are stored: entities may have to be encrypted, but lists are not (E-6).
    fn stored(&self) -> Table<Entity> {
        Table::new(self.rows.account.unprotected(), self.rows.name.clone())
    }

    async fn opened(&self, row: Loaded<Entity>) -> Result<Loaded<Entity>, Error> {
        let account = &self.rows.account;
        account.1.open(row, &account.0.env, T::PROPERTIES, &[]).await
    }

    /// One page of the blobs of a list, in the containers that entities name, one container after the other.
    async fn check_blobs(
        &self,
        number: usize,
        page: Option<&str>,
    ) -> Result<PartPage<Wrong>, Error> {
        // A container, and the page within it unless it is the first.
        let (container, marker) = match page {
            None => (self.container_after(number, None).await?, None),
            Some(page) => match page.split_once('/') {
                Some((container, marker)) => (Some(container.to_owned()), Some(marker)),
                None => (Some(page.to_owned()), None),
            },
        };
        let Some(container) = container else {
            return Ok(PartPage { findings: Vec::new(), looked_at: 0, next: None });
        };
        let list = self.rows.account.blobs().container(&container)?.list();
        let list = marker.map_or(list.clone(), |marker| list.after(marker)).page().await?;
        let looked_at = list.blobs.len() as u64;
        let mut findings = Vec::new();
        for blob in list.blobs {
            let Ok(place) = EntityKey::parse(&container, &blob.name) else { continue };
            let found = self.read_list(number, &place).await?;
            let items = found.map(|found| found.items).unwrap_or_default();
            findings.extend(self.check_items(number, &place, items).await?);
        }
        let next = match list.next {
            Some(marker) => Some(format!("{container}/{marker}")),
            None => self.container_after(number, Some(&container)).await?,
        };
        Ok(PartPage { findings, looked_at, next })
    }

    /// The next container, by name, that entities name for a list. Reads the whole table.
    async fn container_after(
        &self,
        number: usize,
        after: Option<&str>,
    ) -> Result<Option<String>, Error> {
        let mut first: Option<String> = None;
        let mut rows = self.stored().scan().stream();
        while let Some(row) = rows.try_next().await? {
            if mark_of(&row).is_some() {
                continue;
            }
            let row = self.opened(row).await?;
            let entries = self.entries_of_row(row.into_inner()).unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry.number == number) {
                let name = entry.place.partition.as_str();
                let is_later = after.is_none_or(|after| name > after);
                if is_later && first.as_deref().is_none_or(|first| name < first) {
                    first = Some(name.to_owned());
                }
            }
        }
        Ok(first)
    }

    /// The items of a list that their entities do not justify.
    async fn check_items(
        &self,
        number: usize,
        place: &EntityKey,
        items: Vec<String>,
    ) -> Result<Vec<Wrong>, Error> {
        let mut all = Vec::new();
        for item in items {
            let Some(primary) = T::listed_key(number, place, &item) else { continue };
            let entry = Entry { number, place: place.clone(), item };
            if !self.wants(&primary, &entry).await?.0 {
                all.push(self.wrong(FindingKind::Orphan, primary, entry));
            }
        }
        Ok(all)
    }

    fn number_of(&self, mark: &str) -> Option<usize> {
        let is_ours = |def: &crate::ListDef| def.mark == mark && def.home != ListHome::Blob;
        T::LISTS.iter().position(is_ours)
    }

    fn wrong(&self, kind: FindingKind, primary: EntityKey, entry: Entry) -> Wrong {
        let about = T::LISTS.get(entry.number).map_or("", |def| def.name);
        let (row, named) = (entry.place.clone(), Some(primary.clone()));
        let finding = Finding { kind, about, row, primary: named, expected: None, found: None };
        Wrong { finding, primary, entry }
    }
}

/// An item that is inconsistent with its entity.
struct Wrong {
    finding: Finding,
    primary: EntityKey,
    entry: Entry,
}

/// Checks the table, and then the blobs of each list that is in blobs.
struct Items<'a, T>(&'a ListTable<T>);

impl<T: TableEntity> Items<'_, T> {
    fn blob_lists() -> impl Iterator<Item = usize> {
        let lists = T::LISTS.iter().enumerate();
        lists.filter(|(_, def)| def.home == ListHome::Blob).map(|(number, _)| number)
    }
}

impl<T: TableEntity> search::Search for Items<'_, T> {
    type Finding = Wrong;

    fn parts(&self) -> usize {
        1 + Self::blob_lists().count()
    }

    async fn page(&self, part: usize, page: Option<&str>) -> Result<PartPage<Wrong>, Error> {
        match part.checked_sub(1).and_then(|part| Self::blob_lists().nth(part)) {
            Some(number) => self.0.check_blobs(number, page).await,
            None => search::rows(self.0.stored().scan(), page, |row| self.0.check_row(row)).await,
        }
    }
}

/// The mark of a row that is not an entity.
fn mark_of(row: &Entity) -> Option<String> {
    row.str(INDEX_MARK).ok().map(str::to_owned)
}
