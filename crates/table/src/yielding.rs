//! Lets other tasks run, whatever the runtime.

use std::future::poll_fn;
use std::task::Poll;

/// Gives way once. A long scan calls it between chunks, so that one query does not hold a thread.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
