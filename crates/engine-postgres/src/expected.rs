//! The combined expectation of all checks on one key, and revisions as the database counts them.

use lazuli_engine::{Expect, Revision};

/// The combined expectation of all checks on one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expected {
    #[default]
    Anything,
    This(Expect),
    /// The checks contradict each other.
    Never,
}

impl Expected {
    pub(crate) fn and(self, expect: Expect) -> Self {
        match (self, expect) {
            (Self::Anything, expect) => Self::This(expect),
            (Self::This(given), expect) if given == expect => self,
            (Self::This(Expect::Present), Expect::At(at))
            | (Self::This(Expect::At(at)), Expect::Present) => Self::This(Expect::At(at)),
            _ => Self::Never,
        }
    }

    /// The code that `lazuli_commit` uses for it, and its revision.
    pub(crate) fn code(self) -> (Option<i16>, i64) {
        match self {
            Self::Anything => (None, 0),
            Self::This(Expect::Absent) => (Some(0), 0),
            Self::This(Expect::Present) => (Some(1), 0),
            Self::This(Expect::At(at)) => (Some(2), number(at)),
            Self::Never => (Some(3), 0),
        }
    }
}

/// A revision as the database stores it. No real revision reaches the largest number, which stands for
/// those that do not fit.
pub(crate) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

pub(crate) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Expect::{Absent, At, Present};

    #[test]
    fn checks_of_one_key_expect_the_strictest_of_them() {
        let all = |expects: &[Expect]| {
            expects.iter().fold(Expected::Anything, |all, expect| all.and(*expect))
        };
        let at = At(Revision(7));
        assert_eq!(all(&[]), Expected::Anything);
        assert_eq!(all(&[Present, at, Present]), Expected::This(at));
        assert_eq!(all(&[Absent, Absent]), Expected::This(Absent));
        for never in [&[Absent, Present], &[Absent, at], &[at, At(Revision(8))]] {
            assert_eq!(all(never), Expected::Never);
            assert_eq!(all(&[never.as_slice(), &[Present]].concat()), Expected::Never);
        }
    }
}
