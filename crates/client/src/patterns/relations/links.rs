//! Links both ways (P-12.3).

use crate::account::Account;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::link::{self, Link};
use crate::patterns::jobs::{Job, JobError, Run};
use crate::patterns::{Finding, FindingKind};
use crate::table::Table;
use crate::union::Member;
use lazuli_model::EntityKey;
use serde::{Deserialize, Serialize};

/// Writes two entities of one partition that link to each other: one transaction, conditional on both versions. The
/// caller sets their links.
pub async fn link_pair<A, B>(
    table: &Table<A>,
    first: &Loaded<A>,
    second: &Loaded<B>,
) -> Result<(), Error>
where
    A: TableEntity + Clone + Sync,
    B: TableEntity + Clone + Sync,
{
    let partition = first.loaded_key().partition.as_str();
    if second.loaded_key().partition.as_str() != partition {
        let hint = "send the job LinkBoth".to_owned();
        let error = Error::config("no transaction spans two partitions");
        return Err(error.with(|context| context.hint = Some(hint)));
    }
    let write = |transaction: crate::Transaction| {
        let written = transaction.replace(first).and_then(|()| transaction.replace(second));
        async move { written }
    };
    // The versions that were read stay the same: another attempt would also fail.
    match table.transact(partition, write).attempts(1).await {
        Err(error) if matches!(error.kind(), ErrorKind::Contended { .. }) => {
            Err(error.with_kind(ErrorKind::PreconditionFailed))
        }
        done => done,
    }
}

/// One end of a two-way link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    table: String,
    partition: String,
    row: String,
    /// The prefix of the link's two properties.
    property: String,
}

/// The job (P-3) that links two entities of different partitions or tables to each other. It may run any number of
/// times; both entities must exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBoth {
    first: End,
    second: End,
}

impl LinkBoth {
    /// Sets the link of `first` in the property `first_property`, and that of `second` in `second_property`.
    pub fn new<A: TableEntity, B: TableEntity>(
        (first_table, first, first_property): (&Table<A>, &EntityKey, &str),
        (second_table, second, second_property): (&Table<B>, &EntityKey, &str),
    ) -> Self {
        let end = |table: &str, key: &EntityKey, property: &str| End {
            table: table.to_owned(),
            partition: key.partition.as_str().to_owned(),
            row: key.row.as_str().to_owned(),
            property: property.to_owned(),
        };
        Self {
            first: end(first_table.name(), first, first_property),
            second: end(second_table.name(), second, second_property),
        }
    }
}

impl Job for LinkBoth {
    const KIND: &'static str = "lazuli-link-both";
    type Context = Account;

    async fn run(&self, account: &Account, _: &Run) -> Result<(), JobError> {
        for (end, other) in [(&self.first, &self.second), (&self.second, &self.first)] {
            let table = account.tables().table(&end.table)?;
            let [partition, row] = link::names(&end.property);
            let merge = table
                .merge((&*end.partition, &*end.row))
                .set(partition, other.partition.clone())
                .set(row, other.row.clone());
            match merge.await {
                Err(error) if *error.kind() == ErrorKind::NotFound => {
                    let (partition, row) = (&end.partition, &end.row);
                    return Err(JobError::never(format!("({partition}, {row}) does not exist")));
                }
                merged => drop(merged?),
            }
        }
        Ok(())
    }
}

/// Returns the link of an entity of type `B` to one of type `A`.
type LinkOf<A, B> = dyn Fn(&B) -> Option<&Link<A>> + Sync;

/// Entities whose links lead nowhere, or are not matched by a link back. Reads both tables as far as links
/// lead.
pub async fn broken_links<A: TableEntity, B: TableEntity>(
    table: &Table<A>,
    link: impl Fn(&A) -> Option<&Link<B>>,
    others: &Table<B>,
    back: Option<&LinkOf<A, B>>,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let member = Member::of::<A>();
    let rows: Table<Entity> = table.retyped();
    let mut rows = rows.scan().stream();
    while let Some(row) = rows.try_next().await? {
        // Other types may share the table.
        let entity = if member.has(&row) { row.decode::<A>()? } else { None };
        let Some(entity) = entity else { continue };
        let Some(link) = link(&entity) else { continue };
        let kind = match (others.get(link.key()).await?, back) {
            (None, _) => FindingKind::Missing,
            (Some(other), Some(back)) => {
                let key = entity.loaded_key();
                match back(&other).is_some_and(|back| back.key().as_entity_key() == key) {
                    true => continue,
                    false => FindingKind::Stale,
                }
            }
            (Some(_), None) => continue,
        };
        findings.push(Finding {
            kind,
            about: "link",
            row: link.key().as_entity_key().clone(),
            primary: Some(entity.loaded_key().clone()),
            expected: None,
            found: None,
        });
    }
    Ok(findings)
}
