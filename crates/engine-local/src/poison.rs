//! Why an engine refuses writes, if it does.

use std::fmt;
use std::sync::OnceLock;

/// Set once, by the first failed write or sync; only reopening the directory clears it.
pub(crate) struct Poison {
    reason: OnceLock<String>,
    on_set: Box<dyn Fn() + Send + Sync>,
}

impl Poison {
    /// Calls `on_set` once, when the reason is set.
    pub(crate) fn new(on_set: impl Fn() + Send + Sync + 'static) -> Self {
        Self { reason: OnceLock::new(), on_set: Box::new(on_set) }
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Sets the reason unless there is one. From here on writes are refused, even if the log line
    /// is lost. Returns the reason in force.
    pub(crate) fn set(&self, reason: String) -> &str {
        let mut is_first = false;
        let reason = self.reason.get_or_init(|| {
            is_first = true;
            reason
        });
        if is_first {
            (self.on_set)();
            tracing::error!("{reason}");
        }
        reason
    }
}

impl fmt::Debug for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Poison").field(&self.get()).finish()
    }
}
