//! Bounds what answers take of the memory: pages in the making, and pages on their way.

use crate::error::ApiResult;
use crate::reply::Reply;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Smaller bodies are not counted: they are bounded by the number of connections.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// What one permit of the memory for answers stands for.
const UNIT_BYTES: usize = 1024;

/// The memory for answers.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    /// One for each page in the making, which is bounded by its own limits.
    running: Semaphore,
    /// Finished answers until their clients have taken them.
    finished: Arc<Semaphore>,
    units_max: usize,
}

impl AnswerMemory {
    pub(crate) fn new(running_max: usize, bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT_BYTES).max(1);
        Self {
            running: Semaphore::new(running_max.max(1)),
            finished: Arc::new(Semaphore::new(units_max)),
            units_max,
        }
    }

    /// Runs `operation` when there is room for it, and gives its answer the share it needs. While
    /// an answer waits for its share, no further page is begun in its place.
    pub(crate) async fn hold(
        &self,
        operation: impl Future<Output = ApiResult<Reply>>,
    ) -> ApiResult<Reply> {
        // Neither semaphore is ever closed.
        let _running = self.running.acquire().await;
        let mut reply = operation.await?;
        if reply.body.len() > SMALL_BYTES_MAX {
            let units = reply.body.len().div_ceil(UNIT_BYTES).min(self.units_max);
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            reply.share = self.finished.clone().acquire_many_owned(units).await.ok();
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn large() -> ApiResult<Reply> {
        Ok(Reply { body: vec![0; 100 * 1024], ..Reply::default() })
    }

    #[tokio::test]
    async fn a_large_answer_waits_until_another_is_taken() {
        let memory = AnswerMemory::new(2, 128 * 1024);
        let first = memory.hold(large()).await.unwrap();
        let mut second = std::pin::pin!(memory.hold(large()));
        assert!(futures_poll(second.as_mut()).await.is_none());
        drop(first);
        assert!(futures_poll(second.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn small_answers_take_no_share() {
        let memory = AnswerMemory::new(1, 1);
        let small = async { Ok(Reply { body: vec![0; 1024], ..Reply::default() }) };
        assert!(memory.hold(small).await.unwrap().share.is_none());
    }

    /// Polls once.
    async fn futures_poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            let polled = std::pin::Pin::new(&mut future).poll(cx);
            std::task::Poll::Ready(match polled {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
