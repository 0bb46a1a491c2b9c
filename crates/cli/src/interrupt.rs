//! Ctrl-C: the first ends a long command cleanly, the second at once (O-9.5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Whether the user has asked to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    ends_in_order: Arc<AtomicBool>,
    asked: Arc<watch::Sender<bool>>,
}

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self { ends_in_order: Arc::default(), asked: Arc::new(watch::Sender::new(false)) }
    }

    /// From now on, the command checks [`Interrupt::is_asked`] and ends by itself.
    pub(crate) fn end_in_order(&self) {
        self.ends_in_order.store(true, Ordering::Relaxed);
    }

    /// Whether the user has asked to stop.
    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// The outcome of `work`; `None` if the user asks to stop first.
    pub(crate) async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut asked = self.asked.subscribe();
        tokio::select! {
            outcome = work => Some(outcome),
            _ = asked.wait_for(|asked| *asked) => None,
        }
    }

    /// Completes when the command must end at once.
    pub(crate) async fn wait(&self) {
        loop {
            if tokio::signal::ctrl_c().await.is_err() {
                return std::future::pending().await;
            }
            if self.is_asked() || !self.ends_in_order.load(Ordering::Relaxed) {
                return;
            }
            self.asked.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_ends_when_the_user_asks() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.or(std::future::ready(1)).await, Some(1));
        interrupt.asked.send_replace(true);
        assert!(interrupt.is_asked());
        assert_eq!(interrupt.or(std::future::pending::<()>()).await, None);
    }
}
