//! Advice as JSON: findings by weight, and the numbers of each table.

use super::indexed::Indexed;
use lazuli_advice::{Advisor, Finding, ShapeSummary, TableSummary};
use lazuli_model::Timestamp;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Where the pages of patterns are, from the root of the documentation.
const PAGES: &str = "docs/patterns/";

/// The advice on the tables of an account, without what its indexes settle.
pub(crate) fn document(
    account: &str,
    now: Timestamp,
    advisor: &Advisor,
    indexed: &Indexed,
) -> impl Serialize + use<> {
    let open = advisor.findings().filter(|finding| !indexed.settles(finding));
    let mut findings: Vec<_> = open.map(FindingJson::new).collect();
    findings.sort_by_key(|finding| Reverse(finding.weight));
    let tables = advisor.tables().map(TableJson::new).collect();
    AdviceJson { account: account.to_owned(), at: now.to_string(), findings, tables }
}

#[derive(Serialize)]
struct AdviceJson {
    account: String,
    at: String,
    findings: Vec<FindingJson>,
    tables: Vec<TableJson>,
}

#[derive(Serialize)]
struct FindingJson {
    code: String,
    table: String,
    /// The subject within the table: a partition, a property, an index.
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    weight: u64,
    /// What was observed, in numbers, and in which window.
    seen: String,
    times: u64,
    first: String,
    last: String,
    why: WhyJson,
    #[serde(rename = "do")]
    advice: String,
    pattern: &'static str,
    command: String,
    link: String,
}

#[derive(Serialize)]
struct WhyJson {
    here: &'static str,
    azure: &'static str,
}

impl FindingJson {
    fn new(finding: &Finding) -> Self {
        let code = finding.code;
        Self {
            code: code.to_string(),
            table: finding.table.clone(),
            subject: finding.subject.clone(),
            weight: finding.weight(),
            seen: finding.evidence.clone(),
            times: finding.times,
            first: finding.first.to_string(),
            last: finding.last.to_string(),
            why: WhyJson { here: code.cost_here(), azure: code.cost_on_azure() },
            advice: finding.advice.clone(),
            pattern: code.title(),
            command: finding.command.clone(),
            link: format!("{PAGES}{}", code.page()),
        }
    }
}

#[derive(Serialize)]
struct TableJson {
    table: String,
    since: String,
    last: String,
    reads: BTreeMap<&'static str, u64>,
    writes: u64,
    batched: u64,
    inserts: u64,
    appends: u64,
    deletes: u64,
    conflicts: ConflictsJson,
    entity: EntityJson,
    shapes: Vec<ShapeJson>,
    partitions: Vec<PartitionJson>,
}

#[derive(Serialize)]
struct ConflictsJson {
    #[serde(rename = "409")]
    exists: u64,
    #[serde(rename = "412")]
    changed: u64,
}

/// Sizes of written entities.
#[derive(Serialize)]
struct EntityJson {
    bytes_mean: u64,
    bytes_max: u64,
    properties_mean: u64,
    properties_max: u64,
}

#[derive(Serialize)]
struct ShapeJson {
    filter: String,
    queries: u64,
    scans: u64,
    examined: u64,
    returned: u64,
}

#[derive(Serialize)]
struct PartitionJson {
    #[serde(rename = "PartitionKey")]
    partition_key: String,
    requests: u64,
}

impl TableJson {
    fn new(summary: TableSummary<'_>) -> Self {
        let shape = |shape: &ShapeSummary<'_>| ShapeJson {
            filter: shape.filter.to_owned(),
            queries: shape.queries,
            scans: shape.scans,
            examined: shape.examined,
            returned: shape.returned,
        };
        let partition = |(key, requests): &(&str, u64)| PartitionJson {
            partition_key: (*key).to_owned(),
            requests: *requests,
        };
        Self {
            table: summary.table.to_owned(),
            since: summary.since.to_string(),
            last: summary.last.to_string(),
            reads: summary.reads.iter().map(|(class, count)| (class.name(), *count)).collect(),
            writes: summary.writes,
            batched: summary.batched,
            inserts: summary.inserts,
            appends: summary.appends,
            deletes: summary.deletes,
            conflicts: ConflictsJson { exists: summary.exists, changed: summary.changed },
            entity: EntityJson {
                bytes_mean: summary.entity_bytes.0,
                bytes_max: summary.entity_bytes.1,
                properties_mean: summary.properties.0,
                properties_max: summary.properties.1,
            },
            shapes: summary.shapes.iter().map(shape).collect(),
            partitions: summary.partitions.iter().map(partition).collect(),
        }
    }
}
