//! What a process does with its engine besides requests: it checks its health, tends it and closes it.
//!
//! These faults have their own generator, so that the requests of a seed stay the same.

use super::{FaultyEngine, Line};
use lazuli_engine::{Commit, CommitError, Engine, EngineError, Key, Reclaimed, Revision, Write};
use std::sync::PoisonError;

/// Attempts to close an engine.
const CLOSES_MAX: usize = 100;

impl Line {
    /// Fails with this probability per thousand, while faults are on.
    pub(super) fn fail_upkeep(&self, rate: usize) -> Result<(), EngineError> {
        let mut random = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        match random.below(1000) < rate && self.is_bad() {
            true => Err(EngineError::Unavailable("the line is dead".to_owned())),
            false => Ok(()),
        }
    }
}

impl FaultyEngine {
    /// Checks the engine's health and tends it, as a server sometimes does. Either may fail, which a
    /// server must survive; without faults neither does.
    pub(in crate::simulation) async fn look_after(&self) -> Result<(), String> {
        let healthy = self.health().await;
        let tended = self.tend().await;
        let fails = healthy.is_err() || tended.is_err();
        match (healthy, tended) {
            _ if fails && self.line.is_bad() => Ok(()),
            (Ok(()), Ok(Reclaimed::Fully | Reclaimed::Partly)) => Ok(()),
            failed => Err(format!("upkeep fails without a fault: {failed:?}")),
        }
    }

    /// Closes the engine while faults are on, with as many attempts as needed; afterwards it takes no
    /// commits.
    pub(in crate::simulation) async fn end(&self) -> Result<(), String> {
        self.look_after().await?;
        self.break_things(true);
        let mut closes = 0;
        while let Err(error) = self.close().await {
            closes += 1;
            if closes == CLOSES_MAX {
                return Err(format!("the engine does not close: {error}"));
            }
        }
        self.break_things(false);
        let write = Write::Put(Key::from(b"Lafter the end".to_vec()), "x".into());
        let answer = self.commit(Commit::new(Revision(0), vec![write])).await;
        match (self.health().await, answer) {
            (
                Err(EngineError::Unavailable(_)),
                Err(CommitError::Engine(EngineError::Unavailable(_))),
            ) => Ok(()),
            others => Err(format!("a closed engine answers {others:?}")),
        }
    }
}
