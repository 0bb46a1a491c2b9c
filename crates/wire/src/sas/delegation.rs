//! User delegation SAS: a token for a table, signed with a key issued to a directory user.
//!
//! No official client creates such tokens for tables yet. Their string to sign is that of queues
//! with the range of keys appended; if the service chooses another, change it here.

use super::restrictions::parse_time;
use super::terms::ServiceTerms;
use super::{
    Caller, Parse, SasError, TableGrant, TableSas, given, join, optional, verify, write_token,
};
use crate::shared_key::SigningKey;
use crate::uri::Query;
use lazuli_model::Timestamp;

/// The letter of the Table service in `sks`.
pub const DELEGATED_SERVICE: &str = "t";

/// A token signed with a user delegation key.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserDelegationSas<'a> {
    /// What it has in common with every token for a table.
    pub table: TableSas<'a>,
    pub key: UserDelegationKey<'a>,
    /// `skdutid` and `sduoid`: the one user who may use the token, together with a bearer token.
    pub delegate: [&'a str; 2],
}

/// A key and its owner, as the texts that tokens contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserDelegationKey<'a> {
    /// `skoid`
    pub object_id: &'a str,
    /// `sktid`
    pub tenant_id: &'a str,
    /// `skt`
    pub start: &'a str,
    /// `ske`
    pub expiry: &'a str,
    /// `sks`
    pub service: &'a str,
    /// `skv`
    pub version: &'a str,
}

impl<'a> Parse<'a> for UserDelegationSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (key, delegate) = UserDelegationKey::parse(query)?;
        let table = TableSas::parse(query)?;
        // Older forms do not sign sip and spr, so both would be ignored.
        if !table.form()?.has_account_sas() {
            return Err(SasError::Version);
        }
        Ok(Self { table, key, delegate })
    }
}

impl<'a> UserDelegationSas<'a> {
    /// The text a token signs.
    pub fn string_to_sign(&self, account: &str) -> Result<String, SasError> {
        let resource = format!("/table/{account}/{}", self.table.table.to_ascii_lowercase());
        let keys = self.table.keys().map(Option::unwrap_or_default);
        self.key.string_to_sign(&self.table.terms(), &resource, &self.delegate, &keys)
    }

    /// Checks that the user delegation key made the signature.
    pub fn verify(&self, account: &str, key: &SigningKey) -> Result<(), SasError> {
        verify(&self.string_to_sign(account)?, std::slice::from_ref(key), self.table.signature)
    }

    /// What the token permits `caller` now, as far as the owner of the key may grant it. The
    /// signature must have been checked before.
    pub fn grant(&self, caller: &Caller) -> Result<TableGrant, SasError> {
        self.key.check(self.delegate, DELEGATED_SERVICE, caller)?;
        self.table.grant(None, caller)
    }

    /// Signs the token with a user delegation key and returns it as a query string.
    pub fn token(&self, account: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account)?.as_bytes()]);
        let owner = self.key.parameters(self.delegate);
        let parameters: Vec<_> = self.table.parameters().into_iter().chain(owner).collect();
        Ok(write_token(&parameters, &signature))
    }
}

impl<'a> UserDelegationKey<'a> {
    /// The key that a token names, and the one user who may use the token, if it names one.
    pub(super) fn parse(query: &'a Query<'_>) -> Result<(Self, [&'a str; 2]), SasError> {
        // Stored policies complete tokens that an account key signed.
        if query.contains("si") {
            return Err(SasError::Malformed("si"));
        }
        let key = Self {
            object_id: optional(query, "skoid"),
            tenant_id: optional(query, "sktid"),
            start: optional(query, "skt"),
            expiry: optional(query, "ske"),
            service: optional(query, "sks"),
            version: optional(query, "skv"),
        };
        Ok((key, ["skdutid", "sduoid"].map(|name| optional(query, name))))
    }

    /// The text that a token for `resource` signs with the key. `agents` are the users that it names, `more`
    /// are the fields that only some services have (A-7.5, A-13.29, B-3.25).
    pub(super) fn string_to_sign(
        &self,
        terms: &ServiceTerms<'_>,
        resource: &str,
        agents: &[&str],
        more: &[&str],
    ) -> Result<String, SasError> {
        let mut fields = vec![terms.permissions, terms.start, terms.expiry, resource];
        fields.extend([self.object_id, self.tenant_id, self.start, self.expiry]);
        fields.extend([self.service, self.version]);
        fields.extend(agents);
        fields.extend([terms.addresses, terms.protocol, terms.version]);
        fields.extend(more);
        join(&fields)
    }

    /// How a token names the key, and the one user who may use the token.
    pub(super) fn parameters(
        &self,
        [tenant, object]: [&'a str; 2],
    ) -> [(&'static str, Option<&'a str>); 8] {
        [
            ("skoid", given(self.object_id)),
            ("sktid", given(self.tenant_id)),
            ("skt", given(self.start)),
            ("ske", given(self.expiry)),
            ("sks", given(self.service)),
            ("skv", given(self.version)),
            ("skdutid", given(tenant)),
            ("sduoid", given(object)),
        ]
    }

    /// Checks that the key is valid now for the service of this letter, and not bound to one user.
    pub(super) fn check(
        &self,
        delegate: [&str; 2],
        service: &str,
        caller: &Caller,
    ) -> Result<(), SasError> {
        if delegate != [""; 2] {
            return Err(SasError::Malformed("sduoid"));
        }
        let (start, expiry) = self.window()?;
        if caller.now < start {
            return Err(SasError::NotStarted(start));
        }
        if caller.now >= expiry {
            return Err(SasError::Expired(expiry));
        }
        if self.service != service {
            return Err(SasError::Service);
        }
        Ok(())
    }

    /// The validity period of the key, to the second: clients format these times themselves.
    pub fn window(&self) -> Result<(Timestamp, Timestamp), SasError> {
        let second = |time: Timestamp| Timestamp::UNIX_EPOCH.plus_seconds(time.unix_seconds());
        let start = parse_time("skt", self.start)?.ok_or(SasError::Missing("skt"))?;
        let expiry = parse_time("ske", self.expiry)?.ok_or(SasError::Missing("ske"))?;
        Ok((second(start), second(expiry)))
    }
}
