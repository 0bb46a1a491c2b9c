//! Types with encrypted fields.

use crate::{crypto, keys, raw_table};
use lazuli_client::encryption::{BlindKey, CryptoError, Encryption};
use lazuli_client::patterns::eventual::Eventual;
use lazuli_client::{Change, Entity, TableEntity, Value, partition};

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
async fn a_row_of_an_old_client_becomes_what_its_type_declares() {
    // E-32, E-45, E-46: padded, found by its blind index, and with all that is to be secret encrypted.
    let (_server, raw) = raw_table().await;
    let old = Encryption::v1_for_old_readers(keys()).properties(["Name", "Ssn"]);
    let row = Entity::new("North", "00000017")
        .with("Clinic", "North")
        .with("Id", 17_i64)
        .with("Ward", 3)
        .with("Name", "Ann")
        .with("Born", 1971_i64)
        .with("Ssn", "078-05-1120");
    raw.clone().encrypted(old).insert(&row).await.unwrap();
    let patients = raw.retyped::<Patient>().encrypted(encryption());
    assert_eq!(patients.reencrypt().await.unwrap().rewritten, 1);
    let stored = raw.get(("North", "00000017")).await.unwrap().unwrap();
    let length = |name: &str| match stored.value(name) {
        Some(Value::Binary(bytes)) => bytes.len(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!([length("Name"), length("Born"), length("Ssn_bi")], [64 + 28, 8 + 28, 16]);
    let by_ssn = partition("North").and(patients.eq_blind("Ssn", "078-05-1120").unwrap());
    let found = patients.query(by_ssn).collect_at_most(9).await.unwrap();
    assert_eq!(found.iter().map(|row| Patient::clone(row)).collect::<Vec<_>>(), [ann()]);
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

/// With an index in another partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", kind = "Member", partition = "id_{clinic}", row = "{id:08}")]
#[index(ward, partition = "ward_{clinic}", row = "{ward:04}_{id:08}")]
struct Member {
    clinic: String,
    id: u32,
    ward: u32,
    #[table(encrypt, blind_index)]
    name: String,
}

#[tokio::test]
async fn copies_in_other_partitions_are_encrypted_too() {
    // E-22, E-50. The rows of a type with such indexes are passed as plain entities: they were once sent in clear.
    let (server, raw) = raw_table().await;
    let eventual = Eventual::none(&server.account());
    assert_eq!(crypto(eventual.table::<Member>().map(drop)), CryptoError::NoKey);
    let members = eventual.over(raw.retyped::<Member>().encrypted(encryption())).unwrap();
    let ann = Member { clinic: "North".into(), id: 1, ward: 3, name: "Ann".into() };
    members.insert(&ann).await.unwrap();
    let mut loaded = members.get(Member::key("North", 1).unwrap()).await.unwrap().unwrap();
    assert_eq!(*loaded, ann);
    loaded.ward = 4;
    members.replace(&loaded).await.unwrap();
    let stored = raw.scan().collect_at_most(3).await.unwrap();
    assert_eq!(stored.len(), 2);
    for row in &stored {
        assert!(matches!(row.value("name"), Some(Value::Binary(_))), "{row:?}");
    }
    assert_eq!(members.verify().await.unwrap(), []);
    raw.delete_key((stored[1].partition_key(), stored[1].row_key())).await.unwrap();
    assert_eq!(members.verify().await.unwrap().len(), 1);
    members.repair().await.unwrap();
    assert_eq!(members.verify().await.unwrap(), []);
    let copy = raw.get(("ward_North", "0004_00000001")).await.unwrap().unwrap();
    assert!(matches!(copy.value("name"), Some(Value::Binary(_))), "{copy:?}");
}

/// Two rows, each with a secret.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "{id:08}", wide(parts = 2))]
struct File {
    clinic: String,
    id: u32,
    #[table(part = 1, encrypt)]
    name: String,
    #[table(part = 1)]
    ward: i32,
    #[table(part = 2, encrypt)]
    notes: String,
}

#[tokio::test]
async fn the_rows_of_a_wide_entity_are_encrypted_each_by_itself() {
    // E-51.
    let (server, raw) = raw_table().await;
    let clear = server.account().tables().wide::<File>().unwrap();
    let file =
        File { clinic: "North".into(), id: 1, name: "Ann".into(), ward: 3, notes: "well".into() };
    assert_eq!(crypto(clear.insert(&file).await), CryptoError::NoKey);
    let files = clear.encrypted(encryption());
    files.insert(&file).await.unwrap();
    let key = || File::key("North", 1).unwrap();
    let mut loaded = files.get(key()).await.unwrap().unwrap();
    assert_eq!(*loaded, file);
    loaded.notes = "better".into();
    files.replace(&loaded).await.unwrap();
    files.merge(key()).set(File::WARD, 4).await.unwrap();
    let read = files.get(key()).await.unwrap().unwrap();
    assert_eq!((&*read.notes, read.ward), ("better", 4));
    let stored = raw.scan().collect_at_most(3).await.unwrap();
    assert_eq!(stored.len(), 2);
    for (row, name) in stored.iter().zip(["name", "notes"]) {
        assert!(matches!(row.value(name), Some(Value::Binary(_))), "{row:?}");
    }
}
