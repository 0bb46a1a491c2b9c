//! Steps that bear repetition, and jobs too large for a message (P-3.1, P-3.5).

use lazuli_client::AccountBuilder;
use lazuli_client::patterns::jobs::{Job, JobError, Jobs, Run, Worker};
use lazuli_client::prelude::*;
use lazuli_test::{Azurite, TestClock, TestServer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Steps {
    text: String,
}

#[derive(Clone, Default)]
struct Effects(Arc<AtomicU32>);

impl Job for Steps {
    const KIND: &'static str = "steps";
    type Context = (Effects, Table);

    async fn run(&self, (effects, table): &(Effects, Table), run: &Run) -> Result<(), JobError> {
        let mail = async {
            effects.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        run.once("mail", mail).await?;
        run.delete_if_present(table, ("p", "gone")).await?;
        run.upsert(table, &Entity::new("p", "r").with("Length", self.text.len() as i32)).await
    }
}

#[tokio::test]
async fn steps_bear_to_be_done_twice() {
    // P-3.5: every message delivered twice.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let table = account.tables().create("Steps").await.unwrap();
    let queue = account.queues().create_if_missing("steps").await.unwrap();
    let effects = Effects::default();
    let worker = Worker::new(&queue).job::<Steps>((effects.clone(), table.clone())).deliver_twice();
    Jobs::new(&queue).send(&Steps { text: "x".into() }).await.unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().done, 1);
    assert_eq!(effects.0.load(Ordering::Relaxed), 1);
    assert_eq!(table.get(("p", "r")).required().await.unwrap().get("Length"), Ok(1));
    let too_large = Steps { text: "x".repeat(50_000) };
    let error = Jobs::new(&queue).send(&too_large).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_large_job_lies_in_a_blob_until_it_is_done() {
    // P-3.1.
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let clock = TestClock::default();
    let builder = AccountBuilder::from_connection_string(&azurite.connection_string()).unwrap();
    let account = builder.env(clock.env()).build().unwrap();
    let table = account.tables().create("Steps").await.unwrap();
    let queue = account.queues().create_if_missing("steps").await.unwrap();
    let container = account.blobs().create_if_missing("large").await.unwrap();
    let jobs = Jobs::new(&queue).large_jobs_in(&container);
    jobs.send(&Steps { text: "x".repeat(200_000) }).await.unwrap();
    let blobs = || async { container.list().at_most(10).await.unwrap().blobs };
    assert_eq!(blobs().await.len(), 1);
    let worker = || Worker::new(&queue).job::<Steps>((Effects::default(), table.clone()));
    let report = worker().large_jobs_in(&container).run_until_idle().await.unwrap();
    assert_eq!((report.done, blobs().await), (1, Vec::new()));
    assert_eq!(table.get(("p", "r")).required().await.unwrap().get("Length"), Ok(200_000));

    // A blob without its message is collected by age.
    container.blob("jobs/left.json").unwrap().put("{}").await.unwrap();
    assert_eq!(jobs.collect_blobs(Duration::from_secs(3600)).await.unwrap(), 0);
    clock.advance(Duration::from_secs(3700));
    assert_eq!(jobs.collect_blobs(Duration::from_secs(3600)).await.unwrap(), 1);
}
