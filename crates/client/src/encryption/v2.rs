//! Version 2: authenticated, for all types (E-40 to E-45).

use super::cek::Cek;
use super::error::CryptoError;
use super::secret_bytes::SecretBytes;
use crate::value::Value;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use lazuli_model::{EdmType, EntityKey, Guid, Timestamp, ValueRef};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub(super) const NONCE_BYTES: usize = NONCE_LEN;

/// The longest value whose ciphertext fits into 64 KiB: the nonce and the tag take 28 bytes (E-43).
pub(super) const PLAINTEXT_BYTES_MAX: usize = 65_508;

/// Identifies this format in the authenticated data (E-42).
const DOMAIN: &[u8] = b"lazuli-table-encryption-2\0";

/// The type name of a padded text (E-45).
const PADDED: &str = "Edm.String+pad";

/// Encrypts the properties of one entity.
pub(super) struct Envelope<'a> {
    key: &'a EntityKey,
    cipher: LessSafeKey,
}

impl<'a> Envelope<'a> {
    pub(super) fn new(cek: &Cek, key: &'a EntityKey) -> Result<Self, CryptoError> {
        let cipher =
            UnboundKey::new(&AES_256_GCM, cek.bytes()).map_err(|_| CryptoError::Decrypt)?;
        Ok(Self { key, cipher: LessSafeKey::new(cipher) })
    }

    /// Binds a value to its place and type (E-42).
    fn associated_data(&self, property: &str, type_name: &str) -> Vec<u8> {
        let mut data = DOMAIN.to_vec();
        let (partition, row) = (self.key.partition.as_str(), self.key.row.as_str());
        for text in [partition, row, property, type_name] {
            // Keys, names and types are far below 4 GiB.
            data.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            data.extend_from_slice(text.as_bytes());
        }
        data
    }

    /// The nonce, the ciphertext and the tag (E-41).
    pub(super) fn seal(
        &self,
        property: &str,
        type_name: &str,
        nonce: [u8; NONCE_BYTES],
        plaintext: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        let mut bytes = Vec::with_capacity(plaintext.len() + NONCE_BYTES + AES_256_GCM.tag_len());
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(plaintext);
        let (_, value) = bytes.split_at_mut(NONCE_BYTES);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(self.associated_data(property, type_name));
        let tag = self.cipher.seal_in_place_separate_tag(nonce, aad, value);
        bytes.extend_from_slice(tag.map_err(|_| CryptoError::Random)?.as_ref());
        Ok(bytes)
    }

    pub(super) fn open(
        &self,
        property: &str,
        type_name: &str,
        sealed: &[u8],
    ) -> Result<SecretBytes, CryptoError> {
        let (nonce, sealed) =
            sealed.split_first_chunk::<NONCE_BYTES>().ok_or(CryptoError::Decrypt)?;
        let aad = Aad::from(self.associated_data(property, type_name));
        let mut bytes = SecretBytes::from(sealed);
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.cipher.open_in_place(nonce, aad, bytes.expose_mut());
        let length = opened.map_err(|_| CryptoError::Decrypt)?.len();
        bytes.expose_mut().truncate(length);
        Ok(bytes)
    }
}

/// The bytes of a value, without padding (E-43): the input of encryption and of blind indexes.
pub(super) fn plaintext(value: &Value) -> Cow<'_, [u8]> {
    match value.as_ref() {
        ValueRef::String(text) => Cow::Borrowed(text.as_bytes()),
        ValueRef::Binary(bytes) => Cow::Borrowed(bytes),
        ValueRef::Boolean(value) => Cow::Owned(vec![u8::from(value)]),
        ValueRef::Int32(value) => Cow::Owned(value.to_le_bytes().to_vec()),
        ValueRef::Int64(value) => Cow::Owned(value.to_le_bytes().to_vec()),
        ValueRef::Double(value) => Cow::Owned(value.to_bits().to_le_bytes().to_vec()),
        ValueRef::DateTime(value) => Cow::Owned(value.ticks().to_le_bytes().to_vec()),
        ValueRef::Guid(value) => Cow::Owned(value.0.to_vec()),
    }
}

/// The type name of a value and its bytes; texts are padded to a multiple of `pad` (E-45).
pub(super) fn encode(value: &Value, pad: u16) -> (&'static str, SecretBytes) {
    let bytes = plaintext(value);
    match value {
        Value::String(_) if pad > 0 => {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
            let mut padded = [&length[..], &bytes].concat();
            padded.resize(padded.len().next_multiple_of(pad.into()), 0);
            (PADDED, SecretBytes::new(padded))
        }
        _ => (value.as_ref().edm_type().name(), SecretBytes::from(&*bytes)),
    }
}

/// Decodes a value of a type from bytes. They were authenticated: an error here is the writer's fault.
pub(super) fn decode(type_name: &str, bytes: &SecretBytes) -> Result<Value, CryptoError> {
    fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], CryptoError> {
        bytes.try_into().map_err(|_| CryptoError::Decrypt)
    }
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map_err(|_| CryptoError::Decrypt)?;
        Ok(Value::String(Cow::Owned(text.to_owned())))
    };
    let bytes = bytes.expose();
    if type_name == PADDED {
        let (length, padded) = bytes.split_first_chunk().ok_or(CryptoError::Decrypt)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        return text(padded.get(..length).ok_or(CryptoError::Decrypt)?);
    }
    match EdmType::from_name(type_name).ok_or(CryptoError::Decrypt)? {
        EdmType::String => text(bytes),
        EdmType::Binary => Ok(Value::Binary(Cow::Owned(bytes.to_vec()))),
        EdmType::Boolean => match fixed(bytes)? {
            [0] => Ok(Value::Boolean(false)),
            [1] => Ok(Value::Boolean(true)),
            _ => Err(CryptoError::Decrypt),
        },
        EdmType::Int32 => Ok(Value::Int32(i32::from_le_bytes(fixed(bytes)?))),
        EdmType::Int64 => Ok(Value::Int64(i64::from_le_bytes(fixed(bytes)?))),
        EdmType::Double => Ok(Value::Double(f64::from_bits(u64::from_le_bytes(fixed(bytes)?)))),
        EdmType::DateTime => {
            let time = Timestamp::from_ticks(u64::from_le_bytes(fixed(bytes)?));
            time.map(Value::DateTime).ok_or(CryptoError::Decrypt)
        }
        EdmType::Guid => Ok(Value::Guid(Guid(fixed(bytes)?))),
    }
}

/// The list of names and types before encryption: a JSON object in the order of the properties (E-44).
pub(super) fn write_list(entries: &[(&str, &str)]) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let entry = |(name, kind): &(&str, &str)| format!("{}:{}", quoted(name), quoted(kind));
    format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
}

pub(super) fn read_list(text: &[u8]) -> Result<BTreeMap<String, String>, CryptoError> {
    serde_json::from_slice(text).map_err(|_| CryptoError::Decrypt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IntoValue as _;
    use crate::encryption::tests::{base64, cek, hex, key};

    fn nonce(first: u8) -> [u8; NONCE_BYTES] {
        std::array::from_fn(|at| first + u8::try_from(at).unwrap())
    }

    #[test]
    fn vectors_of_version_2() {
        // ES-1.
        let key = key();
        let envelope = Envelope::new(&cek(), &key).unwrap();
        let aad = "6c617a756c692d7461626c652d656e6372797074696f6e2d32000000000553616c65730000000c\
                   656d7069645f3030303232330000000c456d61696c416464726573730000000a45646d2e537472696e67";
        assert_eq!(envelope.associated_data("EmailAddress", "Edm.String"), hex(aad));
        let list = write_list(&[("EmailAddress", "Edm.String"), ("Age", "Edm.Int32")]);
        let email = "wMHCw8TFxsfIycrLNSteqwnwfYgb11BZ2MyMrvCYRe/cp5hJU7R2cQzMogsxvA==";
        let sealed_list = "4OHi4+Tl5ufo6err1PqMBLtm2JHxp4SCucw1UqlzhPLoZs6N/3DPDky9qwudYp6CJ/BwvsogkXv\
                           /nqnHAsfJB4Q9xXLiWoAa8mX/";
        for (property, value, first, sealed) in [
            ("EmailAddress", Value::from("jonesj@contoso.com"), 0xC0, email),
            ("Age", Value::Int32(34), 0xD0, "0NHS09TV1tfY2drb/czW14JFOp/xPhRuOdlHP3TlL10="),
            ("_ClientEncryptionMetadata2", list.into_value(), 0xE0, sealed_list),
        ] {
            let (kind, bytes) = encode(&value, 0);
            let ours = envelope.seal(property, kind, nonce(first), bytes.expose()).unwrap();
            assert_eq!(ours, base64(sealed), "{property}");
            let opened = envelope.open(property, kind, &ours).unwrap();
            assert_eq!(decode(kind, &opened).unwrap(), value);
        }
    }

    #[test]
    fn every_type_reads_back() {
        // E-43, ES-7.
        for value in [
            Value::from(""),
            Value::from("Zoë 😀"),
            Value::Binary(Cow::Owned(vec![0, 255])),
            Value::Boolean(true),
            Value::Boolean(false),
            Value::Int32(i32::MIN),
            Value::Int64(i64::MAX),
            Value::Double(-0.0),
            Value::DateTime(Timestamp::MAX),
            Value::Guid(Guid([7; 16])),
        ] {
            for pad in [0, 1, 256] {
                let (kind, bytes) = encode(&value, pad);
                assert_eq!(decode(kind, &bytes), Ok(value.clone()), "{kind} {pad}");
            }
        }
    }

    #[test]
    fn padded_texts_have_few_lengths() {
        // E-45.
        for length in [0, 1, 252] {
            let text = Value::String(Cow::Owned("x".repeat(length)));
            assert_eq!(encode(&text, 256).1.expose().len(), 256);
        }
        assert_eq!(encode(&"x".repeat(253).into_value(), 256).1.expose().len(), 512);
        assert_eq!(encode(&Value::Int32(1), 256).0, "Edm.Int32");
    }

    #[test]
    fn bytes_that_are_not_of_their_type_do_not_decode() {
        for (kind, bytes) in [
            ("Edm.String", &[0xFF][..]),
            ("Edm.Boolean", &[2]),
            ("Edm.Int32", &[1, 2, 3]),
            ("Edm.DateTime", &[0xFF; 8]),
            ("Edm.String+pad", &[9, 0, 0, 0, 1]),
            ("Edm.String+pad", &[9]),
            ("Edm.Decimal", &[]),
        ] {
            assert_eq!(
                decode(kind, &SecretBytes::from(bytes)),
                Err(CryptoError::Decrypt),
                "{kind}"
            );
        }
    }
}
