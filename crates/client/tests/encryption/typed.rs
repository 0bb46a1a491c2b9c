//! Types with encrypted fields.

use crate::{crypto, keys, raw_table};
use lazuli_client::encryption::{BlindKey, CryptoError, Encryption};
use lazuli_client::{Change, TableEntity, Value, partition};

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "{id:08}", rename_all = "PascalCase")]
struct Patient {
    clinic: String,
    id: u32,
    ward: i32,
    #[table(encrypt(pad = 64))]
    name: String,
    #[table(encrypt)]
    notes: Option<String>,
    #[table(encrypt)]
    born: Option<i64>,
    #[table(encrypt, blind_index)]
    ssn: Option<String>,
}

/// The same rows for a program without keys.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "{id:08}", rename_all = "PascalCase")]
struct Visitor {
    clinic: String,
    id: u32,
    ward: i32,
    #[table(encrypt)]
    name: Option<String>,
}

fn ann() -> Patient {
    Patient {
        clinic: "North".into(),
        id: 17,
        ward: 3,
        name: "Ann".into(),
        notes: None,
        born: Some(1971),
        ssn: Some("078-05-1120".into()),
    }
}

fn encryption() -> Encryption {
    Encryption::v2(keys().blind(BlindKey::new(&[9; 32]).unwrap()))
}

#[tokio::test]
async fn declared_fields_are_encrypted_without_further_words() {
    let (_server, raw) = raw_table().await;
    let patients = raw.retyped::<Patient>().encrypted(encryption().require_encryption());
    patients.insert(&ann()).await.unwrap();
    let stored = raw.get(("North", "00000017")).await.unwrap().unwrap();
    for name in ["Name", "Born", "Ssn", "Ssn_bi"] {
        assert!(matches!(stored.value(name), Some(Value::Binary(_))), "{name} of {stored:?}");
    }
    let Some(Value::Binary(name)) = stored.value("Name") else { panic!() };
    assert_eq!((name.len(), stored.value("Notes")), (64 + 28, None));
    assert_eq!(stored.get::<i32>("Ward").unwrap(), 3);

    let key = || Patient::key("North", 17).unwrap();
    assert_eq!(*patients.get(key()).await.unwrap().unwrap(), ann());
    patients
        .update_with(key(), |patient: &mut Patient| {
            patient.notes = Some("better".into());
            Ok(Change::Write)
        })
        .await
        .unwrap();
    let wanted = partition("North").and(patients.eq_blind("Ssn", "078-05-1120").unwrap());
    let found = patients.query(wanted).collect_at_most(2).await.unwrap();
    assert_eq!(found[0].notes.as_deref(), Some("better"));
    patients.merge(key()).set(Patient::WARD, 4).await.unwrap();
    assert_eq!(patients.get(key()).await.unwrap().unwrap().ward, 4);
    let merged = patients.merge(key()).set_raw("Name", "Eve").await;
    assert_eq!(crypto(merged), CryptoError::Merge { property: "Name".into() });
    assert_eq!(
        crypto(patients.upsert_merge(&ann()).await),
        CryptoError::Merge { property: "Name".into() }
    );
}

#[tokio::test]
async fn without_keys_nothing_is_written_and_nothing_encrypted_is_read() {
    // E-22.
    let (_server, raw) = raw_table().await;
    raw.retyped::<Patient>().encrypted(encryption()).insert(&ann()).await.unwrap();
    let key = || Patient::key("North", 17).unwrap();
    let bare = raw.retyped::<Patient>();
    assert_eq!(crypto(bare.get(key()).await), CryptoError::NoKey);
    assert_eq!(crypto(bare.upsert(&ann()).await), CryptoError::NoKey);
    assert_eq!(crypto(bare.merge(key()).set(Patient::WARD, 4).await), CryptoError::NoKey);
    assert!(bare.batch("North").upsert(&ann()).commit().await.is_err());
    bare.delete_key(Patient::key("North", 18).unwrap()).await.unwrap();

    let visitors = raw.retyped::<Visitor>().encrypted(Encryption::without_keys());
    let seen = visitors.get(Visitor::key("North", 17).unwrap()).await.unwrap().unwrap();
    assert_eq!((seen.ward, &seen.name), (3, &None));
    assert_eq!(crypto(visitors.replace(&seen).await), CryptoError::NoKey);
}

/// With an index in the same partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "p_{id:08}", rename_all = "PascalCase")]
#[index(ward, row = "ward_{ward:04}_{id:08}")]
struct Guest {
    clinic: String,
    id: u32,
    ward: u32,
    #[table(encrypt)]
    name: String,
}

#[tokio::test]
async fn copies_of_an_index_are_encrypted_too() {
    // E-50.
    let (_server, raw) = raw_table().await;
    let guests = raw.retyped::<Guest>().encrypted(Encryption::v2(keys()));
    let guest = Guest { clinic: "North".into(), id: 1, ward: 3, name: "Ann".into() };
    guests.insert(&guest).await.unwrap();
    let stored = raw.query(partition("North")).collect_at_most(3).await.unwrap();
    assert_eq!(stored.len(), 2);
    for row in &stored {
        assert!(matches!(row.value("Name"), Some(Value::Binary(_))), "{row:?}");
    }
    assert_ne!(stored[0].value("Name"), stored[1].value("Name"));
    let loaded = guests.get(Guest::key("North", 1).unwrap()).await.unwrap().unwrap();
    assert_eq!(*loaded, guest);
    let bare = raw.retyped::<Guest>();
    assert!(bare.insert(&Guest { id: 2, ..guest }).await.is_err(), "no keys");
}
