//! First steps: an account, a table, an entity written and read.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // LAZULI_CONNECTION_STRING or other settings in the environment; else a server on this machine.
    let account = Account::from_env_or_development()?;
    let people = account.tables().create_if_missing("People").await?;
    let don = Entity::new("Marketing", "00001").with("FirstName", "Don").with("Age", 34);
    people.upsert(&don).await?;
    let don = people.get(("Marketing", "00001")).await?.ok_or("just written")?;
    println!("{} {}", don.str("FirstName")?, don.etag());
    assert_eq!(don.get::<i32>("Age")?, 34);
    Ok(())
}
