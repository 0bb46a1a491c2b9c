//! The clear-text property that describes how an entity is encrypted (E-2, E-17).

use super::error::CryptoError;
use super::v1::{self, KeyOrder};
use super::v2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

/// The name of this library in the metadata. It must not contain the word Java (E-16).
const LIBRARY: &str = concat!("Rust lazuli-client ", env!("CARGO_PKG_VERSION"));
/// The layout of version 2 for tables (E-42).
const LAYOUT: &str = "1";

/// The content of the property; unknown members are preserved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    wrapped_content_key: WrappedKey,
    encryption_agent: Agent,
    #[serde(rename = "ContentEncryptionIV", skip_serializing_if = "Option::is_none", default)]
    iv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    encrypted_region_info: Option<Json>,
    /// Absent differs from empty: E-11.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    key_wrapping_metadata: Option<Map<String, Json>>,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

/// The key of an entity, wrapped.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrappedKey {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Agent {
    protocol: String,
    encryption_algorithm: String,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

/// How an entity is encrypted.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    document: Document,
    encrypted_key: Vec<u8>,
    format: Format,
}

/// The version of the format, with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    V1 { iv: Vec<u8>, order: KeyOrder },
    V2,
}

/// A wrapped key, and the id and algorithm of the key that wrapped it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrappedBy<'a> {
    pub(super) key_id: &'a str,
    pub(super) algorithm: &'a str,
    pub(super) encrypted_key: &'a [u8],
}

impl Metadata {
    pub(super) fn parse(text: &str) -> Result<Self, CryptoError> {
        let fault = |_| CryptoError::Metadata;
        let document: Document = serde_json::from_str(text).map_err(fault)?;
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| CryptoError::Metadata);
        let encrypted_key = decode(&document.wrapped_content_key.encrypted_key)?;
        let agent = &document.encryption_agent;
        let format = match (&*agent.protocol, &*agent.encryption_algorithm) {
            ("1.0", "AES_CBC_256") => {
                let iv = decode(document.iv.as_deref().ok_or(CryptoError::Metadata)?)?;
                if iv.len() != v1::IV_BYTES {
                    return Err(CryptoError::Metadata);
                }
                Format::V1 { iv, order: document.order() }
            }
            ("2.0", "AES_GCM_256") if document.note("Table") == Some(LAYOUT) => Format::V2,
            (protocol, algorithm) => {
                return Err(CryptoError::UnknownFormat {
                    protocol: protocol.to_owned(),
                    algorithm: algorithm.to_owned(),
                });
            }
        };
        Ok(Self { document, encrypted_key, format })
    }

    pub(super) fn new(wrapped: WrappedBy<'_>, format: Format) -> Self {
        let mut notes = Map::new();
        notes.insert("EncryptionLibrary".to_owned(), LIBRARY.into());
        let (protocol, algorithm, iv, region) = match &format {
            Format::V1 { iv, .. } => ("1.0", "AES_CBC_256", Some(STANDARD.encode(iv)), None),
            Format::V2 => {
                notes.insert("Table".to_owned(), LAYOUT.into());
                let region = json!({
                    "DataLength": v2::PLAINTEXT_BYTES_MAX,
                    "NonceLength": v2::NONCE_BYTES,
                });
                ("2.0", "AES_GCM_256", None, Some(region))
            }
        };
        let document = Document {
            wrapped_content_key: WrappedKey::new(wrapped),
            encryption_agent: Agent {
                protocol: protocol.to_owned(),
                encryption_algorithm: algorithm.to_owned(),
                rest: Map::new(),
            },
            iv,
            encrypted_region_info: region,
            key_wrapping_metadata: Some(notes),
            rest: Map::new(),
        };
        Self { document, encrypted_key: wrapped.encrypted_key.to_vec(), format }
    }

    /// The same with the key wrapped by another key (E-31).
    pub(super) fn rewrapped(self, wrapped: WrappedBy<'_>) -> Self {
        let document = Document { wrapped_content_key: WrappedKey::new(wrapped), ..self.document };
        Self { document, encrypted_key: wrapped.encrypted_key.to_vec(), ..self }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(&self.document).unwrap_or_default()
    }

    pub(super) fn format(&self) -> &Format {
        &self.format
    }

    pub(super) fn wrapped(&self) -> WrappedBy<'_> {
        let WrappedKey { key_id, algorithm, .. } = &self.document.wrapped_content_key;
        WrappedBy { key_id, algorithm, encrypted_key: &self.encrypted_key }
    }
}

impl WrappedKey {
    fn new(wrapped: WrappedBy<'_>) -> Self {
        Self {
            key_id: wrapped.key_id.to_owned(),
            encrypted_key: STANDARD.encode(wrapped.encrypted_key),
            algorithm: wrapped.algorithm.to_owned(),
        }
    }
}

impl Document {
    /// Which key comes first in the hash: Java differs from the other clients (E-11).
    fn order(&self) -> KeyOrder {
        let library = self.note("EncryptionLibrary");
        let is_javas = self.key_wrapping_metadata.is_none()
            || library.is_some_and(|library| library.contains("Java"));
        if is_javas { KeyOrder::PartitionFirst } else { KeyOrder::RowFirst }
    }

    fn note(&self, name: &str) -> Option<&str> {
        self.key_wrapping_metadata.as_ref()?.get(name)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped() -> WrappedBy<'static> {
        WrappedBy { key_id: "key1", algorithm: "A256KW", encrypted_key: &[1, 2, 3] }
    }

    #[test]
    fn metadata_is_written_as_the_old_clients_do() {
        // Section 2.
        let iv = (0xA0..=0xAF).collect();
        let format = Format::V1 { iv, order: KeyOrder::RowFirst };
        let text = Metadata::new(wrapped(), format.clone()).to_text();
        let expect = concat!(
            r#"{"WrappedContentKey":{"KeyId":"key1","EncryptedKey":"AQID","Algorithm":"A256KW"},"#,
            r#""EncryptionAgent":{"Protocol":"1.0","EncryptionAlgorithm":"AES_CBC_256"},"#,
            r#""ContentEncryptionIV":"oKGio6SlpqeoqaqrrK2urw==","#,
            r#""KeyWrappingMetadata":{"EncryptionLibrary":"Rust lazuli-client 0.1.0"}}"#,
        );
        assert_eq!(text, expect);
        assert_eq!(Metadata::parse(&text).unwrap().format, format);
        let text = Metadata::new(wrapped(), Format::V2).to_text();
        let expect = concat!(
            r#"{"WrappedContentKey":{"KeyId":"key1","EncryptedKey":"AQID","Algorithm":"A256KW"},"#,
            r#""EncryptionAgent":{"Protocol":"2.0","EncryptionAlgorithm":"AES_GCM_256"},"#,
            r#""EncryptedRegionInfo":{"DataLength":65508,"NonceLength":12},"#,
            r#""KeyWrappingMetadata":{"EncryptionLibrary":"Rust lazuli-client 0.1.0","Table":"1"}}"#,
        );
        assert_eq!(text, expect);
        assert_eq!(Metadata::parse(&text).unwrap().format, Format::V2);
        assert!(!LIBRARY.contains("Java"), "E-16");
    }

    #[test]
    fn java_is_known_by_what_it_did_not_write() {
        // E-11, ES-3.
        let text = |notes: &str| {
            format!(
                r#"{{ "EncryptionAgent": {{"EncryptionAlgorithm":"AES_CBC_256","Protocol":"1.0"}},
                "WrappedContentKey": {{"Algorithm":"A256KW","KeyId":"k","EncryptedKey":"AQID"}},
                "ContentEncryptionIV":"oKGio6SlpqeoqaqrrK2urw=="{notes} }}"#
            )
        };
        for (notes, order) in [
            ("", KeyOrder::PartitionFirst),
            (r#","KeyWrappingMetadata":null"#, KeyOrder::PartitionFirst),
            (
                r#","KeyWrappingMetadata":{"EncryptionLibrary":"Java 6.1.0"}"#,
                KeyOrder::PartitionFirst,
            ),
            (r#","KeyWrappingMetadata":{}"#, KeyOrder::RowFirst),
            (r#","KeyWrappingMetadata":{"EncryptionLibrary":".NET 9.1.0"}"#, KeyOrder::RowFirst),
        ] {
            let metadata = Metadata::parse(&text(notes)).unwrap();
            assert!(
                matches!(&metadata.format, Format::V1 { order: o, .. } if *o == order),
                "{notes}"
            );
            // A rotation must preserve the writer's name.
            let rotated =
                Metadata::parse(&metadata.clone().rewrapped(wrapped()).to_text()).unwrap();
            assert_eq!(rotated.format, metadata.format, "{notes}");
        }
    }

    #[test]
    fn a_rotation_changes_the_wrapped_key_alone() {
        // E-31.
        let text = concat!(
            r#"{"WrappedContentKey":{"KeyId":"old","EncryptedKey":"BAUG","Algorithm":"A128KW"},"#,
            r#""EncryptionAgent":{"Protocol":"1.0","EncryptionAlgorithm":"AES_CBC_256","Mode":7},"#,
            r#""ContentEncryptionIV":"oKGio6SlpqeoqaqrrK2urw==","#,
            r#""KeyWrappingMetadata":{"EncryptionLibrary":"Python 1.0.6","Note":[1]},"Later":{"a":null}}"#,
        );
        let expect =
            text.replace("old", "key1").replace("BAUG", "AQID").replace("A128KW", "A256KW");
        assert_eq!(Metadata::parse(text).unwrap().rewrapped(wrapped()).to_text(), expect);
    }

    #[test]
    fn what_cannot_be_read_is_never_clear() {
        // E-17.
        let good = Metadata::new(wrapped(), Format::V2).to_text();
        let kind = |text: &str| Metadata::parse(text).map(|_| ()).unwrap_err();
        for (from, to) in [("AQID", "AQ"), ("KeyId", "Key"), ("{", "["), ("\"2.0\"", "2.0")] {
            assert_eq!(kind(&good.replace(from, to)), CryptoError::Metadata, "{to}");
        }
        for (from, to) in [("2.0", "3.0"), ("_256", "_128"), ("\"Table\":\"1\"", "\"Table\":\"2\"")]
        {
            let kind = kind(&good.replace(from, to));
            assert!(matches!(kind, CryptoError::UnknownFormat { .. }), "{to}: {kind:?}");
        }
        let short = Format::V1 { iv: vec![0; 15], order: KeyOrder::RowFirst };
        assert_eq!(kind(&Metadata::new(wrapped(), short).to_text()), CryptoError::Metadata);
    }
}
