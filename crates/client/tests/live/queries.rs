//! Queries: pages, tokens, selections, and errors before a request.

use crate::TestServer;
use lazuli_client::{
    Entity, ErrorKind, Filter, Loaded, PageToken, ServerIndex, ServerIndexState, Table, col, iter,
    partition, row,
};

async fn people(server: &TestServer, count: usize) -> Table {
    let table = server.table("People").await;
    for start in (0..count).step_by(100) {
        let mut batch = table.batch("Sales");
        for number in start..count.min(start + 100) {
            let entity = Entity::new("Sales", format!("{number:05}")).with("Number", number as i32);
            batch = batch.insert(&entity.with("Email", format!("{number}@contoso.com")));
        }
        batch.commit().await.unwrap();
    }
    table
}

#[tokio::test]
async fn pages_have_their_size_and_tokens_resume() {
    // P-16.2.
    // CS-8, CS-9.
    let server = TestServer::start();
    let table = people(&server, 2345).await;
    let mut sizes = Vec::new();
    let mut pages = table.query(partition("Sales")).pages();
    let mut token = None;
    while let Some(page) = pages.next_page().await.unwrap() {
        sizes.push(page.items().len());
        if sizes.len() == 1 {
            token = page.token().map(PageToken::to_string);
        }
    }
    assert_eq!(sizes, [1000, 1000, 345]);

    let token: PageToken = token.unwrap().parse().unwrap();
    let rest = table.query(partition("Sales")).resume(token.clone());
    let rest = rest.collect_at_most(5000).await.unwrap();
    assert_eq!((rest.len(), rest[0].row_key()), (1345, "01000"));
    let other = table.query(partition("Sales").and(col("Number").ge(1))).resume(token);
    let error = other.collect_at_most(5000).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::TokenMismatch, 0));

    let mut count = 0;
    let mut pages = table.query(partition("Sales")).page_size(50).pages();
    while let Some(page) = pages.next_page().await.unwrap() {
        assert!(page.items().len() <= 50);
        count += 1;
    }
    assert_eq!(count, 47);
    let ten = table.query(partition("Sales")).take(10).collect_at_most(10).await.unwrap();
    assert_eq!(ten.len(), 10);
    let most = table.query(partition("Sales")).take(1001).collect_at_most(1001).await.unwrap();
    assert_eq!(most.len(), 1001);
}

#[tokio::test]
async fn a_stream_gives_entities_in_order_and_filters_hold() {
    let server = TestServer::start();
    let table = people(&server, 250).await;
    let filter = partition("Sales") & row().starts_with("001") & col("Number").lt(120);
    let mut entities = table.query(filter).page_size(7).stream();
    let mut rows = Vec::new();
    while let Some(entity) = entities.try_next().await.unwrap() {
        rows.push(entity.row_key().to_owned());
    }
    let expect: Vec<_> = (100..120).map(|number| format!("{number:05}")).collect();
    assert_eq!(rows, expect);
}

#[tokio::test]
async fn a_selection_brings_the_keys() {
    // CS-10, C-7.21.
    let server = TestServer::start();
    let table = people(&server, 3).await;
    let query = table.query(partition("Sales")).select_names(["Email", "Missing"]);
    let found = query.collect_at_most(10).await.unwrap();
    assert_eq!(
        (found.len(), found[1].row_key(), found[1].str("Email")),
        (3, "00001", Ok("1@contoso.com"))
    );
    assert_eq!((found[1].len(), found[1].opt::<i32>("Number")), (1, Ok(None)));
    let keys = table.query(partition("Sales")).select_names(["PartitionKey"]);
    let keys = keys.collect_at_most(10).await.unwrap();
    assert_eq!((keys.len(), keys[1].row_key(), keys[1].len()), (3, "00001", 0));
}

#[tokio::test]
async fn a_scan_must_be_asked_for() {
    // CS-19.
    let server = TestServer::start();
    let table = people(&server, 5).await;
    let error = table.query(col("Number").ge(3)).collect_at_most(10).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::WouldScan, 0));
    assert!(error.to_string().contains("scan()"), "{error}");
    let found = table.scan().filter(col("Number").ge(3)).collect_at_most(10).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(table.scan().collect_at_most(4).await.is_err(), "a bound is a bound");
    assert!(table.scan().page_size(0).collect_at_most(9).await.is_err());
    assert!(table.scan().page_size(1001).collect_at_most(9).await.is_err());
}

/// X-8.1, X-2.1, X-4.1, X-4.3, X-4.4.
#[tokio::test]
async fn a_lazuli_server_explains_counts_and_deletes() {
    let server = TestServer::start();
    let table = people(&server, 30).await;
    let filter =
        || Filter::extended("PartitionKey eq 'Sales' and startswith(RowKey,'0001')").unwrap();
    let plan = table.server_plan(Some(filter())).await.unwrap();
    assert!(plan.contains(r#""kind":"RowRange""#), "{plan}");
    let run = table.server_run(Some(filter())).await.unwrap();
    assert!(run.contains(r#""examined":10,"returned":10"#), "{run}");
    assert_eq!(table.server_count(None).await.unwrap(), 30);
    assert_eq!(table.server_count(Some(filter())).await.unwrap(), 10);
    assert_eq!(table.server_delete(filter()).await.unwrap(), 10);
    assert_eq!(table.server_count(None).await.unwrap(), 20);
    assert!(Filter::extended("startswith(Name").is_err());
}

/// X-8.1, X-4.2.
#[tokio::test]
async fn a_lazuli_server_gives_entities_in_descending_order() {
    let server = TestServer::start();
    let table = people(&server, 30).await;
    let rows = |people: Vec<Loaded<Entity>>| -> Vec<String> {
        people.iter().map(|person| person.row_key().to_owned()).collect()
    };
    let mut expected = rows(table.scan().collect_at_most(30).await.unwrap());
    expected.reverse();
    let query = || table.scan().descending();
    assert_eq!(rows(query().page_size(7).collect_at_most(30).await.unwrap()), expected);
    let newest = query().page_size(4).take(3).collect_at_most(3).await.unwrap();
    assert_eq!(rows(newest), expected[..3]);
    let two = format!(
        "PartitionKey eq 'Sales' and (RowKey eq '{}' or RowKey eq '{}')",
        expected[9], expected[1]
    );
    let two = query().filter(Filter::raw(two.as_str())).collect_at_most(2).await.unwrap();
    assert_eq!(rows(two), [expected[1].clone(), expected[9].clone()]);
    let ranges = table.scan().split(2).await.unwrap();
    let refused = query().within(&ranges).collect_at_most(30).await.unwrap_err();
    assert!(refused.to_string().contains("ascending"), "{refused}");
}

/// X-8.1, X-3.1, X-3.12a.
#[tokio::test]
async fn a_lazuli_server_keeps_indexes() {
    let server = TestServer::start();
    let table = people(&server, 3).await;
    assert_eq!(table.server_indexes().await.unwrap(), []);
    let by_email = ServerIndex::new("byEmail", ["Email"]);
    let by_number = ServerIndex::new("byNumber", ["PartitionKey", "Number"]).unique();
    let declared = [by_email.clone(), by_number.clone()];
    let indexes = table.set_server_indexes(declared.clone()).await.unwrap();
    let shown: Vec<_> = indexes.iter().map(|status| status.index.clone()).collect();
    assert_eq!(shown, declared);
    assert_eq!(indexes[0].state, ServerIndexState::Building);
    let rebuilt = table.rebuild_server_index("BYEMAIL").await.unwrap();
    assert_eq!(rebuilt.len(), 2);
    assert!(table.rebuild_server_index("byAge").await.unwrap_err().is_not_found());
    let verified = table.verify_server_indexes(None).await.unwrap();
    // Nothing builds them here, so there is nothing to compare.
    assert_eq!((verified.entities, verified.found, verified.next), (0, vec![], None));
    let refused = table.set_server_indexes([by_email.clone(), by_email]).await.unwrap_err();
    assert_eq!(refused.code(), Some("InvalidInput"));
    assert_eq!(table.set_server_indexes([]).await.unwrap(), []);
}

#[tokio::test]
async fn a_token_after_take_continues_with_the_first_entity_not_returned() {
    // C-8.5, C-7.5: in a query of several parts, too.
    let server = TestServer::start();
    let table = server.table("People").await;
    for partition in ["Marketing", "Sales"] {
        let rows = (0..700).map(|number| Entity::new(partition, format!("{number:04}")));
        table.bulk().insert(iter(rows)).await.unwrap().into_result().unwrap();
    }
    let query = || table.query_partitions(["Marketing", "Sales"]);
    let (mut seen, mut token) = (Vec::new(), None);
    let mut pages = query().take(1100).pages();
    while let Some(page) = pages.next_page().await.unwrap() {
        token = page.token().cloned();
        seen.extend(page.into_items().iter().map(|row| row.loaded_key().clone()));
    }
    assert_eq!(seen.len(), 1100);
    let rest = query().resume(token.expect("300 are left")).collect_at_most(2000).await.unwrap();
    seen.extend(rest.iter().map(|row| row.loaded_key().clone()));
    assert_eq!(seen.len(), 1400);
    let text = |key: &lazuli_client::EntityKey| format!("{} {}", key.partition, key.row);
    assert!(seen.is_sorted_by(|a, b| text(a) < text(b)));
}
