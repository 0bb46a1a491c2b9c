//! Finds and repairs copies that are inconsistent with their entities because of foreign writes (P-0.5, P-1).

use super::Finding;
use super::eventual::CopyFinding;
use super::eventual::protocol::Copy;
use super::eventual::store::Place;
use super::upkeep::{Examined, Upkeep};
use crate::codec;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::filter::partition;
use crate::index::CopyRow;
use crate::page_token::PageToken;
use crate::query::Pages;
use crate::shape::{Shape, indexes_of};
use crate::table::Table;
use crate::value::Value;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

impl<T: TableEntity> Table<T> {
    /// Looks for copies of indexes that are not as their entities say; in the table of a union, of all its types. It may
    /// run beside writers: what looks wrong is read again before it is reported.
    pub fn verify(&self) -> Verify<T> {
        Verify { table: self.clone(), partition: None, resume: None }
    }

    /// Repairs what [`Table::verify`] finds, each copy conditionally on the version of its entity.
    pub fn repair(&self) -> Repair<T> {
        Repair { verify: self.verify(), about: None, is_dry: false }
    }

    /// Fills an index that was declared when entities existed already; of a union, those of this name of all its types.
    pub fn rebuild(&self, index: &'static str) -> Repair<T> {
        Repair { about: Some(index), ..self.repair() }
    }
}

/// A verification that has not started yet.
#[must_use = "nothing is sent before the findings are asked for"]
pub struct Verify<T> {
    table: Table<T>,
    partition: Option<String>,
    resume: Option<PageToken>,
}

impl<T: TableEntity> Verify<T> {
    /// Only this partition.
    pub fn partition(self, key: &str) -> Self {
        Self { partition: Some(key.to_owned()), ..self }
    }

    /// Continues after the page of [`Findings::token`].
    pub fn resume(self, token: impl Into<Option<PageToken>>) -> Self {
        Self { resume: token.into(), ..self }
    }

    /// The findings, one by one.
    pub fn findings(self) -> Findings<T> {
        let rows: Table<Entity> = self.table.retyped();
        let query = match &self.partition {
            Some(key) => rows.query(partition(key)),
            None => rows.scan(),
        };
        let pages = query.resume(self.resume).pages();
        let upkeep = upkeep(&self.table, self.partition);
        let ready = VecDeque::new();
        Findings { upkeep, pages, ready, token: None, next_token: None, of: PhantomData }
    }

    /// All findings; fails if there are more than `max`.
    pub async fn collect_at_most(self, max: usize) -> Result<Vec<Finding>, Error> {
        let mut findings = self.findings();
        let mut all = Vec::new();
        while let Some(finding) = findings.try_next().await? {
            if all.len() == max {
                return Err(Error::config(format!("there are more than {max} findings")));
            }
            all.push(finding);
        }
        Ok(all)
    }
}

/// Findings, as they are made.
pub struct Findings<T> {
    upkeep: Upkeep,
    pages: Pages<Entity>,
    ready: VecDeque<Examined>,
    /// Points after the last page whose findings have all been returned.
    token: Option<PageToken>,
    next_token: Option<PageToken>,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> Findings<T> {
    /// Where to continue if the verification stops here: rows before it have been checked.
    pub fn token(&self) -> Option<&PageToken> {
        self.token.as_ref()
    }

    /// The next finding; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<Finding>, Error> {
        Ok(self.next_examined().await?.as_ref().map(finding::<T>))
    }

    async fn next_examined(&mut self) -> Result<Option<Examined>, Error> {
        loop {
            if let Some(examined) = self.ready.pop_front() {
                return Ok(Some(examined));
            }
            self.token = self.next_token.take();
            let Some(page) = self.pages.next_page().await? else { return Ok(None) };
            self.next_token = page.token().cloned();
            let looked = self.upkeep.look(&self.upkeep.table, page.items()).await?;
            if let Some((_, error)) = looked.unreadable.into_iter().next() {
                return Err(error);
            }
            self.ready = looked.found.into();
        }
    }
}

/// Compares the entities of a type with the copies in their partitions.
fn upkeep<T: TableEntity>(table: &Table<T>, partition: Option<String>) -> Upkeep {
    let local = indexes_of::<T>().filter(|def| def.is_local());
    let name = table.name().to_owned();
    Upkeep {
        account: table.account.clone(),
        table: name.clone(),
        shape: Arc::new(move |entity: &Entity| expected::<T>(&name, entity)),
        marks: local.map(|def| def.mark.to_owned()).collect(),
        declared: T::PROPERTIES,
        // Copies in the entities' partition are never claimed.
        claim_age: Duration::ZERO,
        partition,
    }
}

/// The copies that an entity should have in its partition; none if it has another type.
fn expected<T: TableEntity>(table: &str, entity: &Entity) -> Result<Vec<Copy>, Error> {
    let Shape { kind, indexes, .. } = T::shape_of(entity);
    let is_of_type = match (kind, kind.and_then(|kind| entity.value(kind.property))) {
        (Some(kind), Some(Value::String(text))) => kind.version_of(text).is_some(),
        // A union has told by them already.
        _ => entity.row_key().starts_with(T::LAYOUT.row_prefix),
    };
    if indexes.is_empty() || !is_of_type {
        return Ok(Vec::new());
    }
    let copies = codec::decode::<T>(entity.clone())?.and_then(|decoded| decoded.copies);
    let copy = |copy: &CopyRow| {
        let at = Entity::new(copy.key.partition.as_str(), copy.key.row.as_str());
        let values = copy.properties.values();
        Copy {
            index: copy.def.name,
            is_unique: copy.def.is_unique,
            place: Place { table: table.to_owned(), key: copy.key.clone() },
            entity: values.fold(at, |all, (name, value)| all.with(name.to_owned(), value.clone())),
        }
    };
    let copies = copies.as_deref().unwrap_or_default().iter();
    Ok(copies.filter(|copy| copy.def.is_local()).map(copy).collect())
}

fn finding<T: TableEntity>(examined: &Examined) -> Finding {
    let CopyFinding { kind, index, row, primary, .. } = &examined.finding;
    let def = indexes_of::<T>().find(|def| def.mark == index);
    Finding {
        kind: *kind,
        about: def.map_or("", |def| def.name),
        row: row.clone(),
        primary: Some(primary.clone()),
        expected: examined.wanted.as_ref().map(|wanted| wanted.entity.clone()),
        found: examined.copy.as_deref().cloned(),
    }
}

/// A repair that has not started yet.
#[must_use = "nothing is sent before `run`"]
pub struct Repair<T> {
    verify: Verify<T>,
    about: Option<&'static str>,
    is_dry: bool,
}

impl<T: TableEntity> Repair<T> {
    /// Only this partition.
    pub fn partition(self, key: &str) -> Self {
        Self { verify: self.verify.partition(key), ..self }
    }

    /// Continues after the page of `token`.
    pub fn resume(self, token: impl Into<Option<PageToken>>) -> Self {
        Self { verify: self.verify.resume(token), ..self }
    }

    /// Changes nothing, only counts what would be changed.
    pub fn dry_run(self) -> Self {
        Self { is_dry: true, ..self }
    }

    /// Repairs all findings, and reports each to `report`. Returns how many there were. A copy that two entities
    /// want, or whose key another row has, stays unchanged: [`Table::verify`] reports it again.
    pub async fn run(self, mut report: impl FnMut(&Finding) + Send) -> Result<usize, Error> {
        let mut findings = self.verify.findings();
        let mut count = 0;
        while let Some(examined) = findings.next_examined().await? {
            let finding = finding::<T>(&examined);
            if self.about.is_some_and(|about| about != finding.about) {
                continue;
            }
            report(&finding);
            if !self.is_dry {
                findings.upkeep.mend(examined).await?;
            }
            count += 1;
        }
        Ok(count)
    }
}
