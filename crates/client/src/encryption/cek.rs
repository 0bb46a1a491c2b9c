//! The key that encrypts the properties of an entity (E-1), and how it is packed for wrapping (E-40).

use super::error::CryptoError;
use super::secret_bytes::SecretBytes;
use aws_lc_rs::rand;
use zeroize::Zeroizing;

pub(super) const CEK_BYTES: usize = 32;

/// Precedes the key in version 2.
const VERSION_2: [u8; 8] = *b"2.0\0\0\0\0\0";

/// A content encryption key.
#[derive(Clone)]
pub(super) struct Cek(Zeroizing<[u8; CEK_BYTES]>);

impl Cek {
    pub(super) fn random() -> Result<Self, CryptoError> {
        let mut bytes = Zeroizing::new([0; CEK_BYTES]);
        rand::fill(&mut *bytes).map_err(|_| CryptoError::Random)?;
        Ok(Self(bytes))
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: [u8; CEK_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; CEK_BYTES] {
        &self.0
    }

    /// The content that version 1 wraps: the key.
    pub(super) fn packed_v1(&self) -> SecretBytes {
        SecretBytes::from(&self.0[..])
    }

    /// The content that version 2 wraps: the version number and the key.
    pub(super) fn packed_v2(&self) -> SecretBytes {
        SecretBytes::new([&VERSION_2[..], &self.0[..]].concat())
    }

    pub(super) fn unpack_v1(bytes: &SecretBytes) -> Result<Self, CryptoError> {
        let bytes = <[u8; CEK_BYTES]>::try_from(bytes.expose());
        bytes.map(|bytes| Self(Zeroizing::new(bytes))).map_err(|_| CryptoError::Decrypt)
    }

    /// The version number prevents an entity of version 2 from being passed off as one of version 1.
    pub(super) fn unpack_v2(bytes: &SecretBytes) -> Result<Self, CryptoError> {
        let key = bytes.expose().strip_prefix(&VERSION_2).ok_or(CryptoError::Decrypt)?;
        let key = <[u8; CEK_BYTES]>::try_from(key).map_err(|_| CryptoError::Decrypt)?;
        Ok(Self(Zeroizing::new(key)))
    }
}

/// Random bytes that are not secret: nonces and initialization vectors.
pub(super) fn random<const N: usize>() -> Result<[u8; N], CryptoError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| CryptoError::Random)?;
    Ok(bytes)
}
