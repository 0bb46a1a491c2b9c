//! The switches for testing clients: T-3.7, T-4.26, T-4.53, T-11.3.

use crate::harness::{Lazuli, Op, Request, Response, encode, order};
use lazuli_server::{FrontOptions, SimulateOptions, TableOptions};
use std::num::{NonZeroU32, NonZeroU64};

const BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";
const OVER_LIMIT: &str = "Operations per second is over the account limit.";

fn with(simulate: SimulateOptions) -> Lazuli {
    let tables = TableOptions { simulate, ..TableOptions::default() };
    let lazuli = Lazuli::with_table_options(FrontOptions::default(), tables);
    lazuli.create_table("Orders").expect(201);
    lazuli
}

/// Follows the tokens; returns all items and the number of items in each page.
fn all_pages(
    lazuli: &Lazuli,
    target: &str,
    item: &str,
    tokens: &[&'static str],
) -> (Vec<String>, Vec<usize>) {
    let (mut items, mut sizes, mut page) = (Vec::new(), Vec::new(), String::new());
    loop {
        let answer: Response = lazuli.get(&format!("{target}{page}")).expect(200);
        let found: Vec<_> = answer.items(item).split_whitespace().map(str::to_owned).collect();
        sizes.push(found.len());
        items.extend(found);
        page.clear();
        for token in tokens {
            if let Some(text) = answer.header(&format!("x-ms-continuation-{token}")) {
                page.push_str(&format!("&{token}={}", encode(text)));
            }
        }
        if page.is_empty() {
            return (items, sizes);
        }
        assert!(sizes.len() < 1000, "no end: {sizes:?}");
    }
}

/// T-4.53.
#[test]
fn early_pages_lose_nothing_and_some_are_empty() {
    let mut all_sizes = Vec::new();
    for seed in 0..8 {
        let lazuli = with(SimulateOptions { early_pages: Some(seed), ..Default::default() });
        let rows: Vec<_> = (10..40).map(|row| row.to_string()).collect();
        for row in &rows {
            lazuli.insert("Orders", &format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#));
        }
        let tokens = ["NextPartitionKey", "NextRowKey"];
        for filter in ["", "&$filter=RowKey%20ge%20'10'", "&$filter=RowKey%20ne%20'x'"] {
            let target = format!("/Orders()?$top=20{filter}");
            let (found, sizes) = all_pages(&lazuli, &target, "RowKey", &tokens);
            assert_eq!(found, rows, "{filter}");
            all_sizes.extend(sizes);
        }
        for name in ["Aaa", "Bbb", "Ccc"] {
            lazuli.create_table(name).expect(201);
        }
        let (found, sizes) = all_pages(&lazuli, "/Tables?$top=9", "TableName", &["NextTableName"]);
        assert_eq!(found, ["Aaa", "Bbb", "Ccc", "Orders"]);
        all_sizes.extend(sizes);
    }
    assert!(all_sizes.contains(&0) && all_sizes.contains(&20), "{all_sizes:?}");
}

/// T-3.7.
#[test]
fn a_deleted_table_is_in_deletion_for_a_while() {
    let seconds = NonZeroU64::new(40);
    let lazuli = with(SimulateOptions { table_deletion_seconds: seconds, ..Default::default() });
    lazuli.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    lazuli.get("/Orders()").expect(404);
    let text = "The specified table is being deleted. Try operation later.";
    lazuli.create_table("orderS").expect_error(409, "TableBeingDeleted", text);
    lazuli.create_table("Others").expect(201);
    lazuli.clock.advance_seconds(39);
    lazuli.create_table("Orders").expect(409);
    lazuli.clock.advance_seconds(1);
    lazuli.create_table("Orders").expect(201);
}

/// T-4.26.
#[test]
fn a_filter_has_at_most_so_many_comparisons() {
    let max = NonZeroU32::new(15);
    let lazuli = with(SimulateOptions { filter_comparisons_max: max, ..Default::default() });
    let filter = |count: usize| vec!["(a eq 1)"; count].join(" or ");
    let query = |count| lazuli.get(&format!("/Orders()?$filter={}", encode(&filter(count))));
    query(15).expect(200);
    query(16).expect_error(400, "InvalidInput", "One of the request inputs is not valid.");
}

/// T-11.3, T-7.9.
#[test]
fn an_account_has_so_many_requests_a_second() {
    let max = NonZeroU32::new(3);
    let lazuli = with(SimulateOptions { account_rate_max: max, ..Default::default() });
    for _ in 0..2 {
        lazuli.get("/Orders()").expect(200);
    }
    let refused = lazuli.get("/Orders()").expect_error(503, "ServerBusy", OVER_LIMIT);
    refused.expect_header("retry-after", Some("1"));
    // Another account is not affected, nor is the next second.
    lazuli.send(&Request::new("GET", "/Tables").at_other(0)).expect(200);
    lazuli.clock.advance_seconds(1);
    lazuli.get("/Orders()").expect(200);
}

/// T-11.2, T-11.3.
#[test]
fn a_partition_has_so_many_operations_a_second() {
    let max = NonZeroU32::new(3);
    let lazuli = with(SimulateOptions { partition_rate_max: max, ..Default::default() });
    lazuli.write("PUT", "r", None, "{}").expect(204);
    lazuli.get(&order("r")).expect(200);
    // Two more would make four. The batch is refused as a whole, without effect.
    let refused = lazuli.batch(&[Op::insert("s"), Op::insert("t")]).outer;
    refused.expect_error(503, "ServerBusy", BUSY);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"s"}"#).expect(201);
    lazuli.get(&order("r")).expect_error(503, "ServerBusy", BUSY);
    lazuli.insert("Orders", r#"{"PartitionKey":"q","RowKey":"s"}"#).expect(201);
    assert_eq!(lazuli.rows(""), "r s s");
    lazuli.clock.advance_seconds(1);
    // A batch that alone exceeds the rate would otherwise never be served.
    let batch = ["1", "2", "3", "4"].map(Op::insert);
    assert_eq!(lazuli.batch(&batch).outer.status, 202);
    assert_eq!(lazuli.rows(""), "1 2 3 4 r s s");
}
