//! Key encryption keys: how they wrap, and which one an entity needs (E-30).

use super::blind::BlindKey;
use super::error::CryptoError;
use super::secret_bytes::SecretBytes;
use crate::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A key that wraps other keys: local, or in a service.
pub trait KeyWrap: Send + Sync + fmt::Debug + 'static {
    /// The id that entities store. It is not secret.
    fn id(&self) -> &str;

    /// Wraps the key of an entity: 32 bytes in version 1, 40 in version 2.
    fn wrap<'a>(&'a self, cek: &'a [u8]) -> BoxFuture<'a, Result<Wrapped, CryptoError>>;

    /// Unwraps a key, by the algorithm name in the entity. If the key cannot be unwrapped, the error is
    /// [`CryptoError::Decrypt`].
    fn unwrap<'a>(
        &'a self,
        algorithm: &'a str,
        wrapped: &'a [u8],
    ) -> BoxFuture<'a, Result<SecretBytes, CryptoError>>;
}

/// A wrapped key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The name of the algorithm, such as `A256KW`.
    pub algorithm: String,
}

/// Finds keys by their ids, for programs with too many keys to list.
pub trait KeyResolver: Send + Sync + 'static {
    /// The key with this id, if there is one.
    fn resolve<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<Arc<dyn KeyWrap>>>;
}

/// The keys of a program: one to write with, and more to read with.
#[derive(Clone)]
pub struct Keys {
    current: Arc<dyn KeyWrap>,
    others: Vec<Arc<dyn KeyWrap>>,
    resolver: Option<Arc<dyn KeyResolver>>,
    blind: Option<Arc<BlindKey>>,
}

impl Keys {
    /// The key that entities are written with.
    pub fn new(key: impl KeyWrap) -> Self {
        Self { current: Arc::new(key), others: Vec::new(), resolver: None, blind: None }
    }

    /// Adds another key to read with.
    #[must_use]
    pub fn also(mut self, key: impl KeyWrap) -> Self {
        self.others.push(Arc::new(key));
        self
    }

    /// Finds the keys to read with. If set, listed keys are ignored.
    #[must_use]
    pub fn resolver(mut self, resolver: impl KeyResolver) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// The key of blind indexes.
    #[must_use]
    pub fn blind(mut self, key: BlindKey) -> Self {
        self.blind = Some(Arc::new(key));
        self
    }

    pub(super) fn current(&self) -> &dyn KeyWrap {
        &*self.current
    }

    pub(super) fn blind_key(&self) -> Result<&BlindKey, CryptoError> {
        self.blind.as_deref().ok_or(CryptoError::NoBlindKey)
    }

    /// The key with the id in an entity.
    pub(super) async fn find(&self, id: &str) -> Result<Arc<dyn KeyWrap>, CryptoError> {
        let found = match &self.resolver {
            Some(resolver) => resolver.resolve(id).await,
            None => {
                let mut keys = std::iter::once(&self.current).chain(&self.others);
                keys.find(|key| key.id() == id).cloned()
            }
        };
        found.ok_or_else(|| CryptoError::UnknownKey { id: id.to_owned() })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: Vec<&str> = self.others.iter().map(|key| key.id()).collect();
        f.debug_struct("Keys")
            .field("current", &self.current.id())
            .field("others", &others)
            .field("resolver", &self.resolver.is_some())
            .field("blind", &self.blind.is_some())
            .finish()
    }
}
