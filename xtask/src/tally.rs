//! How many cases passed, failed and were skipped.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

impl Tally {
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub(crate) const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub(crate) const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// A run in which no test ran is a failure.
    pub(crate) const fn is_success(self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The tally of a program that printed `self`: a program that ended with an error has failed
    /// somewhere, and one that ran no case has not passed.
    pub(crate) fn confirmed(mut self, succeeded: bool) -> Self {
        if self.failed == 0 && (!succeeded || self.passed + self.skipped == 0) {
            self.failed = 1;
        }
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_names_skips_only_when_there_are_some() {
        assert_eq!(Tally::PASSED.to_string(), "1 passed, 0 failed");
        let mut tally = Tally::FAILED;
        tally += Tally::SKIPPED;
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_program_that_dies_or_runs_nothing_has_failed() {
        assert_eq!(Tally::PASSED.confirmed(true), Tally::PASSED);
        assert_eq!(Tally::PASSED.confirmed(false).failed, 1);
        assert_eq!(Tally::default().confirmed(true), Tally::FAILED);
        assert_eq!(Tally::FAILED.confirmed(false), Tally::FAILED);
        assert!(!Tally::SKIPPED.is_success());
    }
}
