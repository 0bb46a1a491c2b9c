//! Encrypted properties: version 2 written, version 1 of the old clients read, a key rotated.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::encryption::{AesKey, BlindKey, Encryption, Keys};
use lazuli_client::prelude::*;
use lazuli_client::{TableEntity, Value};

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Patients", partition = "{clinic}", row = "{id:08}", rename_all = "PascalCase")]
struct Patient {
    clinic: String,
    id: u32,
    #[table(encrypt)]
    name: String,
    #[table(encrypt, blind_index)]
    ssn: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let raw = Account::from_env_or_development()?.tables().create_if_missing("Patients").await?;
    // Real keys come from a safe place; these are for demonstration.
    let old_key = || AesKey::new("key1", &[1; 32][..]);
    let new_key = || AesKey::new("key2", &[2; 32][..]);
    let blind = || BlindKey::new(&[3; 32]);

    let keys = Keys::new(old_key()?).blind(blind()?);
    let patients = raw.retyped::<Patient>().encrypted(Encryption::v2(keys));
    let ann = Patient { clinic: "North".into(), id: 17, name: "Ann".into(), ssn: "078".into() };
    patients.upsert(&ann).await?;
    let stored = raw.get(("North", "00000017")).await?.ok_or("just written")?;
    assert!(matches!(stored.value("Name"), Some(Value::Binary(_))));
    println!("the server has {:?}", stored.value("Name"));

    // The old .NET, Java and Python clients read and write version 1. Both versions are read.
    let old = Encryption::v1_for_old_readers(Keys::new(old_key()?)).properties(["Name", "Ssn"]);
    let bob = Entity::new("North", "00000018").with("Name", "Bob").with("Ssn", "219");
    raw.clone().encrypted(old).upsert(&bob).await?;
    let all = patients.query(partition("North")).collect_at_most(100).await?;
    println!("{:?}", all.iter().map(|patient| &*patient.name).collect::<Vec<_>>());

    // A blind index finds equal values, but shows the server which ones are equal.
    let found = partition("North").and(patients.eq_blind("Ssn", "078")?);
    assert_eq!(patients.query(found).collect_at_most(2).await?.len(), 1);

    // Programs get both keys and write with the new one; then the rows are rotated.
    let keys = Keys::new(new_key()?).also(old_key()?).blind(blind()?);
    let report = patients.rotate_keys(&keys).from("key1").to("key2").await?;
    println!("{} rows have a new key", report.rewritten);
    let keys = Keys::new(new_key()?).blind(blind()?);
    let patients = raw.retyped::<Patient>().encrypted(Encryption::v2(keys));
    let read = patients.get(Patient::key("North", 17)?).await?.ok_or("still there")?;
    assert_eq!(*read, ann);
    Ok(())
}
