//! Service SAS for tables: a token for one table, or a range of its entities.

use super::terms::{ServiceTerms, terms_of};
use super::{Caller, Parse, Permissions, SasError, given, required, verify, write_token};
use crate::shared_key::SigningKey;
use crate::uri::Query;
use crate::version::ApiVersion;
use lazuli_model::AccessPolicy;
use lazuli_model::key::compare;
use std::cmp::Ordering;

/// A token for a table: the texts of its parameters, decoded. Empty means absent, except for the
/// keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSas<'a> {
    /// `sv`
    pub version: &'a str,
    /// `tn`, in any case.
    pub table: &'a str,
    /// `st`
    pub start: &'a str,
    /// `se`
    pub expiry: &'a str,
    /// `sp`
    pub permissions: &'a str,
    /// `si`: the stored access policy that completes the token.
    pub policy: &'a str,
    /// `sip`
    pub addresses: &'a str,
    /// `spr`
    pub protocol: &'a str,
    /// `spk`; likewise the next three are `srk`, `epk` and `erk`.
    pub start_partition_key: Option<&'a str>,
    pub start_row_key: Option<&'a str>,
    pub end_partition_key: Option<&'a str>,
    pub end_row_key: Option<&'a str>,
    /// `sig`; empty in a token not yet signed.
    pub signature: &'a str,
}

/// What a valid token for a table permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableGrant {
    /// In lower case.
    table: String,
    permissions: Permissions,
    range: KeyRange,
}

/// A range of entities by key, ends included. A row key that is absent leaves its end open within
/// the partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Option<(String, Option<String>)>,
    pub end: Option<(String, Option<String>)>,
}

impl<'a> Parse<'a> for TableSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (terms, signature) = ServiceTerms::parse(query)?;
        let table = required(query, "tn")?;
        terms.form()?;
        let ServiceTerms { version, start, expiry, permissions, policy, addresses, protocol } =
            terms;
        Ok(Self {
            version,
            table,
            start,
            expiry,
            permissions,
            policy,
            addresses,
            protocol,
            start_partition_key: query.get("spk"),
            start_row_key: query.get("srk"),
            end_partition_key: query.get("epk"),
            end_row_key: query.get("erk"),
            signature,
        })
    }
}

impl<'a> TableSas<'a> {
    /// The text a token signs, by its version.
    pub fn string_to_sign(&self, account: &str) -> Result<String, SasError> {
        let keys = self.keys().map(Option::unwrap_or_default);
        self.terms().string_to_sign("/table", account, &self.table.to_ascii_lowercase(), &keys)
    }

    /// Checks that a key of the account made the signature.
    pub fn verify(&self, account: &str, keys: &[SigningKey]) -> Result<(), SasError> {
        verify(&self.string_to_sign(account)?, keys, self.signature)
    }

    /// What the token permits `caller` now. `policy` is the stored one of the name in
    /// [`TableSas::policy`], if the table has it. The signature must have been checked before.
    pub fn grant(
        &self,
        policy: Option<&AccessPolicy>,
        caller: &Caller,
    ) -> Result<TableGrant, SasError> {
        let range = self.key_range()?;
        let permissions = self.terms().grant(policy, caller, Permissions::parse_ordered)?;
        Ok(TableGrant { table: self.table.to_ascii_lowercase(), permissions, range })
    }

    /// Signs the token and returns it as a query string.
    pub fn token(&self, account: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account)?.as_bytes()]);
        Ok(write_token(&self.parameters(), &signature))
    }

    /// The parameters of the token in the URL, except its signature.
    pub(super) fn parameters(&self) -> [(&'static str, Option<&'a str>); 12] {
        let [sv, st, se, sp, si, sip, spr] = self.terms().parameters();
        let [spk, srk, epk, erk] = self.keys();
        let tn = ("tn", given(self.table));
        let [spk, srk] = [("spk", spk), ("srk", srk)];
        [sv, st, se, sp, si, sip, spr, tn, spk, srk, ("epk", epk), ("erk", erk)]
    }

    /// The version, if tokens for tables existed then.
    pub(super) fn form(&self) -> Result<ApiVersion, SasError> {
        self.terms().form()
    }

    pub(super) fn terms(&self) -> ServiceTerms<'a> {
        terms_of!(self)
    }

    pub(super) fn keys(&self) -> [Option<&'a str>; 4] {
        [self.start_partition_key, self.start_row_key, self.end_partition_key, self.end_row_key]
    }

    /// The range of keys; a row key needs its partition key.
    fn key_range(&self) -> Result<KeyRange, SasError> {
        let bound = |partition: Option<&str>, row: Option<&str>, name| match (partition, row) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(SasError::Missing(name)),
            (Some(partition), row) => Ok(Some((partition.to_owned(), row.map(str::to_owned)))),
        };
        Ok(KeyRange {
            start: bound(self.start_partition_key, self.start_row_key, "spk")?,
            end: bound(self.end_partition_key, self.end_row_key, "epk")?,
        })
    }
}

impl TableGrant {
    /// Whether the token is for the table of this name.
    pub fn check_table(&self, name: &str) -> Result<(), SasError> {
        if self.table.eq_ignore_ascii_case(name) { Ok(()) } else { Err(SasError::Resource) }
    }

    /// Whether the token has all of `permissions`.
    pub fn check_permissions(&self, permissions: Permissions) -> Result<(), SasError> {
        if self.permissions.contains(permissions) { Ok(()) } else { Err(SasError::Permission) }
    }

    /// Whether the token covers an entity.
    pub fn check_key(&self, partition_key: &str, row_key: &str) -> Result<(), SasError> {
        if self.range.contains(partition_key, row_key) { Ok(()) } else { Err(SasError::KeyRange) }
    }

    /// The same, without the permissions that are not among `others`.
    pub fn within(self, others: Permissions) -> Self {
        Self { permissions: self.permissions.intersection(others), ..self }
    }

    /// The table it is for, in lower case.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What the token permits within its table.
    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// The entities a query may return.
    pub fn range(&self) -> &KeyRange {
        &self.range
    }
}

impl KeyRange {
    /// Whether it excludes any entity.
    pub fn is_limited(&self) -> bool {
        self.start.is_some() || self.end.is_some()
    }

    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let against = |(partition, row): &(String, Option<String>)| {
            let row = row.as_deref().map_or(Ordering::Equal, |row| compare(row_key, row));
            compare(partition_key, partition).then(row)
        };
        self.start.as_ref().is_none_or(|start| against(start).is_ge())
            && self.end.as_ref().is_none_or(|end| against(end).is_le())
    }
}
