//! Archives an employee with a job: a message, a worker, a poison queue.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::patterns::jobs::{Job, JobError, Jobs, Run, Seen, Worker};
use lazuli_client::prelude::*;
use serde::{Deserialize, Serialize};

struct Hr {
    current: Table,
    archive: Table,
}

#[derive(Serialize, Deserialize)]
struct ArchiveEmployee {
    department: String,
    id: u32,
    seen: Option<Seen>,
}

impl Job for ArchiveEmployee {
    const KIND: &'static str = "archive-employee";
    type Context = Hr;

    async fn run(&self, hr: &Hr, run: &Run) -> Result<(), JobError> {
        let key = (&self.department, format!("{:06}", self.id));
        let moved = run.move_entity(&hr.current, key, &hr.archive).if_match(&self.seen);
        println!("employee {}: {:?}", self.id, moved.must_exist().await?);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    let current = account.tables().create_if_missing("Current").await?;
    let archive = account.tables().create_if_missing("Archive").await?;
    let queue = account.queues().create_if_missing("archive").await?;
    queue.clear().await?;
    let jones = Entity::new("Sales", "000456").with("LastName", "Jones");
    current.upsert(&jones).await?;
    let seen = current.get(("Sales", "000456")).required().await?.seen();

    // One that exists, and one that does not: its job goes to the poison queue at once.
    let jobs = Jobs::new(&queue);
    let department = || "Sales".to_owned();
    jobs.send(&ArchiveEmployee { department: department(), id: 456, seen: Some(seen) }).await?;
    let nobody = ArchiveEmployee { department: department(), id: 999_999, seen: None };
    let id = jobs.send(&nobody).await?;

    let worker =
        Worker::new(&queue).job::<ArchiveEmployee>(Hr { current: current.clone(), archive });
    let report = worker.run_until_idle().await?;
    println!("{} done, {} poisoned", report.done, report.poisoned);
    assert!(current.get(("Sales", "000456")).await?.is_none());
    worker.poison_queue()?.discard(&id).await?;
    Ok(())
}
