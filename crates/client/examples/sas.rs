//! One token per user: each opens the user's own partition, and nothing else.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{ErrorKind, Permissions};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    let notes = account.tables().create_if_missing("Notes").await?;
    for user in ["user-17", "user-18"] {
        notes.upsert(&Entity::new(user, "greeting").with("Text", format!("Hello, {user}"))).await?;
    }

    // Made where the account's key is. No request is sent: a token is a signature.
    let issuer = notes.sas_issuer(Permissions::READ, Duration::from_secs(3600));
    let token = issuer.token("user-17")?;

    // Given to the user, who has nothing else.
    let endpoint = account.table_endpoint().ok_or("no table endpoint")?;
    let guest = Account::builder(endpoint).credential(Credential::sas(&token)?).build()?;
    let theirs = guest.tables().table("Notes")?;
    let own = theirs.get(("user-17", "greeting")).required().await?;
    println!("own: {}", own.str("Text")?);

    // The service refuses other partitions; what the token clearly does not allow is not even sent.
    let other = theirs.get(("user-18", "greeting")).await.err().ok_or("another user's note")?;
    println!("other: {other}");
    assert!(matches!(other.kind(), ErrorKind::Forbidden { .. }));
    let write = theirs.insert(&own).await.err().ok_or("a write by a token that reads")?;
    println!("write: {write}");
    assert!(matches!(write.kind(), ErrorKind::NotGranted(_)));
    Ok(())
}
