//! Keys that never leave Azure Key Vault or a managed HSM: the service wraps and unwraps (C-15.4).

use super::cek::Cek;
use super::error::CryptoError;
use super::keys::{KeyResolver, KeyWrap, Wrapped};
use super::local_keys::unknown_algorithm;
use super::secret_bytes::SecretBytes;
use crate::BoxFuture;
use crate::credential::{Cached, Secret, TokenCredential};
use crate::env::Env;
use crate::retry::{Failed, Retry};
use crate::transport::{HttpTransport, Sent, Transport};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const API_VERSION: &str = "7.4";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Far more than a wrapped key with its id.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A vault, or a managed HSM. As a [`KeyResolver`] it finds all keys whose id begins with its address.
///
/// ```no_run
/// # use lazuli_client::encryption::{Encryption, KeyVault, Keys};
/// # use lazuli_client::{BoxError, TokenCredential};
/// # fn run(credential: impl TokenCredential) -> Result<(), BoxError> {
/// let vault = KeyVault::new("https://contoso.vault.azure.net", credential)?;
/// let key = vault.key("tables", "78deebed173b48e48f55abf87ed4cf71")?;
/// // An AES key in a managed HSM instead: `key.writing_a256kw()`. Rows of old clients may be wrapped by RSA1_5:
/// let key = key.allow_rsa1_5();
/// // Old versions of the key are found by the ids that entities name.
/// let encryption = Encryption::v2(Keys::new(key).resolver(vault));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KeyVault {
    address: String,
    scope: String,
    credential: Arc<Cached>,
    transport: Arc<dyn Transport>,
    env: Env,
}

impl KeyVault {
    /// The vault at an address such as `https://contoso.vault.azure.net`. Makes no request.
    pub fn new(address: &str, credential: impl TokenCredential) -> Result<Self, CryptoError> {
        let transport = HttpTransport::new(CONNECT_TIMEOUT);
        let transport = transport.map_err(|_| CryptoError::InvalidKey("TLS cannot be set up"))?;
        let address = address.trim_end_matches('/');
        Ok(Self {
            scope: scope(address)?,
            address: address.to_owned(),
            credential: Arc::new(Cached::new(credential)),
            transport: Arc::new(transport),
            env: Env::system(),
        })
    }

    /// A transport other than this library's HTTP client.
    #[must_use]
    pub fn transport(self, transport: impl Transport) -> Self {
        Self { transport: Arc::new(transport), ..self }
    }

    /// Replaces the clock and the timer.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// One version of a key. Entities store its full address, as the old clients did, so the version must be known:
    /// without it, they could not be read after a key rotation in the vault.
    pub fn key(&self, name: &str, version: &str) -> Result<KeyVaultKey, CryptoError> {
        let is_word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !is_word(name) || !is_word(version) {
            return Err(CryptoError::InvalidKey("a key has a name and a version"));
        }
        let id = format!("{}/keys/{name}/{version}", self.address);
        Ok(KeyVaultKey { id, vault: self.clone(), algorithm: RSA_OAEP_256, reads_rsa1_5: false })
    }

    fn key_of(&self, id: &str) -> Option<KeyVaultKey> {
        let path = id.strip_prefix(&*self.address)?.strip_prefix("/keys/")?;
        let (name, version) = path.split_once('/')?;
        self.key(name, version).ok()
    }

    /// Has the vault perform an operation with a key, and returns the bytes of its answer.
    async fn ask(
        &self,
        key: &str,
        verb: &str,
        algorithm: &str,
        value: &[u8],
    ) -> Result<SecretBytes, Refused> {
        let question = Exchanged { alg: Some(algorithm), value: URL_SAFE_NO_PAD.encode(value) };
        let body = serde_json::to_vec(&question).unwrap_or_default();
        let uri = format!("{key}/{verb}?api-version={API_VERSION}");
        let (mut attempts, mut stale) = (0, None);
        loop {
            attempts += 1;
            let token = self.credential.get(&self.scope, self.env.now(), stale.as_ref()).await;
            let token = token.map_err(|error| Refused::Other(format!("{error:#}")))?;
            let outcome = self.attempt(&uri, &token, body.clone().into()).await;
            let (failed, reason) = match outcome {
                Ok((StatusCode::OK, body, _)) => return read_value(&body),
                Ok((StatusCode::UNAUTHORIZED, ..)) if stale.is_none() => {
                    stale = Some(token);
                    continue;
                }
                Ok((status, body, retry_after)) => {
                    let failed =
                        Failed { attempts, status: Some(status), sent: Sent::Maybe, retry_after };
                    (failed, reason(status, &body))
                }
                Err(reason) => {
                    let sent = Sent::Maybe;
                    (Failed { attempts, status: None, sent, retry_after: None }, reason)
                }
            };
            if failed.status == Some(StatusCode::BAD_REQUEST) {
                return Err(Refused::Value(reason));
            }
            let is_transient = failed
                .status
                .is_none_or(|status| matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504));
            match Retry::default().pause_after(&failed, &self.env).filter(|_| is_transient) {
                Some(pause) => self.env.sleep(pause).await,
                None => return Err(Refused::Other(reason)),
            }
        }
    }

    async fn attempt(
        &self,
        uri: &str,
        token: &Secret,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes, Option<Duration>), String> {
        let request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
            .body(body)
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = self
                .transport
                .send(request)
                .await
                .map_err(|error| format!("{error}: {}", error.source))?;
            let (head, body) = answer.into_parts();
            let body = body.read(ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
            let pause =
                head.headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.parse().ok());
            Ok((head.status, body, pause.map(Duration::from_secs)))
        };
        match select(Box::pin(exchange), self.env.timer(ATTEMPT_TIMEOUT)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err("no answer came in time".to_owned()),
        }
    }
}

impl KeyResolver for KeyVault {
    fn resolve<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<Arc<dyn KeyWrap>>> {
        let key = self.key_of(id).map(|key| Arc::new(key) as Arc<dyn KeyWrap>);
        Box::pin(std::future::ready(key))
    }
}

impl fmt::Debug for KeyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyVault").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why the vault refused.
enum Refused {
    /// It did not accept the value: a wrapped key that cannot be unwrapped.
    Value(String),
    Other(String),
}

/// One version of a key in a vault. Each read or write of an entity is a call, unless
/// [`super::Encryption::reuse_cek`] or the cache of [`super::Encryption`] saves it.
#[derive(Clone, Debug)]
pub struct KeyVaultKey {
    id: String,
    vault: KeyVault,
    algorithm: &'static str,
    reads_rsa1_5: bool,
}

const RSA_OAEP_256: &str = "RSA-OAEP-256";
const RSA_OAEP: &str = "RSA-OAEP";
const RSA1_5: &str = "RSA1_5";
const A256KW: &str = "A256KW";

impl KeyVaultKey {
    /// Writes `RSA-OAEP`, with SHA-1, for readers that support nothing newer.
    #[must_use]
    pub fn writing_rsa_oaep(self) -> Self {
        Self { algorithm: RSA_OAEP, ..self }
    }

    /// Writes `A256KW`, with an AES key in a managed HSM.
    #[must_use]
    pub fn writing_a256kw(self) -> Self {
        Self { algorithm: A256KW, ..self }
    }

    /// Also reads `RSA1_5`. If a key cannot be unwrapped, a random key is used instead, so that the failure reveals
    /// nothing.
    #[must_use]
    pub fn allow_rsa1_5(self) -> Self {
        Self { reads_rsa1_5: true, ..self }
    }

    fn failed(&self, reason: String) -> CryptoError {
        CryptoError::KeyService { id: self.id.clone(), reason }
    }

    async fn wrap_there(&self, cek: &[u8]) -> Result<Wrapped, CryptoError> {
        let wrapped = self.vault.ask(&self.id, "wrapkey", self.algorithm, cek).await;
        let bytes = wrapped
            .map_err(|(Refused::Value(reason) | Refused::Other(reason))| self.failed(reason))?;
        Ok(Wrapped { bytes: bytes.expose().to_vec(), algorithm: self.algorithm.to_owned() })
    }

    async fn unwrap_there(
        &self,
        algorithm: &str,
        wrapped: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        let is_known = match algorithm {
            RSA1_5 => self.reads_rsa1_5,
            _ => matches!(algorithm, RSA_OAEP_256 | RSA_OAEP | A256KW),
        };
        if !is_known {
            return Err(unknown_algorithm(&self.id, algorithm));
        }
        match self.vault.ask(&self.id, "unwrapkey", algorithm, wrapped).await {
            Ok(cek) => Ok(cek),
            Err(Refused::Value(_)) if algorithm == RSA1_5 => Ok(Cek::random()?.packed_v1()),
            Err(Refused::Value(_)) => Err(CryptoError::Decrypt),
            Err(Refused::Other(reason)) => Err(self.failed(reason)),
        }
    }
}

impl KeyWrap for KeyVaultKey {
    fn id(&self) -> &str {
        &self.id
    }

    fn wrap<'a>(&'a self, cek: &'a [u8]) -> BoxFuture<'a, Result<Wrapped, CryptoError>> {
        Box::pin(self.wrap_there(cek))
    }

    fn unwrap<'a>(
        &'a self,
        algorithm: &'a str,
        wrapped: &'a [u8],
    ) -> BoxFuture<'a, Result<SecretBytes, CryptoError>> {
        Box::pin(self.unwrap_there(algorithm, wrapped))
    }
}

/// The relevant fields of requests to and answers from the vault.
#[derive(Serialize, Deserialize)]
struct Exchanged<'a> {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    alg: Option<&'a str>,
    value: String,
}

/// The scope of tokens: the parent domain of the vault's host name.
fn scope(address: &str) -> Result<String, CryptoError> {
    let host = address.strip_prefix("https://").filter(|host| !host.contains(['/', '?', '@']));
    let domain = host.and_then(|host| host.split_once('.')).map(|(_, domain)| domain);
    let domain = domain.filter(|domain| !domain.is_empty());
    let domain = domain.ok_or(CryptoError::InvalidKey("a vault has an https address"))?;
    Ok(format!("https://{domain}/.default"))
}

fn read_value(body: &[u8]) -> Result<SecretBytes, Refused> {
    let answer: Option<Exchanged<'_>> = serde_json::from_slice(body).ok();
    let bytes = answer.and_then(|answer| URL_SAFE_NO_PAD.decode(answer.value).ok());
    let fault = || Refused::Other("its answer cannot be read".to_owned());
    bytes.map(SecretBytes::new).ok_or_else(fault)
}

/// The vault's error message, if it sent one.
fn reason(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Said,
    }
    #[derive(Deserialize)]
    struct Said {
        code: String,
        message: String,
    }
    match serde_json::from_slice(body) {
        Ok(Answer { error: Said { code, message } }) => format!("{status}: {code}: {message}"),
        Err(_) => status.to_string(),
    }
}

#[cfg(test)]
mod tests;
