//! Merge sets the named properties, replace removes the others, and 20 tasks count without losing a step.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::Change;
use lazuli_client::prelude::*;

const DON: (&str, &str) = ("Marketing", "00001");

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let people = tables.create_if_missing("MergeExample").await?;
    let don = Entity::new(DON.0, DON.1).with("FirstName", "Don").with("Age", 34).with("Visits", 0);
    people.upsert(&don).await?;

    // A merge sends one property and leaves the others.
    people.merge(DON).set("Age", 35).await?;
    let read = people.get(DON).required().await?;
    println!("merged:   {:?}", read.properties().collect::<Vec<_>>());
    assert_eq!((read.str("FirstName")?, read.get::<i32>("Age")?), ("Don", 35));

    // A replace sends the whole entity; properties that it does not have are removed.
    let mut smaller = read.clone();
    smaller.remove("FirstName");
    people.replace(&smaller).await?;
    let read = people.get(DON).required().await?;
    println!("replaced: {:?}", read.properties().collect::<Vec<_>>());
    assert!(read.value("FirstName").is_none());

    // The entity read earlier has another version by now.
    let err = people.replace(&smaller).await.err().ok_or("it has changed")?;
    println!("{err}");
    assert!(err.is_precondition_failed());

    // Read, change, write if unchanged; otherwise try again. Twenty tasks, five steps each.
    let visit = |entity: &mut Entity| {
        let visits: i32 = entity.get("Visits")?;
        entity.set("Visits", visits + 1);
        Ok(Change::Write)
    };
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let people = people.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    people.update_with(DON, visit).attempts(1000).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let visits: i32 = people.get(DON).required().await?.get("Visits")?;
    println!("{visits} visits");
    assert_eq!(visits, 100);
    Ok(())
}
