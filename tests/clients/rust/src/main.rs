//! The Rust SDKs through every operation they have: tables (`azure_data_tables` 0.21, the last there is)
//! here, queues in `queues.rs`.
//!
//! It asks for full metadata everywhere, merges with the MERGE verb, and sends transactions with
//! bare line feeds and without a closing delimiter. Arguments name parts of the cases to run.

mod queues;

use azure_core::{RetryOptions, StatusCode};
use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::prelude::*;
use azure_storage::{CloudLocation, ConnectionString};
use futures::StreamExt;
use serde_json::{Map, Value, json};
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

type Outcome = Result<(), Box<dyn Error>>;
type Running = Pin<Box<dyn Future<Output = Outcome>>>;
type Case = fn(TableServiceClient, TableClient) -> Running;

const CASES: &[(&str, Case)] = &[
    ("tables_are_created_listed_and_deleted", |s, _| Box::pin(tables(s))),
    ("an_entity_is_inserted_read_and_deleted", |_, t| Box::pin(insert_read_delete(t))),
    ("entities_are_replaced_merged_and_upserted", |_, t| Box::pin(replace_merge_upsert(t))),
    ("etags_are_honoured", |_, t| Box::pin(etags(t))),
    ("queries_filter_select_and_page", |_, t| Box::pin(queries(t))),
    ("every_kind_of_operation_in_one_transaction", |_, t| Box::pin(transaction(t))),
    ("a_failed_transaction_changes_nothing", |_, t| Box::pin(failed_transaction(t))),
    ("keys_keep_every_character", |_, t| Box::pin(keys(t))),
    ("missing_tables_are_not_found", |s, _| Box::pin(missing_tables(s))),
];

#[tokio::main]
async fn main() -> ExitCode {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let text = std::env::var("LAZULI_CONNECTION_STRING").unwrap_or_default();
    let connection = ConnectionString::new(&text).expect("a LAZULI_CONNECTION_STRING");
    let service = connect(&connection).expect("a usable LAZULI_CONNECTION_STRING");
    let mut tests: Vec<(String, Running)> = Vec::new();
    for (name, case) in CASES {
        tests.push(((*name).to_owned(), Box::pin(run_one(service.clone(), *case))));
    }
    tests.extend(queues::cases(&connection).expect("queues in LAZULI_CONNECTION_STRING"));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        if !parts.is_empty() && !parts.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        match test.await {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                failed += 1;
                println!("{error}\ntest {name} ... FAILED");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn connect(connection: &ConnectionString) -> Result<TableServiceClient, Box<dyn Error>> {
    let location = CloudLocation::Custom {
        account: connection.account_name.ok_or("no account")?.to_owned(),
        uri: connection.table_endpoint.ok_or("no endpoint")?.to_owned(),
    };
    let credentials = connection.storage_credentials()?;
    // One attempt: a retry would hide an answer that should not have been given.
    let builder = TableServiceClientBuilder::with_location(location, credentials);
    Ok(builder.retry(RetryOptions::none()).build())
}

async fn run_one(service: TableServiceClient, case: Case) -> Outcome {
    let table = service.table_client(fresh_name("T"));
    table.create().await?;
    let outcome = case(service.clone(), table.clone()).await;
    table.delete().await?;
    outcome
}

fn fresh_name(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn tables(service: TableServiceClient) -> Outcome {
    let stem = fresh_name("Rust");
    let names: Vec<String> = (0..5).map(|n| format!("{stem}t{n}")).collect();
    for name in &names {
        service.table_client(name).create().await?;
    }
    let again = service.table_client(&names[0]).create().await;
    refused(again, 409, "TableAlreadyExists")?;
    let filter = format!("TableName ge '{stem}' and TableName lt '{stem}{{'");
    let mut pages = service.list().filter(filter).top(2).into_stream();
    let mut listed = Vec::new();
    while let Some(page) = pages.next().await {
        listed.extend(page?.tables.into_iter().map(|table| table.name));
    }
    equal(&listed, &names)?;
    for name in &names {
        service.table_client(name).delete().await?;
    }
    refused(service.table_client(&names[0]).delete().await, 404, "ResourceNotFound")
}

async fn insert_read_delete(table: TableClient) -> Outcome {
    let entity =
        json!({"PartitionKey": "p", "RowKey": "r", "name": "x 😀", "n": 5, "d": 3.0, "ok": true});
    table.insert::<_, Value>(&entity)?.await?;
    equal(&stored(&table, "p", "r").await?, &entity)?;
    let echoed = json!({"PartitionKey": "p", "RowKey": "echo"});
    let answer = table.insert::<_, Value>(&echoed)?.return_entity(true).await?;
    let back = answer.entity_with_metadata.ok_or("no entity came back")?.entity;
    equal(&back["RowKey"], &json!("echo"))?;
    refused(table.insert::<_, Value>(&entity)?.await, 409, "EntityAlreadyExists")?;
    let client = table.partition_key_client("p").entity_client("r");
    client.delete().await?;
    refused(client.get::<Value>().await, 404, "ResourceNotFound")
}

async fn replace_merge_upsert(table: TableClient) -> Outcome {
    let client = table.partition_key_client("p").entity_client("r");
    let body = |properties: Value| with_keys("p", "r", properties);
    let missing = client.merge(body(json!({})), IfMatchCondition::Any)?.await;
    refused(missing, 404, "ResourceNotFound")?;
    client.insert_or_merge(body(json!({"a": "1", "b": "2"})))?.await?;
    client.merge(body(json!({"b": "3", "c": "4"})), IfMatchCondition::Any)?.await?;
    equal(&stored(&table, "p", "r").await?, &body(json!({"a": "1", "b": "3", "c": "4"})))?;
    client.update(body(json!({"b": "5"})), IfMatchCondition::Any)?.await?;
    equal(&stored(&table, "p", "r").await?, &body(json!({"b": "5"})))?;
    client.insert_or_merge(body(json!({"a": "6"})))?.await?;
    equal(&stored(&table, "p", "r").await?, &body(json!({"a": "6", "b": "5"})))?;
    client.insert_or_replace(body(json!({"z": "7"})))?.await?;
    equal(&stored(&table, "p", "r").await?, &body(json!({"z": "7"})))
}

async fn etags(table: TableClient) -> Outcome {
    let client = table.partition_key_client("p").entity_client("r");
    let body = with_keys("p", "r", json!({}));
    let stale = client.insert_or_replace(&body)?.await?.etag;
    let fresh = client.insert_or_replace(&body)?.await?.etag;
    equal(&client.get::<Value>().await?.etag, &fresh)?;
    let code = "UpdateConditionNotSatisfied";
    refused(client.update(&body, stale.clone().into())?.await, 412, code)?;
    refused(client.merge(&body, stale.clone().into())?.await, 412, code)?;
    refused(client.delete().if_match(IfMatchCondition::Etag(stale)).await, 412, code)?;
    client.delete().if_match(IfMatchCondition::Etag(fresh)).await?;
    Ok(())
}

async fn queries(table: TableClient) -> Outcome {
    let mut transaction = table.partition_key_client("p").transaction();
    for n in 0..100 {
        transaction = transaction.insert(with_keys("p", &format!("{n:03}"), json!({"n": n})))?;
    }
    transaction.await?;
    let found = pages(&table, "n ge 10 and n lt 13", 1000).await?;
    equal(&found, &vec![vec!["010".to_owned(), "011".to_owned(), "012".to_owned()]])?;
    let sizes: Vec<usize> = pages(&table, "true", 30).await?.iter().map(Vec::len).collect();
    equal(&sizes, &vec![30, 30, 30, 10])?;
    let wrong = table.query().filter("aaa bbb ccc").into_stream::<Value>().next().await;
    refused(wrong.ok_or("no answer")?, 400, "InvalidInput")
}

async fn transaction(table: TableClient) -> Outcome {
    let partition = table.partition_key_client("p");
    for row in ["merge", "replace", "delete", "upmerge"] {
        table.insert::<_, Value>(with_keys("p", row, json!({"a": "1"})))?.await?;
    }
    let b = |row: &str| with_keys("p", row, json!({"b": "2"}));
    let any = || Some(IfMatchCondition::Any);
    let answer = partition
        .transaction()
        .insert(b("create"))?
        .merge("merge", b("merge"), any())?
        .update("replace", b("replace"), any())?
        .delete("delete", None)?
        .insert_or_merge("upmerge", b("upmerge"))?
        .insert_or_replace("upreplace", b("upreplace"))?
        .await?;
    let statuses: Vec<u16> =
        answer.operation_responses.iter().map(|part| part.status_code.into()).collect();
    equal(&statuses, &vec![201, 204, 204, 204, 204, 204])?;
    let rows = pages(&table, "true", 1000).await?;
    equal(
        &rows[0],
        &["create", "merge", "replace", "upmerge", "upreplace"].map(str::to_owned).to_vec(),
    )?;
    equal(
        &stored(&table, "p", "merge").await?,
        &with_keys("p", "merge", json!({"a": "1", "b": "2"})),
    )?;
    equal(&stored(&table, "p", "replace").await?, &b("replace"))
}

async fn failed_transaction(table: TableClient) -> Outcome {
    table.insert::<_, Value>(with_keys("p", "old", json!({})))?.await?;
    let answer = table
        .partition_key_client("p")
        .transaction()
        .insert(with_keys("p", "new", json!({})))?
        .insert(with_keys("p", "old", json!({})))?
        .await?;
    // The SDK hands out the parts as they are: the one that failed.
    let statuses: Vec<_> = answer.operation_responses.iter().map(|part| part.status_code).collect();
    equal(&statuses, &vec![StatusCode::Conflict])?;
    equal(&pages(&table, "true", 1000).await?, &vec![vec!["old".to_owned()]])
}

async fn keys(table: TableClient) -> Outcome {
    // No quotes: the SDK does not double them in the URL.
    for key in
        ["plain", " ", "with space", "100%", "%20", "a+b", "a:b@c=d&e$f~g", "ô", "日本語", "😀"]
    {
        let entity = with_keys(key, key, json!({"v": key}));
        table.insert::<_, Value>(&entity)?.await?;
        equal(&stored(&table, key, key).await?, &entity)?;
        table.partition_key_client(key).entity_client(key).delete().await?;
    }
    Ok(())
}

async fn missing_tables(service: TableServiceClient) -> Outcome {
    let table = service.table_client("Nosuchtable");
    let entity = with_keys("p", "r", json!({}));
    refused(table.insert::<_, Value>(&entity)?.await, 404, "TableNotFound")?;
    let listed = table.query().into_stream::<Value>().next().await;
    refused(listed.ok_or("no answer")?, 404, "TableNotFound")
}

fn with_keys(partition: &str, row: &str, properties: Value) -> Value {
    let mut entity = json!({"PartitionKey": partition, "RowKey": row});
    if let (Some(entity), Value::Object(properties)) = (entity.as_object_mut(), properties) {
        entity.extend(properties);
    }
    entity
}

/// One entity without what the service adds.
async fn stored(table: &TableClient, partition: &str, row: &str) -> Result<Value, Box<dyn Error>> {
    let client = table.partition_key_client(partition).entity_client(row);
    let mut entity = client.get::<Map<String, Value>>().await?.entity;
    entity.retain(|name, _| !name.contains("odata.") && name != "Timestamp");
    Ok(entity.into())
}

/// The row keys of a query, page by page.
async fn pages(
    table: &TableClient,
    filter: &'static str,
    top: u32,
) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    let mut stream = table.query().filter(filter).top(top).into_stream::<Value>();
    let mut pages = Vec::new();
    while let Some(page) = stream.next().await {
        let rows =
            page?.entities.into_iter().map(|entity| entity["RowKey"].as_str().map(str::to_owned));
        pages.push(rows.collect::<Option<_>>().ok_or("an entity without RowKey")?);
    }
    Ok(pages)
}

fn equal<T: PartialEq + Debug>(got: &T, expected: &T) -> Outcome {
    if got == expected {
        return Ok(());
    }
    Err(format!("     got: {got:?}\nexpected: {expected:?}").into())
}

fn refused<T: Debug>(answer: azure_core::Result<T>, status: u16, code: &str) -> Outcome {
    let error = answer.err().ok_or_else(|| format!("accepted, where {status} {code} was due"))?;
    let http = error.as_http_error().ok_or_else(|| format!("no answer: {error}"))?;
    let body =
        String::from_utf8_lossy(http.error_message().unwrap_or_default().as_bytes()).into_owned();
    let seen = http.error_code().unwrap_or_default();
    if u16::from(http.status()) == status
        && (seen == code || format!("{error:?} {body}").contains(code))
    {
        return Ok(());
    }
    Err(format!("{} {seen}, where {status} {code} was due: {error:?}", http.status()).into())
}
