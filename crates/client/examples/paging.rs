//! Pages of 50, a token in a file, and a second run that continues where the first was interrupted.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{PageToken, iter};
use std::path::Path;

/// Reads pages until the end, or until `pages_max` of them: then the program "crashes".
async fn run(
    sales: &Table,
    state: &Path,
    pages_max: usize,
) -> Result<usize, Box<dyn std::error::Error>> {
    let saved: Option<PageToken> = match std::fs::read_to_string(state) {
        Ok(text) => Some(text.parse()?),
        Err(_) => None,
    };
    let mut rows = 0;
    let mut pages = sales.query(partition("Sales")).page_size(50).resume(saved).pages();
    for _ in 0..pages_max {
        let Some(page) = pages.next_page().await? else { break };
        rows += page.items().len();
        // First the work, then the token: a crash in between repeats one page and loses none.
        match page.token() {
            Some(token) => std::fs::write(state, token.to_string())?,
            None => std::fs::remove_file(state)?,
        }
    }
    Ok(rows)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let sales = tables.create_if_missing("PagingExample").await?;
    let employee = |n| Entity::new("Sales", format!("{n:05}")).with("Number", n);
    let loaded = sales.bulk().upsert(iter((0..345).map(employee))).await?;
    println!("{} rows in {} transactions", loaded.written, loaded.requests);

    let state = std::env::temp_dir().join(format!("paging-example-{}", std::process::id()));
    let first = run(&sales, &state, 3).await?;
    println!("the first run read {first} rows and was cut off");
    let second = run(&sales, &state, usize::MAX).await?;
    println!("the second run read {second} rows, none twice");
    assert_eq!((first, second), (150, 195));
    assert!(!state.exists());

    // take() limits the total over all pages; page_size() only says how many come at a time.
    let ten = sales.query(partition("Sales")).take(10).collect_at_most(10).await?;
    assert_eq!(ten.len(), 10);
    Ok(())
}
