//! What emulators let pass and Azure refuses: refused here too, or let pass and marked.
//!
//! In the lenient profile a request that Azure would refuse for one of the faults below is served as
//! an emulator serves it, and its answer says what Azure would have answered. What would weaken a
//! promise of ours (atomicity, conditions, authentication, size) is tolerated in no profile.
//! `docs/portability.md` tells users the same.

use crate::http::error::{ApiError, ApiResult};
use lazuli_model::{EntityError, PropertyLimits, Value};
use lazuli_wire::error_code::ErrorCode;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Whose rules requests must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Those of the cloud.
    #[default]
    Azure,
    /// Those of an emulator; answers that the cloud would have refused are marked.
    Lenient,
}

/// Declares the faults and the table of them.
macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident $rule:literal)*) => {
        /// A fault that the lenient profile lets pass.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($(#[$doc])* $variant,)*
        }

        impl Fault {
            /// Every fault with the rule it breaks.
            #[cfg(test)]
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $rule),)*];
        }
    };
}

faults! {
    /// A `$filter` with operators or literals in another case, double quotes, `null`, keys compared
    /// with what is no string, or names with other marks in them.
    FilterDialect "TR-3, TR-4, TR-22, TR-26"
    /// `$top` over 1000: served as 1000.
    TopTooLarge "TR-16"
    /// An OData option that the service does not have, such as `$orderby`: passed over.
    UnsupportedOption "T-1.36, T-4.46"
    /// An empty `NextRowKey`: as if it were absent.
    EmptyContinuation "TR-20"
    /// More than 252 properties.
    TooManyProperties "TR-29"
    /// A property name that is no identifier, or longer than 255 characters.
    PropertyName "TR-30"
    /// A date before 1601.
    EarlyDate "TR-36"
    /// A batch across partitions of one table: still applied all or nothing.
    SeveralPartitions "TR-69"
    /// `Accept: */*` on Set Table ACL.
    WildcardAccept "TR-87"
    /// `If-Match` or `If-None-Match` on a table, which has no etag: passed over.
    ConditionOnTable "T-5.11"
}

/// The profile of one request, and the first fault that was let pass.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    profile: Profile,
    /// The code that Azure would have answered with.
    would_fail: OnceLock<ErrorCode>,
}

impl Tolerance {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, would_fail: OnceLock::new() }
    }

    /// Fails with `error`, or in the lenient profile goes on with what `instead` gives, if anything.
    pub(crate) fn tolerate<T>(
        &self,
        fault: Fault,
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

    /// The limits that the properties of a request must keep.
    pub(crate) fn property_limits(
        &self,
        pairs: &[(Cow<'_, str>, Value<'_>)],
    ) -> ApiResult<PropertyLimits> {
        if self.profile == Profile::Azure {
            return Ok(PropertyLimits::Service);
        }
        match PropertyLimits::Service.check(pairs) {
            Ok(()) => Ok(PropertyLimits::Service),
            Err(error) => self.tolerate_properties(error),
        }
    }

    /// Goes on with the limits of storage when `error` is of the service's alone.
    pub(crate) fn tolerate_properties(&self, error: EntityError) -> ApiResult<PropertyLimits> {
        let fault = match &error {
            EntityError::TooManyProperties => Fault::TooManyProperties,
            EntityError::PropertyNameTooLong | EntityError::PropertyNameInvalid => {
                Fault::PropertyName
            }
            EntityError::DateOutOfRange { .. } => Fault::EarlyDate,
            EntityError::DuplicateProperty
            | EntityError::PropertyValueTooLarge
            | EntityError::EntityTooLarge => return Err(error.into()),
        };
        self.tolerate(fault, error.into(), || Some(PropertyLimits::Storage))
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.profile == Profile::Lenient
    }

    /// What Azure would have answered with, if something was let pass.
    pub(crate) fn would_fail(&self) -> Option<ErrorCode> {
        self.would_fail.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerate(tolerance: &Tolerance, code: ErrorCode, instead: Option<u8>) -> Option<u8> {
        tolerance.tolerate(Fault::TopTooLarge, code.into(), || instead).ok()
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

    #[test]
    fn limits_that_protect_storage_stay() {
        let lenient = Tolerance::new(Profile::Lenient);
        for error in [
            EntityError::EntityTooLarge,
            EntityError::PropertyValueTooLarge,
            EntityError::DuplicateProperty,
        ] {
            assert!(lenient.tolerate_properties(error).is_err());
        }
        let limits = lenient.tolerate_properties(EntityError::TooManyProperties);
        assert_eq!(limits.ok(), Some(PropertyLimits::Storage));
    }

    #[test]
    fn every_fault_is_documented() {
        let page = include_str!("../../../../docs/portability.md");
        for (fault, rules) in Fault::ALL {
            assert!(page.contains(rules), "{fault:?}: {rules}");
        }
    }
}
