//! Requests that emulators accept and Azure refuses: refused too, or accepted and marked.
//!
//! In the lenient profile a request with one of the faults that a service lists is served as an
//! emulator does, and its response says what Azure would have returned. Faults that would weaken a
//! promise of ours (atomicity, conditions, authentication, size) are tolerated in no profile.

use crate::error::{ApiError, ApiResult};
use lazuli_wire::error_code::ErrorCode;
use std::fmt;
use std::sync::OnceLock;

/// Which rules apply to requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Azure's rules.
    #[default]
    Azure,
    /// An emulator's rules; responses to requests that Azure would have refused are marked.
    Lenient,
}

/// The profile of one request, and the first tolerated fault.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    profile: Profile,
    /// The code that Azure would have returned.
    would_fail: OnceLock<ErrorCode>,
}

impl Tolerance {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, would_fail: OnceLock::new() }
    }

    /// Fails with `error`, or in the lenient profile continues with the result of `instead`, if
    /// any.
    pub(crate) fn tolerate<T>(
        &self,
        fault: impl fmt::Debug,
        error: ApiError,
        instead: impl FnOnce() -> Option<T>,
    ) -> ApiResult<T> {
        if self.profile == Profile::Azure {
            return Err(error);
        }
        let Some(value) = instead() else { return Err(error) };
        tracing::debug!(?fault, code = error.code.name(), "let pass what Azure would refuse");
        self.would_fail.get_or_init(|| error.code);
        Ok(value)
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.profile == Profile::Lenient
    }

    /// What Azure would have returned, if a fault was tolerated.
    pub(crate) fn would_fail(&self) -> Option<ErrorCode> {
        self.would_fail.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerate(tolerance: &Tolerance, code: ErrorCode, instead: Option<u8>) -> Option<u8> {
        tolerance.tolerate("a fault", code.into(), || instead).ok()
    }

    #[test]
    fn azure_tolerates_nothing() {
        let azure = Tolerance::default();
        assert_eq!(tolerate(&azure, ErrorCode::InvalidInput, Some(1)), None);
        assert_eq!(azure.would_fail(), None);
    }

    #[test]
    fn the_first_fault_let_pass_is_remembered() {
        let lenient = Tolerance::new(Profile::Lenient);
        assert_eq!(tolerate(&lenient, ErrorCode::InvalidInput, None), None);
        assert_eq!(lenient.would_fail(), None);
        assert_eq!(tolerate(&lenient, ErrorCode::NotImplemented, Some(1)), Some(1));
        assert_eq!(tolerate(&lenient, ErrorCode::InvalidInput, Some(2)), Some(2));
        assert_eq!(lenient.would_fail(), Some(ErrorCode::NotImplemented));
    }
}
