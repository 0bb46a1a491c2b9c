//! Credentials as clients present them: headers, and parameters of the query.

use crate::operation::Operation;
use crate::server::{ACCOUNT, KEYS, NOW};
use lazuli_model::Timestamp;
use lazuli_wire::sas::{AccountSas, TableSas};
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest, SigningKey};

/// Who signs, and what.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    None,
    SharedKey(SharedKey),
    /// A shared access signature: text for the query.
    Token(String),
    /// A header as it stands.
    Header(String),
    /// Shared Key and a token at once.
    Both(SharedKey, String),
}

/// How a request is signed with an account key.
#[derive(Clone, Debug)]
pub(crate) struct SharedKey {
    pub(crate) scheme: Scheme,
    pub(crate) key: SigningKey,
    /// The account that the header names.
    pub(crate) account: String,
    pub(crate) date: String,
    /// Changes the header after it is made.
    pub(crate) tamper: fn(&str) -> String,
}

impl SharedKey {
    pub(crate) fn new(scheme: Scheme, key: usize) -> Self {
        Self {
            scheme,
            key: self::key(KEYS[key]),
            account: ACCOUNT.to_owned(),
            date: at(0).rfc1123(),
            tamper: str::to_owned,
        }
    }

    pub(crate) fn authorization(&self, operation: &Operation, path: &str) -> String {
        let mut query = operation.query.split('&');
        let signed = SignedRequest {
            method: operation.method,
            content_md5: "",
            content_type: operation.content_type,
            date: &self.date,
            account: &self.account,
            path,
            comp: query.find_map(|parameter| parameter.strip_prefix("comp=")),
        };
        let signature = signed.sign(self.scheme, &self.key);
        (self.tamper)(&Authorization::header(self.scheme, &self.account, &signature))
    }
}

impl From<SharedKey> for Credential {
    fn from(shared_key: SharedKey) -> Self {
        Self::SharedKey(shared_key)
    }
}

pub(crate) fn key(text: &str) -> SigningKey {
    SigningKey::from_base64(text).unwrap()
}

/// The moment `seconds` after the server's clock; before it when negative.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let now = Timestamp::parse(NOW).unwrap();
    Timestamp::from_ticks(now.ticks().checked_add_signed(seconds * 10_000_000).unwrap()).unwrap()
}

/// A token for the table `Orders` with every letter, good for an hour before and after now.
pub(crate) fn table_sas() -> TableSas<'static> {
    TableSas {
        version: "2019-02-02",
        table: "Orders",
        start: "2026-01-15T11:00:00Z",
        expiry: "2026-01-15T13:00:00Z",
        permissions: "raud",
        ..TableSas::default()
    }
}

/// A token for all of the account, with every letter.
pub(crate) fn account_sas() -> AccountSas<'static> {
    AccountSas {
        version: "2019-02-02",
        services: "bqtf",
        resource_types: "sco",
        permissions: "rwdlacup",
        start: "2026-01-15T11:00:00Z",
        expiry: "2026-01-15T13:00:00Z",
        ..AccountSas::default()
    }
}

/// Signs a token for a table with the first key.
pub(crate) fn table_token(sas: &TableSas<'_>) -> Credential {
    Credential::Token(sas.token(ACCOUNT, &key(KEYS[0])).unwrap())
}

/// Signs a token for the account with the first key.
pub(crate) fn account_token(sas: &AccountSas<'_>) -> Credential {
    Credential::Token(sas.token(ACCOUNT, &key(KEYS[0])).unwrap())
}

/// Whether every letter of `needed` is among `letters`.
pub(crate) fn covers(letters: &str, needed: &str) -> bool {
    needed.chars().all(|letter| letters.contains(letter))
}

/// Every subset of some letters, in their order, the empty one first.
pub(crate) fn subsets(letters: &str) -> Vec<String> {
    let chosen = |set: usize| {
        let members = letters.chars().enumerate().filter(|(index, _)| set & (1 << index) != 0);
        members.map(|(_, letter)| letter).collect()
    };
    (0..1 << letters.len()).map(chosen).collect()
}
