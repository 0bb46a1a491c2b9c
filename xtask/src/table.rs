//! The few table operations that the kill test and the memory test share.

use anyhow::{Result, ensure};
use lazuli_testkit::http::{Connection, Request};

pub(crate) fn create(connection: &mut Connection, table: &str) -> Result<()> {
    let body = format!("{{\"TableName\":\"{table}\"}}");
    let response = connection.send(&Request::new("POST", "/Tables").json(&body))?;
    ensure!(response.status == 201, "create {table}: {} {}", response.status, response.text());
    Ok(())
}

/// Follows a query through all its pages and shows the body of each.
pub(crate) fn scan(
    connection: &mut Connection,
    table: &str,
    query: &str,
    mut page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut continuation = String::new();
    loop {
        let path = format!("/{table}()?{query}{continuation}");
        let response = connection.send(&Request::new("GET", &path))?;
        ensure!(response.status == 200, "{path}: {} {}", response.status, response.text());
        page(&response.body)?;
        let Some(partition) = response.header("x-ms-continuation-NextPartitionKey") else {
            return Ok(());
        };
        continuation = format!("&NextPartitionKey={partition}");
        if let Some(row) = response.header("x-ms-continuation-NextRowKey") {
            continuation.push_str(&format!("&NextRowKey={row}"));
        }
    }
}
