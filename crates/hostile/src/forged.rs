//! What the targets for credentials share: no generated credential is accepted.

use lazuli_model::Timestamp;
use lazuli_wire::sas::{AccountSas, Caller};
use lazuli_wire::shared_key::SigningKey;
use std::net::Ipv4Addr;

/// The keys of the account `a`, which the input does not know.
pub(crate) fn keys() -> Option<[SigningKey; 1]> {
    Some([SigningKey::from_base64("c29tZSBrZXk=").ok()?])
}

/// The sender of the input.
pub(crate) fn caller() -> Caller {
    Caller { now: Timestamp::UNIX_EPOCH, address: Ipv4Addr::LOCALHOST.into(), https: false }
}

/// A token for the account is parsed but not accepted.
pub(crate) fn account_token(sas: &AccountSas<'_>, keys: &[SigningKey], service: char) {
    assert!(sas.verify("a", keys).is_err(), "forged");
    let _ = sas.grant(&caller(), service);
}
