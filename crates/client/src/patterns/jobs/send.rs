//! Sends jobs.

use super::Job;
use super::envelope::Envelope;
use crate::blob::Container;
use crate::error::{Error, ErrorKind};
use crate::queue::Queue;
use std::time::Duration;

/// The prefix of the names of job blobs.
const BLOBS: &str = "jobs/";

/// Sends jobs to a queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Jobs {
    queue: Queue,
    large: Option<Container>,
}

impl Jobs {
    /// Jobs of one queue.
    pub fn new(queue: &Queue) -> Self {
        Self { queue: queue.clone(), large: None }
    }

    /// Jobs that do not fit into a message go to blobs `jobs/<id>.json` in this container. Workers need the
    /// same one: [`Worker::large_jobs_in`](super::Worker::large_jobs_in).
    #[must_use]
    pub fn large_jobs_in(mut self, container: &Container) -> Self {
        self.large = Some(container.clone());
        self
    }

    /// Sends a job and returns its id. The message never expires. If the answer is lost, the job may be sent twice.
    pub async fn send<J: Job>(&self, job: &J) -> Result<String, Error> {
        self.send_after(job, Duration::ZERO).await
    }

    /// Sends a job that stays hidden from workers for a while: up to 7 days.
    pub async fn send_after<J: Job>(&self, job: &J, delay: Duration) -> Result<String, Error> {
        let env = &self.queue.account().0.env;
        let job = serde_json::to_value(job)
            .map_err(|error| Error::new(ErrorKind::Body(format!("is not JSON: {error}"))))?;
        let mut envelope = Envelope::new(J::KIND, env.guid(), env.now(), job);
        let mut body = envelope.to_body()?;
        if !Envelope::fits(&body) {
            let Some(container) = &self.large else {
                return Err(Error::new(ErrorKind::TooLarge {
                    bytes: body.len() as u64,
                    bytes_max: 44 * 1024,
                })
                .with(|context| context.hint = Some("large_jobs_in(container)".into())));
            };
            let name = format!("{BLOBS}{}.json", envelope.id);
            let job = envelope.job.take().unwrap_or_default().to_string();
            // Write the blob first: a message without its blob could not be run.
            container.blob(&name)?.put(job).content_type("application/json").await?;
            envelope.blob = Some(name);
            body = envelope.to_body()?;
        }
        self.queue.send(body).delay(delay).never_expires().await?;
        Ok(envelope.id)
    }

    /// Deletes the blobs of jobs that were written more than `age` ago: those left by crashes. A job that is still
    /// waiting loses its blob too, so `age` must be longer than any job waits. Returns the number of blobs.
    pub async fn collect_blobs(&self, age: Duration) -> Result<usize, Error> {
        let Some(container) = &self.large else { return Ok(0) };
        let now = self.queue.account().0.env.now();
        let mut list = container.list().prefix(BLOBS);
        let mut deleted = 0;
        loop {
            let page = list.page().await?;
            for blob in page.blobs {
                let written = blob.last_modified;
                let is_old =
                    written.is_some_and(|at| u128::from(now.millis_since(at)) > age.as_millis());
                if is_old {
                    container.blob(&blob.name)?.delete().await?;
                    deleted += 1;
                }
            }
            match page.next {
                Some(next) => list = list.after(&next),
                None => return Ok(deleted),
            }
        }
    }
}
