//! The faults of requests to the Table service that the lenient profile tolerates.
//!
//! `docs/portability.md` documents them for users.

use crate::error::ApiResult;
use crate::http::profile::Tolerance;
use lazuli_model::{EntityError, PropertyLimits, Value};
use std::borrow::Cow;

/// Declares the faults, and a table of all of them.
macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident $rule:literal)*) => {
        /// A fault that the lenient profile tolerates.
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
    /// with non-strings, or names with other characters.
    FilterDialect "TR-3, TR-4, TR-22, TR-26"
    /// `$top` over 1000: served as 1000.
    TopTooLarge "TR-16"
    /// An OData option that the service does not support, such as `$orderby`: ignored.
    UnsupportedOption "T-1.36, T-4.46"
    /// An empty `NextRowKey`: as if it were absent.
    EmptyContinuation "TR-20"
    /// More than 252 properties.
    TooManyProperties "TR-29"
    /// A property name that is not an identifier, or is longer than 255 characters.
    PropertyName "TR-30"
    /// A date before 1601.
    EarlyDate "TR-36"
    /// A batch across partitions of one table: still applied atomically.
    SeveralPartitions "TR-69"
    /// `Accept: */*` on Set Table ACL.
    WildcardAccept "TR-87"
    /// `If-Match` or `If-None-Match` on a table, which has no etag: ignored.
    ConditionOnTable "T-5.11"
}

impl Tolerance {
    /// The limits on the properties of a request.
    pub(crate) fn property_limits(
        &self,
        pairs: &[(Cow<'_, str>, Value<'_>)],
    ) -> ApiResult<PropertyLimits> {
        if !self.is_lenient() {
            return Ok(PropertyLimits::Service);
        }
        match PropertyLimits::Service.check(pairs) {
            Ok(()) => Ok(PropertyLimits::Service),
            Err(error) => self.tolerate_properties(error),
        }
    }

    /// Continues with the limits of storage if only the service's limits are violated.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::profile::Profile;

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
