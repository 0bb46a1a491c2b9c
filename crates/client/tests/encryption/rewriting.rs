//! Key rotation, and moving rows to another version of the format.

use crate::{crypto, key, raw_table, v1, v2};
use lazuli_client::encryption::{
    AesKey, CryptoError, Encryption, KeyWrap, Keys, SecretBytes, Wrapped,
};
use lazuli_client::{BoxFuture, Entity, Loaded, PageToken, Table, partition};
use std::sync::{Arc, Mutex};

const ROWS: usize = 1000;
const WRITERS: usize = 4;
const WRITES: usize = 100;

fn row(number: usize) -> Entity {
    let row = Entity::new("p", format!("{number:04}"));
    row.with("Email", format!("{number}@contoso.com")).with("Count", 0)
}

async fn load(table: &Table, rows: std::ops::Range<usize>) {
    for first in rows.clone().step_by(100) {
        let numbers = first..(first + 100).min(rows.end);
        let batch = numbers.fold(table.batch("p"), |batch, number| batch.insert(&row(number)));
        batch.commit().await.unwrap();
    }
}

async fn all(table: &Table) -> Vec<Loaded<Entity>> {
    table.query(partition("p")).collect_at_most(2 * ROWS).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated_while_others_write() {
    // ES-9. Writers have the new key already: they write with it, and read with both.
    let (_server, raw) = raw_table().await;
    load(&raw.clone().encrypted(v2()), 0..ROWS).await;
    let both = || Keys::new(key(2)).also(key(1));
    let encryption = Encryption::v2(both()).properties(["Email"]);
    let people = raw.clone().encrypted(encryption);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let people = people.clone();
            tokio::spawn(async move {
                for write in 0..WRITES {
                    let number = (write * 7 + writer * 13) % ROWS;
                    let update =
                        people.update_with(("p", format!("{number:04}")), |row: &mut Entity| {
                            let count: i32 = row.get("Count")?;
                            row.set("Count", count + 1);
                            Ok(lazuli_client::Change::Write)
                        });
                    update.attempts(50).await.unwrap();
                }
            })
        })
        .collect();
    let report = people.rotate_keys(&both()).from("key1").to("key2").await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(report.rewritten + report.already_new, ROWS as u64, "{report:?}");
    assert_eq!((report.clear, report.left_out, report.next), (0, 0, None));

    let new_alone = raw.clone().encrypted(Encryption::v2(Keys::new(key(2))));
    let rows = all(&new_alone).await;
    let counts: i32 = rows.iter().map(|row| row.get::<i32>("Count").unwrap()).sum();
    assert_eq!(rows.len(), ROWS);
    assert_eq!(counts, (WRITERS * WRITES) as i32, "no update was lost");
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row.str("Email").unwrap(), format!("{number}@contoso.com"));
    }
    let again = people.rotate_keys(&both()).from("key1").to("key2").await.unwrap();
    assert_eq!((again.rewritten, again.already_new), (0, ROWS as u64));
    let old_alone = raw.encrypted(v2());
    assert_eq!(
        crypto(old_alone.get(("p", "0000")).await),
        CryptoError::UnknownKey { id: "key2".into() }
    );
}

#[tokio::test]
async fn a_rotation_leaves_others_and_goes_on_where_it_was() {
    // E-31.
    let (_server, raw) = raw_table().await;
    load(&raw.clone().encrypted(v1()), 0..600).await;
    load(&raw.clone().encrypted(v2()), 600..1100).await;
    let third = Encryption::v2(Keys::new(key(3))).properties(["Email"]);
    raw.clone().encrypted(third).insert(&row(1100)).await.unwrap();
    raw.insert(&row(1101)).await.unwrap();
    let both = Keys::new(key(2)).also(key(1)).also(key(3));
    // The token after the first page, as a program would store it.
    let stored: Arc<Mutex<Option<PageToken>>> = Arc::default();
    let keep = Arc::clone(&stored);
    let report = raw.rotate_keys(&both).from("key1").on_page(move |report| {
        if let Some(token) = &report.next {
            *keep.lock().unwrap() = Some(token.clone());
        }
    });
    let report = report.await.unwrap();
    assert_eq!((report.rewritten, report.clear, report.left_out), (1100, 1, 1));
    let token = stored.lock().unwrap().clone();
    assert!(token.is_some());
    let rest = raw.rotate_keys(&both).from("key1").resume(token).await.unwrap();
    assert_eq!((rest.rewritten, rest.already_new, rest.clear), (0, 100, 1), "the second page");
    let new = raw.encrypted(Encryption::v2(both));
    assert!(all(&new).await.iter().all(|row| row.str("Email").unwrap().ends_with("@contoso.com")));
}

/// A key that unwraps to something else, as one with `RSA1_5` does to hide that it cannot.
#[derive(Debug)]
struct Stranger(AesKey);

impl KeyWrap for Stranger {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn wrap<'a>(&'a self, cek: &'a [u8]) -> BoxFuture<'a, Result<Wrapped, CryptoError>> {
        self.0.wrap(cek)
    }

    fn unwrap<'a>(
        &'a self,
        _algorithm: &'a str,
        _wrapped: &'a [u8],
    ) -> BoxFuture<'a, Result<SecretBytes, CryptoError>> {
        let packed = [&b"2.0\0\0\0\0\0"[..], &[7; 32]].concat();
        Box::pin(std::future::ready(Ok(SecretBytes::new(packed))))
    }
}

#[tokio::test]
async fn a_rotation_never_replaces_a_key_that_it_did_not_unwrap() {
    // E-31. It once stored the random key that such a key gives, and the data was lost.
    let (_server, raw) = raw_table().await;
    let people = raw.clone().encrypted(v2());
    load(&people, 0..1).await;
    let wrong = Keys::new(key(2)).also(Stranger(key(1)));
    assert_eq!(crypto(raw.rotate_keys(&wrong).await), CryptoError::Decrypt);
    assert_eq!(all(&people).await[0].str("Email").unwrap(), "0@contoso.com");
}

#[tokio::test]
async fn version_1_moves_to_version_2() {
    // E-32.
    let (_server, raw) = raw_table().await;
    load(&raw.clone().encrypted(v1()), 0..10).await;
    let people = raw.clone().encrypted(v2());
    load(&people, 10..15).await;
    raw.insert(&row(15)).await.unwrap();
    let report = people.reencrypt().filter(partition("p")).await.unwrap();
    assert_eq!((report.rewritten, report.already_new, report.clear), (10, 5, 1));
    for (number, stored) in all(&raw).await.iter().enumerate().take(15) {
        let metadata = stored.str("_ClientEncryptionMetadata1").unwrap();
        assert!(metadata.contains(r#""Protocol":"2.0""#), "{number}: {metadata}");
    }
    for (number, row) in all(&people).await.iter().enumerate() {
        assert_eq!(row.str("Email").unwrap(), format!("{number}@contoso.com"));
        assert_eq!(row.get::<i32>("Count").unwrap(), 0);
    }
    assert_eq!(crypto(raw.reencrypt().await), CryptoError::NoKey);
    let keyless = raw.rotate_keys(&Keys::new(key(2))).await;
    assert_eq!(crypto(keyless), CryptoError::UnknownKey { id: "key1".into() });
}
