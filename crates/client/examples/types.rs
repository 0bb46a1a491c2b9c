//! Rust types as Edm types, and back.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{Guid, Value};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(TableValue, Debug, Clone, Copy, PartialEq)]
#[table(rename_all = "snake_case")]
enum Grade {
    FullTime,
    PartTime,
}

#[derive(TableFields, Debug, Clone, PartialEq)]
#[table(rename_all = "PascalCase")]
struct Address {
    street: String,
    zip: Option<u32>,
}

#[rustfmt::skip]
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "TypesExample", kind = "Everything", rename_all = "PascalCase", partition = "{id:pad}", row = "all")]
struct Everything {
    id: i32,
    yes: bool, small: u8, large: i64, number: f64, letter: char, text: String, bytes: Vec<u8>,
    guid: Guid, at: Timestamp, grade: Grade, maybe: Option<String>,
    #[table(as = "bits")] bits: u64,
    #[table(as = "text")] huge: u128,
    #[table(as = "iso")] span: Duration,
    #[table(json)] tags: Vec<String>,
    #[table(flatten)] home: Address,
    #[table(chunked)] long: String,
    #[table(rest)] rest: BTreeMap<String, Value>,
}

#[rustfmt::skip]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let untyped = tables.create_if_missing("TypesExample").await?;
    let table = tables.of::<Everything>()?;
    let value = Everything {
        id: -1, yes: true, small: 255, large: i64::MIN, number: 0.1, letter: 'é', text: "O'Neill".into(), bytes: vec![0, 255],
        guid: Guid([7; 16]), at: Timestamp::UNIX_EPOCH, grade: Grade::PartTime, maybe: None, bits: u64::MAX, huge: u128::MAX,
        span: Duration::from_millis(1500), tags: vec!["a".into()], home: Address { street: "Main".into(), zip: Some(12345) },
        long: "x".repeat(100_000), rest: BTreeMap::from([("Later".into(), Value::Int32(5))]),
    };
    table.upsert(&value).await?;
    assert_eq!(*table.get(Everything::key(-1)?).required().await?, value);
    let stored = untyped.get(TableEntity::key(&value)?).required().await?;
    for (name, value) in stored.properties().filter(|(name, _)| !name.starts_with("Long")) {
        println!("{name}: {value:?}");
    }
    Ok(())
}
