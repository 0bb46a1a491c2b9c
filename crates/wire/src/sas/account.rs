//! Account SAS: a token for services of an account and types of resources in them.

use super::restrictions::{AddressRange, Protocol, Restrictions, parse_time};
use super::{
    Caller, Permissions, ResourceTypes, SasError, given, join, optional, required, verify,
    write_token,
};
use crate::shared_key::SigningKey;
use crate::uri::Query;
use crate::version::ApiVersion;

/// A token for an account: the texts of its parameters, decoded. Empty means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccountSas<'a> {
    /// `sv`
    pub version: &'a str,
    /// `ss`: letters of `bqtf`.
    pub services: &'a str,
    /// `srt`: letters of `sco`.
    pub resource_types: &'a str,
    /// `sp`
    pub permissions: &'a str,
    /// `st`
    pub start: &'a str,
    /// `se`
    pub expiry: &'a str,
    /// `sip`
    pub addresses: &'a str,
    /// `spr`
    pub protocol: &'a str,
    /// `ses`
    pub encryption_scope: &'a str,
    /// `sig`; empty in a token not yet signed.
    pub signature: &'a str,
}

/// What a valid token for an account permits in one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountGrant {
    resource_types: ResourceTypes,
    permissions: Permissions,
    reaches_queues: bool,
}

impl<'a> AccountSas<'a> {
    pub(super) fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        // A stored policy belongs to a table, so a token for an account cannot name one.
        if query.contains("si") {
            return Err(SasError::Malformed("si"));
        }
        let sas = Self {
            version: required(query, "sv")?,
            services: required(query, "ss")?,
            resource_types: required(query, "srt")?,
            permissions: required(query, "sp")?,
            start: optional(query, "st"),
            expiry: required(query, "se")?,
            addresses: optional(query, "sip"),
            protocol: optional(query, "spr"),
            encryption_scope: optional(query, "ses"),
            signature: required(query, "sig")?,
        };
        sas.form()?;
        Ok(sas)
    }

    /// The text a token signs, by its version; it ends with a line feed.
    pub fn string_to_sign(&self, account: &str) -> Result<String, SasError> {
        let version = self.form()?;
        let mut fields = vec![
            account,
            self.permissions,
            self.services,
            self.resource_types,
            self.start,
            self.expiry,
            self.addresses,
            self.protocol,
            self.version,
        ];
        if version.signs_encryption_scope() {
            fields.push(self.encryption_scope);
        }
        fields.push("");
        join(&fields)
    }

    /// Checks that a key of the account made the signature.
    pub fn verify(&self, account: &str, keys: &[SigningKey]) -> Result<(), SasError> {
        verify(&self.string_to_sign(account)?, keys, self.signature)
    }

    /// What the token permits `caller` now in the service that `letter` names. Check the signature
    /// first.
    pub fn grant(&self, caller: &Caller, letter: char) -> Result<AccountGrant, SasError> {
        let restrictions = Restrictions {
            start: parse_time("st", self.start)?,
            expiry: parse_time("se", self.expiry)?.ok_or(SasError::Missing("se"))?,
            protocol: Protocol::parse(self.protocol)?,
            addresses: AddressRange::parse(self.addresses)?,
        };
        restrictions.check(caller)?;
        if !self.services.contains(letter) {
            return Err(SasError::Service);
        }
        Ok(AccountGrant {
            resource_types: ResourceTypes::parse(self.resource_types),
            permissions: Permissions::parse(self.permissions),
            reaches_queues: self.services.contains('q'),
        })
    }

    /// Signs the token and returns it as a query string.
    pub fn token(&self, account: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account)?.as_bytes()]);
        let parameters = [
            ("sv", given(self.version)),
            ("ss", given(self.services)),
            ("srt", given(self.resource_types)),
            ("sp", given(self.permissions)),
            ("st", given(self.start)),
            ("se", given(self.expiry)),
            ("sip", given(self.addresses)),
            ("spr", given(self.protocol)),
            ("ses", given(self.encryption_scope)),
        ];
        Ok(write_token(&parameters, &signature))
    }

    /// The version, if tokens for accounts existed then.
    fn form(&self) -> Result<ApiVersion, SasError> {
        let version = ApiVersion::parse(self.version).ok_or(SasError::Version)?;
        if version.has_account_sas() { Ok(version) } else { Err(SasError::Version) }
    }
}

impl AccountGrant {
    pub fn resource_types(&self) -> ResourceTypes {
        self.resource_types
    }

    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// Whether the token is for the Queue service too.
    pub fn reaches_queues(&self) -> bool {
        self.reaches_queues
    }

    /// Whether the token is for one of `types`, and has one of the sets of permissions. (Create
    /// Table, for one, takes either of two letters.)
    pub fn check(&self, types: ResourceTypes, any_of: &[Permissions]) -> Result<(), SasError> {
        if !self.resource_types.intersects(types) {
            return Err(SasError::ResourceType);
        }
        let permitted = any_of.iter().any(|set| self.permissions.contains(*set));
        if permitted { Ok(()) } else { Err(SasError::Permission) }
    }
}
