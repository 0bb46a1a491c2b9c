//! Finds wide entities whose rows do not belong together (P-0.5).

use super::read::whole;
use super::{GENERATION, PARTS, WideTable};
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{partition, row};
use crate::patterns::search::{self, PartPage, SearchPage, SearchToken};
use crate::patterns::{Finding, FindingKind};
use lazuli_model::EntityKey;

impl<T: TableEntity> WideTable<T> {
    /// The entities of a partition whose rows come from different writes, or are incomplete ([`FindingKind::Torn`]),
    /// and rows beyond the last part of their entity ([`FindingKind::Orphan`]). Fails if there are more than `max`
    /// findings.
    ///
    /// Only a writer without the type leaves such rows. It cannot be known which of two writes is right, so a torn
    /// entity is not repaired: write it again, or delete it with [`WideTable::delete_key`]. Reads row keys and
    /// numbers; an apparent inconsistency is read again before it is reported, so writers may run concurrently.
    pub async fn verify(&self, partition_key: &str, max: usize) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let each = |finding| {
            findings.push(finding);
            if findings.len() > max {
                return Err(Error::config(format!("there are more than {max} findings")));
            }
            Ok(())
        };
        search::all(&Parts { of: self, partition_key }, each).await?;
        Ok(findings)
    }

    /// One page of [`WideTable::verify`], from the beginning or where an earlier page ended.
    pub async fn verify_page(
        &self,
        partition_key: &str,
        resume: Option<&SearchToken>,
    ) -> Result<SearchPage<Finding>, Error> {
        search::page(&Parts { of: self, partition_key }, resume).await
    }

    /// The findings about one entity.
    async fn examine(&self, key: &EntityKey) -> Result<Vec<Finding>, Error> {
        let finding = |kind, row: &EntityKey, found: Option<Entity>| Finding {
            kind,
            about: "wide",
            row: row.clone(),
            primary: Some(key.clone()),
            expected: None,
            found,
        };
        match self.read(key, &(1..=T::PARTS).collect::<Vec<_>>()).await {
            Err(error) if *error.kind() == ErrorKind::Torn => {
                return Ok(vec![finding(FindingKind::Torn, key, None)]);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let rows = self.read_range(key).await?;
        let Some(kept) = whole(rows.clone()).map(|kept| kept.len()) else { return Ok(Vec::new()) };
        let surplus = rows.into_iter().skip(kept);
        let orphan = |(_, row): (usize, Loaded<Entity>)| {
            let key = row.loaded_key().clone();
            finding(FindingKind::Orphan, &key, Some(row.into_inner()))
        };
        Ok(surplus.map(orphan).collect())
    }
}

/// The verification of a partition.
struct Parts<'a, T> {
    of: &'a WideTable<T>,
    partition_key: &'a str,
}

impl<T: TableEntity> search::Search for Parts<'_, T> {
    type Finding = Finding;

    fn parts(&self) -> usize {
        1
    }

    /// A page begins after a row key, and ends with the last entity whose rows were all read.
    async fn page(&self, _: usize, after: Option<&str>) -> Result<PartPage<Finding>, Error> {
        let filter = match after {
            Some(after) => partition(self.partition_key).and(row().gt(after)),
            None => partition(self.partition_key),
        };
        let query = self.of.rows.query(filter).select_names([GENERATION, PARTS]);
        let mut pages = query.pages();
        let (mut groups, mut looked_at, mut next) = (Vec::new(), 0, None);
        while groups.len() < 2
            && let Some(page) = pages.next_page().await?
        {
            next = page.token().map(|_| ());
            let rows = page.into_items();
            looked_at += rows.len() as u64;
            rows.into_iter().for_each(|row| Group::add(&mut groups, row));
        }
        // The last entity may have more rows.
        let next = next.and_then(|()| {
            groups.pop();
            groups.last().map(|group: &Group| group.last.clone())
        });
        let mut findings = Vec::new();
        for suspect in groups.into_iter().filter_map(Group::suspect) {
            let key = EntityKey::parse(self.partition_key, &suspect)?;
            findings.extend(self.of.examine(&key).await?);
        }
        Ok(PartPage { findings, looked_at, next })
    }
}

/// Adjacent rows whose keys differ only in the part number.
#[derive(Default)]
struct Group {
    key: Option<String>,
    rows: Vec<(usize, Loaded<Entity>)>,
    /// The row key of its last row.
    last: String,
}

impl Group {
    /// Adds a row to the last group, or to a new one.
    fn add(groups: &mut Vec<Self>, row: Loaded<Entity>) {
        let key = logical_key(row.row_key()).map(str::to_owned);
        if groups.last().is_none_or(|group| group.key != key) {
            groups.push(Self { key, ..Self::default() });
        }
        let Some(group) = groups.last_mut() else { return };
        row.row_key().clone_into(&mut group.last);
        if let Some(key) = &group.key
            && let Some(part) = super::part_of(row.row_key(), key)
            && row.value(GENERATION).is_some()
        {
            group.rows.push((part, row));
        }
    }

    /// The key, unless the rows are exactly those of one write.
    fn suspect(self) -> Option<String> {
        let count = self.rows.len();
        let is_whole = || whole(self.rows).is_some_and(|rows| rows.len() == count);
        if count == 0 || is_whole() { None } else { self.key }
    }
}

/// The row key without a part number.
fn logical_key(row_key: &str) -> Option<&str> {
    let (logical, part) = row_key.rsplit_once('_')?;
    super::part_of(row_key, logical)?;
    (part.len() == 2).then_some(logical)
}
