//! User delegation SAS: a token signed with a key that a directory user was given.

use super::{SasError, join, optional, required};
use crate::uri::Query;

/// A token signed with a user delegation key, which the service does not hand out yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserDelegationSas<'a> {
    /// `sv`
    pub version: &'a str,
    /// `tn`
    pub table: &'a str,
    /// `sp`, `st`, `se`
    pub permissions: &'a str,
    pub start: &'a str,
    pub expiry: &'a str,
    /// `skoid`, `sktid`, `skt`, `ske`, `sks`, `skv`, `skdutid`, `sduoid`: the key and its owners.
    pub key: [&'a str; 8],
    /// `sip`, `spr`
    pub addresses: &'a str,
    pub protocol: &'a str,
    /// `spk`, `srk`, `epk`, `erk`
    pub range: [&'a str; 4],
    /// `sig`
    pub signature: &'a str,
}

impl<'a> UserDelegationSas<'a> {
    pub(super) fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let key = ["skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid"];
        Ok(Self {
            version: required(query, "sv")?,
            table: required(query, "tn")?,
            permissions: required(query, "sp")?,
            start: optional(query, "st"),
            expiry: required(query, "se")?,
            key: key.map(|name| optional(query, name)),
            addresses: optional(query, "sip"),
            protocol: optional(query, "spr"),
            range: ["spk", "srk", "epk", "erk"].map(|name| optional(query, name)),
            signature: required(query, "sig")?,
        })
    }

    /// The text a token signs, by analogy with those of queues.
    pub fn string_to_sign(&self, account: &str) -> Result<String, SasError> {
        let resource = format!("/table/{account}/{}", self.table.to_ascii_lowercase());
        let mut fields = vec![self.permissions, self.start, self.expiry, resource.as_str()];
        fields.extend(self.key);
        fields.extend([self.addresses, self.protocol, self.version]);
        fields.extend(self.range);
        join(&fields)
    }
}
