//! Reads: CS-2, CS-7 to CS-10, CS-19.

use crate::peer::{Peer, person, table_1};
use lazuli_client::{Account, Entity, ErrorKind, PageToken, Table, col, partition, row};
use lazuli_test::TestServer;
use std::process::Command;

crate::scenarios! {
    cs_02_a_point_read_gives_the_values_their_version_and_time
    cs_04_a_partition_comes_in_the_order_of_row_keys
    cs_07_any_text_is_a_key_and_a_value_and_costs_one_request
    cs_08_pages_have_their_size
    cs_09_a_token_resumes_in_another_process
    cs_10_a_selection_brings_the_keys_too
    cs_18_an_or_of_row_keys_is_point_reads
    cs_19_a_scan_must_be_asked_for
}

async fn cs_02_a_point_read_gives_the_values_their_version_and_time(peer: Peer) {
    let table = peer.table_1().await;
    let [expected, ..] = table_1();
    let don = table.get(("Marketing", "00001")).required().await.unwrap();
    let values = |entity: &Entity| {
        let mut values: Vec<_> =
            entity.properties().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        values.sort_by(|a, b| a.0.cmp(&b.0));
        values
    };
    assert_eq!(values(&don), values(&expected));
    assert!(!don.etag().as_str().is_empty());
    let before = don.timestamp();
    // The client's Timestamp is not stored (T-3.31).
    let stale = person("Marketing", "00001", "Don", "Hall", 35);
    table.replace(&don.map(|_| stale)).await.unwrap();
    let after = table.get(("Marketing", "00001")).required().await.unwrap();
    assert!(after.timestamp() > before);
    assert!(table.get(("Marketing", "none")).await.unwrap().is_none());
}

async fn cs_04_a_partition_comes_in_the_order_of_row_keys(peer: Peer) {
    let table = peer.table_1().await;
    let rows = table.query(partition("Marketing")).collect_at_most(10).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.row_key()).collect();
    assert_eq!(rows, ["00001", "00002", "Department"]);
}

async fn cs_07_any_text_is_a_key_and_a_value_and_costs_one_request(peer: Peer) {
    let table = peer.table("Texts").await;
    let faulty = peer.faulty();
    let table = faulty.table(&table);
    let texts =
        ["it's", "''", "100%", "a%27b", "1+1", "a&b", "caf\u{e9}", "\u{1f680}", "a b", "a,b=c"];
    for text in texts {
        let entity = Entity::new(format!("p{text}"), format!("r{text}")).with("Text", text);
        let key = (format!("p{text}"), format!("r{text}"));
        faulty.proxy.take();
        table.insert(&entity).await.unwrap();
        let read = table.get((&*key.0, &*key.1)).required().await.unwrap();
        assert_eq!(read.str("Text"), Ok(text));
        assert_eq!((read.partition_key(), read.row_key()), (&*key.0, &*key.1));
        assert_eq!(faulty.proxy.take().len(), 2, "{text}");
        for filter in [
            partition(&key.0).and(col("Text").eq(text)),
            partition(&key.0).and(row().eq(&*key.1)).and(col("Text").ne("other")),
        ] {
            let found = table.query(filter).collect_at_most(10).await.unwrap();
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(faulty.proxy.take().len(), 1, "{text}");
        }
    }
}

async fn sales(table: &Table, count: usize) {
    for start in (0..count).step_by(100) {
        let batch = (start..count.min(start + 100)).fold(table.batch("Sales"), |batch, number| {
            batch
                .insert(&Entity::new("Sales", format!("{number:05}")).with("Number", number as i32))
        });
        batch.commit().await.unwrap();
    }
}

const ROWS: usize = 2345;

/// The sizes of the pages, and the rows in order.
async fn pages(table: &Table, size: u16) -> (Vec<usize>, Vec<String>) {
    let mut pages = table.query(partition("Sales")).page_size(size).pages();
    let (mut sizes, mut rows) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next_page().await.unwrap() {
        sizes.push(page.items().len());
        rows.extend(page.items().iter().map(|item| item.row_key().to_owned()));
    }
    (sizes, rows)
}

async fn cs_08_pages_have_their_size(peer: Peer) {
    let table = peer.table("Sales").await;
    sales(&table, ROWS).await;
    let expected: Vec<_> = (0..ROWS).map(|number| format!("{number:05}")).collect();
    let (sizes, rows) = pages(&table, 1000).await;
    assert_eq!(sizes, [1000, 1000, 345]);
    assert_eq!(rows, expected);
    let (sizes, rows) = pages(&table, 50).await;
    assert_eq!((sizes.len(), rows), (47, expected.clone()));
    let ten = table.query(partition("Sales")).take(10).collect_at_most(10).await.unwrap();
    assert_eq!(ten.len(), 10);
    // A server that ends pages early returns the same rows on more pages.
    if peer.in_process().is_some() {
        let server = TestServer::builder().early_pages(7).start().await.unwrap();
        let table = server.account().tables().create("Sales").await.unwrap();
        sales(&table, ROWS).await;
        let (sizes, rows) = pages(&table, 1000).await;
        assert_eq!(rows, expected);
        assert!(sizes.len() > 3, "{sizes:?}");
    }
}

/// The input of the second process.
const CONNECTION: &str = "LAZULI_CS09_CONNECTION";
const TABLE: &str = "LAZULI_CS09_TABLE";
const TOKEN: &str = "LAZULI_CS09_TOKEN";

async fn cs_09_a_token_resumes_in_another_process(peer: Peer) {
    let table = peer.table("Sales").await;
    sales(&table, ROWS).await;
    let mut pages = table.query(partition("Sales")).page_size(1000).pages();
    let page = pages.next_page().await.unwrap().unwrap();
    let token = page.token().unwrap().to_string();
    let mut second = Command::new(std::env::current_exe().unwrap());
    second.args(["--exact", "reading::cs_09_second_process", "--ignored"]);
    second.env(CONNECTION, peer.connection_string()).env(TABLE, table.name()).env(TOKEN, token);
    let output = tokio::task::spawn_blocking(move || second.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
#[ignore = "a child of cs_09_a_token_resumes_in_another_process"]
async fn cs_09_second_process() {
    let [connection, name, token] =
        [CONNECTION, TABLE, TOKEN].map(|name| std::env::var(name).unwrap());
    let account = Account::from_connection_string(&connection).unwrap();
    let table = account.tables().table(&name).unwrap();
    let token: PageToken = token.parse().unwrap();
    let rest = table.query(partition("Sales")).page_size(1000).resume(token.clone());
    let rest = rest.collect_at_most(ROWS).await.unwrap();
    let rows: Vec<_> = rest.iter().map(|row| row.row_key().to_owned()).collect();
    let expected: Vec<_> = (1000..ROWS).map(|number| format!("{number:05}")).collect();
    assert_eq!(rows, expected);
    let other = table.query(partition("Sales").and(col("Number").ge(1))).resume(token);
    let error = other.collect_at_most(ROWS).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::TokenMismatch, 0));
}

async fn cs_10_a_selection_brings_the_keys_too(peer: Peer) {
    let table = peer.table_1().await;
    let query = table.query(partition("Marketing")).select_names(["Email"]);
    let rows = query.collect_at_most(10).await.unwrap();
    assert_eq!((rows.len(), rows[0].row_key()), (3, "00001"));
    assert_eq!(rows[0].str("Email"), Ok("donh@contoso.com"));
    assert_eq!(rows[0].opt::<i32>("Age"), Ok(None));
    assert_eq!(rows[2].opt::<String>("Email"), Ok(None));
}

async fn cs_18_an_or_of_row_keys_is_point_reads(peer: Peer) {
    let table = peer.table("Sales").await;
    sales(&table, 100).await;
    let faulty = peer.faulty();
    let table = faulty.table(&table);
    let wanted: Vec<_> = (0..30).map(|number| format!("{:05}", 98 - 3 * number)).collect();
    let filter = partition("Sales").and(row().one_of(wanted.iter().map(String::as_str)));
    let mut expected = wanted.clone();
    expected.sort();
    for (query, requests) in
        [(table.query(filter.clone()), 30), (table.query(filter).as_written(), 1)]
    {
        faulty.proxy.take();
        let rows = query.collect_at_most(100).await.unwrap();
        let rows: Vec<_> = rows.iter().map(|row| row.row_key().to_owned()).collect();
        assert_eq!(rows, expected);
        assert_eq!(faulty.proxy.exchanges().len(), requests);
    }
}

async fn cs_19_a_scan_must_be_asked_for(peer: Peer) {
    let table = peer.table_1().await;
    let faulty = peer.faulty();
    let table = faulty.table(&table);
    let error = table.query(col("Age").ge(30)).collect_at_most(10).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::WouldScan);
    assert!(faulty.proxy.exchanges().is_empty());
    let rows = table.scan().filter(col("Age").ge(30)).collect_at_most(10).await.unwrap();
    assert_eq!(rows.len(), 2);
}
