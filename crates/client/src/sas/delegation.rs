//! User delegation keys: tokens signed with a key of the user instead of the account's (C-16.1).

use crate::account::Account;
use crate::call::{About, Answer, Call, CallOptions, X_MS_VERSION};
use crate::error::Error;
use crate::options::Request;
use crate::tables::Tables;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::sas::UserDelegationKey as KeyTexts;
use lazuli_wire::shared_key::SigningKey;
use lazuli_wire::xml::{self, AnsweredUserDelegationKey};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest validity of a key.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const QUERY: &str = "restype=service&comp=userdelegationkey";
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// A key that the service issued to the user of a bearer token. Tokens signed with it permit what both their
/// letters and the user's roles permit, and expire with the key. `Debug` does not show its value.
#[derive(Clone)]
pub struct UserDelegationKey {
    pub(super) account: Arc<str>,
    pub(super) service: StorageService,
    answer: Arc<AnsweredUserDelegationKey>,
    pub(super) value: Arc<SigningKey>,
}

impl UserDelegationKey {
    /// When it expires, and with it all tokens that it signed.
    pub fn expires(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.answer.expiry)
    }

    /// The version of the tokens.
    pub(super) fn sas_version(&self) -> &'static str {
        version(self.service)
    }

    /// The fields of the key that go into tokens.
    pub(super) fn texts(&self) -> KeyTexts<'_> {
        KeyTexts {
            object_id: &self.answer.object_id,
            tenant_id: &self.answer.tenant_id,
            start: &self.answer.start,
            expiry: &self.answer.expiry,
            service: &self.answer.service,
            version: &self.answer.version,
        }
    }
}

impl fmt::Debug for UserDelegationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserDelegationKey")
            .field("account", &self.account)
            .field("object_id", &self.answer.object_id)
            .field("expiry", &self.answer.expiry)
            .finish_non_exhaustive()
    }
}

/// The first version with such tokens for queues and tables; for blobs the version of this library's
/// requests (C-17.6).
fn version(service: StorageService) -> &'static str {
    match service {
        StorageService::Blob => "2021-12-02",
        StorageService::Queue | StorageService::Table => "2025-07-05",
    }
}

impl Tables {
    /// Requests a key that signs tokens for tables: see [`crate::TableSasBuilder::delegated_by`]. Needs a
    /// bearer token. The key is valid from now for `life`, at most seven days.
    pub fn user_delegation_key(&self, life: Duration) -> Request<UserDelegationKey> {
        fetch(self.account(), StorageService::Table, life)
    }
}

/// Requests a key from a service.
pub(crate) fn fetch(
    account: &Account,
    service: StorageService,
    life: Duration,
) -> Request<UserDelegationKey> {
    let account = account.clone();
    Request::new(move |options| async move {
        const OPERATION: &str = "get user delegation key";
        let name = account_name(&account, service);
        let name = name.ok_or_else(|| Error::config("the account's name is not known"))?;
        if life.is_zero() || life > LIFE_MAX {
            return Err(Error::config("a user delegation key lives for at most seven days"));
        }
        let now = account.0.env.now();
        let call = call(service, OPERATION, now, super::after(now, life), options);
        let answer: Answer = account.exchange(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.into_error(OPERATION));
        }
        let answer = xml::read_user_delegation_key(&answer.body).map_err(Error::protocol)?;
        let value = SigningKey::from_base64(&answer.value)
            .map_err(|_| Error::protocol("the value of the user delegation key is not base64"))?;
        Ok(UserDelegationKey {
            account: name.into(),
            service,
            answer: Arc::new(answer),
            value: Arc::new(value),
        })
    })
}

/// The account name in signatures: the configured one, else the one in the address, which is the first segment of
/// its path (emulators) or the first label of its host.
fn account_name(account: &Account, service: StorageService) -> Option<String> {
    if let Some(name) = account.name() {
        return Some(name.to_owned());
    }
    let uri: http::Uri = account.0.endpoint(service)?.primary.parse().ok()?;
    let in_path = uri.path().split('/').find(|segment| !segment.is_empty());
    let in_host = || uri.host()?.split_once('.').map(|(label, _)| label);
    in_path.or_else(in_host).map(str::to_owned)
}

fn call(
    service: StorageService,
    operation: &'static str,
    start: Timestamp,
    expiry: Timestamp,
    options: CallOptions,
) -> Call {
    let whole = |time: Timestamp| Timestamp::from_unix_seconds(time.unix_seconds());
    let mut body = Vec::new();
    xml::write_key_info(&mut body, whole(start), whole(expiry));
    let sas_version = HeaderValue::from_static(version(service));
    Call {
        service,
        operation,
        is_read: false,
        is_once: false,
        method: Method::POST,
        path: "/".to_owned(),
        query: QUERY.to_owned(),
        headers: HeaderMap::from_iter([(X_MS_VERSION, sas_version), (CONTENT_TYPE, XML)]),
        body: Bytes::from(body),
        answer_bytes_max: ANSWER_BYTES_MAX,
        options,
        // A retry may create a second key, which does no harm.
        about: About { is_idempotent: true, ..About::default() },
    }
}
