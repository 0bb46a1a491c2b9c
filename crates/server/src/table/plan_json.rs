//! Plans as JSON (X-2.2a): a document, or a header of bounded length.

use crate::table::prices::Prices;
use lazuli_model::{Filter, IndexName};
use lazuli_table::{Estimate, IndexUse, KeyInterval, PlanKind, PlanReport, QueryEnd, ReadKeys};
use lazuli_wire::odata::filter::print;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::ops::Bound;

/// Maximum bytes of a plan in a header.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// Maximum bytes of the conditions in a header that is still too long after its reads are cut.
const CONDITION_BYTES_MAX: usize = 2 * 1024;

/// What a query actually did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) examined: u64,
    pub(crate) returned: u64,
}

impl Measured {
    pub(crate) fn of(end: &QueryEnd) -> Self {
        Self { examined: end.rows_read, returned: end.rows_returned }
    }
}

/// The plan of a query that did not run, with estimates.
pub(crate) fn document(prices: &Prices, report: &PlanReport) -> Vec<u8> {
    let estimate = report
        .estimate
        .map(|estimate| Measured { examined: estimate.examined, returned: estimate.returned });
    let mut plan = PlanJson::new(prices, report, &Measured::default(), estimate);
    plan.estimate = Some(EstimateJson::of(report));
    ascii(&plan).into_bytes()
}

/// The plan of a query that ran, cut so that it fits into a header.
pub(crate) fn header(prices: &Prices, report: &PlanReport, measured: &Measured) -> String {
    let mut plan = PlanJson::new(prices, report, measured, Some(*measured));
    let mut text = ascii(&plan);
    while text.len() > HEADER_BYTES_MAX && !plan.reads.is_empty() {
        plan.reads.truncate(plan.reads.len() / 2);
        plan.truncated = true;
        text = ascii(&plan);
    }
    if text.len() > HEADER_BYTES_MAX {
        // A character is at most 12 bytes in a header.
        let end =
            (0..=CONDITION_BYTES_MAX / 4).rev().find(|at| plan.conditions.is_char_boundary(*at));
        plan.conditions.truncate(end.unwrap_or(0));
        text = ascii(&plan);
    }
    text
}

/// The guide's word for a kind of plan (X-2.2b).
pub(crate) const fn guide(kind: PlanKind, reads: usize) -> &'static str {
    match kind {
        PlanKind::Point => "point query",
        PlanKind::MultiPoint if reads == 0 => "nothing to read",
        PlanKind::MultiPoint => "point queries",
        PlanKind::RowRange => "range query",
        PlanKind::Partition => "partition scan",
        PlanKind::PartitionRange | PlanKind::Table => "table scan",
        PlanKind::Index => "index lookup",
    }
}

#[derive(Serialize)]
struct PlanJson<'a> {
    kind: &'static str,
    guide: &'static str,
    reads: Vec<ReadJson<'a>>,
    conditions: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<IndexJson<'a>>,
    /// The indexes whose range was too long, so that the query scanned.
    #[serde(skip_serializing_if = "Option::is_none")]
    fell_back: Option<IndexJson<'a>>,
    examined: u64,
    returned: u64,
    bytes: u64,
    us: u64,
    azure: AzureJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<EstimateJson>,
    /// Indexes that would serve the query if they were built.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
}

/// The indexes that serve a query: one name, or a list of them.
#[derive(Serialize)]
struct IndexJson<'a> {
    name: String,
    access: &'static str,
    entries: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<&'a str>,
    /// Whether the index is automatic.
    #[serde(skip_serializing_if = "is_false")]
    automatic: bool,
}

impl<'a> IndexJson<'a> {
    fn of(used: &'a IndexUse) -> Self {
        let names: Vec<&str> = used.names.iter().map(IndexName::as_str).collect();
        let name = names.join(",");
        let names = if names.len() > 1 { names } else { Vec::new() };
        let IndexUse { access, entries, automatic, .. } = *used;
        Self { name, access: access.name(), entries, names, automatic }
    }
}

/// What the same query means on Azure: an estimate, never a promise.
#[derive(Serialize)]
struct AzureJson<'a> {
    kind: &'static str,
    guide: &'static str,
    pages: u64,
    transactions: u64,
    price: f64,
    currency: &'a str,
    prices_of: &'a str,
    /// The parts of it that Azure refuses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refuses: Vec<&'static str>,
}

#[derive(Serialize)]
struct EstimateJson {
    examined: Option<u64>,
    returned: Option<u64>,
    rests_on: String,
}

impl EstimateJson {
    fn of(report: &PlanReport) -> Self {
        let estimate = report.estimate;
        let rests_on = match estimate {
            None if report.is_part => {
                "nothing: what others read of the table is not shown to a token for part of it"
                    .to_owned()
            }
            None => {
                "nothing: no query of this kind has run on this table since the start".to_owned()
            }
            Some(Estimate { pages: None, .. }) => "the keys that the filter names".to_owned(),
            Some(Estimate { pages: Some(1), .. }) => {
                "one page of this kind on this table since the start".to_owned()
            }
            Some(Estimate { pages: Some(pages), .. }) => {
                format!("the mean of {pages} pages of this kind on this table since the start")
            }
        };
        Self {
            examined: estimate.map(|estimate| estimate.examined),
            returned: estimate.map(|estimate| estimate.returned),
            rests_on,
        }
    }
}

impl<'a> PlanJson<'a> {
    /// `likely` is what the query did, or is likely to do.
    fn new(
        prices: &'a Prices,
        report: &'a PlanReport,
        measured: &Measured,
        likely: Option<Measured>,
    ) -> Self {
        let conditions = report.conditions.iter().cloned().reduce(Filter::and);
        Self {
            kind: report.kind.name(),
            guide: guide(report.kind, report.reads.len()),
            reads: report.reads.iter().map(ReadJson).collect(),
            conditions: conditions.map(|filter| print(&filter)).unwrap_or_default(),
            index: report.index.as_ref().map(IndexJson::of),
            fell_back: report.fell_back.as_ref().map(IndexJson::of),
            candidates: report.candidates.iter().map(IndexName::as_str).collect(),
            examined: measured.examined,
            returned: measured.returned,
            bytes: report.bytes,
            us: report.micros,
            azure: AzureJson::new(prices, report, likely.unwrap_or_default()),
            estimate: None,
            truncated: false,
        }
    }
}

impl<'a> AzureJson<'a> {
    fn new(prices: &'a Prices, report: &PlanReport, likely: Measured) -> Self {
        // If the kind differs, the best estimate is what pages of Azure's kind examine here.
        let examined = match report.azure_estimate {
            Some(estimate) if report.azure != report.kind => likely.examined.max(estimate.examined),
            _ => likely.examined,
        };
        let pages = prices.pages(examined, likely.returned);
        let extended = report.extended.iter().flat_map(|filter| filter.extended());
        let mut refuses: Vec<&'static str> =
            extended.flat_map(|extended| extended.names()).collect();
        refuses.sort_unstable();
        refuses.dedup();
        Self {
            kind: report.azure.name(),
            guide: guide(report.azure, report.reads.len()),
            pages,
            transactions: pages,
            price: prices.of_transactions(pages),
            currency: &prices.currency,
            prices_of: &prices.dated,
            refuses,
        }
    }
}

/// One read: `{"PartitionKey":"p","RowKey":{"ge":"a","lt":"b"}}`. Unrestricted keys are left out;
/// `from` and `to` are positions among all keys, both inclusive.
struct ReadJson<'a>(&'a ReadKeys);

impl Serialize for ReadJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ReadKeys { partition, row, from, to } = self.0;
        let mut map = serializer.serialize_map(None)?;
        for (name, interval) in [("PartitionKey", partition), ("RowKey", row)] {
            match interval.point() {
                Some(key) => map.serialize_entry(name, key)?,
                None if *interval == KeyInterval::ALL => {}
                None => map.serialize_entry(name, &IntervalJson(interval))?,
            }
        }
        for (name, place) in [("from", from), ("to", to)] {
            match place {
                Some((partition, Some(row))) => map.serialize_entry(name, &[partition, row])?,
                Some((partition, None)) => map.serialize_entry(name, &[partition])?,
                None => {}
            }
        }
        map.end()
    }
}

struct IntervalJson<'a>(&'a KeyInterval);

impl Serialize for IntervalJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let ends = [("ge", "gt", &self.0.low), ("le", "lt", &self.0.high)];
        for (included, excluded, bound) in ends {
            match bound {
                Bound::Included(key) => map.serialize_entry(included, key)?,
                Bound::Excluded(key) => map.serialize_entry(excluded, key)?,
                Bound::Unbounded => {}
            }
        }
        map.end()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// JSON in ASCII: everything else is escaped, so that it fits in a header.
fn ascii(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    if text.bytes().all(|byte| byte.is_ascii() && byte != 0x7F) {
        return text;
    }
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                out.push_str(&format!("\\u{unit:04x}"));
            }),
        }
    }
    out
}
