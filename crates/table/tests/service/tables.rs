//! Tables: their names, their list, their policies, and the space they leave.

use crate::fixture::{Fault, Fixture, compare, mutation};
use lazuli_engine::{Direction, Engine, KeyRange, MemoryOptions, Scan, Visit};
use lazuli_model::service_properties::{CorsRule, Logging};
use lazuli_model::{
    AccessPolicies, AccessPolicy, AccountName, Clock, Filter, Operator, ServiceProperties,
    ServicePropertiesPatch, TableName, Timestamp, Value,
};
use lazuli_table::MutationKind::Insert;
use lazuli_table::{Reclaimed, TableError, TablesEnd, TablesQuery};
use std::collections::HashSet;

fn name(text: &str) -> TableName {
    TableName::parse(text).unwrap()
}

async fn with_tables(names: &[&str]) -> Fixture {
    let fixture = Fixture::new().await;
    fixture.service.delete_table(&fixture.account, &fixture.table).await.unwrap();
    for text in names {
        fixture.service.create_table(&fixture.account, &name(text)).await.unwrap();
    }
    fixture
}

async fn list(fixture: &Fixture, query: TablesQuery) -> (Vec<String>, TablesEnd) {
    let mut names = Vec::new();
    let mut sink = |info: &lazuli_table::TableInfo| names.push(info.name.to_string());
    let end = fixture.service.query_tables(&fixture.account, query, &mut sink).await.unwrap();
    assert_eq!(end.rows_returned, names.len() as u64);
    (names, end)
}

fn filtered(filter: Filter) -> TablesQuery {
    TablesQuery { filter: Some(filter), ..TablesQuery::default() }
}

#[tokio::test]
async fn names_are_unique_without_regard_to_case_and_keep_theirs() {
    // TR-52, TR-53.
    let fixture = with_tables(&["MyTable"]).await;
    let create = async |text| fixture.service.create_table(&fixture.account, &name(text)).await;
    assert!(matches!(create("mytable").await, Err(TableError::TableAlreadyExists)));
    create("MyTab").await.unwrap();
    create("MyTableX").await.unwrap();
    let info = fixture.service.get_table(&fixture.account, &name("MYTABLE")).await.unwrap();
    assert_eq!(info.name.as_str(), "MyTable");
    assert_eq!(list(&fixture, TablesQuery::default()).await.0, ["MyTab", "MyTable", "MyTableX"]);
}

#[tokio::test]
async fn accounts_do_not_see_each_other() {
    let fixture = with_tables(&["abc"]).await;
    let other = AccountName::parse("acct").unwrap();
    let result = fixture.service.get_table(&other, &name("abc")).await;
    assert!(matches!(result, Err(TableError::TableNotFound)));
    fixture.service.create_table(&other, &name("abc")).await.unwrap();
    fixture.service.delete_table(&fixture.account, &name("abc")).await.unwrap();
    fixture.service.get_table(&other, &name("abc")).await.unwrap();
}

#[tokio::test]
async fn a_missing_table_is_not_found() {
    let fixture = with_tables(&[]).await;
    let (service, account, missing) = (&fixture.service, &fixture.account, name("missing"));
    let none = AccessPolicies::default();
    let results = [
        service.get_table(account, &missing).await.map(|_| ()),
        service.delete_table(account, &missing).await,
        service.access_policies(account, &missing).await.map(|_| ()),
        service.set_access_policies(account, &missing, none).await,
    ];
    for result in results {
        assert!(matches!(result, Err(TableError::TableNotFound)));
    }
}

#[tokio::test]
async fn a_table_created_again_is_empty() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    let policy = AccessPolicy { id: "a".into(), start: None, expiry: None, permissions: None };
    let policies = AccessPolicies::new(vec![policy]).unwrap();
    let (service, account, table) = (&fixture.service, &fixture.account, &fixture.table);
    service.set_access_policies(account, table, policies.clone()).await.unwrap();
    assert_eq!(service.access_policies(account, table).await.unwrap(), policies);

    service.delete_table(account, table).await.unwrap();
    service.create_table(account, table).await.unwrap();
    assert_eq!(fixture.pages(Default::default()).await, []);
    assert!(service.access_policies(account, table).await.unwrap().is_empty());
    fixture.insert("p", "r").await;
}

#[tokio::test]
async fn the_list_is_ordered_by_lower_case_name_and_pages() {
    let fixture = with_tables(&["bbb", "Aaa", "ccc", "AAB", "abb"]).await;
    let all = ["Aaa", "AAB", "abb", "bbb", "ccc"];
    assert_eq!(list(&fixture, TablesQuery::default()).await.0, all);
    for top in 1..7 {
        let (mut names, mut from) = (Vec::new(), None);
        loop {
            let query = TablesQuery { top, from, ..TablesQuery::default() };
            let (page, end) = list(&fixture, query).await;
            assert!(page.len() <= top);
            names.extend(page);
            match end.next {
                Some(next) => from = Some(next.name.lower().to_owned()),
                None => break,
            }
        }
        assert_eq!(names, all, "{top}");
    }
    let (none, end) = list(&fixture, TablesQuery { top: 0, ..TablesQuery::default() }).await;
    assert_eq!((none.len(), end.next), (0, None));
}

#[tokio::test]
async fn the_list_resumes_behind_a_table_that_is_gone() {
    let fixture = with_tables(&["aaa", "bbb", "ccc"]).await;
    let (_, end) = list(&fixture, TablesQuery { top: 1, ..TablesQuery::default() }).await;
    let next = end.next.unwrap().name;
    fixture.service.delete_table(&fixture.account, &next).await.unwrap();
    let from = Some(next.lower().to_owned());
    assert_eq!(list(&fixture, TablesQuery { from, ..TablesQuery::default() }).await.0, ["ccc"]);
}

#[tokio::test]
async fn the_list_is_filtered_by_name_without_regard_to_case() {
    let fixture = with_tables(&["abc", "ABCD", "abd", "Zzz"]).await;
    let named = |operator, text| compare("TableName", operator, text);
    let lists = async |filter| list(&fixture, filtered(filter)).await.0.join(" ");
    assert_eq!(lists(named(Operator::Eq, "AbCd")).await, "ABCD");
    assert_eq!(lists(named(Operator::Ne, "ABC")).await, "ABCD abd Zzz");
    let prefix = vec![named(Operator::Ge, "ABC"), named(Operator::Lt, "abc{")];
    assert_eq!(lists(Filter::And(prefix)).await, "abc ABCD");
    let either = vec![named(Operator::Eq, "zzz"), named(Operator::Le, "abc")];
    assert_eq!(lists(Filter::Or(either)).await, "abc Zzz");
    assert_eq!(lists(Filter::Not(Box::new(named(Operator::Lt, "abd")))).await, "abd Zzz");
    // Tables have no other property: no comparison on it holds, but its negation does.
    let other = compare("PartitionKey", Operator::Ge, "");
    assert_eq!(lists(other.clone()).await, "");
    assert_eq!(lists(Filter::Not(Box::new(other))).await, "abc ABCD abd Zzz");
    assert_eq!(lists(Filter::Constant(true)).await, "abc ABCD abd Zzz");
}

#[tokio::test]
async fn a_prefix_of_names_reads_only_its_tables() {
    let names: Vec<String> = (0..50).map(|i| format!("t{i:02}")).collect();
    let fixture = with_tables(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let prefix = Filter::And(vec![
        compare("TableName", Operator::Ge, "t3"),
        compare("TableName", Operator::Lt, "t3{"),
    ]);
    let (_, end) = list(&fixture, filtered(prefix)).await;
    assert_eq!((end.rows_read, end.rows_returned), (10, 10));
}

#[tokio::test]
async fn service_properties_are_patched() {
    let fixture = Fixture::new().await;
    let (service, account) = (&fixture.service, &fixture.account);
    assert_eq!(service.service_properties(account).await.unwrap(), ServiceProperties::default());
    let logging = Logging { read: true, ..Logging::default() };
    let cors = vec![CorsRule { max_age_seconds: 5, ..CorsRule::default() }];
    let first = ServicePropertiesPatch { logging: Some(logging.clone()), ..Default::default() };
    let second = ServicePropertiesPatch { cors: Some(cors.clone()), ..Default::default() };
    service.set_service_properties(account, first).await.unwrap();
    fixture.engine.plan([Fault::Conflict]);
    service.set_service_properties(account, second).await.unwrap();
    let expect = ServiceProperties { logging, cors, ..Default::default() };
    assert_eq!(service.service_properties(account).await.unwrap(), expect);
}

#[tokio::test]
async fn the_answer_to_a_creation_may_be_lost() {
    let fixture = Fixture::new().await;
    let create = async |text| fixture.service.create_table(&fixture.account, &name(text)).await;
    fixture.engine.plan([Fault::LoseAnswer]);
    create("aaa").await.unwrap();
    fixture.engine.plan([Fault::LoseCommit]);
    assert!(matches!(create("bbb").await, Err(TableError::Undetermined)));
    fixture.engine.plan([Fault::Conflict, Fault::Conflict]);
    create("ccc").await.unwrap();
}

#[tokio::test]
async fn the_answer_to_a_deletion_may_be_lost() {
    let fixture = with_tables(&["aaa", "bbb"]).await;
    fixture.clock.advance_ms(1);
    let delete = async |text| fixture.service.delete_table(&fixture.account, &name(text)).await;
    fixture.engine.plan([Fault::LoseCommit]);
    delete("aaa").await.unwrap();
    fixture.engine.plan([Fault::LoseAnswer]);
    assert!(matches!(delete("bbb").await, Err(TableError::Undetermined)));
    assert_eq!(list(&fixture, TablesQuery::default()).await.0.len(), 0);
}

/// Entries in the store.
async fn stored(fixture: &Fixture) -> usize {
    let view = fixture.memory.view().await.unwrap();
    let mut count = 0;
    let scan = Scan {
        range: KeyRange::prefix(b"L"),
        direction: Direction::Forward,
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        rows_expected: usize::MAX,
    };
    let mut visitor = |_: &[u8], _: &[u8], _| {
        count += 1;
        Visit::Continue
    };
    view.scan(scan, &mut visitor).await.unwrap();
    count
}

fn now(fixture: &Fixture) -> Timestamp {
    fixture.clock.now()
}

#[tokio::test]
async fn the_space_of_a_dropped_table_comes_back_when_nobody_can_read_it() {
    let options = MemoryOptions { reclaim_rows_max: 10, ..MemoryOptions::default() };
    let fixture = Fixture::with_options(options).await;
    let (service, account, table) = (&fixture.service, &fixture.account, &fixture.table);
    for row in 0..25 {
        fixture.insert("p", &row.to_string()).await;
    }
    service.create_table(account, &name("kept")).await.unwrap();
    let kept = mutation(Insert, ("p", "r"), &[("a", Value::Int32(1))]);
    service.mutate(account, &name("kept"), &kept).await.unwrap();
    // The counter, two catalog records, 26 entities.
    assert_eq!(stored(&fixture).await, 29);
    service.delete_table(account, table).await.unwrap();
    assert_eq!(service.reclaim_some(now(&fixture)).await.unwrap(), Reclaimed::Fully);
    assert_eq!(stored(&fixture).await, 29);

    // A restart loses nothing: another service finds the mark.
    fixture.clock.advance_ms(90_001);
    let service = fixture.elsewhere();
    let mut calls = 0;
    while service.reclaim_some(now(&fixture)).await.unwrap() == Reclaimed::Partly {
        calls += 1;
    }
    // The tombstone waits for the second pass (K-4.6).
    assert_eq!((calls, stored(&fixture).await), (3, 4));
    fixture.clock.advance_ms(3_600_001);
    while service.reclaim_some(now(&fixture)).await.unwrap() == Reclaimed::Partly {}
    assert_eq!(stored(&fixture).await, 3);
}

#[tokio::test]
async fn many_processes_creating_many_tables_never_share_an_id() {
    // If an id were assigned twice, one table would show the entity of another.
    let fixture = with_tables(&[]).await;
    let services: Vec<_> = (0..4).map(|_| fixture.elsewhere()).collect();
    let mut tasks = Vec::new();
    for index in 0..100 {
        let service = services[index % services.len()].clone();
        let (account, table) = (fixture.account.clone(), name(&format!("table{index}")));
        tasks.push(tokio::spawn(async move {
            service.create_table(&account, &table).await.unwrap();
            let row = index.to_string();
            service.mutate(&account, &table, &mutation(Insert, ("p", &row), &[])).await.unwrap();
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut rows = HashSet::new();
    for index in 0..100 {
        let fixture = Fixture { table: name(&format!("table{index}")), ..fixture.clone() };
        let keys = fixture.pages(Default::default()).await;
        assert_eq!(keys.len(), 1);
        rows.extend(keys);
    }
    assert_eq!(rows.len(), 100);
}
