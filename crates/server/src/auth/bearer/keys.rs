//! The public keys of an issuer (RFC 7517), reread when they are old or one is missing.

use super::error::{KeysError, TokenError};
use super::source::KeySource;
use arc_swap::ArcSwap;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazuli_model::Timestamp;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Maximum keys of one issuer; further ones are ignored.
const KEYS_MAX: usize = 64;
/// Keys older than this are reread, so that withdrawn keys stop working.
const KEYS_AGE_MS_MAX: u64 = 60 * 60 * 1000;
/// Minimum time between two reads, so that tokens with invented key ids do not load the issuer.
const REREAD_REST_MS: u64 = 30 * 1000;
/// Timeout of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The keys of an issuer, as last read.
pub(super) struct KeySet {
    source: KeySource,
    known: ArcSwap<Known>,
    /// When they were last requested, successfully or not. Locked while they are read.
    asked: Mutex<Option<Timestamp>>,
}

struct Known {
    keys: Vec<Arc<Key>>,
    read: Timestamp,
}

/// A public key and its one algorithm.
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithm: &'static str,
    public: ParsedPublicKey,
}

impl KeySet {
    pub(super) fn new(source: KeySource) -> Self {
        let known = ArcSwap::from_pointee(Known { keys: Vec::new(), read: Timestamp::MIN });
        Self { source, known, asked: Mutex::new(None) }
    }

    /// Reads the keys and returns how many there are.
    pub(super) async fn load(&self, now: Timestamp) -> Result<usize, KeysError> {
        self.read(&mut *self.asked.lock().await, now).await
    }

    async fn read(
        &self,
        asked: &mut Option<Timestamp>,
        now: Timestamp,
    ) -> Result<usize, KeysError> {
        *asked = Some(now);
        let read = tokio::time::timeout(READ_TIMEOUT, self.source.read());
        let keys = parse(&read.await.map_err(|_| KeysError::Timeout)??)?;
        let count = keys.len();
        self.known.store(Arc::new(Known { keys, read: now }));
        Ok(count)
    }

    /// The key of a token. A token without a key id needs an issuer with one key.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<Key>, TokenError> {
        let known = self.known.load_full();
        let found = known.find(id);
        if let Some(key) = &found
            && millis_apart(known.read, now) <= KEYS_AGE_MS_MAX
        {
            return Ok(key.clone());
        }
        match &found {
            // Old but known: a request that arrives during a reread uses it.
            Some(_) => {
                if let Ok(mut asked) = self.asked.try_lock() {
                    self.reread(&mut asked, now).await;
                }
            }
            None => self.reread(&mut *self.asked.lock().await, now).await,
        }
        let found = self.known.load().find(id);
        found.ok_or_else(|| TokenError::UnknownKey(id.unwrap_or_default().to_owned()))
    }

    /// Rereads the keys unless that was tried recently. On failure the old ones stay.
    async fn reread(&self, asked: &mut Option<Timestamp>, now: Timestamp) {
        if asked.is_some_and(|asked| millis_apart(asked, now) < REREAD_REST_MS) {
            return;
        }
        match self.read(asked, now).await {
            Ok(count) => tracing::info!(source = %self.source, count, "loaded the issuer's keys"),
            Err(error) => {
                tracing::warn!(source = %self.source, %error, "cannot load the issuer's keys");
            }
        }
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Known {
    fn find(&self, id: Option<&str>) -> Option<Arc<Key>> {
        match (id, self.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|key| key.id.as_deref() == Some(id)).cloned(),
            (None, [key]) => Some(key.clone()),
            (None, _) => None,
        }
    }
}

impl Key {
    pub(super) fn verify(&self, signed: &[u8], signature: &[u8]) -> Result<(), TokenError> {
        self.public.verify_sig(signed, signature).map_err(|_| TokenError::Signature)
    }
}

/// Reads a set of keys; unknown kinds are ignored.
fn parse(document: &[u8]) -> Result<Vec<Arc<Key>>, KeysError> {
    let set: JwkSet = serde_json::from_slice(document).map_err(|_| KeysError::Malformed)?;
    let keys: Vec<_> = set.keys.into_iter().filter_map(Jwk::into_key).take(KEYS_MAX).collect();
    if keys.is_empty() { Err(KeysError::NoKey) } else { Ok(keys) }
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwk {
    fn into_key(self) -> Option<Arc<Key>> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let (algorithm, public) = match self.kty.as_str() {
            "RSA" => self.rsa()?,
            "EC" => self.elliptic_curve()?,
            _ => return None,
        };
        Some(Arc::new(Key { id: self.kid, algorithm, public }))
    }

    /// A key that does not name its algorithm is for RS256, as Entra ID's keys are.
    fn rsa(&self) -> Option<(&'static str, ParsedPublicKey)> {
        let (name, parameters): (_, &'static RsaParameters) =
            match self.alg.as_deref().unwrap_or("RS256") {
                "RS256" => ("RS256", &RSA_PKCS1_2048_8192_SHA256),
                "RS384" => ("RS384", &RSA_PKCS1_2048_8192_SHA384),
                "RS512" => ("RS512", &RSA_PKCS1_2048_8192_SHA512),
                "PS256" => ("PS256", &RSA_PSS_2048_8192_SHA256),
                "PS384" => ("PS384", &RSA_PSS_2048_8192_SHA384),
                "PS512" => ("PS512", &RSA_PSS_2048_8192_SHA512),
                _ => return None,
            };
        let components = RsaPublicKeyComponents { n: number(&self.n)?, e: number(&self.e)? };
        Some((name, components.to_parsed_public_key(parameters).ok()?))
    }

    fn elliptic_curve(&self) -> Option<(&'static str, ParsedPublicKey)> {
        let (name, parameters, bytes) = match self.crv.as_deref()? {
            "P-256" => ("ES256", &ECDSA_P256_SHA256_FIXED, 32),
            "P-384" => ("ES384", &ECDSA_P384_SHA384_FIXED, 48),
            _ => return None,
        };
        if self.alg.as_deref().is_some_and(|alg| alg != name) {
            return None;
        }
        let (x, y) = (bytes_of(&self.x)?, bytes_of(&self.y)?);
        if x.len() != bytes || y.len() != bytes {
            return None;
        }
        // An uncompressed point (SEC 1, 2.3.3).
        let point = [&[4], x.as_slice(), y.as_slice()].concat();
        Some((name, ParsedPublicKey::new(parameters, point).ok()?))
    }
}

fn bytes_of(text: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_deref()?).ok()
}

/// A number without leading zeros, which some issuers write.
fn number(text: &Option<String>) -> Option<Vec<u8>> {
    let bytes = bytes_of(text)?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    bytes.get(start..).map(<[u8]>::to_vec)
}

/// In either direction: a clock that steps back must not keep old keys forever.
fn millis_apart(one: Timestamp, other: Timestamp) -> u64 {
    one.millis_since(other).max(other.millis_since(one))
}
