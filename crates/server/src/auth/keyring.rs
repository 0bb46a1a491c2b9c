//! The keys that may have signed a text.

use crate::auth::accounts::Account;
use lazuli_wire::shared_key::Signature;
use std::sync::Arc;

/// Maximum number of other accounts whose keys are tried.
const OTHER_ACCOUNTS_MAX: usize = 16;

/// The keys that may have signed.
pub(crate) struct Keyring<'a> {
    pub(crate) account: &'a Account,
    /// The server's accounts, in any order.
    pub(crate) all: Vec<Arc<Account>>,
}

impl Keyring<'_> {
    /// Whether a key of the account signed the text.
    pub(crate) fn signed(&self, text: &str, signature: &Signature) -> bool {
        self.account.keys.iter().any(|key| key.verify(&[text.as_bytes()], signature))
    }

    /// The name of another account whose key signed.
    pub(crate) fn other_signer(&self, text: &str, signature: &Signature) -> Option<&str> {
        let others = self.all.iter().filter(|other| other.name != self.account.name);
        let signed = |other: &&Arc<Account>| {
            other.keys.iter().any(|key| key.verify(&[text.as_bytes()], signature))
        };
        others.take(OTHER_ACCOUNTS_MAX).find(signed).map(|other| other.name.as_str())
    }
}
