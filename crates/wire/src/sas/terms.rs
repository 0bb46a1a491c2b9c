//! What tokens for a table, a queue and a blob have in common.

use super::restrictions::{AddressRange, Protocol, Restrictions, parse_time};
use super::{Caller, Permissions, SasError, given, join, optional, required};
use crate::uri::Query;
use crate::version::ApiVersion;
use lazuli_model::{AccessPolicy, Timestamp};

/// The texts of the parameters that tokens of services share. Empty means absent.
#[derive(Clone, Copy)]
pub(super) struct ServiceTerms<'a> {
    pub(super) version: &'a str,
    pub(super) start: &'a str,
    pub(super) expiry: &'a str,
    pub(super) permissions: &'a str,
    pub(super) policy: &'a str,
    pub(super) addresses: &'a str,
    pub(super) protocol: &'a str,
}

/// The terms of a token, whichever service it is for: each has these fields.
macro_rules! terms_of {
    ($token:expr) => {
        ServiceTerms {
            version: $token.version,
            start: $token.start,
            expiry: $token.expiry,
            permissions: $token.permissions,
            policy: $token.policy,
            addresses: $token.addresses,
            protocol: $token.protocol,
        }
    };
}
pub(super) use terms_of;

impl<'a> ServiceTerms<'a> {
    /// The terms in a query, and the signature.
    pub(super) fn parse(query: &'a Query<'_>) -> Result<(Self, &'a str), SasError> {
        let terms = Self {
            version: required(query, "sv")?,
            start: optional(query, "st"),
            expiry: optional(query, "se"),
            permissions: optional(query, "sp"),
            policy: optional(query, "si"),
            addresses: optional(query, "sip"),
            protocol: optional(query, "spr"),
        };
        Ok((terms, required(query, "sig")?))
    }

    /// The parameters in the URL.
    pub(super) fn parameters(&self) -> [(&'static str, Option<&'a str>); 7] {
        [
            ("sv", given(self.version)),
            ("st", given(self.start)),
            ("se", given(self.expiry)),
            ("sp", given(self.permissions)),
            ("si", given(self.policy)),
            ("sip", given(self.addresses)),
            ("spr", given(self.protocol)),
        ]
    }

    /// The text that a token for `resource` of an account signs, by its version, with the fields that only
    /// some services have at its end.
    pub(super) fn string_to_sign(
        &self,
        service: &str,
        account: &str,
        resource: &str,
        more: &[&str],
    ) -> Result<String, SasError> {
        let version = self.form()?;
        let prefix = if version.signs_service_prefix() { service } else { "" };
        let resource = format!("{prefix}/{account}/{resource}");
        let mut fields =
            vec![self.permissions, self.start, self.expiry, resource.as_str(), self.policy];
        if version.has_account_sas() {
            fields.extend([self.addresses, self.protocol]);
        }
        fields.push(self.version);
        fields.extend(more);
        join(&fields)
    }

    /// The version, if tokens for one table or queue existed then.
    pub(super) fn form(&self) -> Result<ApiVersion, SasError> {
        let version = ApiVersion::parse(self.version).ok_or(SasError::Version)?;
        if version >= ApiVersion::ACCESS_POLICIES { Ok(version) } else { Err(SasError::Version) }
    }

    /// What the token permits `caller` now. `policy` is the stored policy that the token names, if there
    /// is one; `letters` parses the letters of the service.
    pub(super) fn grant(
        &self,
        policy: Option<&AccessPolicy>,
        caller: &Caller,
        letters: fn(&str) -> Option<Permissions>,
    ) -> Result<Permissions, SasError> {
        let terms = self.terms(policy, letters)?;
        // Older tokens do not sign these two: the holder could have added or removed them.
        let signs_both = self.form()?.has_account_sas();
        let (addresses, protocol) =
            if signs_both { (self.addresses, self.protocol) } else { ("", "") };
        let restrictions = Restrictions {
            start: terms.start,
            expiry: terms.expiry,
            protocol: Protocol::parse(protocol)?,
            addresses: AddressRange::parse(addresses)?,
        };
        restrictions.check(caller)?;
        Ok(terms.permissions)
    }

    /// Start, expiry and permission, each from the token or from the stored policy, never from
    /// both; the latter two are required.
    fn terms(
        &self,
        policy: Option<&AccessPolicy>,
        letters: fn(&str) -> Option<Permissions>,
    ) -> Result<Terms, SasError> {
        let policy = match (self.policy, policy) {
            ("", _) => None,
            (name, Some(policy)) if policy.id == name => Some(policy),
            _ => return Err(SasError::UnknownPolicy),
        };
        let permissions = match self.permissions {
            "" => None,
            text => Some(letters(text).ok_or(SasError::Malformed("sp"))?),
        };
        let stored =
            policy.and_then(|policy| policy.permissions.as_deref()).map(Permissions::parse);
        let start = parse_time("st", self.start)?;
        let expiry = parse_time("se", self.expiry)?;
        Ok(Terms {
            start: one_of("st", start, policy.and_then(|policy| policy.start))?,
            expiry: one_of("se", expiry, policy.and_then(|policy| policy.expiry))?
                .ok_or(SasError::Missing("se"))?,
            permissions: one_of("sp", permissions, stored)?.ok_or(SasError::Missing("sp"))?,
        })
    }
}

struct Terms {
    start: Option<Timestamp>,
    expiry: Timestamp,
    permissions: Permissions,
}

fn one_of<T>(
    name: &'static str,
    in_token: Option<T>,
    in_policy: Option<T>,
) -> Result<Option<T>, SasError> {
    match (in_token, in_policy) {
        (Some(_), Some(_)) => Err(SasError::GivenTwice(name)),
        (in_token, in_policy) => Ok(in_token.or(in_policy)),
    }
}
