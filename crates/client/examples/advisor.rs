//! The advisor watches the traffic of a program, and suggests a better design (P-20).

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::patterns::advisor::{Thresholds, Watch};
use lazuli_client::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    let people = account.tables().create_if_missing("AdvisorExample").await?;
    for (row, name) in [("00001", "Hall"), ("00002", "Cao"), ("00003", "Jones")] {
        people.upsert(&Entity::new("Sales", row).with("LastName", name)).await?;
    }

    let watch = Watch::new(&account, Thresholds::default());
    let found = people.scan().filter(col("LastName").eq("Jones")).collect_at_most(10).await?;
    assert_eq!(found.len(), 1);
    let findings = watch.findings();
    for finding in &findings {
        println!("{} {}: {} ({})", finding.code, finding.table, finding.advice, finding.evidence);
    }
    // It read the whole table for one row.
    assert!(findings.iter().any(|finding| finding.code.to_string() == "ADV-4"));
    Ok(())
}
