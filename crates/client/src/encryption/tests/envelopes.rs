//! Entities encrypted and decrypted, and what becomes of those that somebody changed.

use super::{cek, iv, kek, key};
use crate::encryption::cek::Cek;
use crate::encryption::metadata::{Format, Metadata, WrappedBy};
use crate::encryption::protection::{LIST, METADATA};
use crate::encryption::v1::{Envelope, KeyOrder};
use crate::encryption::{
    AesKey, BlindKey, CryptoError, Encryption, KeyResolver, KeyWrap, Keys, SecretBytes,
};
use crate::entity::{Entity, Properties, TableEntity};
use crate::env::Env;
use crate::property::PropertyDef;
use crate::value::{IntoValue as _, Value};
use crate::write::WriteVerb;
use crate::{BoxFuture, EdmType};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

fn keys() -> Keys {
    Keys::new(kek())
}

fn v2() -> Encryption {
    Encryption::v2(keys()).properties(["EmailAddress", "Age", "Notes"])
}

fn v1() -> Encryption {
    Encryption::v1_for_old_readers(keys()).properties(["EmailAddress", "Notes"])
}

fn employee() -> Entity {
    Entity::new("Sales", "empid_000223")
        .with("EmailAddress", "jonesj@contoso.com")
        .with("Department", "Sales")
        .with("Notes", "")
}

/// What is stored of an entity.
async fn sealed_of(
    encryption: &Encryption,
    declared: &'static [PropertyDef],
    entity: &Entity,
) -> Result<Entity, CryptoError> {
    let key = entity.key().unwrap();
    let mut properties = Properties::of(declared);
    entity.write(&mut properties).unwrap();
    let env = Env::system();
    encryption.seal(&mut properties, "People", &key, WriteVerb::Insert, &env).await?;
    let empty = Entity::new(entity.partition_key(), entity.row_key());
    let stored = properties.values();
    Ok(stored.fold(empty, |stored, (name, value)| stored.with(name.to_owned(), value.clone())))
}

async fn seal(encryption: &Encryption, entity: &Entity) -> Result<Entity, CryptoError> {
    sealed_of(encryption, &[], entity).await
}

async fn open(encryption: &Encryption, stored: Entity) -> Result<Entity, CryptoError> {
    encryption.open(stored, &Env::system(), &[], &[]).await
}

/// Changes some bytes of a stored property.
fn with_bytes(stored: &Entity, name: &'static str, change: impl FnOnce(&mut Vec<u8>)) -> Entity {
    let Some(Value::Binary(bytes)) = stored.value(name) else { panic!("{name} holds bytes") };
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    stored.clone().with(name, bytes)
}

/// Changes the text of the metadata.
fn with_metadata(stored: &Entity, from: &str, to: &str) -> Entity {
    let text = stored.str(METADATA).unwrap();
    assert!(text.contains(from), "{text}");
    stored.clone().with(METADATA, text.replace(from, to))
}

#[tokio::test]
async fn both_versions_read_back_and_hide_what_they_added() {
    for encryption in [v1(), v2()] {
        let stored = seal(&encryption, &employee()).await.unwrap();
        assert!(matches!(stored.value("EmailAddress"), Some(Value::Binary(_))), "E-3");
        assert_eq!(stored.str("Department"), Ok("Sales"));
        assert_eq!(open(&encryption, stored.clone()).await.unwrap(), employee());
        // Either reads both.
        assert_eq!(open(&v2(), stored).await.unwrap(), employee());
    }
    let aged = employee().with("Age", 34);
    assert_eq!(open(&v2(), seal(&v2(), &aged).await.unwrap()).await.unwrap(), aged);
}

#[tokio::test]
async fn answers_without_types_are_decoded_by_the_list() {
    // E-15.
    use base64::Engine as _;
    for encryption in [v1(), v2()] {
        let stored = seal(&encryption, &employee()).await.unwrap();
        let untyped =
            stored.properties().fold(Entity::new("Sales", "empid_000223"), |e, (name, value)| {
                let value = match value {
                    Value::Binary(bytes) => {
                        base64::engine::general_purpose::STANDARD.encode(bytes).into_value()
                    }
                    other => other.clone(),
                };
                e.with(name.to_owned(), value)
            });
        assert_eq!(open(&encryption, untyped).await.unwrap(), employee());
    }
}

#[tokio::test]
async fn what_java_and_early_net_wrote_is_read() {
    // ES-3.
    let (cek, iv, key) = (cek(), iv(), key());
    let wrapped = kek().wrap(cek.packed_v1().expose()).await.unwrap();
    let by = WrappedBy { key_id: "key1", algorithm: "A256KW", encrypted_key: &wrapped.bytes };
    let metadata = |notes: &str| {
        let format = Format::V1 { iv: iv.to_vec(), order: KeyOrder::RowFirst };
        let text = Metadata::new(by, format).to_text();
        let ours = r#","KeyWrappingMetadata":{"EncryptionLibrary":"Rust lazuli-client 0.1.0"}"#;
        assert!(text.contains(ours));
        text.replace(ours, notes)
    };
    let java = (KeyOrder::PartitionFirst, "[EmailAddress]");
    let net = (KeyOrder::RowFirst, r#"["EmailAddress"]"#);
    for ((order, list), notes) in [
        (java, ""),
        (java, r#","KeyWrappingMetadata":{"EncryptionLibrary":"Java 6.1.0"}"#),
        (net, r#","KeyWrappingMetadata":{}"#),
    ] {
        let envelope = Envelope { cek: &cek, iv: &iv, key: &key, order };
        let stored = Entity::new("Sales", "empid_000223")
            .with("EmailAddress", envelope.seal("EmailAddress", b"jonesj@contoso.com").unwrap())
            .with(METADATA, metadata(notes))
            .with(LIST, envelope.seal(LIST, list.as_bytes()).unwrap());
        let read = open(&v2(), stored).await.unwrap();
        assert_eq!(read.str("EmailAddress"), Ok("jonesj@contoso.com"), "{notes}");
        assert_eq!(read.len(), 1, "E-7");
    }
}

#[tokio::test]
async fn version_2_notices_every_change() {
    // ES-4.
    let encryption = v2();
    let stored = seal(&encryption, &employee().with("Age", 34)).await.unwrap();
    let other = seal(&encryption, &employee().with("EmailAddress", "x@y.z")).await.unwrap();
    let mut elsewhere = Entity::new("Sales", "empid_000224");
    for (name, value) in stored.properties() {
        elsewhere.set(name.to_owned(), value.clone());
    }
    let taken = |name: &str| other.value(name).unwrap().clone();
    let mut without = stored.clone();
    without.remove("EmailAddress");
    let swapped = stored.clone().with("EmailAddress", stored.value("Age").unwrap().clone());
    let clear = stored.clone().with("EmailAddress", "eve@contoso.com");
    for (what, changed) in [
        ("moved to another row", elsewhere),
        ("moved to another property", swapped),
        (
            "a value of another version of the row",
            stored.clone().with("EmailAddress", taken("EmailAddress")),
        ),
        ("a list of another version of the row", stored.clone().with(LIST, taken(LIST))),
        ("a key of another version of the row", stored.clone().with(METADATA, taken(METADATA))),
        ("a property removed", without),
        ("a property in clear", clear),
        ("its first byte", with_bytes(&stored, "EmailAddress", |bytes| bytes[0] ^= 1)),
        ("cut", with_bytes(&stored, "EmailAddress", |bytes| bytes.truncate(20))),
        ("empty", with_bytes(&stored, "EmailAddress", Vec::clear)),
        ("an empty list", with_bytes(&stored, LIST, Vec::clear)),
    ] {
        let fault = open(&encryption, changed).await.unwrap_err();
        assert!(matches!(fault, CryptoError::Tampered | CryptoError::Decrypt), "{what}: {fault:?}");
    }
    // Passed off as version 1, with the members that it needs.
    let iv = r#""ContentEncryptionIV":"oKGio6SlpqeoqaqrrK2urw==","KeyWrapping"#;
    let old = with_metadata(&stored, "2.0", "1.0");
    let old = with_metadata(&old, "AES_GCM_256", "AES_CBC_256");
    let old = with_metadata(&old, r#""KeyWrapping"#, iv);
    open(&encryption, stored.clone()).await.unwrap();
    assert_eq!(
        open(&encryption, old).await,
        Err(CryptoError::Decrypt),
        "also from the cache: E-40"
    );
    // One of the two metadata properties alone is not clear.
    for name in [METADATA, LIST] {
        let mut half = stored.clone();
        half.remove(name);
        assert_eq!(open(&encryption, half).await, Err(CryptoError::Metadata));
    }
}

#[tokio::test]
async fn bytes_under_an_encrypted_name_that_is_not_listed_are_noticed() {
    // E-44.
    let stored = seal(&v2(), &employee()).await.unwrap();
    let strange = stored.clone().with("Age", vec![1_u8; 40]);
    assert_eq!(open(&v2(), strange).await, Err(CryptoError::Tampered));
    let harmless = stored.clone().with("Photo", vec![1_u8; 40]);
    assert!(open(&v2(), harmless).await.is_ok(), "not a name that is encrypted");
    // A clear value may be older than the encryption, unless nothing may be clear.
    let clear = stored.with("Age", 99);
    assert!(open(&v2(), clear.clone()).await.is_ok());
    assert_eq!(open(&v2().require_encryption(), clear).await, Err(CryptoError::Tampered));
}

#[tokio::test]
async fn a_value_of_an_earlier_version_of_the_row_does_not_open() {
    // E-1, E-42: each write has its own key.
    let earlier = seal(&v2(), &employee()).await.unwrap();
    let later = seal(&v2(), &employee().with("EmailAddress", "new@contoso.com")).await.unwrap();
    for name in ["EmailAddress", LIST, METADATA] {
        let mixed = later.clone().with(name, earlier.value(name).unwrap().clone());
        assert_eq!(open(&v2(), mixed).await, Err(CryptoError::Decrypt), "{name}");
    }
}

#[tokio::test]
async fn a_blind_index_is_not_taken_for_a_secret_and_not_given_by_the_caller() {
    // E-44, E-46, where the resolver names every property.
    let keys = keys().blind(BlindKey::new(&[7; 32]).unwrap());
    let all = Encryption::v2(keys).resolver(|_, _, _| true).blind_index("Notes");
    let stored = seal(&all, &employee()).await.unwrap();
    assert!(matches!(stored.value("Notes_bi"), Some(Value::Binary(bytes)) if bytes.len() == 16));
    assert_eq!(open(&all, stored).await, Ok(employee()));
    let forged = employee().with("Notes_bi", vec![1_u8; 16]);
    let fault = CryptoError::Reserved { property: "Notes_bi".into() };
    assert_eq!(seal(&all, &forged).await, Err(fault));
}

#[tokio::test]
async fn a_secret_under_a_name_that_stays_clear_is_not_written() {
    // E-4. It was once written in clear, though its type declares it as encrypted.
    const HIDDEN: &[PropertyDef] =
        &[PropertyDef::new("note", "_Note", Some(EdmType::String)).encrypted(false)];
    let entity = Entity::new("p", "r").with("_Note", "secret");
    let fault = CryptoError::Reserved { property: "_Note".into() };
    assert_eq!(sealed_of(&v2(), HIDDEN, &entity).await, Err(fault));
}

#[tokio::test]
async fn without_keys_what_a_resolver_names_is_absent() {
    // E-22.
    let stored = seal(&v2(), &employee()).await.unwrap();
    let reader = Encryption::without_keys().properties(["EmailAddress", "Age", "Notes"]);
    let clear = Entity::new("Sales", "empid_000223").with("Department", "Sales");
    assert_eq!(open(&reader, stored).await, Ok(clear));
}

#[tokio::test]
async fn a_projection_needs_only_what_it_asked_for() {
    let stored = seal(&v2(), &employee()).await.unwrap();
    let mut projected = stored.clone();
    projected.remove("EmailAddress");
    let selected = ["Notes".to_owned()];
    let env = Env::system();
    let read = v2().open(projected.clone(), &env, &[], &selected).await.unwrap();
    assert_eq!(read.str("Notes"), Ok(""));
    let selected = ["EmailAddress".to_owned()];
    let missing = v2().open(projected, &env, &[], &selected).await;
    assert_eq!(missing, Err(CryptoError::Tampered), "asked for, and not there");
}

/// Knows no key.
struct Nobody;

impl KeyResolver for Nobody {
    fn resolve<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Option<Arc<dyn KeyWrap>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Knows every key by its id: the same one.
struct Anybody;

impl KeyResolver for Anybody {
    fn resolve<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Option<Arc<dyn KeyWrap>>> {
        Box::pin(std::future::ready(Some(Arc::new(kek()) as Arc<dyn KeyWrap>)))
    }
}

#[tokio::test]
async fn keys_are_found_by_their_ids() {
    // ES-5, E-30.
    let stored = seal(&v2(), &employee()).await.unwrap();
    let other = || AesKey::new("key2", &[7; 32][..]).unwrap();
    let unknown = Err(CryptoError::UnknownKey { id: "key1".into() });
    assert_eq!(open(&Encryption::v2(Keys::new(other())), stored.clone()).await, unknown);
    let resolver = Keys::new(kek()).resolver(Nobody);
    assert_eq!(open(&Encryption::v2(resolver), stored.clone()).await, unknown, "it decides alone");
    let also = Encryption::v2(Keys::new(other()).also(kek()));
    assert_eq!(open(&also, stored.clone()).await, Ok(employee()));
    let resolver = Encryption::v2(Keys::new(other()).resolver(Anybody));
    assert_eq!(open(&resolver, stored.clone()).await, Ok(employee()));
    let impostor = Encryption::v2(Keys::new(AesKey::new("key1", &[7; 32][..]).unwrap()));
    assert_eq!(open(&impostor, stored).await, Err(CryptoError::Decrypt));
    assert_eq!(seal(&Encryption::without_keys(), &employee()).await, Err(CryptoError::NoKey));
}

#[tokio::test]
async fn types_and_sizes_of_version_1() {
    // ES-7, E-12.
    let one = |value: Value| Entity::new("p", "r").with("Notes", value);
    let text = |bytes: usize| one(Value::String(Cow::Owned("x".repeat(bytes))));
    for (bytes, stored_bytes) in [(0, 16), (15, 16), (16, 32), (17, 32), (65_535, 65_536)] {
        let stored = seal(&v1(), &text(bytes)).await.unwrap();
        let Some(Value::Binary(sealed)) = stored.value("Notes") else { panic!("bytes") };
        assert_eq!(sealed.len(), stored_bytes, "{bytes}");
        assert_eq!(open(&v1(), stored).await.unwrap(), text(bytes));
    }
    let property = || "Notes".to_owned();
    let large = CryptoError::TooLarge { property: property(), bytes_max: 65_535 };
    assert_eq!(seal(&v1(), &text(65_536)).await, Err(large));
    let number = CryptoError::Unsupported { property: property(), edm_type: EdmType::Int32 };
    assert_eq!(seal(&v1(), &one(Value::Int32(1))).await, Err(number));
}

#[tokio::test]
async fn sizes_of_version_2() {
    // ES-7, E-43.
    let text = |bytes: usize| Entity::new("p", "r").with("Notes", "x".repeat(bytes));
    for bytes in [0, 15, 16, 17, 65_508] {
        let stored = seal(&v2(), &text(bytes)).await.unwrap();
        let Some(Value::Binary(sealed)) = stored.value("Notes") else { panic!("bytes") };
        assert_eq!(sealed.len(), bytes + 28);
        assert_eq!(open(&v2(), stored).await.unwrap(), text(bytes));
    }
    let large = CryptoError::TooLarge { property: "Notes".into(), bytes_max: 65_508 };
    assert_eq!(seal(&v2(), &text(65_509)).await, Err(large));
}

#[tokio::test]
async fn what_is_not_said_is_refused() {
    let untold = Encryption::v2(keys());
    assert_eq!(seal(&untold, &employee()).await, Err(CryptoError::NoResolver));
    let reserved = employee().with(METADATA, "{}");
    let fault = CryptoError::Reserved { property: METADATA.into() };
    assert_eq!(seal(&v2(), &reserved).await, Err(fault));
    // E-4: names that others must read are never encrypted, whatever a resolver says.
    let all = Encryption::v2(keys()).resolver(|_, _, _| true);
    let kinds = employee().with("EntityType", "Employee");
    let stored = seal(&all, &kinds).await.unwrap();
    assert_eq!(stored.str("EntityType"), Ok("Employee"));
    assert!(matches!(stored.value("Department"), Some(Value::Binary(_))));
    let by_row = Encryption::v2(keys()).resolver(|_, row, name| row == "a" && name == "Notes");
    let of = |row| Entity::new("p", row).with("Notes", "x");
    assert!(seal(&by_row, &of("a")).await.unwrap().value(METADATA).is_some());
    assert_eq!(seal(&by_row, &of("b")).await.unwrap(), of("b"), "nothing to encrypt");
    assert_eq!(seal(&by_row.require_encryption(), &of("b")).await, Err(CryptoError::Clear));
}

const PATIENT: &[PropertyDef] = &[
    PropertyDef::new("ward", "Ward", Some(EdmType::Int32)),
    PropertyDef::new("name", "Name", Some(EdmType::String)).encrypted(false).padded(64),
    PropertyDef::new("ssn", "Ssn", Some(EdmType::String)).encrypted(true),
];

#[tokio::test]
async fn declared_fields_are_encrypted_padded_and_indexed() {
    let keys = || keys().blind(BlindKey::new(&[7; 32]).unwrap());
    let patient =
        Entity::new("Clinic", "17").with("Ward", 3).with("Name", "Ann").with("Ssn", "078");
    let encryption = Encryption::v2(keys());
    let stored = sealed_of(&encryption, PATIENT, &patient).await.unwrap();
    let length = |name: &str| match stored.value(name) {
        Some(Value::Binary(bytes)) => bytes.len(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!((length("Name"), length("Ssn"), length("Ssn_bi")), (64 + 28, 3 + 28, 16));
    let env = Env::system();
    let read = encryption.open(stored.clone(), &env, PATIENT, &[]).await;
    assert_eq!(read, Ok(patient.clone()), "without the index");
    let blind = Encryption::without_keys().open(stored, &env, PATIENT, &[]).await;
    assert_eq!(blind, Ok(Entity::new("Clinic", "17").with("Ward", 3)), "E-22");
    let no_blind_key = sealed_of(&Encryption::v2(self::keys()), PATIENT, &patient).await;
    assert_eq!(no_blind_key, Err(CryptoError::NoBlindKey));
    // A type with encrypted fields is encrypted even if it has none of them.
    let empty = Entity::new("Clinic", "18").with("Ward", 3);
    let stored = sealed_of(&encryption, PATIENT, &empty).await.unwrap();
    assert!(stored.value(METADATA).is_some());
    let encryption = encryption.require_encryption();
    assert_eq!(encryption.open(stored, &env, PATIENT, &[]).await, Ok(empty));
}

#[tokio::test]
async fn each_write_has_its_own_key_unless_one_is_shared() {
    // E-1, E-34.
    let wrapped = |stored: &Entity| {
        let metadata = Metadata::parse(stored.str(METADATA).unwrap()).unwrap();
        metadata.wrapped().encrypted_key.to_vec()
    };
    let own = v2();
    let first = wrapped(&seal(&own, &employee()).await.unwrap());
    assert_ne!(first, wrapped(&seal(&own, &employee()).await.unwrap()));
    let shared = v2().reuse_cek(std::time::Duration::from_secs(60), 2);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let stored = seal(&shared, &employee()).await.unwrap();
        seen.push(wrapped(&stored));
        assert_eq!(open(&shared, stored).await, Ok(employee()));
    }
    assert!(seen[0] == seen[1] && seen[1] != seen[2] && seen[2] == seen[3]);
}

#[test]
fn nothing_secret_is_shown() {
    // E-33: in decimal, hexadecimal and base64, whole or in part.
    let secret = [0xA7; 32];
    let aes = AesKey::new("key1", &secret[..]).unwrap();
    let blind = BlindKey::new(&secret).unwrap();
    let wrong = runtime().block_on(aes.unwrap("A256KW", &[0xA7; 40])).unwrap_err();
    let unknown = runtime().block_on(aes.unwrap("ROT13", &secret)).unwrap_err();
    let mut shown = format!("{aes:?} {blind:?} {wrong:?} {wrong} {unknown:?} {unknown}");
    let keys = Keys::new(aes).blind(blind);
    shown += &format!("{keys:?} {:?}", SecretBytes::new(secret.to_vec()));
    shown += &format!("{:?} {:?}", Encryption::v2(keys), Cek::random().unwrap().packed_v2());
    assert!(shown.contains("key1") && shown.contains("SecretBytes(..)"), "{shown}");
    for part in ["167", "a7a7", "A7A7", "p6enp6", "[0, 1, 2"] {
        assert!(!shown.contains(part), "{part} in {shown}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// ES-4: one bit of an encrypted value or of the list.
    #[test]
    fn one_bit_of_a_value_is_noticed(at in 0_usize..2048, bit in 0_u8..8, in_list in any::<bool>()) {
        runtime().block_on(async {
            let name = if in_list { LIST } else { "EmailAddress" };
            let flip = |bytes: &mut Vec<u8>| {
                let at = at % bytes.len();
                bytes[at] ^= 1 << bit;
            };
            let stored = seal(&v2(), &employee()).await.unwrap();
            assert_eq!(open(&v2(), with_bytes(&stored, name, flip)).await, Err(CryptoError::Decrypt));
            // Version 1 is not authenticated: it may read something else, or fail in one way.
            let stored = seal(&v1(), &employee()).await.unwrap();
            let read = open(&v1(), with_bytes(&stored, name, flip)).await;
            assert!(matches!(read, Ok(_) | Err(CryptoError::Decrypt)), "{read:?}");
        });
    }

    /// ES-4: one bit of the metadata, which is clear text. What decides is noticed; a bit of what nobody
    /// reads, such as the library's name, changes nothing.
    #[test]
    fn one_bit_of_the_metadata_never_gives_other_values(at in 0_usize..1024, bit in 0_u8..7) {
        runtime().block_on(async {
            for encryption in [v1(), v2()] {
                let stored = seal(&encryption, &employee()).await.unwrap();
                let mut text = stored.str(METADATA).unwrap().as_bytes().to_vec();
                let at = at % text.len();
                text[at] ^= 1 << bit;
                let Ok(text) = String::from_utf8(text) else { return };
                let read = open(&encryption, stored.with(METADATA, text)).await;
                match read {
                    Ok(read) => {
                        let is_v2 = encryption.writes_as(&Format::V2);
                        assert!(!is_v2 || read == employee(), "{read:?}");
                    }
                    Err(
                        CryptoError::Decrypt
                        | CryptoError::Metadata
                        | CryptoError::UnknownFormat { .. }
                        | CryptoError::UnknownKey { .. }
                        | CryptoError::UnknownAlgorithm { .. },
                    ) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }

    /// ES-11.
    #[test]
    fn random_metadata_and_bytes_do_not_panic(
        text in "\\PC{0,200}",
        json in "[\\[\\]{}\":,a-zA-Z0-9. ]{0,200}",
        list in prop::collection::vec(any::<u8>(), 0..200),
        value in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        runtime().block_on(async {
            for (encryption, good) in [(v1(), true), (v2(), true), (v2(), false)] {
                let stored = seal(&encryption, &employee()).await.unwrap();
                let changed = stored.with("EmailAddress", value.clone()).with(LIST, list.clone());
                let texts = [text.clone(), json.clone()];
                let changed = match good {
                    true => vec![changed],
                    false => texts.into_iter().map(|t| changed.clone().with(METADATA, t)).collect(),
                };
                for changed in changed {
                    let read = open(&encryption, changed).await;
                    assert!(matches!(
                        read,
                        Err(CryptoError::Decrypt | CryptoError::Metadata | CryptoError::UnknownFormat { .. })
                    ), "{read:?}");
                }
            }
        });
    }
}
