//! Untyped entities.

use crate::{crypto, key, keys, raw_table, v1, v2};
use lazuli_client::encryption::{BlindKey, CryptoError, Encryption, Keys};
use lazuli_client::{BatchFault, Change, Entity, EntityKey, ErrorKind, Proof, Value, partition};
use lazuli_test::{Fault, TestServer};

const METADATA: [&str; 2] = ["_ClientEncryptionMetadata1", "_ClientEncryptionMetadata2"];

fn don() -> Entity {
    Entity::new("Marketing", "00001").with("Email", "donh@contoso.com").with("Age", 34)
}

#[tokio::test]
async fn every_way_to_write_stores_ciphertext_and_every_way_to_read_opens_it() {
    // Our half of ES-2; the other half is with the acceptance scenarios.
    for encryption in [v1(), v2()] {
        let (_server, raw) = raw_table().await;
        let people = raw.clone().encrypted(encryption);
        let row = |row: &str| Entity::new("p", row).with("Email", format!("{row}@contoso.com"));
        people.insert(&row("insert")).await.unwrap();
        people.upsert(&row("upsert")).await.unwrap();
        people.upsert(&row("overwrite")).await.unwrap();
        people.overwrite(&row("overwrite")).await.unwrap();
        people.upsert(&row("replace")).await.unwrap();
        let loaded = people.get(("p", "replace")).await.unwrap().unwrap();
        people.replace(&loaded).await.unwrap();
        people.batch("p").insert(&row("batch")).commit().await.unwrap();
        people
            .transact("p", |tx| async move {
                tx.insert(&Entity::new("p", "transact").with("Email", "transact@contoso.com"))
            })
            .await
            .unwrap();
        let update = people.update_with(("p", "insert"), |row: &mut Entity| {
            row.set("Age", 35);
            Ok(Change::Write)
        });
        update.await.unwrap();

        let rows = futures_util::stream::iter([row("bulk")]);
        assert_eq!(people.bulk().insert(rows).await.unwrap().written, 1);

        for stored in raw.query(partition("p")).collect_at_most(10).await.unwrap() {
            assert!(matches!(stored.value("Email"), Some(Value::Binary(_))), "{stored:?}");
            assert!(METADATA.iter().all(|name| stored.value(name).is_some()), "{stored:?}");
        }
        let rows = people.query(partition("p")).collect_at_most(10).await.unwrap();
        assert_eq!(rows.len(), 7);
        for row in &rows {
            assert_eq!(row.str("Email").unwrap(), format!("{}@contoso.com", row.row_key()));
            assert!(METADATA.iter().all(|name| row.value(name).is_none()), "E-7: {row:?}");
        }
        let keys = [("p", "batch"), ("p", "nobody")];
        let many = people.get_many(keys).await.unwrap();
        assert_eq!(many[0].as_ref().unwrap().str("Email").unwrap(), "batch@contoso.com");
        assert!(many[1].is_none());
        // C-7.23: a projection reads the metadata too, and hides it.
        let projected = people.query(partition("p")).select_names(["Email"]);
        for row in projected.collect_at_most(10).await.unwrap() {
            assert_eq!(row.str("Email").unwrap(), format!("{}@contoso.com", row.row_key()));
            assert_eq!(row.len(), 1, "{row:?}");
        }
        let update = people.get(("p", "insert")).await.unwrap().unwrap();
        assert_eq!(update.get::<i32>("Age").unwrap(), 35);
        people.delete_key(("p", "insert")).await.unwrap();
    }
}

#[tokio::test]
async fn properties_are_counted_with_the_two_that_are_added() {
    // ES-6.
    let (_server, raw) = raw_table().await;
    let names = |count: usize| (0..count).map(|number| format!("P{number}"));
    let people = raw.encrypted(Encryption::v2(keys()).properties(names(10)));
    let with =
        |row: &str, count| names(count).fold(Entity::new("p", row), |e, name| e.with(name, 1));
    people.insert(&with("a", 250)).await.unwrap();
    let read = people.get(("p", "a")).await.unwrap().unwrap();
    assert_eq!(read.len(), 250);
    assert!(read.properties().all(|(_, value)| *value == Value::Int32(1)));
    for error in [
        people.insert(&with("b", 251)).await.unwrap_err(),
        people.batch("p").insert(&with("b", 251)).commit().await.unwrap_err(),
    ] {
        assert!(error.status().is_none(), "before any request: {error:?}");
        assert!(error.to_string().contains("properties"), "{error}");
    }
}

#[tokio::test]
async fn texts_that_fit_only_when_they_are_encrypted_are_written() {
    // ES-7: 65,508 bytes of UTF-8 are more than the 32,768 characters of a clear text.
    let (_server, raw) = raw_table().await;
    let people = raw.encrypted(v2());
    let long = |row: &str, bytes: usize| Entity::new("p", row).with("Notes", "x".repeat(bytes));
    people.insert(&long("a", 65_508)).await.unwrap();
    people.batch("p").insert(&long("b", 65_508)).commit().await.unwrap();
    assert_eq!(people.get(("p", "b")).await.unwrap().unwrap().str("Notes").unwrap().len(), 65_508);
    let large = CryptoError::TooLarge { property: "Notes".into(), bytes_max: 65_508 };
    assert_eq!(crypto(people.insert(&long("c", 65_509)).await), large);
    let refused = people.batch("p").insert(&long("c", 65_509)).commit().await.unwrap_err();
    let ErrorKind::InvalidBatch(fault) = refused.kind() else { panic!("{refused:?}") };
    assert_eq!(fault.reason, BatchFault::Write(Box::new(ErrorKind::Crypto(large))));
}

#[tokio::test]
async fn a_merge_leaves_encrypted_properties_alone() {
    // ES-8, E-20.
    let (_server, raw) = raw_table().await;
    let people = raw.clone().encrypted(v2());
    people.insert(&don()).await.unwrap();
    let at = ("Marketing", "00001");
    let merge = |name: &str| CryptoError::Merge { property: name.to_owned() };
    assert_eq!(crypto(people.merge(at).set("Email", "x").await), merge("Email"));
    assert_eq!(crypto(people.merge(at).set(METADATA[0], "{}").await), merge(METADATA[0]));
    assert_eq!(crypto(people.merge(at).set("Notes", "x").or_insert().await), merge("Notes"));
    assert_eq!(crypto(people.upsert_merge(&don()).await), merge("Email"));
    people.merge(at).set("Age", 35).await.unwrap();
    let read = people.get(at).await.unwrap().unwrap();
    assert_eq!(
        (read.str("Email").unwrap(), read.get::<i32>("Age").unwrap()),
        ("donh@contoso.com", 35)
    );
    // Nothing says which properties are encrypted: then it is unknown what may be merged.
    let untold = raw.encrypted(Encryption::v2(keys()));
    assert_eq!(crypto(untold.merge(at).set("Age", 36).await), CryptoError::NoResolver);
    assert_eq!(crypto(untold.upsert(&don()).await), CryptoError::NoResolver);
    assert_eq!(untold.get(at).await.unwrap().unwrap().str("Email").unwrap(), "donh@contoso.com");
}

#[tokio::test]
async fn clear_rows_are_read_unless_all_must_be_encrypted() {
    // ES-10.
    let (_server, raw) = raw_table().await;
    let people = raw.clone().encrypted(v2());
    people.insert(&Entity::new("p", "1").with("Email", "a@b.c")).await.unwrap();
    raw.insert(&Entity::new("p", "2").with("Email", "clear")).await.unwrap();
    raw.insert(&Entity::new("p", "3").with("Email", "clear")).await.unwrap();
    let emails = |rows: Vec<lazuli_client::Loaded<Entity>>| {
        rows.iter().map(|row| row.str("Email").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let rows = people.query(partition("p")).collect_at_most(9).await.unwrap();
    assert_eq!(emails(rows), ["a@b.c", "clear", "clear"]);
    let strict = raw.encrypted(v2().require_encryption());
    let error = strict.query(partition("p")).collect_at_most(9).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Crypto(CryptoError::Clear));
    assert_eq!(error.key(), EntityKey::parse("p", "2").ok().as_ref(), "the first");
    assert!(strict.get(("p", "1")).await.unwrap().is_some());
    assert_eq!(crypto(strict.get(("p", "3")).await), CryptoError::Clear);
    assert_eq!(
        crypto(strict.insert(&Entity::new("p", "4").with("Age", 1)).await),
        CryptoError::Clear
    );
}

#[tokio::test]
async fn keys_that_are_not_there() {
    // ES-5.
    let (_server, raw) = raw_table().await;
    raw.clone().encrypted(v2()).insert(&don()).await.unwrap();
    let at = ("Marketing", "00001");
    let other = raw.clone().encrypted(Encryption::v2(Keys::new(key(2))));
    assert_eq!(crypto(other.get(at).await), CryptoError::UnknownKey { id: "key1".into() });
    let error = other.query(partition("Marketing")).collect_at_most(1).await.unwrap_err();
    assert_eq!(error.key(), EntityKey::parse("Marketing", "00001").ok().as_ref());
    let without = raw.encrypted(Encryption::without_keys());
    assert_eq!(without.get(at).await.unwrap().unwrap().get::<i32>("Age").unwrap(), 34);
    assert_eq!(crypto(without.upsert(&don()).await), CryptoError::NoKey);
    assert!(without.tables().table("People").unwrap().get(at).await.unwrap().is_some());
}

#[tokio::test]
async fn a_blind_index_finds_equal_values() {
    // E-46.
    let (_server, raw) = raw_table().await;
    let keys = keys().blind(BlindKey::new(&[9; 32]).unwrap());
    let encryption = Encryption::v2(keys).properties(["Ssn"]).blind_index("Ssn");
    let people = raw.clone().encrypted(encryption);
    for (row, ssn) in [("1", "078-05-1120"), ("2", "219-09-9999"), ("3", "078-05-1120")] {
        people.insert(&Entity::new("p", row).with("Ssn", ssn)).await.unwrap();
    }
    let wanted = partition("p").and(people.eq_blind("Ssn", "078-05-1120").unwrap());
    let found = people.query(wanted).collect_at_most(9).await.unwrap();
    assert_eq!(found.iter().map(|row| row.row_key()).collect::<Vec<_>>(), ["1", "3"]);
    assert!(found.iter().all(|row| row.len() == 1 && row.str("Ssn").unwrap() == "078-05-1120"));
    assert_eq!(people.blind_text("Ssn", "078-05-1120").unwrap().len(), 32);
    let merged = people.merge(("p", "1")).set("Ssn_bi", vec![1_u8]).await;
    assert_eq!(crypto(merged), CryptoError::Merge { property: "Ssn_bi".into() });
    assert_eq!(
        raw.eq_blind("Ssn", "x").unwrap_err().kind(),
        &ErrorKind::Crypto(CryptoError::NoKey)
    );
}

#[tokio::test]
async fn a_lost_answer_is_resolved_by_what_was_sent() {
    // The ciphertext is compared: no other client can have written the same.
    let server = TestServer::with_faults().await.unwrap();
    let raw = server.account().tables().create("People").await.unwrap();
    let people = raw.encrypted(v2());
    server.faults().next([Fault::DropReply]);
    assert_eq!(people.insert(&don()).await.unwrap().proof, Proof::Content);
    let update = people.update_with(("Marketing", "00001"), |row: &mut Entity| {
        let age: i32 = row.get("Age")?;
        row.set("Age", age + 1);
        Ok(Change::Write)
    });
    server.faults().next([Fault::Pass, Fault::DropReply]);
    update.await.unwrap();
    let read = people.get(("Marketing", "00001")).await.unwrap().unwrap();
    assert_eq!(read.get::<i32>("Age").unwrap(), 35, "counted once");
}
