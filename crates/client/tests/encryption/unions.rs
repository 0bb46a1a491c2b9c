//! Several types in one table, some of them with encrypted fields and indexes (C-6.8, C-9.5, C-15.2).
//!
//! A union once wrote its variants as types without declarations: encrypted fields were sent in clear, and indexes
//! were skipped.

use crate::{crypto, keys, raw_table};
use lazuli_client::encryption::{BlindKey, CryptoError, Encryption};
use lazuli_client::prelude::*;
use lazuli_client::{Change, Value, WriteOp, iter};

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Patient", partition = "{clinic}", row = "patient_{id:08}")]
#[table(rename_all = "PascalCase")]
#[index(ward, row = "ward_{ward:pad}_{id:08}")]
struct Patient {
    clinic: String,
    id: u32,
    ward: u32,
    #[table(encrypt)]
    name: String,
    #[table(encrypt, blind_index)]
    ssn: Option<String>,
}

/// Its clear properties have the same names as encrypted ones of patients.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Ward", partition = "{clinic}", row = "about_{ward:pad}", rename_all = "PascalCase")]
struct Ward {
    clinic: String,
    ward: u32,
    name: Vec<u8>,
    ssn_bi: i32,
}

#[derive(TableUnion, Clone, Debug, PartialEq)]
enum Row {
    Patient(Patient),
    Ward(Ward),
    #[table(other)]
    Unknown(Entity),
}

fn patient(id: u32) -> Row {
    let (clinic, name, ssn) = ("North".into(), format!("Ann {id}"), Some("078".into()));
    Row::Patient(Patient { clinic, id, ward: 3, name, ssn })
}

fn ward() -> Row {
    Row::Ward(Ward { clinic: "North".into(), ward: 3, name: b"third".to_vec(), ssn_bi: 7 })
}

fn encryption() -> Encryption {
    Encryption::v2(keys().blind(BlindKey::new(&[9; 32]).unwrap()))
}

async fn stored(raw: &Table) -> Vec<Entity> {
    let rows = raw.query(partition("North")).collect_at_most(1000).await.unwrap();
    rows.into_iter().map(lazuli_client::Loaded::into_inner).collect()
}

/// Every patient is encrypted and has its copy; every ward is clear.
async fn assert_kept(raw: &Table, patients: usize) {
    let rows = stored(raw).await;
    let (copies, own): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.value("_ix").is_some());
    let mut found = 0;
    for row in &own {
        match row.opt::<String>("EntityType").unwrap().as_deref() {
            Some("Patient") => {
                for name in ["Name", "Ssn", "Ssn_bi"] {
                    assert!(matches!(row.value(name), Some(Value::Binary(_))), "{row:?}");
                }
                assert!(row.value("_ClientEncryptionMetadata1").is_some(), "{row:?}");
                found += 1;
            }
            Some("Ward") => assert_eq!(row.value("_ClientEncryptionMetadata1"), None),
            _ => {}
        }
    }
    let of = |copy: &&Entity| copy.str("_rk").unwrap().to_owned();
    let mut primaries: Vec<_> = copies.iter().map(of).collect();
    primaries.sort();
    let mut wanted: Vec<_> = own
        .iter()
        .filter(|row| row.row_key().starts_with("patient_"))
        .map(|row| row.row_key().to_owned())
        .collect();
    wanted.sort();
    assert_eq!(primaries, wanted);
    for copy in &copies {
        assert!(matches!(copy.value("Name"), Some(Value::Binary(_))), "{copy:?}");
        assert_eq!(copy.value("EntityType"), None, "a copy has no kind (P-0.3)");
    }
    assert_eq!(found, patients);
}

#[tokio::test]
async fn a_union_encrypts_and_indexes_what_its_variants_declare() {
    let (_server, raw) = raw_table().await;
    let rows = raw.retyped::<Row>().encrypted(encryption());
    rows.insert(&patient(1)).await.unwrap();
    rows.upsert(&patient(2)).await.unwrap();
    rows.upsert(&patient(2)).await.unwrap();
    rows.upsert_merge(&ward()).await.unwrap();
    assert_kept(&raw, 2).await;

    let read = rows.query(partition("North")).collect_at_most(10).await.unwrap();
    let values: Vec<Row> = read.iter().map(|row| Row::clone(row)).collect();
    assert_eq!(values, [ward(), patient(1), patient(2)]);
    let mut moved = read.into_iter().nth(1).unwrap();
    let Row::Patient(inner) = &mut *moved else { panic!() };
    inner.ward = 4;
    rows.replace(&moved).await.unwrap();
    rows.overwrite(&patient(2)).await.unwrap();
    assert_kept(&raw, 2).await;
    let of_ward = raw.query(partition("North").and(row().starts_with("ward_0000000004")));
    assert_eq!(of_ward.collect_at_most(10).await.unwrap().len(), 1);

    let key =
        Key::<Row>::new(lazuli_client::EntityKey::parse("North", "patient_00000002").unwrap());
    rows.update_with(key.clone(), |row: &mut Row| {
        if let Row::Patient(patient) = row {
            patient.name = "Eve".into();
        }
        Ok(Change::Write)
    })
    .await
    .unwrap();
    assert_kept(&raw, 2).await;
    rows.delete_key(key).await.unwrap();
    assert_kept(&raw, 1).await;
    let last = rows.get(Key::<Row>::new(
        lazuli_client::EntityKey::parse("North", "patient_00000001").unwrap(),
    ));
    rows.delete(&last.await.unwrap().unwrap()).await.unwrap();
    assert_kept(&raw, 0).await;
}

#[tokio::test]
async fn batches_bulks_and_transactions_of_a_union_encrypt_and_index() {
    let (_server, raw) = raw_table().await;
    let rows = raw.retyped::<Row>().encrypted(encryption());
    rows.batch("North").insert(&patient(1)).insert(&ward()).commit().await.unwrap();
    let report = rows.bulk().insert(iter((2..5).map(patient))).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (3, 0));
    assert_kept(&raw, 4).await;
    let key = |id: u32| {
        let row = format!("patient_{id:08}");
        Key::<Row>::new(lazuli_client::EntityKey::parse("North", &row).unwrap())
    };
    rows.transact("North", |tx| async move {
        tx.insert(&patient(7))?;
        let mut one = tx.get(key(1)).required().await?;
        if let Row::Patient(patient) = &mut *one {
            patient.ward = 9;
        }
        tx.replace(&one)?;
        let two = tx.get(key(2)).required().await?;
        tx.delete(&two)
    })
    .await
    .unwrap();
    assert_kept(&raw, 4).await;
    // Only Lazuli has these.
    let account = _server.account();
    account.atomically().insert(&rows, &patient(8)).commit().await.unwrap();
    assert_kept(&raw, 5).await;
    // By ETag, with its copies.
    let report = rows.bulk().delete_where(partition("North").and(col("Ward").eq(9_i64))).await;
    assert_eq!(report.unwrap().written, 1);
    assert_kept(&raw, 4).await;
}

#[tokio::test]
async fn a_union_of_secrets_is_neither_written_nor_read_without_its_keys() {
    let (_server, raw) = raw_table().await;
    let plain = raw.retyped::<Row>();
    let no_key = |result: Result<(), Error>| assert_eq!(crypto(result), CryptoError::NoKey);
    no_key(plain.insert(&patient(1)).await.map(drop));
    no_key(plain.upsert(&patient(1)).unchecked().await.map(drop));
    let refused = plain.batch("North").insert(&patient(1)).commit().await.unwrap_err();
    assert!(refused.to_string().contains("key"), "{refused}");
    let report = plain.bulk().insert(iter([patient(1)])).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (0, 1));
    no_key(plain.transact("North", |tx| async move { tx.insert(&patient(1)) }).await.or_else(
        |error| match error.kind() {
            ErrorKind::InvalidBatch(_) => raw_no_key(),
            _ => Err(error),
        },
    ));
    assert_eq!(stored(&raw).await, []);
    // Rows without secrets need no key.
    plain.insert(&ward()).await.unwrap();
    let rows = plain.clone().encrypted(encryption());
    rows.insert(&patient(1)).await.unwrap();
    let error = plain.query(partition("North")).collect_at_most(10).await.unwrap_err();
    assert_eq!(crypto(Err::<(), _>(error)), CryptoError::NoKey);
}

fn raw_no_key() -> Result<(), Error> {
    let error: Error = CryptoError::NoKey.into();
    Err(error)
}

#[tokio::test]
async fn entities_of_any_shape_do_not_slip_past_what_a_table_declares() {
    let (_server, raw) = raw_table().await;
    let rows = raw.retyped::<Row>().encrypted(encryption());
    let patients = raw.retyped::<Patient>().encrypted(encryption());
    rows.insert(&patient(1)).await.unwrap();
    let stray =
        || Entity::new("North", "patient_00000009").with("Name", "clear").with("Ward", 3_i64);
    let refused = |error: Error| {
        assert!(error.to_string().contains("typed key"), "{error}");
    };
    refused(rows.insert(&Row::Unknown(stray())).await.unwrap_err());
    refused(rows.delete_key(("North", "patient_00000001")).await.unwrap_err());
    for batch in [
        patients.batch("North").write(WriteOp::insert(&stray())),
        patients.batch("North").delete_key(("North", "patient_00000001")),
        patients
            .batch("North")
            .write(WriteOp::merge(raw.merge(("North", "patient_00000001")).set("Ward", 5_i64))),
    ] {
        refused(batch.commit().await.unwrap_err());
    }
    let report = patients.bulk().run(iter([Ok(WriteOp::upsert(&stray()))])).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (0, 1));
    let report = patients.bulk().delete_keys(iter([("North", "patient_00000001")])).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (0, 1));
    refused(patients.transact("North", |tx| async move { tx.upsert(&stray()) }).await.unwrap_err());
    refused(
        patients
            .transact("North", |tx| async move {
                let one = tx.get(("North", "patient_00000001")).required().await?;
                tx.delete(&one)
            })
            .await
            .unwrap_err(),
    );
    // An entity that was read partly does not know its copies.
    let part = patients.query(partition("North")).select(Patient::WARD);
    let part = part.collect_at_most(9).await.unwrap().remove(0);
    let (part, patients_again) =
        (&part.map(|ward| Entity::new("x", "y").with("Ward", i64::from(ward))), patients.clone());
    patients_again.transact("North", |tx| async move { tx.delete(part) }).await.unwrap_err();
    assert_kept(&raw, 1).await;
}

#[tokio::test]
async fn what_was_decrypted_is_not_copied_in_clear() {
    let (server, raw) = raw_table().await;
    let others = server.account().tables().create("Others").await.unwrap();
    let rows = raw.retyped::<Row>().encrypted(encryption());
    rows.insert(&patient(1)).await.unwrap();
    assert!(rows.bulk().copy_to(&others).await.is_err());
    assert_eq!(others.scan().collect_at_most(10).await.unwrap().len(), 0);
    // In their stored form, the rows may be copied anywhere.
    assert_eq!(raw.bulk().copy_to(&others).await.unwrap().written, 2);
    let there = others.retyped::<Row>().encrypted(encryption());
    let found = there.query(partition("North")).collect_at_most(10).await.unwrap();
    assert_eq!(found.iter().map(|row| Row::clone(row)).collect::<Vec<_>>(), [patient(1)]);
}

#[tokio::test]
async fn a_secret_is_not_written_by_an_update_of_any_shape() {
    let (_server, raw) = raw_table().await;
    raw.insert(&Entity::new("North", "00000001").with("Ward", 1)).await.unwrap();

    #[derive(TableEntity)]
    #[table(partition = "{clinic}", row = "{id:08}", rename_all = "PascalCase")]
    struct Secret {
        clinic: String,
        id: u32,
        ward: i32,
        #[table(encrypt)]
        name: Option<String>,
    }

    let set = |entity: &mut Entity| {
        entity.set("Name", "clear");
        Ok(Change::Write)
    };
    let secrets = raw.retyped::<Secret>();
    let failed = secrets.update_with(("North", "00000001"), set).await;
    assert_eq!(crypto(failed), CryptoError::NoKey);
    let written = secrets.clone().encrypted(encryption()).update_with(("North", "00000001"), set);
    written.await.unwrap();
    let row = raw.get(("North", "00000001")).await.unwrap().unwrap();
    assert!(matches!(row.value("Name"), Some(Value::Binary(_))), "{row:?}");
}
