//! Credentials as clients present them: headers, and parameters of the query.

use crate::server::{ACCOUNT, KEYS, NOW};
use crate::service::Service;
use lazuli_model::Timestamp;
use lazuli_wire::sas::{AccountSas, QueueSas, TableSas};
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme, SignedRequest, SigningKey};
use lazuli_wire::version::ApiVersion;

/// Which credential is sent.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    None,
    SharedKey(SharedKey),
    /// A shared access signature: text for the query.
    Token(String),
    /// A header, sent unchanged.
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
    /// Changes the header after signing.
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

    /// The header of a request.
    pub(crate) fn authorization(&self, service: Service, request: &Signable<'_>) -> String {
        let signature = match service {
            Service::Table => request.of_tables(self).sign(self.scheme, &self.key),
            Service::Queue => request.of_queues(self).sign(self.scheme, &self.key),
        };
        (self.tamper)(&Authorization::header(self.scheme, &self.account, &signature))
    }
}

/// What a signature can cover.
pub(crate) struct Signable<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: String,
    pub(crate) headers: &'a [(String, String)],
}

impl Signable<'_> {
    fn of_tables<'a>(&'a self, by: &'a SharedKey) -> SignedRequest<'a> {
        SignedRequest {
            method: self.method,
            content_md5: "",
            content_type: self.header("Content-Type"),
            date: &by.date,
            account: &by.account,
            path: self.path,
            comp: self.query.split('&').find_map(|parameter| parameter.strip_prefix("comp=")),
        }
    }

    fn of_queues<'a>(&'a self, by: &'a SharedKey) -> CanonicalRequest<'a> {
        let version = ApiVersion::parse(self.header("x-ms-version")).unwrap();
        let signed = |name: &str| SIGNED.iter().find(|known| known.eq_ignore_ascii_case(name));
        let headers = self.headers.iter().filter_map(|(name, value)| {
            let name = if name.starts_with("x-ms-") { name.as_str() } else { signed(name)? };
            Some((name, value.as_bytes()))
        });
        CanonicalRequest::new(self.method, headers, &by.account, self.path, &self.query, version)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// The headers that these tests send and the Queue service signs.
const SIGNED: [&str; 2] = ["content-length", "content-type"];

impl From<SharedKey> for Credential {
    fn from(shared_key: SharedKey) -> Self {
        Self::SharedKey(shared_key)
    }
}

pub(crate) fn key(text: &str) -> SigningKey {
    SigningKey::from_base64(text).unwrap()
}

/// The moment `seconds` after the server's clock, or before it if negative.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let now = Timestamp::parse(NOW).unwrap();
    Timestamp::from_ticks(now.ticks().checked_add_signed(seconds * 10_000_000).unwrap()).unwrap()
}

/// A token for the table that the operations use.
pub(crate) fn table_sas() -> TableSas<'static> {
    service_sas(Service::Table).of_table()
}

/// A token for one table or queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceSas<'a> {
    pub(crate) service: Service,
    pub(crate) resource: &'a str,
    pub(crate) version: &'a str,
    pub(crate) start: &'a str,
    pub(crate) expiry: &'a str,
    pub(crate) permissions: &'a str,
    pub(crate) policy: &'a str,
    pub(crate) addresses: &'a str,
    pub(crate) protocol: &'a str,
}

impl<'a> ServiceSas<'a> {
    /// Signed with the first key.
    pub(crate) fn token(&self) -> Credential {
        Credential::Token(self.text(ACCOUNT, &key(KEYS[0])))
    }

    /// The text for the query, signed with a key for an account.
    pub(crate) fn text(&self, account: &str, key: &SigningKey) -> String {
        match self.service {
            Service::Table => self.of_table().token(account, key).unwrap(),
            Service::Queue => self.of_queue().token(account, self.resource, key).unwrap(),
        }
    }

    pub(crate) fn of_table(&self) -> TableSas<'a> {
        TableSas {
            table: self.resource,
            version: self.version,
            start: self.start,
            expiry: self.expiry,
            permissions: self.permissions,
            policy: self.policy,
            addresses: self.addresses,
            protocol: self.protocol,
            ..TableSas::default()
        }
    }

    pub(crate) fn of_queue(&self) -> QueueSas<'a> {
        QueueSas {
            version: self.version,
            start: self.start,
            expiry: self.expiry,
            permissions: self.permissions,
            policy: self.policy,
            addresses: self.addresses,
            protocol: self.protocol,
            ..QueueSas::default()
        }
    }
}

/// A token for the resource that the operations use, with every letter, valid from an hour ago until
/// an hour from now.
pub(crate) fn service_sas(service: Service) -> ServiceSas<'static> {
    ServiceSas {
        service,
        resource: service.resource(),
        version: "2019-02-02",
        start: "2026-01-15T11:00:00Z",
        expiry: "2026-01-15T13:00:00Z",
        permissions: service.letters(),
        policy: "",
        addresses: "",
        protocol: "",
    }
}

/// A token for the whole account, with every letter.
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
