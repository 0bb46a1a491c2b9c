use super::*;
use lazuli_engine::MemoryEngine;
use lazuli_model::{Operator, Property, SystemClock, Value};
use std::sync::Arc;

fn compare(name: &str, operator: Operator, text: &str) -> Filter {
    Filter::compare(Property::from_name(name), operator, Value::String(text.to_owned().into()))
}

fn partition(text: &str) -> Filter {
    compare("PartitionKey", Operator::Eq, text)
}

fn row(text: &str) -> Filter {
    compare("RowKey", Operator::Eq, text)
}

/// The plan of a query of an empty table.
async fn explain(query: EntityQuery) -> PlanReport {
    let service = TableService::new(Arc::new(MemoryEngine::default()), Arc::new(SystemClock));
    let account = AccountName::parse("acct1").unwrap();
    let table = TableName::parse("Orders").unwrap();
    service.create_table(&account, &table).await.unwrap();
    service.explain(&account, &table, &query).await.unwrap()
}

async fn explain_filter(filter: Filter) -> PlanReport {
    explain(EntityQuery { filter: Some(filter), ..EntityQuery::default() }).await
}

/// A read as text: the intervals of both keys and the positions between which it reads.
fn text(read: &ReadKeys) -> String {
    let interval = |interval: &KeyInterval| match (interval.point(), &interval.low, &interval.high)
    {
        (Some(key), ..) => format!("={key}"),
        (None, low, high) => {
            let low = match low {
                Bound::Included(key) => format!("[{key}"),
                Bound::Excluded(key) => format!("({key}"),
                Bound::Unbounded => "(".to_owned(),
            };
            let high = match high {
                Bound::Included(key) => format!("{key}]"),
                Bound::Excluded(key) => format!("{key})"),
                Bound::Unbounded => ")".to_owned(),
            };
            format!("{low},{high}")
        }
    };
    let place = |name: &str, place: &Option<(String, Option<String>)>| match place {
        Some((partition, row)) => format!(" {name} {partition}/{}", row.as_deref().unwrap_or("*")),
        None => String::new(),
    };
    let keys = format!("{} {}", interval(&read.partition), interval(&read.row));
    keys + &place("from", &read.from) + &place("to", &read.to)
}

fn texts(report: &PlanReport) -> Vec<String> {
    report.reads.iter().map(text).collect()
}

/// X-2.2.
#[tokio::test]
async fn reads_are_the_keys_and_ranges_of_the_plan() {
    let all = explain(EntityQuery::default()).await;
    assert_eq!((all.kind, texts(&all)), (PlanKind::Table, vec!["(,) (,)".to_owned()]));
    let keys = partition("p").and(row("b").or(row("a")).or(row("b")));
    let points = explain_filter(keys.and(compare("Name", Operator::Eq, "x"))).await;
    assert_eq!(texts(&points), ["=p =a", "=p =b"]);
    assert_eq!(points.conditions, [compare("Name", Operator::Eq, "x")]);
    assert_eq!(points.estimate, Some(Estimate::of_keys(2)));
    let rows = partition("p").and(compare("RowKey", Operator::Ge, "a"));
    let range = explain_filter(rows.and(compare("RowKey", Operator::Lt, "b"))).await;
    assert_eq!((range.kind, texts(&range)), (PlanKind::RowRange, vec!["=p [a,b)".to_owned()]));
    assert!(range.conditions.is_empty());
    let either = explain_filter(partition("q").or(partition("p")).or(partition("q"))).await;
    assert_eq!(
        (either.kind, texts(&either)),
        (PlanKind::Partition, vec!["=p (,)".into(), "=q (,)".into()])
    );
    let resumed = compare("PartitionKey", Operator::Gt, "p").or(partition("p").and(compare(
        "RowKey",
        Operator::Gt,
        "r",
    )));
    assert_eq!(texts(&explain_filter(resumed).await), ["=p (r,)", "(p,) (,)"]);
    let nothing = explain_filter(partition("p").and(partition("q"))).await;
    assert_eq!((nothing.kind, texts(&nothing)), (PlanKind::MultiPoint, Vec::new()));
}

/// X-0.4, X-2.2: what a token or a continuation leaves out is not shown.
#[tokio::test]
async fn reads_end_where_the_query_may_read() {
    let place =
        |partition: &str, row: Option<&str>| Some((partition.to_owned(), row.map(str::to_owned)));
    let bounds = crate::KeyBounds { start: place("b", Some("1")), end: place("c", None) };
    let query = EntityQuery { bounds, ..EntityQuery::default() };
    assert_eq!(texts(&explain(query.clone()).await), ["(,) (,) from b/1 to c/*"]);
    let filter = Some(partition("a").or(partition("b")).or(partition("c")));
    let clipped = EntityQuery { filter, ..query.clone() };
    assert_eq!(texts(&explain(clipped).await), ["=b (,) from b/1", "=c (,)"]);
    let from = Some(Continuation { partition: "b".into(), row: Some("5".into()) });
    let continued = EntityQuery { from, ..query };
    assert_eq!(texts(&explain(continued).await), ["(,) (,) from b/5 to c/*"]);
}

/// X-2.3: an `or` of keys is a scan on Azure.
#[tokio::test]
async fn azure_reads_one_range() {
    let key = |p: &str, r: &str| partition(p).and(row(r));
    for (filter, kind, azure) in [
        (key("p", "r"), PlanKind::Point, PlanKind::Point),
        (key("p", "1").or(key("p", "2")), PlanKind::MultiPoint, PlanKind::Table),
        (partition("p").and(row("1").or(row("2"))), PlanKind::MultiPoint, PlanKind::Partition),
        (partition("p").or(partition("q")), PlanKind::Partition, PlanKind::Table),
        (partition("p"), PlanKind::Partition, PlanKind::Partition),
        (!compare("PartitionKey", Operator::Ge, "p"), PlanKind::PartitionRange, PlanKind::Table),
    ] {
        let report = explain_filter(filter.clone()).await;
        assert_eq!((report.kind, report.azure), (kind, azure), "{filter:?}");
    }
}
