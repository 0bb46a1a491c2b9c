//! Reads that may wait for ever, aside, so that Ctrl-C still ends the command.

use anyhow::{Context, Result};
use tokio::sync::mpsc;

/// Items that are read before they are needed.
const AHEAD_MAX: usize = 256;

/// Runs `work`, which blocks, on a thread of its own.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("read aside")
}

/// The items of an iterator that blocks, read on a thread of its own, some ahead.
pub(crate) fn ahead<T: Send + 'static, I: Iterator<Item = T>>(
    make: impl FnOnce() -> I + Send + 'static,
) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel(AHEAD_MAX);
    tokio::task::spawn_blocking(move || {
        for item in make() {
            if sender.blocking_send(item).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn items_come_in_order_and_reading_ends_with_the_reader() {
        let mut numbers = ahead(|| 0_u64..);
        for expect in 0..1000 {
            assert_eq!(numbers.recv().await, Some(expect));
        }
        drop(numbers);
        assert_eq!(aside(|| 7).await.unwrap(), 7);
    }
}
