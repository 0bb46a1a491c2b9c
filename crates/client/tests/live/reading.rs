//! Plans, many point reads, merged partitions, read-ahead: the rows, and the cost in requests.

use crate::TestServer;
use crate::faults::{Fault, FaultyTransport};
use lazuli_client::{
    Entity, ErrorKind, Filter, Loaded, PageToken, Query, QueryClass, Retry, ScanRange, Table,
    TokenKey, col, partition, row,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::time::Duration;

/// Partitions `a` to `e`, 40 rows each, and a transport that counts.
async fn letters(server: &TestServer) -> (Table, FaultyTransport) {
    let transport = FaultyTransport::new();
    let builder = server.builder().retry(Retry::none()).transport(transport.clone());
    let table = builder.build().unwrap().tables().create("Letters").await.unwrap();
    for letter in ["a", "b", "c", "d", "e"] {
        let rows = (0..40).map(|n| Entity::new(letter, format!("{n:03}")).with("N", n));
        let batch = rows.fold(table.batch(letter), |batch, row| batch.insert(&row));
        batch.commit().await.unwrap();
    }
    transport.next(&[]);
    (table, transport)
}

fn keys(rows: &[Loaded<Entity>]) -> Vec<String> {
    rows.iter().map(|row| format!("{}{}", row.partition_key(), row.row_key())).collect()
}

async fn all(query: Query<Entity>) -> Vec<String> {
    keys(&query.collect_at_most(1000).await.unwrap())
}

#[tokio::test]
async fn an_or_of_row_keys_is_point_reads() {
    // CS-18, C-7.5.
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let rows: Vec<_> = (20..50).rev().map(|n| format!("{n:03}")).collect();
    let filter = || partition("b").and(row().one_of(rows.iter().map(|key| &**key)));
    let plan = table.query(filter()).explain();
    assert_eq!((plan.class, plan.requests_min), (QueryClass::MultiPoint, 30));
    let expect: Vec<_> = (20..40).map(|n| format!("b{n:03}")).collect();
    assert_eq!(all(table.query(filter())).await, expect);
    let sent = transport.sent();
    assert_eq!(sent.len(), 30);
    assert!(sent.iter().all(|seen| seen.uri.contains("(PartitionKey='b',RowKey='0")), "{sent:?}");

    transport.next(&[]);
    assert_eq!(all(table.query(filter()).as_written()).await, expect);
    assert_eq!(transport.sent().len(), 1);

    let some = table.query(filter()).select_names(["M"]).collect_at_most(30).await.unwrap();
    assert_eq!((keys(&some), some[0].len()), (expect, 0), "N was not selected");
}

#[tokio::test]
async fn many_keys_are_read_once_each_and_come_in_their_order() {
    // C-7.3.
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let wanted = [("c", "003"), ("a", "001"), ("c", "003"), ("x", "1"), ("a", "000")];
    let found = table.get_many(wanted).concurrency(2).await.unwrap();
    let found: Vec<_> = found.iter().map(|row| row.as_ref().map(|row| row.row_key())).collect();
    assert_eq!(found, [Some("003"), Some("001"), Some("003"), None, Some("000")]);
    assert_eq!(transport.sent().len(), 4);
    assert!(table.get_many(Vec::<(&str, &str)>::new()).await.unwrap().is_empty());
    let error = table.get_many([("a", "1"), ("a", "x/y")]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Key(_)), "{error}");
}

#[tokio::test]
async fn several_partitions_are_merged_in_key_order() {
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let query = || table.query_partitions(["d", "b", "b", "z"]).filter(col("N").ge(37));
    assert_eq!(query().explain().requests_min, 3);
    let expect = ["b037", "b038", "b039", "d037", "d038", "d039"];
    assert_eq!(all(query()).await, expect);
    assert_eq!(transport.sent().len(), 3);
    assert_eq!(all(query().as_written()).await, expect);
    let mut unordered = all(query().unordered()).await;
    unordered.sort();
    assert_eq!(unordered, expect);
    assert_eq!(all(query().take(4)).await, expect[..4]);
    transport.next(&[]);
    assert_eq!(all(query().take(2)).await, expect[..2]);
    assert_eq!(transport.sent().len(), 1, "the first partition had enough");
    assert_eq!(all(table.query_partitions([])).await, [""; 0]);
}

#[tokio::test]
async fn tokens_name_the_part_to_go_on_with() {
    let server = TestServer::start();
    let (table, _) = letters(&server).await;
    let points = partition("c").and(row().one_of(["005", "006", "007", "008"]));
    let filter = points | partition("a") | partition("e");
    let expect = all(table.query(filter.clone())).await;
    assert_eq!(expect.len(), 84);
    for page_size in [3, 7, 1000] {
        let mut found = Vec::new();
        let mut token: Option<PageToken> = None;
        loop {
            let query = table.query(filter.clone()).page_size(page_size).resume(token);
            let page = query.pages().next_page().await.unwrap().unwrap();
            assert!(page.items().len() <= page_size.into());
            found.extend(keys(page.items()));
            let Some(next) = page.token() else { break };
            token = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(found, expect, "pages of {page_size}");
    }
}

#[tokio::test]
async fn signed_tokens_are_the_only_ones_taken_back() {
    // C-8.4.
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let key = TokenKey::new(b"0123456789abcdef0123456789abcdef").unwrap();
    let query = || table.query(partition("a")).page_size(10);
    let signed = query().sign_tokens(&key).pages().next_page().await.unwrap().unwrap();
    let plain = query().pages().next_page().await.unwrap().unwrap();
    let text = signed.token().unwrap().to_string();
    let resumed = query().sign_tokens(&key).resume(text.parse::<PageToken>().unwrap());
    assert_eq!(all(resumed).await.len(), 30);
    transport.next(&[]);
    let forged = query().sign_tokens(&key).resume(plain.token().cloned());
    let error = forged.collect_at_most(100).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::TokenMismatch);
    assert!(transport.sent().is_empty());
}

#[tokio::test]
async fn a_stream_fetches_a_page_ahead_and_pages_do_not() {
    // C-8.6.
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let sent_after_a_while = async |count: usize| {
        for _ in 0..6000 {
            if transport.sent().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        transport.sent().len()
    };
    let mut entities = table.query(partition("a")).page_size(10).stream();
    entities.try_next().await.unwrap().unwrap();
    assert_eq!(sent_after_a_while(2).await, 2, "the second page comes by itself");
    drop(entities);
    transport.next(&[]);
    let mut pages = table.query(partition("a")).page_size(10).pages();
    pages.next_page().await.unwrap().unwrap();
    tokio::task::yield_now().await;
    assert_eq!(transport.sent().len(), 1);
    let mut rows = 10;
    while let Some(page) = pages.next_page().await.unwrap() {
        rows += page.items().len();
    }
    assert_eq!((rows, transport.sent().len()), (40, 4));
    transport.next(&[]);
    let ten = table.query(partition("a")).take(10).stream();
    assert_eq!(count(ten).await, 10);
    assert_eq!(transport.sent().len(), 1, "nothing is fetched ahead of the last entity");
}

async fn count(mut entities: lazuli_client::Entities<Entity>) -> usize {
    let mut count = 0;
    while entities.try_next().await.unwrap().is_some() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_page_that_fails_is_repeated_alone() {
    // C-8.7.
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    for lost in 0..4 {
        for prefetch in [0, 1, 3] {
            let mut faults = vec![Fault::None; lost];
            faults.extend([Fault::LosesAnswer, Fault::LosesRequest]);
            transport.next(&faults);
            let query = table.query(partition("c")).page_size(10).prefetch(prefetch);
            let mut entities = query.stream();
            let (mut rows, mut errors) = (Vec::new(), 0);
            loop {
                match entities.try_next().await {
                    Ok(Some(row)) => rows.push(row),
                    Ok(None) => break,
                    Err(error) if errors < 2 => {
                        assert!(error.is_retryable(), "{error}");
                        errors += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let expect: Vec<_> = (0..40).map(|n| format!("c{n:03}")).collect();
            assert_eq!((keys(&rows), errors), (expect, 2));
            assert_eq!(transport.sent().len(), 6);
        }
    }
}

fn filters() -> impl Strategy<Value = Filter> {
    let letter = prop::sample::select(vec!["a", "b", "c", "x"]);
    let number = prop::sample::select(vec!["000", "001", "039", "zzz"]);
    let condition = prop_oneof![
        number.clone().prop_map(|key| row().eq(key)),
        number.prop_map(|key| row().ge(key)),
        (0..40).prop_map(|n| col("N").lt(n)),
        (0..40).prop_map(|n| !col("N").eq(n)),
    ];
    let alternative = (letter, prop::collection::vec(condition.clone(), 0..3))
        .prop_map(|(letter, more)| more.into_iter().fold(partition(letter), Filter::and));
    let either = prop::collection::vec(alternative, 1..5)
        .prop_map(|all| all.into_iter().reduce(Filter::or).unwrap());
    (either, prop::option::of(condition)).prop_map(|(either, more)| match more {
        Some(more) => either.and(more),
        None => either,
    })
}

#[test]
fn a_planned_query_returns_what_the_query_as_written_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = TestServer::start();
    let (table, _) = runtime.block_on(letters(&server));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(60));
    let cases = (filters(), prop::sample::select(vec![9, 1000]));
    let result = runner.run(&cases, |(filter, page_size)| {
        let query = || table.query(filter.clone()).page_size(page_size);
        let (planned, written) =
            runtime.block_on(async { (all(query()).await, all(query().as_written()).await) });
        prop_assert_eq!(planned, written);
        Ok(())
    });
    result.unwrap();
}

#[tokio::test]
async fn ranges_of_a_split_cover_the_table_once() {
    // C-12.8, P-19.2; keys around the point where the orders of UTF-16 and UTF-8 differ (T-3.19).
    let server = TestServer::start();
    let (table, transport) = letters(&server).await;
    let more = ["", "\u{E000}x", "\u{10000}x", "user-000", "user-100", "user-999", "A", "zz"];
    for key in more {
        table.insert(&Entity::new(key, "1")).await.unwrap();
    }
    let expect = all(table.scan()).await;
    assert_eq!(expect.len(), 208);
    for count in [1, 2, 4, 16, 100] {
        transport.next(&[]);
        let ranges = table.scan().split(count).await.unwrap();
        assert!(transport.sent().len() <= 64 + 16 * count, "{count}");
        assert!(ranges.len() <= count.min(13), "{ranges:?}");
        assert!(count < 4 || ranges.len() > 3, "{count}: {ranges:?}");
        let ranges: Vec<ScanRange> =
            ranges.iter().map(|range| range.to_string().parse().unwrap()).collect();
        let mut apart = Vec::new();
        for range in &ranges {
            apart.extend(all(table.scan().within([range])).await);
        }
        assert_eq!(apart, expect, "each range in its own process");
        assert_eq!(all(table.scan().within(ranges.iter().rev())).await, expect, "merged in order");
        let mut unordered = all(table.scan().within(&ranges).unordered().page_size(7)).await;
        unordered.sort_by_key(|key| expect.iter().position(|row| row == key));
        assert_eq!(unordered, expect);
    }
    let other = table.tables().create("Other").await.unwrap();
    assert_eq!(other.scan().split(8).await.unwrap().len(), 1, "nothing to cut");
    let range = &table.scan().split(2).await.unwrap()[0];
    let error = other.scan().within([range]).collect_at_most(1).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::TokenMismatch);
}

#[tokio::test]
async fn other_orders_are_explicit() {
    // P-21.2.
    let server = TestServer::start();
    let (table, _) = letters(&server).await;
    let query = || table.query_partitions(["b", "a"]).filter(col("N").lt(2));
    let by = |a: &Loaded<Entity>, b: &Loaded<Entity>| {
        let key =
            |row: &Loaded<Entity>| (row.get::<i32>("N").unwrap(), row.partition_key().to_owned());
        key(a).cmp(&key(b))
    };
    let sorted = query().stream().sorted_in_memory(4, by).await.unwrap();
    assert_eq!(keys(&sorted), ["a000", "b000", "a001", "b001"]);
    assert!(query().stream().sorted_in_memory(3, by).await.is_err());
}

#[tokio::test]
async fn all_pages_of_a_snapshot_are_of_one_moment() {
    // C-8.5.
    let server = TestServer::start();
    let table = server.table("Rows").await;
    for number in 0..6 {
        table.insert(&Entity::new("p", format!("{number}"))).await.unwrap();
    }
    let mut pages = table.query(partition("p")).page_size(2).snapshot().pages();
    let first = pages.next_page().await.unwrap().unwrap();
    assert_eq!(first.items().len(), 2);
    table.insert(&Entity::new("p", "7")).await.unwrap();
    table.delete_key(("p", "5")).await.unwrap();
    let mut rows: Vec<_> = first.into_items();
    while let Some(page) = pages.next_page().await.unwrap() {
        rows.extend(page.into_items());
    }
    let rows: Vec<_> = rows.iter().map(|row| row.row_key().to_owned()).collect();
    assert_eq!(rows, ["0", "1", "2", "3", "4", "5"]);
    // Point reads read the snapshot, too.
    let both = partition("p").and(row().eq("5").or(row().eq("7")));
    let now = table.query(both).snapshot().collect_at_most(9).await.unwrap();
    assert_eq!(now.iter().map(|row| row.row_key()).collect::<Vec<_>>(), ["7"]);
}
