//! The properties that have an index by now: the advice to index them is done (X-5.2b).

use lazuli_advice::{Advisor, Code, Finding};
use lazuli_model::{AccountName, TableName, Timestamp};
use lazuli_table::{IndexState, TableService};
use std::collections::{BTreeMap, BTreeSet};

/// Since when properties of tables have an index of their own, by the names that findings use.
#[derive(Debug, Default)]
pub(crate) struct Indexed(BTreeMap<(String, String), Timestamp>);

/// The tables of all findings that advise an index.
pub(crate) fn advised(advisor: &Advisor) -> BTreeSet<String> {
    let findings = advisor.findings().filter(|finding| advises_index(finding));
    findings.map(|finding| finding.table.clone()).collect()
}

impl Indexed {
    /// Looks up the indexes of these tables.
    pub(crate) async fn read(
        tables: &TableService,
        account: &AccountName,
        advised: BTreeSet<String>,
    ) -> Self {
        let mut indexed = BTreeMap::new();
        for table in advised {
            let Ok(name) = TableName::parse(&table) else { continue };
            // Without the indexes of a table, its findings are shown as before.
            let Ok(indexes) = tables.indexes(account, &name).await else { continue };
            for index in indexes {
                let is_kept = !matches!(index.state, IndexState::Failed(_));
                if let ([property], true) = (index.definition.on(), is_kept) {
                    indexed.insert((table.clone(), property.name().to_owned()), index.since);
                }
            }
        }
        Self(indexed)
    }

    /// Whether `finding` advises an index that was declared after the finding was last seen. What is seen
    /// again compares the property in a way that no index serves.
    pub(crate) fn settles(&self, finding: &Finding) -> bool {
        let place = (finding.table.clone(), finding.subject.clone());
        advises_index(finding) && self.0.get(&place).is_some_and(|since| finding.last <= *since)
    }
}

const fn advises_index(finding: &Finding) -> bool {
    matches!(finding.code, Code::TableScan | Code::PartitionScan)
}
