//! The credentials of simulated requests, sufficient and insufficient.

use super::trouble::{EXPIRED, EXPIRY, account_token, stranger};
use lazuli_wire::sas::SasError;
use lazuli_wire::shared_key::{Scheme, SigningKey};
use std::sync::Arc;

/// The credential of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    Key(Scheme),
    /// A token for the account with these letters.
    Account(&'static str),
    /// A token for the table or queue of the history, with these letters.
    Own(&'static str),
    /// A key that is not one of the account's.
    OtherKey(Scheme),
    /// A token for another table or queue.
    Other,
    /// A token that has expired.
    Expired,
    /// A token whose letters were changed after it was signed.
    Forged,
}

/// The tokens of a service.
pub(super) struct Tokens {
    pub(super) version: &'static str,
    /// The letter of the service in tokens for the account.
    pub(super) service: &'static str,
    /// The table or queue of the history, and another one.
    pub(super) own: &'static str,
    pub(super) other: &'static str,
    /// All letters of a token for a table or a queue.
    pub(super) letters: &'static str,
    /// Signs a token for a table or queue, with letters, until a time.
    pub(super) sign: fn(&str, &str, &str, &SigningKey) -> Result<String, SasError>,
}

impl Credential {
    /// The key that signs the request itself, if any; `own` is the account's.
    pub(super) fn signing_key(self, own: &Arc<SigningKey>) -> Option<(Scheme, Arc<SigningKey>)> {
        match self {
            Self::Key(scheme) => Some((scheme, own.clone())),
            Self::OtherKey(scheme) => Some((scheme, Arc::new(stranger()))),
            _ => None,
        }
    }

    /// The parameters of the token in the URL.
    pub(super) fn token(self, tokens: &Tokens, key: &SigningKey) -> Result<String, String> {
        let Tokens { version, service, own, other, letters, sign } = *tokens;
        let token = match self {
            Self::Own(letters) => sign(own, letters, EXPIRY, key),
            Self::Other => sign(other, letters, EXPIRY, key),
            Self::Expired => sign(own, letters, EXPIRED, key),
            Self::Forged => sign(own, "r", EXPIRY, key)
                .map(|token| token.replace("sp=r", &format!("sp={letters}"))),
            Self::Account(letters) => return account_token(version, service, letters, key),
            Self::Key(_) | Self::OtherKey(_) => return Err("a key is no token".to_owned()),
        };
        token.map_err(|error| error.to_string())
    }
}
