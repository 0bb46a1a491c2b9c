//! Finding and mending copies that are not as their entities say: what a foreign writer left (P-0.5, P-1).

use super::{Finding, FindingKind};
use crate::batch::{self, Operation};
use crate::codec::{self, INDEX_MARK};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::partition;
use crate::index::{CopyRow, as_primary, local_mark};
use crate::options::CallOptions;
use crate::page_token::PageToken;
use crate::query::Pages;
use crate::table::{self, Table};
use crate::update::pause;
use crate::value::Value;
use crate::write::WriteVerb;
use lazuli_model::EntityKey;
use std::collections::{HashMap, VecDeque};

/// Rounds of a repair that others disturb.
const ATTEMPTS: u32 = 8;

impl<T: TableEntity> Table<T> {
    /// Looks for copies of indexes that are not as their entities say. It may run beside writers: what looks
    /// wrong is read again before it is reported.
    pub fn verify(&self) -> Verify<T> {
        Verify { table: self.clone(), partition: None, resume: None }
    }

    /// Mends what [`Table::verify`] finds, each under the version of its entity.
    pub fn repair(&self) -> Repair<T> {
        Repair { verify: self.verify(), about: None, is_dry: false }
    }

    /// Fills an index that was declared when entities existed already.
    pub fn rebuild(&self, index: &'static str) -> Repair<T> {
        Repair { about: Some(index), ..self.repair() }
    }
}

/// A search that is being described.
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

    /// Continues after the page that [`Findings::token`] named.
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
        Findings { table: self.table, pages, ready: VecDeque::new(), token: None, next_token: None }
    }

    /// All findings. More than `max` are an error.
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
    table: Table<T>,
    pages: Pages<Entity>,
    ready: VecDeque<Finding>,
    /// After the last page whose findings have all been returned.
    token: Option<PageToken>,
    next_token: Option<PageToken>,
}

impl<T: TableEntity> Findings<T> {
    /// Where to continue, if the search ends here: rows before it have been looked at.
    pub fn token(&self) -> Option<&PageToken> {
        self.token.as_ref()
    }

    /// The next finding; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<Finding>, Error> {
        loop {
            if let Some(finding) = self.ready.pop_front() {
                return Ok(Some(finding));
            }
            self.token = self.next_token.take();
            let Some(page) = self.pages.next_page().await? else { return Ok(None) };
            self.next_token = page.token().cloned();
            let rows = page.into_items();
            self.ready = self.look_at(&rows).await?.into();
        }
    }

    /// What is wrong with these rows, and with those that belong to them.
    async fn look_at(&self, rows: &[Loaded<Entity>]) -> Result<Vec<Finding>, Error> {
        let by_key: HashMap<&EntityKey, &Entity> =
            rows.iter().map(|row| (row.loaded_key(), &**row)).collect();
        let mut findings = Vec::new();
        for row in rows {
            let suspects = match mark_of(row) {
                Some(mark) => match local_mark::<T>(mark) {
                    // The copy of another type, or of an index in other partitions.
                    None => Vec::new(),
                    Some(_) if self.is_justified(row, &by_key)? => Vec::new(),
                    Some(_) => vec![row.loaded_key().clone()],
                },
                None => missing::<T>(row, &by_key)?,
            };
            for suspect in suspects {
                let primary = primary_of(row)?;
                findings.extend(
                    examine::<T>(&self.table, &primary, &suspect).await?.map(|f| f.finding),
                );
            }
        }
        Ok(findings)
    }

    /// Whether the entity of a copy, if it is at hand, says that the copy is as it should be.
    fn is_justified(
        &self,
        copy: &Loaded<Entity>,
        by_key: &HashMap<&EntityKey, &Entity>,
    ) -> Result<bool, Error> {
        let Some(primary) = by_key.get(&primary_of(copy)?) else { return Ok(false) };
        let expected = expected::<T>(primary)?;
        Ok(expected.iter().any(|expected| {
            expected.key == *copy.loaded_key() && is_as_expected(copy, &expected.properties)
        }))
    }
}

/// The mark of a copy.
fn mark_of(row: &Entity) -> Option<&str> {
    match row.value(INDEX_MARK) {
        Some(Value::String(mark)) => Some(mark),
        _ => None,
    }
}

/// The key of the entity that a row belongs to: its own, unless it is a copy.
fn primary_of(row: &Loaded<Entity>) -> Result<EntityKey, Error> {
    match mark_of(row) {
        None => Ok(row.loaded_key().clone()),
        Some(mark) => {
            let primary = as_primary(Entity::clone(row), mark);
            Ok(primary.map_or_else(|| row.loaded_key().clone(), |(key, _, _)| key))
        }
    }
}

/// The copies that an entity should have; none if it is not of the type.
fn expected<T: TableEntity>(entity: &Entity) -> Result<Vec<CopyRow>, Error> {
    let is_of_type = match (T::KIND, T::KIND.and_then(|kind| entity.value(kind.property))) {
        (Some(kind), Some(Value::String(text))) => kind.version_of(text).is_some(),
        _ => entity.row_key().starts_with(T::LAYOUT.row_prefix),
    };
    if !is_of_type {
        return Ok(Vec::new());
    }
    let decoded = codec::decode::<T>(entity.clone())?;
    let copies = decoded.and_then(|decoded| decoded.copies);
    let local = |copy: &&CopyRow| copy.def.is_local();
    Ok(copies.iter().flat_map(|copies| copies.iter().filter(local).cloned()).collect())
}

/// The copies of an entity that are not among the rows at hand, or are not as they should be.
fn missing<T: TableEntity>(
    row: &Entity,
    by_key: &HashMap<&EntityKey, &Entity>,
) -> Result<Vec<EntityKey>, Error> {
    let expected = expected::<T>(row)?.into_iter();
    let is_there = |copy: &CopyRow| by_key.contains_key(&copy.key);
    // One that is there and wrong is reported when its own turn comes.
    Ok(expected.filter(|copy| !is_there(copy)).map(|copy| copy.key).collect())
}

/// Whether a row holds exactly this.
fn is_as_expected(row: &Entity, expected: &Properties) -> bool {
    row.len() == expected.len()
        && expected.values().all(|(name, value)| row.value(name) == Some(value))
}

/// A finding, and the versions it was made under.
struct Examined {
    finding: Finding,
    primary: Option<Loaded<Entity>>,
    copy: Option<Loaded<Entity>>,
    expected: Option<CopyRow>,
}

/// Reads an entity and a copy until the entity has the same version before and after, and says what is wrong
/// with the copy.
async fn examine<T: TableEntity>(
    table: &Table<T>,
    primary: &EntityKey,
    copy: &EntityKey,
) -> Result<Option<Examined>, Error> {
    let (account, name) = (&table.account, &table.name);
    let read = |key| table::get::<Entity>(account, name, key, CallOptions::default());
    for _ in 0..ATTEMPTS {
        let before = read(primary).await?;
        let found = read(copy).await?;
        let after = read(primary).await?;
        let version = |row: &Option<Loaded<Entity>>| row.as_ref().map(|row| row.etag().clone());
        if version(&before) != version(&after) {
            continue;
        }
        let expected = match &after {
            Some(entity) => expected::<T>(entity)?.into_iter().find(|row| row.key == *copy),
            None => None,
        };
        let kind = match (&expected, &found) {
            (None, None) => return Ok(None),
            (Some(_), None) => FindingKind::Missing,
            (Some(expected), Some(found)) if is_as_expected(found, &expected.properties) => {
                return Ok(None);
            }
            (Some(_), Some(_)) => FindingKind::Stale,
            // A row of this key that is no copy of ours is not ours to judge.
            (None, Some(found)) if mark_of(found).and_then(local_mark::<T>).is_none() => {
                return Ok(None);
            }
            (None, Some(_)) => FindingKind::Orphan,
        };
        let mark = found.as_ref().and_then(|found| mark_of(found)).and_then(local_mark::<T>);
        let about = expected.as_ref().map(|row| row.def).or(mark).map_or("", |def| def.name);
        let shown = |row: &CopyRow| {
            let entity = Entity::new(row.key.partition.as_str(), row.key.row.as_str());
            row.properties
                .values()
                .fold(entity, |entity, (name, value)| entity.with(name.to_owned(), value.clone()))
        };
        let finding = Finding {
            kind,
            about,
            row: copy.clone(),
            primary: Some(primary.clone()),
            expected: expected.as_ref().map(shown),
            found: found.as_deref().cloned(),
        };
        return Ok(Some(Examined { finding, primary: after, copy: found, expected }));
    }
    // It changes all the time: its writers keep its copies.
    Ok(None)
}

/// A repair that is being described.
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

    /// Continues after the page that `token` names.
    pub fn resume(self, token: impl Into<Option<PageToken>>) -> Self {
        Self { verify: self.verify.resume(token), ..self }
    }

    /// Changes nothing and counts what would be changed.
    pub fn dry_run(self) -> Self {
        Self { is_dry: true, ..self }
    }

    /// Mends all findings; `report` is given each. Returns how many there were.
    pub async fn run(self, mut report: impl FnMut(&Finding) + Send) -> Result<usize, Error> {
        let table = self.verify.table.clone();
        let mut findings = self.verify.findings();
        let mut count = 0;
        while let Some(finding) = findings.try_next().await? {
            if self.about.is_some_and(|about| about != finding.about) {
                continue;
            }
            report(&finding);
            if !self.is_dry {
                mend(&table, &finding).await?;
            }
            count += 1;
        }
        Ok(count)
    }
}

/// Makes a copy as its entity says, under the entity's version.
async fn mend<T: TableEntity>(table: &Table<T>, finding: &Finding) -> Result<(), Error> {
    let Some(primary) = &finding.primary else { return Ok(()) };
    let env = &table.account.0.env;
    for attempts in 1..=ATTEMPTS {
        let Some(examined) = examine(table, primary, &finding.row).await? else { return Ok(()) };
        let copy_etag = examined.copy.as_ref().map(|copy| copy.etag().as_str());
        let write = match (&examined.expected, copy_etag) {
            (Some(row), _) => {
                let encoded = Ok((row.key.clone(), row.properties.clone()));
                Operation::write(WriteVerb::Upsert, encoded, None)?
            }
            // An entity that comes to justify it writes it: then it has another version.
            (None, Some(etag)) => Operation::remove(finding.row.clone(), etag),
            (None, None) => return Ok(()),
        };
        // The entity must not change meanwhile: an empty merge says so (C-10.5).
        let guard = examined.primary.as_ref().map(|primary| {
            let encoded = Ok((primary.loaded_key().clone(), Properties::default()));
            Operation::write(WriteVerb::Merge, encoded, Some(primary.etag().as_str()))
        });
        let writes = guard.transpose()?.into_iter().chain([write]);
        let changes = batch::ChangeSet::of(&table.account, &table.name, writes)?.finish().await?;
        let sent =
            batch::send(&table.account, &table.name, &changes, None, true, CallOptions::default());
        match sent.await {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Batch { index: Some(_) }) => {
                env.sleep(pause(env, attempts)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }).at(
        "repair",
        Some(table.name()),
        Some(&finding.row),
    ))
}
