//! Local keys: AES key wrap and RSA (section 4 of the specification).

use super::cek::Cek;
use super::error::CryptoError;
use super::keys::{KeyWrap, Wrapped};
use super::secret_bytes::SecretBytes;
use crate::BoxFuture;
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesBlockCipher, AesKek, KeyWrap as _};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPrivateDecryptingKey,
    OaepPublicEncryptingKey, Pkcs1PrivateDecryptingKey, PrivateDecryptingKey,
};
use std::fmt;
use std::future::ready;

/// An AES key that wraps keys, by RFC 3394: `A256KW` or `A128KW`.
pub struct AesKey {
    id: String,
    secret: SecretBytes,
    cipher: &'static AesBlockCipher,
    algorithm: &'static str,
}

impl AesKey {
    /// A key of 32 or 16 bytes.
    pub fn new(id: impl Into<String>, secret: impl Into<SecretBytes>) -> Result<Self, CryptoError> {
        let secret = secret.into();
        let (cipher, algorithm) = match secret.expose().len() {
            32 => (&AES_256, "A256KW"),
            16 => (&AES_128, "A128KW"),
            _ => return Err(CryptoError::InvalidKey("an AES key has 32 or 16 bytes")),
        };
        Ok(Self { id: id.into(), secret, cipher, algorithm })
    }

    fn kek(&self) -> Result<AesKek, CryptoError> {
        AesKek::new(self.cipher, self.secret.expose()).map_err(|_| CryptoError::Decrypt)
    }

    fn wrap_now(&self, cek: &[u8]) -> Result<Wrapped, CryptoError> {
        let mut bytes = vec![0; cek.len() + 8];
        let fault = |_| CryptoError::InvalidKey("it cannot be wrapped");
        self.kek()?.wrap(cek, &mut bytes).map_err(fault)?;
        Ok(Wrapped { bytes, algorithm: self.algorithm.to_owned() })
    }

    fn unwrap_now(&self, algorithm: &str, wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
        if algorithm != self.algorithm {
            return Err(unknown_algorithm(&self.id, algorithm));
        }
        let mut bytes = SecretBytes::new(vec![0; wrapped.len()]);
        let unwrapped = self.kek()?.unwrap(wrapped, bytes.expose_mut());
        let length = unwrapped.map_err(|_| CryptoError::Decrypt)?.len();
        bytes.expose_mut().truncate(length);
        Ok(bytes)
    }
}

/// An RSA key that wraps keys. It writes `RSA-OAEP-256`, and also reads `RSA-OAEP`.
pub struct RsaKey {
    id: String,
    public: OaepPublicEncryptingKey,
    private: OaepPrivateDecryptingKey,
    /// Set by [`RsaKey::allow_rsa1_5`].
    pkcs1: Option<Pkcs1PrivateDecryptingKey>,
    document: SecretBytes,
    writes_sha1: bool,
}

impl RsaKey {
    /// A private key of 2048 to 8192 bits, as PKCS#8 in DER.
    pub fn from_pkcs8(
        id: impl Into<String>,
        der: impl Into<SecretBytes>,
    ) -> Result<Self, CryptoError> {
        let document = der.into();
        let private = private_key(&document)?;
        let fault = |_| CryptoError::InvalidKey("the RSA key is not of 2048 to 8192 bits");
        Ok(Self {
            id: id.into(),
            public: OaepPublicEncryptingKey::new(private.public_key()).map_err(fault)?,
            private: OaepPrivateDecryptingKey::new(private).map_err(fault)?,
            pkcs1: None,
            document,
            writes_sha1: false,
        })
    }

    /// Writes `RSA-OAEP`, with SHA-1, for readers that support nothing newer.
    #[must_use]
    pub fn writing_rsa_oaep(self) -> Self {
        Self { writes_sha1: true, ..self }
    }

    /// Also reads `RSA1_5`. If a key cannot be unwrapped, a random key is used instead, so that the failure reveals
    /// nothing.
    pub fn allow_rsa1_5(mut self) -> Result<Self, CryptoError> {
        let key = Pkcs1PrivateDecryptingKey::new(private_key(&self.document)?);
        let fault = |_| CryptoError::InvalidKey("the RSA key is not of 2048 to 8192 bits");
        self.pkcs1 = Some(key.map_err(fault)?);
        Ok(self)
    }

    fn wrap_now(&self, cek: &[u8]) -> Result<Wrapped, CryptoError> {
        let (algorithm, name) = match self.writes_sha1 {
            true => (&OAEP_SHA1_MGF1SHA1, "RSA-OAEP"),
            false => (&OAEP_SHA256_MGF1SHA256, "RSA-OAEP-256"),
        };
        let mut bytes = vec![0; self.public.ciphertext_size()];
        let wrapped = self.public.encrypt(algorithm, cek, &mut bytes, None);
        let length = wrapped.map_err(|_| CryptoError::InvalidKey("it cannot be wrapped"))?.len();
        bytes.truncate(length);
        Ok(Wrapped { bytes, algorithm: name.to_owned() })
    }

    fn unwrap_now(&self, algorithm: &str, wrapped: &[u8]) -> Result<SecretBytes, CryptoError> {
        match (algorithm, &self.pkcs1) {
            ("RSA-OAEP-256", _) => self.unwrap_oaep(&OAEP_SHA256_MGF1SHA256, wrapped),
            ("RSA-OAEP", _) => self.unwrap_oaep(&OAEP_SHA1_MGF1SHA1, wrapped),
            ("RSA1_5", Some(key)) => unwrap_pkcs1(key, wrapped),
            _ => Err(unknown_algorithm(&self.id, algorithm)),
        }
    }

    fn unwrap_oaep(
        &self,
        algorithm: &'static OaepAlgorithm,
        wrapped: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        let mut bytes = SecretBytes::new(vec![0; self.private.min_output_size()]);
        let unwrapped = self.private.decrypt(algorithm, wrapped, bytes.expose_mut(), None);
        let length = unwrapped.map_err(|_| CryptoError::Decrypt)?.len();
        bytes.expose_mut().truncate(length);
        Ok(bytes)
    }
}

/// A local key answers at once, and its `Debug` shows only its id.
macro_rules! local_key {
    ($name:ident) => {
        impl KeyWrap for $name {
            fn id(&self) -> &str {
                &self.id
            }

            fn wrap<'a>(&'a self, cek: &'a [u8]) -> BoxFuture<'a, Result<Wrapped, CryptoError>> {
                Box::pin(ready(self.wrap_now(cek)))
            }

            fn unwrap<'a>(
                &'a self,
                algorithm: &'a str,
                wrapped: &'a [u8],
            ) -> BoxFuture<'a, Result<SecretBytes, CryptoError>> {
                Box::pin(ready(self.unwrap_now(algorithm, wrapped)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("id", &self.id).finish_non_exhaustive()
            }
        }
    };
}

local_key!(AesKey);
local_key!(RsaKey);

pub(super) fn unknown_algorithm(id: &str, algorithm: &str) -> CryptoError {
    CryptoError::UnknownAlgorithm { id: id.to_owned(), algorithm: algorithm.to_owned() }
}

fn private_key(document: &SecretBytes) -> Result<PrivateDecryptingKey, CryptoError> {
    let key = PrivateDecryptingKey::from_pkcs8(document.expose());
    key.map_err(|_| CryptoError::InvalidKey("not an RSA key in PKCS#8"))
}

/// A wrong key fails later, when decrypting, and so does the random one: the two cases are indistinguishable.
fn unwrap_pkcs1(
    key: &Pkcs1PrivateDecryptingKey,
    wrapped: &[u8],
) -> Result<SecretBytes, CryptoError> {
    let random = Cek::random()?.packed_v1();
    let mut bytes = SecretBytes::new(vec![0; key.min_output_size()]);
    let length = match key.decrypt(wrapped, bytes.expose_mut()) {
        Ok(unwrapped) => unwrapped.len(),
        Err(_) => return Ok(random),
    };
    bytes.expose_mut().truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::tests::{base64, cek, kek};
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeySize, Pkcs1PublicEncryptingKey};

    #[tokio::test]
    async fn vectors_of_key_wrap() {
        // ES-1.
        let key = kek();
        for (cek, wrapped) in [
            (cek().packed_v1(), "vSonaujHRkx+izlmdKxuDpVYyExgCbP6QTzwameiAII+TXIN8kGfqQ=="),
            (cek().packed_v2(), "kWC+nzTOUdnZoos1loRMAuZI90TWijESE5fp/hK0o5yPgQbpJc4MLVVcZEmIfJJC"),
        ] {
            let ours = key.wrap(cek.expose()).await.unwrap();
            assert_eq!((ours.bytes, &*ours.algorithm), (base64(wrapped), "A256KW"));
            let back = key.unwrap("A256KW", &base64(wrapped)).await.unwrap();
            assert_eq!(back.expose(), cek.expose());
        }
    }

    #[tokio::test]
    async fn a_wrapped_key_opens_with_its_own_key_and_algorithm() {
        let (one, two) =
            (AesKey::new("1", &[1; 16][..]).unwrap(), AesKey::new("2", &[2; 16][..]).unwrap());
        let wrapped = one.wrap(&[5; 32]).await.unwrap();
        assert_eq!(wrapped.algorithm, "A128KW");
        assert_eq!(one.unwrap("A128KW", &wrapped.bytes).await.unwrap().expose(), [5; 32]);
        assert_eq!(two.unwrap("A128KW", &wrapped.bytes).await.unwrap_err(), CryptoError::Decrypt);
        for short in [&wrapped.bytes[..39], &[], &[1; 8]] {
            assert_eq!(one.unwrap("A128KW", short).await.unwrap_err(), CryptoError::Decrypt);
        }
        let other = one.unwrap("A256KW", &wrapped.bytes).await.unwrap_err();
        assert!(matches!(other, CryptoError::UnknownAlgorithm { .. }), "{other:?}");
        assert!(AesKey::new("3", &[0; 24][..]).is_err());
        assert_eq!(format!("{one:?}"), r#"AesKey { id: "1", .. }"#);
    }

    #[tokio::test]
    async fn rsa_wraps_with_oaep_and_reads_the_old_padding_on_request() {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'static> = private.as_der().unwrap();
        let key = || RsaKey::from_pkcs8("rsa", der.as_ref()).unwrap();
        let cek = [9; 40];
        for (key, name) in [(key(), "RSA-OAEP-256"), (key().writing_rsa_oaep(), "RSA-OAEP")] {
            let wrapped = key.wrap(&cek).await.unwrap();
            assert_eq!(wrapped.algorithm, name);
            assert_eq!(key.unwrap(name, &wrapped.bytes).await.unwrap().expose(), cek);
            let other = key.unwrap("RSA-OAEP-512", &wrapped.bytes).await.unwrap_err();
            assert!(matches!(other, CryptoError::UnknownAlgorithm { .. }));
            let cut = key.unwrap(name, &wrapped.bytes[1..]).await.unwrap_err();
            assert_eq!(cut, CryptoError::Decrypt);
        }
        let old = Pkcs1PublicEncryptingKey::new(private.public_key()).unwrap();
        let mut wrapped = vec![0; old.ciphertext_size()];
        old.encrypt(&cek, &mut wrapped).unwrap();
        let refused = key().unwrap("RSA1_5", &wrapped).await.unwrap_err();
        assert!(matches!(refused, CryptoError::UnknownAlgorithm { .. }), "only when allowed");
        let reader = key().allow_rsa1_5().unwrap();
        assert_eq!(reader.unwrap("RSA1_5", &wrapped).await.unwrap().expose(), cek);
        wrapped[17] ^= 1;
        let random = reader.unwrap("RSA1_5", &wrapped).await.unwrap();
        assert!(random.expose() != cek, "a failure gives some other key");
    }
}
