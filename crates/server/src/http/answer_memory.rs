//! Bounds the memory of responses: pages being built, and pages being sent.

use crate::error::ApiResult;
use crate::http::memory::{Memory, Share};
use crate::http::reply::Reply;
use lazuli_meter::Counter;
use std::future::Future;
use std::time::Duration;

/// Smaller bodies are not counted: the connection limit bounds them.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// The memory budget for responses.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    memory: Memory,
    /// The initial reservation of a response; most pages stay below it.
    page_bytes: usize,
    /// Pages refused for lack of memory; `memory` counts all refusals.
    pages_refused: Counter,
}

impl AnswerMemory {
    pub(crate) fn new(running_max: usize, bytes_max: usize, wait_max: Duration) -> Self {
        let page_bytes = bytes_max / running_max.max(1);
        let memory = Memory::new(bytes_max, wait_max);
        Self { memory, page_bytes, pages_refused: Counter::default() }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How often a query was refused for lack of memory.
    pub(crate) fn pages_refused(&self) -> u64 {
        self.pages_refused.value()
    }

    /// Runs `query` once there is memory for a page, which keeps its reservation until the client
    /// has read it.
    pub(crate) async fn hold_page(
        &self,
        query: impl Future<Output = ApiResult<Reply>>,
    ) -> ApiResult<Reply> {
        let share = self.memory.take(self.page_bytes).await;
        let share = share.inspect_err(|_| self.pages_refused.increment())?;
        self.run(share, query).await
    }

    /// Runs `operation` once there is memory for its response: `bytes`, or a page if that is less.
    /// All waiting happens before the operation, so a completed operation always gets its response.
    pub(crate) async fn hold(
        &self,
        bytes: usize,
        operation: impl Future<Output = ApiResult<Reply>>,
    ) -> ApiResult<Reply> {
        let share = self.memory.take(bytes.min(self.page_bytes)).await?;
        self.run(share, operation).await
    }

    async fn run(
        &self,
        share: Share,
        operation: impl Future<Output = ApiResult<Reply>>,
    ) -> ApiResult<Reply> {
        let mut reply = operation.await?;
        if reply.body.len() > SMALL_BYTES_MAX {
            reply.share = Some(self.memory.fit(share, reply.body.len()));
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_wire::error_code::ErrorCode;

    const PAGE_BYTES: usize = 100 * 1024;

    fn memory(pages: usize) -> AnswerMemory {
        AnswerMemory::new(pages, pages * PAGE_BYTES, Duration::from_secs(10))
    }

    async fn large() -> ApiResult<Reply> {
        Ok(Reply { body: vec![0; PAGE_BYTES], ..Reply::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_begun_when_another_is_taken() {
        let memory = memory(2);
        let (first, _second) =
            (memory.hold_page(large()).await.unwrap(), memory.hold_page(large()).await.unwrap());
        let (third, ()) = tokio::join!(memory.hold_page(large()), async { drop(first) });
        assert!(third.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_finds_no_room_is_not_begun() {
        let memory = memory(1);
        let _untaken = memory.hold_page(large()).await.unwrap();
        let begun = async { panic!("there is no room for it") };
        assert_eq!(memory.hold_page(begun).await.unwrap_err().code, ErrorCode::ServerBusy);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_known_to_be_smaller_share_the_room_of_a_page() {
        let (memory, both) = (memory(1), tokio::sync::Barrier::new(2));
        let half = || {
            memory.hold(PAGE_BYTES / 2, async {
                both.wait().await;
                Ok(Reply::default())
            })
        };
        let (first, second) = tokio::join!(half(), half());
        assert!(first.is_ok() && second.is_ok());
    }

    #[tokio::test]
    async fn small_answers_keep_no_share() {
        let memory = memory(1);
        let small = async { Ok(Reply { body: vec![0; 1024], ..Reply::default() }) };
        assert!(memory.hold_page(small).await.unwrap().share.is_none());
        assert!(memory.hold_page(large()).await.unwrap().share.is_some());
    }
}
