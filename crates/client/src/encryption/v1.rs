//! Version 1: byte for byte the format of the old clients (E-10 to E-18).

use super::cek::Cek;
use super::error::CryptoError;
use super::secret_bytes::SecretBytes;
use aws_lc_rs::cipher::{
    AES_256, AES_CBC_IV_LEN, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::digest;
use aws_lc_rs::iv::FixedLength;
use lazuli_model::EntityKey;

pub(super) const IV_BYTES: usize = AES_CBC_IV_LEN;

/// The longest text whose ciphertext fits into 64 KiB: padding adds at least one byte (E-12).
pub(super) const PLAINTEXT_BYTES_MAX: usize = 65_535;

/// Which key comes first in the hash from which the initialization vector is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOrder {
    /// The row key: .NET, Python, and this library.
    RowFirst,
    /// The partition key: Java (E-11).
    PartitionFirst,
}

/// Encrypts the properties of one entity.
pub(super) struct Envelope<'a> {
    pub(super) cek: &'a Cek,
    pub(super) iv: &'a [u8],
    pub(super) key: &'a EntityKey,
    pub(super) order: KeyOrder,
}

impl Envelope<'_> {
    /// The initialization vector of a property (E-10).
    fn iv_of(&self, property: &str) -> [u8; IV_BYTES] {
        let (partition, row) = (self.key.partition.as_str(), self.key.row.as_str());
        let (first, second) = match self.order {
            KeyOrder::RowFirst => (row, partition),
            KeyOrder::PartitionFirst => (partition, row),
        };
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(self.iv);
        for text in [first, second, property] {
            hash.update(text.as_bytes());
        }
        let hash = hash.finish();
        hash.as_ref().first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn seal(&self, property: &str, plaintext: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let fault = |_| CryptoError::Random;
        let key = UnboundCipherKey::new(&AES_256, self.cek.bytes()).map_err(fault)?;
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(fault)?;
        let iv = EncryptionContext::Iv128(FixedLength::from(self.iv_of(property)));
        let mut bytes = plaintext.to_vec();
        key.less_safe_encrypt(&mut bytes, iv).map_err(fault)?;
        Ok(bytes)
    }

    pub(super) fn open(
        &self,
        property: &str,
        ciphertext: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        let fault = |_| CryptoError::Decrypt;
        let key = UnboundCipherKey::new(&AES_256, self.cek.bytes()).map_err(fault)?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(fault)?;
        let iv = DecryptionContext::Iv128(FixedLength::from(self.iv_of(property)));
        let mut bytes = SecretBytes::from(ciphertext);
        let length = key.decrypt(bytes.expose_mut(), iv).map_err(fault)?.len();
        bytes.expose_mut().truncate(length);
        Ok(bytes)
    }
}

/// The names in a list: JSON, or a Java list as text (E-13).
pub(super) fn read_list(text: &str, order: KeyOrder) -> Result<Vec<String>, CryptoError> {
    if let Ok(names) = serde_json::from_str(text) {
        return Ok(names);
    }
    match order {
        KeyOrder::RowFirst => Err(CryptoError::Decrypt),
        KeyOrder::PartitionFirst => {
            let names = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            let names = names.ok_or(CryptoError::Decrypt)?;
            Ok(names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect())
        }
    }
}

/// The list of names before encryption.
pub(super) fn write_list(names: &[&str]) -> String {
    serde_json::to_string(names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::tests::{base64, cek, hex, iv, key};

    fn envelope(order: KeyOrder, check: impl FnOnce(Envelope<'_>)) {
        let (cek, iv, key) = (cek(), iv(), key());
        check(Envelope { cek: &cek, iv: &iv, key: &key, order });
    }

    const LIST: &str = "_ClientEncryptionMetadata2";

    #[track_caller]
    fn check(order: KeyOrder, property: &str, iv: &str, plaintext: &str, ciphertext: &str) {
        envelope(order, |envelope| {
            assert_eq!(envelope.iv_of(property)[..], hex(iv), "IV of {property}");
            let sealed = envelope.seal(property, plaintext.as_bytes()).unwrap();
            assert_eq!(sealed, base64(ciphertext));
            assert_eq!(envelope.open(property, &sealed).unwrap().expose(), plaintext.as_bytes());
        });
    }

    #[test]
    fn vectors_of_version_1() {
        // ES-1.
        use KeyOrder::{PartitionFirst, RowFirst};
        let iv = "2fdc67359f52fb6a89fa288e975cd69a";
        let email = "jonesj@contoso.com";
        let sealed = "+kfHV7+x2yxhysiEqF/fm//Wm+T4Rg+gfSRjIheZ6nI=";
        check(RowFirst, "EmailAddress", iv, email, sealed);
        check(RowFirst, "EmailAddress", iv, "", "Ao+2UL+7c39q1L3Pl/NB/Q==");
        let list = write_list(&["EmailAddress"]);
        let sealed = "zyj3N2nbvSYT8xfctOMCxo4qxU4KzZGzDT4Vr0dTsOs=";
        check(RowFirst, LIST, "0d85a499826a80f4c9c52152ff1c2b15", &list, sealed);
        let iv = "86b2c35cc9329fde3347a934803c3ba3";
        let sealed = "iL0dq6mI43bVw8iWtxvuvdQIB3ssjzVgEQR+FiFsBog=";
        check(PartitionFirst, "EmailAddress", iv, email, sealed);
        let iv = "180944e00b54cd33cce978c2bcec3849";
        check(PartitionFirst, LIST, iv, "[EmailAddress]", "vK1uEVeEi0Ltv2RebV0LKw==");
    }

    #[test]
    fn lists_are_json_or_javas_own_text() {
        // E-13, E-14.
        let names = |names: &[&str]| Ok(names.iter().map(|&name| name.to_owned()).collect());
        for order in [KeyOrder::RowFirst, KeyOrder::PartitionFirst] {
            assert_eq!(read_list(r#"["a","b"]"#, order), names(&["a", "b"]));
            assert_eq!(read_list("[]", order), names(&[]));
            assert_eq!(read_list("a", order), Err(CryptoError::Decrypt));
        }
        assert_eq!(read_list("[a, b]", KeyOrder::PartitionFirst), names(&["a", "b"]));
        assert_eq!(read_list("[a, b]", KeyOrder::RowFirst), Err(CryptoError::Decrypt));
    }
}
